"""The message of an ONNX file without the data of its large initializers, and where in the file these lie.

protobuf copies a tensor's data when it parses them and each time they are asked for. Here the fields of the file are walked,
and data are passed over. Fields are numbered in onnx.proto; https://protobuf.dev/programming-guides/encoding has their
encoding. A message that repeats a field which it may hold once, or is not encoded so, is left to protobuf.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import onnx
from onnx import TensorProto
from onnx.serialization import registry

Spans = dict[int, tuple[int, int]]  # offset and length of the data, by positions of the main graph's initializers
_LEAST = 1 << 12  # bytes from which on data are read apart
_MOST = (1 << 31) - 1  # bytes of a message, by protobuf's own limit
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5  # how a field is encoded
_SMALL = 0x80  # a number from here on takes several bytes
_MODEL_GRAPH, _GRAPH_INITIALIZER = 7 << 3 | _SIZED, 5 << 3 | _SIZED
_TENSOR_TYPE, _TENSOR_RAW, _TENSOR_LOCATION = 2 << 3 | _VARINT, 9 << 3 | _SIZED, 14 << 3 | _VARINT
_PLAIN = frozenset(  # element types whose data are those of a NumPy array
    {
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.DOUBLE,
        TensorProto.INT8,
        TensorProto.UINT8,
        TensorProto.INT16,
        TensorProto.UINT16,
        TensorProto.INT32,
        TensorProto.UINT32,
        TensorProto.INT64,
        TensorProto.UINT64,
    }
)


class _Unusual(Exception):
    """The message is for protobuf to read, or to refuse."""


def read_file(path: Path) -> tuple[onnx.ModelProto, Spans]:
    """The message in a file, and where the data are that it lacks.

    Raises:
        Exception: what protobuf makes of a file that holds no message.
    """
    if registry.get_format_from_file_extension(path.suffix) in (None, "protobuf"):
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            try:
                if size <= _MOST:
                    return _Reader(file, size, size).model()
            except _Unusual:
                pass
    return onnx.load(path, load_external_data=False), {}


@dataclass
class _Reader:
    file: IO[bytes]
    size: int  # bytes of the file
    left: int  # bytes of it that are not read yet
    spans: Spans = field(default_factory=dict)

    def model(self) -> tuple[onnx.ModelProto, Spans]:
        parts: list[bytes] = []
        graphs = 0
        while self.left:
            key = self._varint()
            if key == _MODEL_GRAPH:
                graphs += 1
                if graphs > 1:  # protobuf merges them
                    raise _Unusual
                parts.extend(_sized(key, self._graph(self._length())))
            else:
                parts.append(self._field(key))
        return onnx.ModelProto.FromString(b"".join(parts)), self.spans

    def _graph(self, length: int) -> bytes:
        parts: list[bytes] = []
        count, end = 0, self.left - length
        while self.left > end:
            key = self._varint()
            if key != _GRAPH_INITIALIZER:
                parts.append(self._field(key))
                continue
            size = self._length()
            parts.extend(_sized(key, self._take(size) if size < _LEAST else self._tensor(size, count)))
            count += 1
        if self.left < end:
            raise _Unusual
        return b"".join(parts)

    def _tensor(self, length: int, position: int) -> bytes:
        parts: list[bytes] = []
        span: tuple[int, int] | None = None
        kind, apart, end = 0, True, self.left - length
        while self.left > end:
            key = self._varint()
            if key == _TENSOR_RAW:
                size = self._length()
                if span is not None:
                    raise _Unusual
                span = self.size - self.left, size
                self._skip(size)
            elif key == _TENSOR_TYPE:
                kind = self._varint()
                parts.append(_encoded(key) + _encoded(kind))
            else:
                apart = apart and key != _TENSOR_LOCATION
                parts.append(self._field(key))
        if self.left < end:
            raise _Unusual
        if span is not None and apart and kind in _PLAIN and span[1] >= _LEAST:
            self.spans[position] = span
        elif span is not None:
            parts.extend(_sized(_TENSOR_RAW, self._again(*span)))
        return b"".join(parts)

    def _field(self, key: int) -> bytes:
        kind = key & 7
        if kind == _SIZED:
            return b"".join(_sized(key, self._take(self._length())))
        if kind == _VARINT:
            return _encoded(key) + _encoded(self._varint())
        if kind not in (_FIXED64, _FIXED32):
            raise _Unusual
        return _encoded(key) + self._take(8 if kind == _FIXED64 else 4)

    def _length(self) -> int:
        length = self._varint()
        if length > self.left:
            raise _Unusual
        return length

    def _varint(self) -> int:
        byte = self._take(1)[0]
        if byte < _SMALL:
            return byte
        value, shift = byte & 0x7F, 7
        while byte >= _SMALL:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63 and (byte >= _SMALL or value >> 64):
                raise _Unusual
        return value

    def _take(self, count: int) -> bytes:
        data = self.file.read(count) if count <= self.left else b""
        if len(data) != count:
            raise _Unusual
        self.left -= count
        return data

    def _skip(self, count: int) -> None:
        self.file.seek(count, os.SEEK_CUR)
        self.left -= count

    def _again(self, offset: int, length: int) -> bytes:
        self.file.seek(offset)
        data = self.file.read(length)
        self.file.seek(self.size - self.left)
        return data


def _sized(key: int, content: bytes) -> tuple[bytes, bytes, bytes]:
    return _encoded(key), _encoded(len(content)), content


def _encoded(value: int) -> bytes:
    parts = bytearray()
    while value >= _SMALL:
        parts.append(value & 0x7F | _SMALL)
        value >>= 7
    parts.append(value)
    return bytes(parts)
