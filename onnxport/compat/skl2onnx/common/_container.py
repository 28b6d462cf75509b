"""``skl2onnx.common._container``."""

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx.writing import Container

ModelComponentContainer = Container
__getattr__ = refusing(__name__)
