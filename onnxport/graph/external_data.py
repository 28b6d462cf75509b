"""Writing model files: streamed, in one step, with external data where one file can't hold the weights.

onnx-ir's own serialisation holds every weight once more in the protobuf message and again in its bytes. Here the message is
written without the weights, and they follow tensor after tensor from the framework's own storage, so that memory stays at the
model's size. Saving does not change the model, not even for a moment: several threads may save it at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, BinaryIO, cast

import onnx
import onnx_ir as ir

from onnxport.errors import InvalidInputError
from onnxport.graph.atomic import Save, saving
from onnxport.graph.mapped import map_weights
from onnxport.graph.parts import data_name
from onnxport.graph.protos import to_proto

SINGLE_FILE_LIMIT = (1 << 31) - (64 << 20)  # protobuf refuses messages of 2 GiB; the margin is for the graph itself
_ONE_MESSAGE_BYTES = 1 << 18  # weights up to this size, all together, are written as one message
_INLINE_BYTES = 1024  # tensors up to this size stay in the message: shape inference and optimisers read them there
# Offsets in a data file: onnx.proto recommends whole pages for tensors that are mapped; small ones need their own alignment.
_PAGE, _PAGED_BYTES, _ALIGNED = 4096, 1 << 20, 64


def weight_bytes(model: ir.Model) -> int:
    """Size of all initializers in bytes."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    return sum(_nbytes(tensor) for tensor in tensors if tensor is not None)


def save(model: ir.Model, path: str | os.PathLike[str], *, external_data: bool | None = None) -> None:
    """Writes `model` to `path`, whole or not at all; the model's values do not change.

    Weights are in a file of their own beside it, ``<name>.<16 hexadecimal digits>.data``, as `external_data` asks, by default
    only where they exceed what one protobuf file can hold (2 GiB). Its name follows from what it holds, so that the model that
    stood there and its data stay whole until the new model file is in place; then they are removed.

    Raises:
        SavingError: the files can't be written; what stood there is untouched.
        InvalidInputError: `external_data` is False for weights that one file can't hold.
    """
    size = weight_bytes(model)
    large = size > SINGLE_FILE_LIMIT
    if large and external_data is False:
        raise InvalidInputError(
            f"external_data=False: the weights take {size / 1e9:.1f} GB and a protobuf file holds 2 GB; leave it out"
        )
    map_weights(model)
    with saving(path) as files:
        if external_data or large:
            _write_external(model, files)
        else:
            file = files.part()
            _write_single(model, file, one_message=size <= _ONE_MESSAGE_BYTES)
            files.place(file, files.target.name)


def message_and_weights(
    model: ir.Model,
) -> tuple[onnx.ModelProto, dict[str, tuple[onnx.TensorProto, ir.TensorProtocol]]]:
    """The message of a model without its large weights, and these by name: the message of each without its data."""
    weights = _streamed(model)
    proto = _proto(model, dict.fromkeys(weights, ("", 0, 0)))
    return proto, {name: (_header(name, tensor), tensor) for name, tensor in weights.items()}


