"""``onnx2torch.utils``."""

from onnxport.compat.onnx2torch.utils import common as common
