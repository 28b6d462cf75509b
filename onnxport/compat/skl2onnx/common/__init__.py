"""``skl2onnx.common``."""

from onnxport.compat.skl2onnx.common import data_types as data_types
