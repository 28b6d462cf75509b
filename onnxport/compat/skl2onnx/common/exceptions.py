"""What is raised where skl2onnx has no converter for a class."""

from onnxport.compat.absent import refusing
from onnxport.errors import UnsupportedOperator

__getattr__ = refusing(__name__)

MissingConverter: type[UnsupportedOperator] = UnsupportedOperator
MissingShapeCalculator: type[UnsupportedOperator] = UnsupportedOperator
