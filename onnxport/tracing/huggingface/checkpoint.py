"""Weights in files of safetensors or of `torch.save`, read tensor by tensor when they are asked for."""

from __future__ import annotations

import json
import math
import os
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch

from onnxport.errors import InvalidModelError
from onnxport.graph.mapped import size_and_time
from onnxport.tracing.pytorch_weights import read_state
from onnxport.tracing.trust.faults import reading

_PIECE = 16 << 20  # bytes that are read at once
_LONGEST_HEADER = 100_000_000  # bytes; the format's own bound
# Element types by their names in the format (safetensors, "Format").
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "U16": torch.uint16,
    "U32": torch.uint32,
    "U64": torch.uint64,
}
# Files of weights in the order in which transformers looks for them, and their indices.
_SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
WEIGHT_FILES = (*_SAFETENSORS, *_PICKLED)


class Stored(Protocol):
    """A tensor in a file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    @property
    def dtype(self) -> torch.dtype:
        """Its element type."""

    def tensor(self) -> torch.Tensor:
        """The tensor."""

    def pieces(self) -> Iterator[torch.Tensor]:
        """Its elements in order, as vectors of bounded size."""


@dataclass(frozen=True)
class Span:
    """A tensor's bytes in a safetensors file."""

    file: File
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int

    def tensor(self) -> torch.Tensor:
        """The tensor, in memory of its own."""
        memory = bytearray(self.end - self.start)
        self.file.read_into(memory, self.start)
        flat = torch.frombuffer(memory, dtype=self.dtype) if memory else torch.empty(0, dtype=self.dtype)
        return flat.reshape(self.shape)

    def pieces(self) -> Iterator[torch.Tensor]:
        """Its elements in order; a piece holds until the next one is asked for."""
        memory = bytearray(min(_PIECE, self.end - self.start))
        for start in range(self.start, self.end, _PIECE):
            part = memoryview(memory)[: min(_PIECE, self.end - start)]
            self.file.read_into(part, start)
            yield torch.frombuffer(part, dtype=self.dtype)


@dataclass(frozen=True)
class Held:
    """A tensor of a pickled state dict, whose storage is mapped."""

    value: torch.Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.value.shape)

    @property
    def dtype(self) -> torch.dtype:
        """Its element type."""
        return self.value.dtype

    def tensor(self) -> torch.Tensor:
        """The tensor itself."""
        return self.value

    def pieces(self) -> Iterator[torch.Tensor]:
        """Its elements in order."""
        flat = self.value.contiguous().reshape(-1)
        yield from flat.split(max(_PIECE // max(flat.element_size(), 1), 1))


class File:
    """A safetensors file, open for as long as one of its tensors may be read.

    Raises:
        InvalidModelError: it is truncated or no safetensors file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(f"{str(path)!r} is truncated or no safetensors file"):
            self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            weakref.finalize(self, os.close, self._handle)
            self._state = size_and_time(self._handle)
            self._header = self._read_header()

    @cached_property
    def spans(self) -> dict[str, Span]:
        """The tensors by name.

        Raises:
            InvalidModelError: a tensor lies outside the file, or is not as long as its shape tells.
        """
        begin, header = self._header
        spans = {}
        for name, item in header.items():
            if name == "__metadata__":
                continue
            try:
                dtype = _DTYPES[item["dtype"]]
                shape = tuple(int(size) for size in item["shape"])
                start, end = (begin + int(place) for place in item["data_offsets"])
            except (KeyError, TypeError, ValueError) as error:
                raise InvalidModelError(f"{str(self.path)!r}: the entry of {name!r} can't be read: {item!r}") from error
            if min((0, *shape)) < 0 or not begin <= start <= end <= self._state[0]:
                raise InvalidModelError(f"{str(self.path)!r} is truncated: {name!r} ends at byte {end}")
            if end - start != math.prod(shape) * dtype.itemsize:
                raise InvalidModelError(
                    f"{str(self.path)!r}: {name!r} is {end - start} bytes, not {list(shape)} {dtype}"
                )
            spans[name] = Span(self, name, dtype, shape, start, end)
        return spans

    def read_into(self, memory: bytearray | memoryview, start: int) -> None:
        """Fills `memory` with the bytes from `start` on.

        Raises:
            InvalidModelError: the file was written to since it was opened, or ends before.
        """
        if size_and_time(self._handle) != self._state:
            raise InvalidModelError(f"{str(self.path)!r} was changed while it was read")
        view, done = memoryview(memory), 0
        while done < len(view):
            read = os.preadv(self._handle, [view[done:]], start + done)
            if not read:
                raise InvalidModelError(f"{str(self.path)!r} ends at byte {start + done}")
            done += read

    def _read_header(self) -> tuple[int, dict[str, Any]]:
        size = bytearray(8)
        self.read_into(size, 0)
        length = int.from_bytes(size, "little")
        if not 0 < length <= min(_LONGEST_HEADER, self._state[0] - 8):
            raise InvalidModelError(f"{str(self.path)!r} is truncated or no safetensors file")
        text = bytearray(length)
        self.read_into(text, 8)
        header = json.loads(text)
        if not isinstance(header, dict):
            raise InvalidModelError(f"{str(self.path)!r} is no safetensors file")
        return 8 + length, header


def read_checkpoint(folder: Path, weights: Path | None = None) -> Mapping[str, Stored]:
    """The tensors of a folder's weights by name, none of them read; `weights` is a file that stands instead.

    Raises:
        InvalidModelError: there are none, or a file is corrupt.
        UntrustedFileError: a file of `torch.save` holds more than tensors.
    """
    if weights is not None:
        return _of_file(weights)
    name = next((item for item in WEIGHT_FILES if (folder / item).is_file()), None)
    others = sorted(item.name for item in folder.glob("*.gguf"))
    if name is None and others:
        raise InvalidModelError(f"{str(folder)!r} holds {others[0]!r}, weights of llama.cpp: take the original folder")
    if name is None:
        raise InvalidModelError(f"{str(folder)!r} holds no weights: none of {', '.join(WEIGHT_FILES)}")
    if not name.endswith(".index.json"):
        return _of_file(folder / name)
    stored: dict[str, Stored] = {}
    shards = _shards(folder / name)
    for shard in dict.fromkeys(shards.values()):
        stored |= {key: item for key, item in _of_file(folder / shard).items() if shards.get(key) == shard}
    missing = [key for key in shards if key not in stored]
    if missing:
        raise InvalidModelError(
            f"{str(folder / name)!r} names {missing[0]!r}, which {shards[missing[0]]!r} does not hold"
        )
    return stored


def _of_file(path: Path) -> Mapping[str, Stored]:
    if not path.is_file():
        raise InvalidModelError(f"no weights file {str(path)!r}")
    if path.suffix.lower() == ".safetensors":
        return dict(File(path).spans)
    return {name: Held(tensor) for name, tensor in read_state(path).items() if isinstance(tensor, torch.Tensor)}


def _shards(index: Path) -> dict[str, str]:
    """The file that holds each tensor; all of them stand beside the index."""
    with reading(f"{str(index)!r} is no index of shards"):
        shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = {str(key): str(value) for key, value in shards.items()}
    outside = [name for name in names.values() if Path(name).name != name or name in (".", "..")]
    if outside:
        raise InvalidModelError(f"{str(index)!r} names {outside[0]!r}, which is no file beside it")
    return names
