"""Models between onnx-ir and protobuf, with the types that onnx-ir does not hold: maps, and sequences of them."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.graph.facts import Fact

_TYPE: Fact[onnx.TypeProto] = Fact("type")  # the type of a graph's input or output where onnx-ir has none for it


def from_proto(proto: onnx.ModelProto) -> ir.Model:
    """The model of a protobuf message; graph inputs and outputs that are maps keep their type beside them."""
    infos = [item for item in (*proto.graph.input, *proto.graph.output) if has_map(item.type)]
    if not infos and not any(has_map(item.type) for item in proto.graph.value_info):
        return ir.from_proto(proto)
    plain = onnx.ModelProto()
    plain.CopyFrom(proto)
    for item in (*plain.graph.input, *plain.graph.output, *plain.graph.value_info):
        if has_map(item.type):
            item.ClearField("type")
    model = ir.from_proto(plain)
    values = {value.name: value for value in (*model.graph.inputs, *model.graph.outputs)}
    for item in infos:
        set_type(values[item.name], item.type)
    return model


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """The protobuf message of a model.

    Raises:
        InvalidModelError: weights in a data file were changed since the model was loaded.
    """
    try:
        proto: onnx.ModelProto = ir.serde.serialize_model(model)
    except ir.serde.SerdeError as error:
        raise _own_error(error) or error from None
    types = {value.name: _TYPE.of(value) for value in (*model.graph.inputs, *model.graph.outputs)}
    for item in (*proto.graph.input, *proto.graph.output):
        kind = types.get(item.name)
        if kind is not None:
            item.type.CopyFrom(kind)
    _without_types_of_initializers(proto.graph)
    return proto


def _without_types_of_initializers(graph: onnx.GraphProto) -> None:
    """Leaves out of `value_info` what the initializers say themselves.

    A tool that changes an initializer leaves its type behind, which then contradicts it: onnxruntime's quantiser transposes the
    weight of a Gemm, and shape inference refuses the file.
    """
    initializers = {item.name for item in graph.initializer}
    kept = [item for item in graph.value_info if item.name not in initializers or item.metadata_props]
    if len(kept) < len(graph.value_info):
        del graph.value_info[:]
        graph.value_info.extend(kept)


def _own_error(error: BaseException | None) -> OnnxportError | OSError | None:
    """The error of ours, or of a file that holds weights, that onnx-ir has wrapped into its own."""
    while error is not None and not isinstance(error, (OnnxportError, OSError)):
        error = error.__cause__
    return error


def set_type(value: ir.Value, kind: onnx.TypeProto) -> None:
    """Says that a graph's input or output is of a type that onnx-ir does not hold."""
    _TYPE.set(value, kind)


def is_tensor(value: ir.Value) -> bool:
    """Whether a graph's input or output is a tensor, as far as is known."""
    return _TYPE.of(value) is None and (value.type is None or isinstance(value.type, ir.TensorType))


def has_map(kind: onnx.TypeProto) -> bool:
    """Whether a type is a map or holds one."""
    if kind.HasField("sequence_type"):
        return has_map(kind.sequence_type.elem_type)
    if kind.HasField("optional_type"):
        return has_map(kind.optional_type.elem_type)
    return kind.HasField("map_type")
