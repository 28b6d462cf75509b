"""Tensors of an ONNX file before anything reads them: type, dimensions, length of the data, where the data lie."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto

from onnxport.errors import InvalidModelError
from onnxport.graph.limits import MAX_ELEMENTS

# Fields that hold elements one by one, by element type; a complex number is two.
_FIELDS: dict[int, tuple[str, int]] = {
    TensorProto.FLOAT: ("float_data", 1),
    TensorProto.COMPLEX64: ("float_data", 2),
    TensorProto.DOUBLE: ("double_data", 1),
    TensorProto.COMPLEX128: ("double_data", 2),
    TensorProto.INT64: ("int64_data", 1),
    TensorProto.UINT32: ("uint64_data", 1),
    TensorProto.UINT64: ("uint64_data", 1),
    TensorProto.STRING: ("string_data", 1),
}
_TYPED = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_TYPES = {item.value: item for item in ir.DataType if item.value}
MOST_ELEMENTS = 1 << 56  # from here on no memory holds a value, whatever its element type
# Longest path of a data file, and most digits of an offset or a length.
_LONGEST, _MOST_DIGITS = 4096, 18


@dataclass(frozen=True)
class DataFolder:
    """Where a model's data files may lie."""

    path: Path  # the folder that locations are relative to
    # Folders, symbolic links resolved, in which they must lie in the end: the model's, and the one where the model
    # really lies if it is a link itself.
    real: tuple[Path, ...]

    @classmethod
    def of(cls, model: Path) -> DataFolder:
        """The folder of the file `model`."""
        beside, behind = os.path.realpath(model.parent), os.path.dirname(os.path.realpath(model))
        return cls(model.parent, (Path(beside), Path(behind)))


def check_tensor(tensor: TensorProto, place: str, folder: DataFolder | None, apart: int | None = None) -> None:
    """Checks one tensor, which errors call `place`; external data may lie in `folder` alone.

    `apart` is how many bytes of its data were read apart from the message.

    Raises:
        InvalidModelError: its element type is unknown, its dimensions and its data contradict each other, or its data lie
            outside the folder.
    """
    dtype = _TYPES.get(tensor.data_type)
    if dtype is None:
        raise InvalidModelError(f"{place}: element type {tensor.data_type} is none of ONNX's")
    if any(dim < 0 for dim in tensor.dims):
        raise InvalidModelError(f"{place}: dimensions {_shown(tensor.dims)} are negative")
    count = prod(tensor.dims)
    if prod(max(dim, 1) for dim in tensor.dims) >= MOST_ELEMENTS:  # NumPy counts bytes as though no dimension were 0
        raise InvalidModelError(f"{place}: dimensions {_shown(tensor.dims)} are more than any memory holds")
    if tensor.HasField("segment"):
        raise InvalidModelError(f"{place}: tensors in segments are not supported")
    if tensor.data_location == TensorProto.EXTERNAL:
        _check_external(tensor, dtype, count, place, folder)
        return
    given = [name for name in _TYPED if len(getattr(tensor, name))]
    name, each = _FIELDS.get(tensor.data_type, ("int32_data", 1))
    raw = len(tensor.raw_data) if apart is None else apart  # protobuf copies the data that it is asked for
    if raw:
        expected = _bytes(dtype, count)
        if given or dtype == ir.DataType.STRING or raw != expected:
            raise InvalidModelError(
                f"{place}: {raw} bytes of data for {count} elements of {dtype.name}, not {expected}"
            )
        return
    packed = dtype != ir.DataType.STRING and dtype.bitwidth < 8
    expected = _bytes(dtype, count) if packed else count * each
    if any(other != name for other in given) or len(getattr(tensor, name)) != expected:
        lengths = ", ".join(f"{len(getattr(tensor, other))} in {other}" for other in given) or "no data"
        raise InvalidModelError(f"{place}: {lengths} for {count} elements of {dtype.name}")


def check_text(items: list[bytes] | tuple[bytes, ...], place: str) -> None:
    """Checks that byte strings are text.

    Raises:
        InvalidModelError: one is not UTF-8.
    """
    for item in items:
        try:
            item.decode()
        except UnicodeDecodeError:
            raise InvalidModelError(f"{place}: the string {item[:40]!r} is not UTF-8") from None


