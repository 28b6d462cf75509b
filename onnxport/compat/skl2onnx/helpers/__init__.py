"""``skl2onnx.helpers``."""

from onnxport.compat.skl2onnx.helpers import onnx_helper as onnx_helper
