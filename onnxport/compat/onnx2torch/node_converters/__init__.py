"""``onnx2torch.node_converters``."""

from onnxport.compat.onnx2torch.node_converters import registry as registry
