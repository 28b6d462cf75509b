"""Models in parts that pickle and copy: the message without its weights, and each weight's bytes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx_ir as ir

from onnxport.graph.external_data import message_and_weights
from onnxport.graph.protos import from_proto

Parts = tuple[bytes, Mapping[str, tuple[bytes, bytes]]]


def taken_apart(model: ir.Model) -> Parts:
    """The model's message and, by name, each large weight: its TensorProto without the data, and the data as ONNX's raw bytes."""
    proto, weights = message_and_weights(model)
    return proto.SerializeToString(deterministic=True), {
        name: (header.SerializeToString(deterministic=True), tensor.tobytes())
        for name, (header, tensor) in weights.items()
    }


def put_together(parts: Parts) -> ir.Model:
    """The model that `taken_apart` gave the parts of."""
    message, weights = parts
    model = from_proto(onnx.ModelProto.FromString(message))
    for name, (header, data) in weights.items():
        proto = onnx.TensorProto.FromString(header)
        proto.raw_data = data
        model.graph.initializers[name].const_value = ir.serde.TensorProtoTensor(proto)
    return model
