"""The structure of a TFLite file, looked through before anything of it is read: a FlatBuffer whose every offset must hold.

TensorFlow's reader follows offsets unchecked, so that a damaged file ends the process. Every table, vector and string of the
model, its graphs, tensors, operators and signatures is visited here once, within a bound of the file's own size. FlatBuffers: a
table begins with the distance to its vtable, which gives each field's place; offsets are unsigned and relative.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from onnxport.tracing.trust.faults import damaged, hostile

_MAGIC = b"TFL3"
_GRAPHS, _DEPTH = 10_000, 40


@dataclass
class FlatBuffer:
    """Bounds-checked reads of a FlatBuffer; what is read counts, so that tables which share parts can't multiply the work."""

    data: bytes | memoryview
    title: str
    _left: int = field(init=False)

    def __post_init__(self) -> None:
        self._left = 4 * len(self.data) + 4096

    def read(self, form: str, place: int) -> int:
        """One number.

        Raises:
            InvalidModelError: it lies outside of the file, or more was read than a file of its size holds.
        """
        size = struct.calcsize(form)
        self._spend(size)
        if place < 0 or place + size > len(self.data):
            raise damaged(self.title, f"an offset leads to byte {place:,}, the file has {len(self.data):,}")
        return int(struct.unpack_from(form, self.data, place)[0])

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise hostile(self.title, "its tables share parts many times over")

    def follow(self, place: int) -> int:
        """Where the offset at `place` leads."""
        return place + self.read("<I", place)

    def slot(self, table: int, index: int) -> int | None:
        """The place of a table's field, None where it has its default."""
        vtable = table - self.read("<i", table)
        size = self.read("<H", vtable)
        if size < 4 or size % 2 or vtable + size > len(self.data):
            raise damaged(self.title, f"the vtable at byte {vtable:,} has {size} bytes")
        if 4 + 2 * index >= size:
            return None
        offset = self.read("<H", vtable + 4 + 2 * index)
        return table + offset if offset else None

    def number(self, table: int, index: int, form: str, default: int = 0) -> int:
        """A number among a table's fields."""
        place = self.slot(table, index)
        return default if place is None else self.read(form, place)

    def span(self, table: int, index: int, width: int) -> tuple[int, int]:
        """Start and length of a vector of numbers or a string among a table's fields; empty where there is none."""
        place = self.slot(table, index)
        if place is None:
            return 0, 0
        start = self.follow(place)
        count = self.read("<I", start)
        if start + 4 + count * width > len(self.data):
            raise damaged(self.title, f"a vector of {count:,} elements at byte {start:,} does not fit in the file")
        return start + 4, count

    def tables(self, table: int, index: int) -> Iterator[int]:
        """The tables of a vector of tables."""
        start, count = self.span(table, index, 4)
        for i in range(count):
            yield self.follow(start + 4 * i)

    def numbers(self, table: int, index: int, form: str, *, per_item: int = 1) -> list[int]:
        """A vector of numbers."""
        width = struct.calcsize(form)
        start, count = self.span(table, index, width)
        self._spend(count * width * per_item)
        return [int(item) for item in struct.unpack_from(f"<{count}{form[-1]}", self.data, start)]

    def scalars(self, table: int, index: int, width: int) -> None:
        """Checks a vector that holds no offsets; several tables may share it."""
        _, count = self.span(table, index, width)
        self._spend(min(count * width, 64))


