"""``skl2onnx.proto``: messages of ONNX."""

import onnx as onnx_proto
from onnx import ModelProto as ModelProto
from onnx import SparseTensorProto as SparseTensorProto
from onnx import TensorProto as TensorProto
from onnx import ValueInfoProto as ValueInfoProto
from onnx.defs import onnx_opset_version as get_opset_number_from_onnx

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx.choices import get_latest_tested_opset_version as get_latest_tested_opset_version

__all__ = [
    "ModelProto",
    "SparseTensorProto",
    "TensorProto",
    "ValueInfoProto",
    "get_latest_tested_opset_version",
    "get_opset_number_from_onnx",
    "onnx_proto",
]
__getattr__ = refusing(__name__)
