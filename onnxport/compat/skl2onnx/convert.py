"""``skl2onnx.convert``."""

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx import convert_sklearn as convert_sklearn
from onnxport.compat.skl2onnx import to_onnx as to_onnx
from onnxport.compat.skl2onnx import wrap_as_onnx_mixin as wrap_as_onnx_mixin

__getattr__ = refusing(__name__)
