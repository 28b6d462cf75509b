"""``skl2onnx._supported_operators``."""

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx import get_model_alias as get_model_alias
from onnxport.compat.skl2onnx import update_registered_converter as update_registered_converter

__getattr__ = refusing(__name__)
