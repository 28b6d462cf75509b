"""Writing model files: streaming, atomic, with external data where one file can't hold the weights.

onnx-ir's own serialisation holds every weight once more in the protobuf message and again in its bytes. Here a single
file is written as the wire format wants it, the message without the weights first and then tensor after tensor from the
framework's own storage, so that memory stays at the model's size.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import onnx_ir as ir

from onnxport.graph.protos import to_proto

# Protobuf refuses messages of 2 GiB; the margin is for the graph itself.
SINGLE_FILE_LIMIT = (1 << 31) - (64 << 20)
# Tensors up to this size stay in the message: shape inference and optimisers read them there.
_INLINE_BYTES = 1024

Progress = Callable[[str, int, int], None]


def weight_bytes(model: ir.Model) -> int:
    """Size of all initializers in bytes."""
    return sum(
        _nbytes(value.const_value) for value in model.graph.initializers.values() if value.const_value is not None
    )


def save(model: ir.Model, path: str | os.PathLike[str], *, external_data: bool | None = None) -> None:
    """Writes `model` to `path`, whole or not at all.

    Args:
        model: the model; it is not changed.
        path: file to write; an existing one is replaced once the new one is complete.
        external_data: weights in a file of their own, ``<path>.data``; by default only where they exceed what one
            protobuf file can hold (2 GiB).

    Raises:
        OSError: the folder can't be written.
    """
    target = Path(path)
    if external_data is None:
        external_data = weight_bytes(model) > SINGLE_FILE_LIMIT
    if external_data:
        _save_external(model, target)
        return
    with atomic_file(target) as file:
        _write_single(model, file)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under `path` when the block ends well, and leaves nothing behind when it does not."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _nbytes(tensor: ir.TensorProtocol) -> int:
    return int(tensor.nbytes)


def _save_external(model: ir.Model, target: Path) -> None:
    """The data file is complete under its name before the model that points to it appears."""
    location = f"{target.name}.data"
    values = [value for value in model.graph.initializers.values() if value.const_value is not None]
    originals = [value.const_value for value in values]
    offset = 0
    try:
        with atomic_file(target.parent / location) as file:
            for value, tensor in zip(values, originals, strict=True):
                if tensor is None or not _streams(tensor):
                    continue
                _write_raw(tensor, file)
                length = file.tell() - offset
                value.const_value = ir.ExternalTensor(
                    location,
                    offset,
                    length,
                    tensor.dtype,
                    shape=ir.Shape(tensor.shape.numpy()),
                    name=value.name or "",
                    base_dir=target.parent,
                )
                offset += length
        with atomic_file(target) as file:
            file.write(to_proto(model).SerializeToString(deterministic=True))
    finally:
        for value, tensor in zip(values, originals, strict=True):
            value.const_value = tensor


# Field numbers of onnx.proto: ModelProto.graph, GraphProto.initializer, TensorProto.raw_data.
_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9


def _write_single(model: ir.Model, file: BinaryIO) -> None:
    """Writes a ModelProto field by field: the graph last, its large initializers streamed behind its other fields.

    Protobuf merges fields in any order (encoding specification, "message structure"), so what a reader sees is the same
    as from one serialised message.
    """
    initializers = model.graph.initializers
    everything = dict(initializers)
    streamed = [value for value in everything.values() if value.const_value is not None and _streams(value.const_value)]
    try:
        for value in streamed:
            initializers.pop(value.name or "")
        proto = to_proto(model)
    finally:
        initializers.clear()
        initializers.update(everything)
    graph = proto.graph.SerializeToString(deterministic=True)
    proto.ClearField("graph")
    headers = [_tensor_header(value) for value in streamed]
    sizes = [
        len(header) + _nbytes(value.const_value)
        for header, value in zip(headers, streamed, strict=True)
        if value.const_value is not None
    ]
    total = len(graph) + sum(len(_tag(_GRAPH_INITIALIZER, size)) + size for size in sizes)
    file.write(proto.SerializeToString(deterministic=True))
    file.write(_tag(_MODEL_GRAPH, total))
    file.write(graph)
    for header, size, value in zip(headers, sizes, streamed, strict=True):
        file.write(_tag(_GRAPH_INITIALIZER, size))
        file.write(header)
        if value.const_value is not None:
            _write_raw(value.const_value, file)


def _streams(tensor: ir.TensorProtocol) -> bool:
    """Large tensors, and those that lie in another model's data file, which this model must not point to."""
    if isinstance(tensor, ir.ExternalTensor):
        return True
    return tensor.dtype != ir.DataType.STRING and _nbytes(tensor) > _INLINE_BYTES


def _tensor_header(value: ir.Value) -> bytes:
    """All fields of the TensorProto but the bytes of raw_data, whose tag and length close the header."""
    tensor = value.const_value
    if tensor is None:
        raise ValueError(f"initializer {value.name!r} has no value")
    from onnx import TensorProto

    header = TensorProto(name=value.name, data_type=tensor.dtype.value, dims=tensor.shape.numpy())
    return header.SerializeToString(deterministic=True) + _tag(_TENSOR_RAW_DATA, _nbytes(tensor))


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
    if hasattr(tensor, "tofile"):
        tensor.tofile(file)
    else:
        file.write(tensor.tobytes())
    written = file.tell() - start
    if written != _nbytes(tensor):
        raise OSError(f"tensor {tensor.name!r} wrote {written} bytes instead of {_nbytes(tensor)}")
