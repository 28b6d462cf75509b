"""``skl2onnx.common``."""

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx.common import data_types as data_types
from onnxport.compat.skl2onnx.common import exceptions as exceptions
from onnxport.compat.skl2onnx.common import shape_calculator as shape_calculator
from onnxport.compat.skl2onnx.common import utils as utils

__getattr__ = refusing(__name__)
