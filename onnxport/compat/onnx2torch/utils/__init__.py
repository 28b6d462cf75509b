"""``onnx2torch.utils``."""

from onnxport.compat.absent import refusing
from onnxport.compat.onnx2torch.utils import common as common

__getattr__ = refusing(__name__)
