"""``tf2onnx``, on `onnxport.convert`: ``from onnxport.compat import tf2onnx`` stands for ``import tf2onnx``."""

from onnxport.compat.absent import refusing
from onnxport.compat.tf2onnx import convert as convert
from onnxport.version import __version__ as __version__

__getattr__ = refusing(__name__)