def check_structure(title: str, data: bytes | memoryview) -> None:
    """Looks through the whole file.

    Raises:
        InvalidModelError: it is no TFLite file, or an offset, index or length does not hold.
    """
    if len(data) < 8 or bytes(data[4:8]) != _MAGIC:
        raise damaged(title, "it is no TFLite file: it does not begin with TFL3")
    file = FlatBuffer(data, title)
    model = file.follow(0)
    codes = list(file.tables(model, 1))
    for code in codes:
        file.number(code, 0, "<b")
        file.scalars(code, 1, 1)
    buffers = list(file.tables(model, 4))
    for buffer in buffers:
        file.scalars(buffer, 0, 1)
        offset, size = file.number(buffer, 1, "<Q"), file.number(buffer, 2, "<Q")
        if offset + size > len(data):
            raise damaged(title, f"a buffer ends at byte {offset + size:,}, the file has {len(data):,}")
    graphs = list(file.tables(model, 2))
    if not graphs:
        raise damaged(title, "it holds no graph")
    if len(graphs) > _GRAPHS:
        raise hostile(title, f"it holds {len(graphs):,} graphs")
    counts = [_check_graph(file, title, graph, len(codes), len(buffers)) for graph in graphs]
    file.scalars(model, 3, 1)
    file.scalars(model, 5, 4)
    for item in file.tables(model, 6):
        file.scalars(item, 0, 1)
    for signature in file.tables(model, 7):
        graph = file.number(signature, 4, "<I")
        _check_index(title, "a signature", graph, len(graphs), "graphs")
        for side in (0, 1):
            for entry in file.tables(signature, side):
                file.scalars(entry, 0, 1)
                _check_index(title, "a signature", file.number(entry, 1, "<I"), counts[graph], "tensors")
        file.scalars(signature, 2, 1)


def _check_index(title: str, who: str, index: int, count: int, what: str) -> None:
    if not 0 <= index < count:
        raise damaged(title, f"{who} names number {index} of {count} {what}")


def _check_graph(file: FlatBuffer, title: str, graph: int, codes: int, buffers: int) -> int:
    """Checks a graph and gives its number of tensors."""
    tensors = list(file.tables(graph, 0))
    for tensor in tensors:
        _check_tensor(file, title, tensor, buffers)
    for index in (1, 2):
        for number in file.numbers(graph, index, "<i"):
            _check_index(title, "a graph", number, len(tensors), "tensors")
    for operator in file.tables(graph, 3):
        _check_index(title, "an operator", file.number(operator, 0, "<I"), codes, "operator codes")
        for index, optional in ((1, -1), (2, 0), (8, -1)):
            for number in file.numbers(operator, index, "<i"):
                if number != optional or optional == 0:
                    _check_index(title, "an operator", number, len(tensors), "tensors")
        for index in (4, 11):
            _check_table(file, title, operator, index)
        file.scalars(operator, 5, 1)
        file.scalars(operator, 7, 1)
    file.scalars(graph, 4, 1)
    return len(tensors)


def _check_table(file: FlatBuffer, title: str, table: int, index: int) -> None:
    """Checks where a table's options begin and that their vtable holds; their reader is Python."""
    place = file.slot(table, index)
    if place is not None:
        file.slot(file.follow(place), 0)


def _check_tensor(file: FlatBuffer, title: str, tensor: int, buffers: int) -> None:
    file.numbers(tensor, 0, "<i")
    file.scalars(tensor, 3, 1)
    file.numbers(tensor, 7, "<i")
    _check_index(title, "a tensor", file.number(tensor, 2, "<I"), max(buffers, 1), "buffers")
    place = file.slot(tensor, 4)
    if place is not None:
        quantisation = file.follow(place)
        for index, width in ((0, 4), (1, 4), (2, 4), (3, 8)):
            file.scalars(quantisation, index, width)
        _check_table(file, title, quantisation, 5)
    place = file.slot(tensor, 6)
    if place is not None:
        raise damaged(title, "a tensor is kept in a sparse form, which is not supported")


def check_calls(title: str, called: Callable[[int], list[int]], root: int) -> None:
    """No graph reaches itself, and graphs call each other no deeper than a model does.

    Raises:
        InvalidModelError: one does.
    """
    pending: list[tuple[int, tuple[int, ...]]] = [(root, (root,))]
    done = 0
    while pending:
        graph, path = pending.pop()
        done += 1
        if len(path) > _DEPTH or done > _GRAPHS:
            raise hostile(title, f"its graphs call each other more than {_DEPTH} deep or {_GRAPHS:,} times")
        for inner in called(graph):
            if inner in path:
                raise damaged(title, f"graph {inner} calls itself")
            pending.append((inner, (*path, inner)))
