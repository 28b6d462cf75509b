"""What is raised where skl2onnx has no converter for a class."""

from onnxport.errors import UnsupportedOperator

MissingConverter: type[UnsupportedOperator] = UnsupportedOperator
MissingShapeCalculator: type[UnsupportedOperator] = UnsupportedOperator
