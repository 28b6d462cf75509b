"""Universal Binary JSON, as far as XGBoost writes it (https://ubjson.org)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

_NUMBERS = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q", b"d": ">f", b"D": ">d"}
_PLAIN = {b"T": True, b"F": False, b"Z": None}
_DEPTH = 64


def decoded(data: bytes) -> Any:
    """The value that `data` begins with; what follows it is not looked at.

    Raises:
        ValueError: the data is truncated, or of no known form.
    """
    return _Reader(data).value()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise ValueError(f"it ends before byte {self._at + count}")
        self._at += count
        return self._data[self._at - count : self._at]

    def _next(self) -> bytes:
        return self._data[self._at : self._at + 1]

    def _number(self, kind: bytes) -> Any:
        form = _NUMBERS.get(kind)
        if form is None:
            raise ValueError(f"byte {self._at} is no type of a number: {kind!r}")
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _count(self) -> int:
        count = self._number(self._take(1))
        if not isinstance(count, int) or count < 0:
            raise ValueError(f"byte {self._at}: {count!r} is no length")
        return count

    def value(self) -> Any:
        """The next value."""
        return self._of_kind(self._take(1), 0)

    def _of_kind(self, kind: bytes, depth: int) -> Any:
        if depth > _DEPTH:
            raise ValueError(f"its values are nested deeper than {_DEPTH}")
        if kind in _NUMBERS:
            return self._number(kind)
        if kind in _PLAIN:
            return _PLAIN[kind]
        match kind:
            case b"S":
                return self._take(self._count()).decode()
            case b"C":
                return self._take(1).decode()
            case b"[":
                return self._array(depth)
            case b"{":
                return self._object(depth)
        raise ValueError(f"byte {self._at} is no type of a value: {kind!r}")

    def _sized(self) -> tuple[bytes | None, int | None]:
        """Type and number of a container's values, where they are declared before."""
        kind = None
        if self._next() == b"$":
            self._take(1)
            kind = self._take(1)
            if kind in _PLAIN:
                raise ValueError(f"byte {self._at}: any number of values without a byte")
        if self._next() == b"#":
            self._take(1)
            return kind, self._count()
        if kind is not None:
            raise ValueError(f"byte {self._at}: a type without a number of values")
        return None, None

    def _array(self, depth: int) -> Any:
        kind, count = self._sized()
        if kind in _NUMBERS and count is not None:
            form = np.dtype(_NUMBERS[kind])
            return np.frombuffer(self._take(count * form.itemsize), form)
        return [self._of_kind(kind or self._take(1), depth + 1) for _ in self._entries(count, b"]")]

    def _object(self, depth: int) -> dict[str, Any]:
        kind, count = self._sized()
        items: dict[str, Any] = {}
        for _ in self._entries(count, b"}"):
            name = self._take(self._count()).decode()
            items[name] = self._of_kind(kind or self._take(1), depth + 1)
        return items

    def _entries(self, count: int | None, end: bytes) -> Iterator[None]:
        """Stands before each entry of a container, of which there are `count`, or all before the byte that ends it."""
        while count is None or count > 0:
            if count is None and self._next() == end:
                self._take(1)
                return
            yield
            count = None if count is None else count - 1
