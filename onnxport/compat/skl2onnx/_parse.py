"""``skl2onnx._parse``."""

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx import update_registered_parser as update_registered_parser

__getattr__ = refusing(__name__)