def dense(sparse: onnx.SparseTensorProto, place: str) -> TensorProto:
    """A sparse tensor, which has been checked as far as its parts, with all its elements.

    Raises:
        InvalidModelError: indices and dimensions contradict each other, or it has too many elements.
    """
    values, indices, dims = sparse.values, sparse.indices, list(sparse.dims)
    if not dims or any(dim < 1 for dim in dims):
        raise InvalidModelError(f"{place}: dimensions {_shown(dims)} are not positive")
    size = prod(dims)
    if size > MAX_ELEMENTS:
        raise InvalidModelError(f"{place}: {_shown(dims)} are more elements than a sparse tensor may have here")
    if values.data_location or indices.data_location:
        raise InvalidModelError(f"{place}: a sparse tensor in a data file is not supported")
    count = prod(values.dims)
    if len(values.dims) != 1 or indices.data_type != TensorProto.INT64 or values.data_type == TensorProto.STRING:
        raise InvalidModelError(f"{place}: values must be a vector of numbers, indices of int64")
    if list(indices.dims) not in ([count], [count, len(dims)]):
        raise InvalidModelError(f"{place}: indices of shape {_shown(indices.dims)} for {count} values")
    positions = onnx.numpy_helper.to_array(indices)
    if positions.ndim == 2:
        if np.any(positions < 0) or np.any(positions >= np.asarray(dims)):
            raise InvalidModelError(f"{place}: an index is outside the dimensions {_shown(dims)}")
        positions = np.ravel_multi_index(tuple(positions.T), tuple(dims))
    if np.any(positions < 0) or np.any(positions >= size) or np.any(np.diff(positions) <= 0):
        raise InvalidModelError(f"{place}: indices are not ascending within the dimensions {_shown(dims)}")
    content = onnx.numpy_helper.to_array(values)
    whole = np.zeros(size, content.dtype)
    whole[positions] = content
    tensor = onnx.numpy_helper.from_array(whole.reshape(dims), values.name)
    tensor.data_type = values.data_type
    return tensor


def _bytes(dtype: ir.DataType, count: int) -> int:
    return 0 if dtype == ir.DataType.STRING else (count * dtype.bitwidth + 7) // 8


def _check_external(tensor: TensorProto, dtype: ir.DataType, count: int, place: str, folder: DataFolder | None) -> None:
    if folder is None:
        raise InvalidModelError(f"{place}: its data lie in a file; give the model's path, or load it with its data")
    if dtype == ir.DataType.STRING:
        raise InvalidModelError(f"{place}: strings can't lie in a data file")
    entries = {item.key: item.value for item in tensor.external_data}
    location = entries.get("location", "")
    size = _data_file(location, place, folder)
    offset, length = (_number(entries.get(key), key, place) for key in ("offset", "length"))
    expected = _bytes(dtype, count)
    if length is not None and length != expected:
        raise InvalidModelError(f"{place}: {length} bytes of data for {count} elements of {dtype.name}, not {expected}")
    if (offset or 0) + expected > size:
        raise InvalidModelError(
            f"{place}: the data file {location!r} is truncated: bytes {offset or 0} to {(offset or 0) + expected} of {size}"
        )


def _number(text: str | None, key: str, place: str) -> int | None:
    if text is None or text == "":
        return None
    if len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        raise InvalidModelError(f"{place}: {key} {text[:40]!r} of its data is no number of bytes")
    return int(text)


def _data_file(location: str, place: str, folder: DataFolder) -> int:
    """The size of a data file, which must be a file within the model's folder (or beside what the model is a link to)."""
    if not location or len(location) > _LONGEST or "\0" in location:
        raise InvalidModelError(f"{place}: its data lie in {location[:40]!r}, which is no file name")
    relative = Path(location)
    if relative.is_absolute() or ".." in relative.parts or "\\" in location:
        raise InvalidModelError(f"{place}: its data {location!r} lie outside the model's folder")
    file = Path(os.path.realpath(folder.path / relative))
    if not any(file.is_relative_to(real) for real in folder.real):
        raise InvalidModelError(f"{place}: its data {location!r} lie outside the model's folder")
    try:
        status = file.stat()
    except OSError as error:
        raise InvalidModelError(f"{place}: the data file {location!r} is missing: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise InvalidModelError(f"{place}: its data {location!r} are not a file")
    return status.st_size


def _shown(dims: object) -> str:
    return str(list(dims)[:8])  # type: ignore[call-overload]
