"""Weights in data files, mapped once and held: what a loaded model computes does not change with the names of files.

onnx-ir opens a data file by name when a tensor is first used, and once for each tensor. Here a file is opened when the model is
loaded, so that the weights are those that belonged to the model then, also after another save has replaced or removed the file.
One that is written to in place is refused from then on.
"""

from __future__ import annotations

import mmap
import os
import stat
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import onnx_ir as ir

from onnxport.errors import InvalidModelError
from onnxport.graph.bodies import all_initializers, every_node

T = TypeVar("T")

_ATTEMPTS = 100  # how often a model that is replaced while it is read is read again


class TensorSlot(NamedTuple):
    """A tensor of a model, and how to put another in its place."""

    tensor: ir.TensorProtocol
    put: Callable[[ir.TensorProtocol], None]


def tensors_in(model: ir.Model) -> Iterator[TensorSlot]:
    """Every tensor of a model: initializers of all its graphs, and tensors among the nodes' attributes."""
    for value in all_initializers(model):
        if value.const_value is not None:
            yield TensorSlot(value.const_value, partial(setattr, value, "const_value"))
    tops: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for top in tops:
        for node in every_node(top):
            for attribute in list(node.attributes.values()):
                yield from _in_attribute(node, attribute)


def map_weights(model: ir.Model, folder: str | os.PathLike[str] | None = None) -> None:
    """Puts tensors in memory, mapped from their files, in the place of those that name a data file.

    The files stand in `folder`, by default in the folder of each tensor.

    Raises:
        InvalidModelError: a data file is missing, too short, or not a file.
    """
    files: dict[str, MappedFile] = {}
    for slot in tensors_in(model):
        tensor = slot.tensor
        if isinstance(tensor, ir.ExternalTensor):
            path = os.path.join(folder if folder is not None else tensor.base_dir, tensor.location)
            if path not in files:
                files[path] = MappedFile(path)
            slot.put(mapped_tensor(tensor, files[path], tensor.offset or 0))


def mapped_tensor(tensor: ir.TensorProtocol, file: MappedFile, offset: int) -> ir.LazyTensor:
    """A tensor with the type, shape and name of `tensor`, whose data lie in `file` from `offset` on.

    Raises:
        InvalidModelError: the file is too short.
    """
    length, shape, dtype = int(tensor.nbytes), ir.Shape(tensor.shape.numpy()), tensor.dtype
    if offset < 0 or offset + length > file.size:
        raise InvalidModelError(
            f"the data file {file.path!r} is truncated: {tensor.name!r} ends at byte {offset + length} of {file.size}"
        )

    def view() -> ir.TensorProtocol:
        raw = file.read(offset, length)
        if dtype.bitwidth < 8:
            return ir.PackedTensor(raw, dtype, shape=shape, name=tensor.name)
        array = raw.view(np.dtype(dtype.numpy()).newbyteorder("<")).reshape(shape.numpy())
        return ir.Tensor(array, dtype=dtype, shape=shape, name=tensor.name)

    name, about, props = tensor.name, tensor.doc_string, dict(tensor.metadata_props)
    return ir.LazyTensor(view, dtype, shape, name=name, doc_string=about, metadata_props=props)


def settled(path: Path, read: Callable[[], T]) -> T:
    """What `read` gives of the model at `path`, a file or a folder; it is read again where a save replaced it meanwhile."""
    for _ in range(_ATTEMPTS):
        before = _identity(path)
        try:
            result = read()
        except (InvalidModelError, OSError):
            if _identity(path) == before:
                raise
        else:
            if _identity(path) == before:
                return result
    return read()


def size_and_time(handle: int) -> tuple[int, int]:
    """Size and time of the last change of an open file."""
    status = os.fstat(handle)
    return status.st_size, status.st_mtime_ns


class MappedFile:
    """A data file, open and mapped for as long as one of its tensors lives.

    Raises:
        InvalidModelError: it can't be opened, or is not a file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            # A pipe must not block the opening.
            self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise InvalidModelError(f"the data file {path!r} can't be opened: {error.strerror}") from error
        weakref.finalize(self, os.close, self._handle)
        self._state = size_and_time(self._handle)
        if not stat.S_ISREG(os.fstat(self._handle).st_mode):
            raise InvalidModelError(f"the data file {path!r} is not a file")
        self.size = self._state[0]
        self._bytes = np.empty(0, np.uint8)
        if self.size:
            self._bytes = np.frombuffer(mmap.mmap(self._handle, 0, access=mmap.ACCESS_READ), np.uint8)

    def read(self, offset: int, length: int) -> np.ndarray:
        """Bytes of the file, not copied.

        Raises:
            InvalidModelError: the file was written to since it was opened.
        """
        if size_and_time(self._handle) != self._state:
            raise InvalidModelError(
                f"the data file {self.path!r} was changed after the model was loaded; load it again"
            )
        return self._bytes[offset : offset + length]


def _in_attribute(node: ir.Node, attribute: ir.Attr) -> Iterator[TensorSlot]:
    if attribute.is_ref() or attribute.value is None:
        return
    if attribute.type == ir.AttributeType.TENSOR:

        def put(tensor: ir.TensorProtocol) -> None:
            node.attributes[attribute.name] = ir.AttrTensor(attribute.name, tensor)

        yield TensorSlot(attribute.value, put)
    elif attribute.type == ir.AttributeType.TENSORS:
        tensors = list(attribute.value)

        def put_at(index: int, tensor: ir.TensorProtocol) -> None:
            tensors[index] = tensor
            node.attributes[attribute.name] = ir.AttrTensors(attribute.name, tensors)

        for index, tensor in enumerate(attribute.value):
            yield TensorSlot(tensor, partial(put_at, index))


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
