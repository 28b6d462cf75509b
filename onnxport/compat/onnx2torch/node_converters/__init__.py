"""``onnx2torch.node_converters``."""

from onnxport.compat.absent import refusing
from onnxport.compat.onnx2torch.node_converters import registry as registry

__getattr__ = refusing(__name__)