def _nbytes(tensor: ir.TensorProtocol) -> int:
    if tensor.dtype == ir.DataType.STRING:
        return int(tensor.nbytes)
    return -(-prod(tensor.shape.dims) * tensor.dtype.bitwidth // 8)  # type: ignore[arg-type]


def _write_external(model: ir.Model, files: Save) -> None:
    """The data file is placed before the model that points to it."""
    streamed = _streamed(model)
    places: dict[str, tuple[int, int]] = {}
    location = ""
    if streamed:
        file = files.part()
        digest = hashlib.sha256()
        for name, tensor in streamed.items():
            step = _PAGE if _nbytes(tensor) >= _PAGED_BYTES else _ALIGNED
            end = file.tell()
            start = -(-end // step) * step
            file.write(bytes(start - end))
            _write_raw(tensor, file)
            places[name] = start, file.tell() - start
            for chunk in _read_back(file, end):
                digest.update(chunk)
        location = data_name(files.target, digest.hexdigest())
        files.place(file, location)
    model_file = files.part()
    proto = _proto(model, {name: (location, *place) for name, place in places.items()})
    model_file.write(proto.SerializeToString(deterministic=True))
    files.place(model_file, files.target.name)


def _read_back(file: BinaryIO, start: int) -> Iterator[bytes]:
    """What was just written: tensors write themselves, straight from their storage."""
    end = file.tell()
    file.seek(start)
    while start < end:
        chunk = file.read(min(1 << 20, end - start))
        if not chunk:
            raise OSError(f"the file ends at {start} of {end} bytes")
        yield chunk
        start += len(chunk)
    file.seek(end)


def _streamed(model: ir.Model) -> dict[str, ir.TensorProtocol]:
    """The main graph's initializers that do not stand in the message, by name."""
    tensors = ((name, value.const_value) for name, value in model.graph.initializers.items())
    return {name: tensor for name, tensor in tensors if tensor is not None and _streams(tensor)}


@dataclass(frozen=True)
class _Outline:
    """Something of onnx-ir's with other values of some of its attributes, for onnx-ir's serialisation."""

    inner: Any
    other: Mapping[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return self.other[name] if name in self.other else getattr(self.inner, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.inner)


def _proto(model: ir.Model, places: Mapping[str, tuple[str, int, int]]) -> onnx.ModelProto:
    """The message of a model in which the initializers in `places` are references to a data file."""
    initializers: dict[str, Any] = dict(model.graph.initializers)
    for name, (location, offset, length) in places.items():
        tensor = initializers[name].const_value
        shape = ir.Shape(tensor.shape.numpy())
        props = dict(tensor.metadata_props)
        stub = ir.ExternalTensor(location, offset, length, tensor.dtype, shape=shape, name=name, metadata_props=props)
        initializers[name] = _Outline(initializers[name], {"const_value": stub, "shape": None, "type": None})
    graph = _Outline(model.graph, {"initializers": initializers})
    return to_proto(cast(ir.Model, _Outline(model, {"graph": graph})))


# Field numbers of onnx.proto: ModelProto.graph, GraphProto.initializer, TensorProto.raw_data.
_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9


def _write_single(model: ir.Model, file: BinaryIO, *, one_message: bool) -> None:
    """Writes a ModelProto, or else its fields one by one: the graph last, its large initializers behind its other fields.

    Protobuf merges fields in any order (encoding specification, "message structure"), so what a reader sees is the same
    as from one serialised message.
    """
    if one_message:
        file.write(to_proto(model).SerializeToString(deterministic=True))
        return
    proto, streamed = message_and_weights(model)
    messages = {item.name: item.SerializeToString(deterministic=True) for item in proto.graph.initializer}
    # All fields of a TensorProto but the bytes of raw_data, whose tag and length close the header.
    messages |= {
        name: header.SerializeToString(deterministic=True) + _tag(_TENSOR_RAW_DATA, _nbytes(tensor))
        for name, (header, tensor) in streamed.items()
    }
    del proto.graph.initializer[:]
    graph = proto.graph.SerializeToString(deterministic=True)
    proto.ClearField("graph")
    raw = {name: _nbytes(tensor) for name, (_, tensor) in streamed.items()}
    sizes = {name: len(message) + raw.get(name, 0) for name, message in messages.items()}
    total = len(graph) + sum(len(_tag(_GRAPH_INITIALIZER, size)) + size for size in sizes.values())
    file.write(proto.SerializeToString(deterministic=True))
    file.write(_tag(_MODEL_GRAPH, total))
    file.write(graph)
    for name, message in messages.items():
        file.write(_tag(_GRAPH_INITIALIZER, sizes[name]))
        file.write(message)
        if name in streamed:
            _write_raw(streamed[name][1], file)


def _streams(tensor: ir.TensorProtocol) -> bool:
    return tensor.dtype != ir.DataType.STRING and _nbytes(tensor) > _INLINE_BYTES


def _header(name: str, tensor: ir.TensorProtocol) -> onnx.TensorProto:
    """The message of a tensor without its data."""
    header = onnx.TensorProto(name=name, data_type=tensor.dtype.value, dims=tensor.shape.numpy())
    for key, text in tensor.metadata_props.items():
        header.metadata_props.add(key=key, value=text)
    return header


def _tag(field: int, length: int) -> bytes:
    """Tag and length of a length-delimited field."""
    return _varint(field << 3 | 2) + _varint(length)


def _varint(number: int) -> bytes:
    """Base-128 varint (protobuf encoding specification).

    >>> _varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _write_raw(tensor: ir.TensorProtocol, file: BinaryIO) -> None:
    start = file.tell()
    try:
        if hasattr(tensor, "tofile"):
            tensor.tofile(file)
        else:
            file.write(tensor.tobytes())
    except OSError as error:
        if error.errno is None:  # NumPy counts what it could not write, and does not say why
            os.write(file.fileno(), b"\0")
        raise
    written = file.tell() - start
    if written != _nbytes(tensor):
        raise OSError(f"tensor {tensor.name!r} wrote {written} bytes instead of {_nbytes(tensor)}")
