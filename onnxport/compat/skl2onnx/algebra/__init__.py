"""``skl2onnx.algebra``: graphs of operators written in Python."""

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx.algebra.onnx_operator import OnnxOperator as OnnxOperator

__getattr__ = refusing(__name__)
