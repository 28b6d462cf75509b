"""``skl2onnx.common._topology``: what converter functions name in their annotations."""

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx.writing import Operator as Operator
from onnxport.compat.skl2onnx.writing import Scope as Scope
from onnxport.compat.skl2onnx.writing import Variable as Variable

__getattr__ = refusing(__name__)
