"""``skl2onnx.algebra.onnx_subgraph_operator_mixin``."""

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx.algebra.onnx_operator_mixin import OnnxOperatorMixin

OnnxSubGraphOperatorMixin = OnnxOperatorMixin
__getattr__ = refusing(__name__)
