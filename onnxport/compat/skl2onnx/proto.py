"""``skl2onnx.proto``: messages of ONNX."""

import onnx as onnx_proto
from onnx import ModelProto as ModelProto
from onnx import TensorProto as TensorProto

__all__ = ["ModelProto", "TensorProto", "onnx_proto"]
