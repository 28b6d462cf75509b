"""Strings cut at many characters at once.

ONNX splits at one separator a node, so that a graph that cuts at a hundred characters has a hundred such nodes. Here they cost
little else: a chain splits at the first character, what stands before that at the second one, and so on (`_cut`); a loop, whose
body is written once, does the same to what stands behind (`apart`). A dozen characters that most texts have are cut at without a
loop (`between_few`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder

# A string beside the user's that nothing cuts, a noncharacter of Unicode: of nothing but empty strings StringSplit gives no
# pieces at all.
_WITNESS = chr(0xFDEF)
_INT, _BOOL, _TEXT = ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.STRING
_END = np.iinfo(np.int64).max
Body = Callable[[OpBuilder], list[ir.Value]]


@dataclass(frozen=True)
class Cells:
    """Pieces of strings, in their order.

    Attributes:
        strings: the pieces of all strings, [S].
        rows: which string each is of, [S]; those of one string stand side by side, and the strings in their order, but for
            `and_then`.
        count: number of strings, [1].
    """

    strings: ir.Value
    rows: ir.Value
    count: ir.Value

    def there(self, op: OpBuilder) -> Cells:
        """Those that are not empty."""
        return self.only(op, _filled(op, self.strings))

    def only(self, op: OpBuilder, kept: ir.Value) -> Cells:
        """Some of them, by flags [S]."""
        return Cells(op.Compress(self.strings, kept, axis=0), op.Compress(self.rows, kept, axis=0), self.count)

    def and_then(self, op: OpBuilder, others: Cells) -> Cells:
        """These, and behind them the cells of other strings."""
        strings = op.Concat(self.strings, others.strings, axis=0)
        return Cells(strings, op.Concat(self.rows, others.rows, axis=0), self.count)

    def in_rows(self, op: OpBuilder, values: ir.Value, nothing: ir.Value) -> ir.Value:
        """Values of the pieces, [S], in a row for each string, [count, L], `nothing` beyond its last; so is the last column."""
        size = op.shape(self.rows)
        numbers = op.Range(0, op.Squeeze(size, op.axes(0)), 1)
        zeros, ones = op.Expand(op.const(np.int64(0)), self.count), op.Expand(op.const(np.int64(1)), size)
        lengths = op.ScatterElements(zeros, self.rows, ones, axis=0, reduction="add")
        before = op.Sub(op.CumSum(lengths, op.const(np.int64(0))), lengths)
        width = op.Add(op.ReduceMax(op.Concat(lengths, op.const([0]), axis=0), keepdims=1), 1)
        ranks = op.Sub(numbers, op.Gather(before, self.rows, axis=0))
        places = op.Add(op.Mul(self.rows, width), ranks)
        nowhere = op.Expand(op.const(np.int64(-1)), op.Mul(self.count, width))
        index = op.ScatterElements(nowhere, places, numbers, axis=0)
        pool = op.Concat(values, op.Unsqueeze(nothing, op.axes(0)), axis=0)
        return op.Reshape(op.Gather(pool, index, axis=0), op.Concat(self.count, width, axis=0))


def blank(op: OpBuilder) -> ir.Value:
    """The empty string."""
    return op.const(np.array("", object))


def any_of(op: OpBuilder, flags: ir.Value) -> ir.Value:
    """Whether one of the flags [N] is set."""
    return op.ReduceMax(op.Concat(flags, op.const(np.zeros(1, bool)), axis=0), keepdims=0)


def changed_if_any(op: OpBuilder, flags: ir.Value, change: Body, *values: ir.Value) -> Any:
    """The values, or where a flag [N] is set what `change` gives instead."""
    return op.If(
        any_of(op, flags),
        then_branch=op.body(change),
        else_branch=op.body(lambda b: [b.Identity(value) for value in values]),
        outputs=len(values),
    )


def encoded(op: OpBuilder, x: ir.Value, numbers: Mapping[Any, int], default: int) -> ir.Value:
    """The numbers of strings, or of numbers; `default` for others."""
    kind = "keys_strings" if x.dtype == _TEXT else "keys_int64s"
    options = {kind: list(numbers), "values_int64s": list(numbers.values()), "default_int64": default}
    return op.ml.LabelEncoder(x, **options)


def where_any(op: OpBuilder, x: Cells, flags: ir.Value, change: Callable[[OpBuilder], Cells]) -> Cells:
    """The cells, or where a flag is set what `change` makes of them."""

    def changed(b: OpBuilder) -> list[ir.Value]:
        result = change(b)
        return [result.strings, result.rows]

    strings, rows = changed_if_any(op, flags, changed, x.strings, x.rows)
    return Cells(strings, rows, x.count)


def having(op: OpBuilder, x: ir.Value, characters: str) -> ir.Value:
    """Which strings have one of the characters."""
    return op.RegexFullMatch(x, pattern=f"(?s).*[{inside_of(characters)}].*")


def _with_more(op: OpBuilder, x: ir.Value, characters: str) -> ir.Value:
    """Which strings have one of the characters and something beside it."""
    inside = inside_of(characters)
    return op.RegexFullMatch(x, pattern=f"(?s)(.+[{inside}].*|[{inside}].+)")


def inside_of(characters: str) -> str:
    """The inside of RE2's class of some characters."""
    return "".join(f"\\x{{{ord(c):x}}}" for c in characters)


def whole(op: OpBuilder, x: ir.Value) -> Cells:
    """Strings [N] that nothing has cut yet."""
    count = op.shape(x)
    return Cells(x, op.Range(0, op.Squeeze(count, op.axes(0)), 1), count)


def apart(op: OpBuilder, x: ir.Value, groups: Sequence[str]) -> Cells:
    """Strings [N] cut into the characters of some groups, each a cell, and what stands between them.

    A group that no string has a character of costs one test.
    """
    cells = whole(op, x)
    for group in filter(None, groups):
        cells = _cut_each(op, cells, group, _with_more, lambda b, values, group: values)
    return cells.there(op)


def between(op: OpBuilder, x: Cells, groups: Sequence[str]) -> Cells:
    """Cells cut at the characters of some groups, without these."""

    def without(b: OpBuilder, values: _Cut, group: str) -> _Cut:
        some = b.Not(b.RegexFullMatch(values.tails, pattern=f"[{inside_of(group)}]*"))
        return _Cut(values.heads, None, b.Compress(values.tails, some, axis=0), b.Compress(values.rows, some, axis=0))

    for group in filter(None, groups):
        x = _cut_each(op, x, group, having, without)
    return x.there(op)


def between_few(op: OpBuilder, x: Cells, characters: str) -> Cells:
    """Cells cut at some characters, without these: one after the other in all cells, five operators for each.

    Each cell's first piece begins with the first of the characters, which no piece has any more, so that which cell a piece is
    of is asked once, at the end.
    """
    if not characters:
        return x
    mark, strings = characters[0], x.strings
    for character in characters:
        pieces, _ = op.StringSplit(strings, delimiter=character)
        if character == mark:
            first = op.StringConcat(op.const(np.array([mark], object)), op.Slice(pieces, [0], [1], [1]))
            pieces = op.Concat(first, op.Slice(pieces, [1], [_END], [1]), axis=1)
        strings = op.Reshape(pieces, [-1])
        strings = op.Compress(strings, _filled(op, strings), axis=0)
    # first pieces into nothing and what stands behind the mark
    pieces, counts = op.StringSplit(strings, delimiter=mark)
    cells = op.Sub(op.CumSum(op.Sub(counts, 1), op.const(np.int64(0))), 1)
    of_cells = op.Reshape(op.Add(op.Unsqueeze(cells, op.axes(1)), op.const([0, 0])), [-1])
    strings = op.Reshape(pieces, [-1])
    kept = _filled(op, strings)
    rows = op.Gather(x.rows, op.Compress(of_cells, kept, axis=0), axis=0)
    return Cells(op.Compress(strings, kept, axis=0), rows, x.count)


def _filled(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Which strings [N] are not empty; compared along one axis, which is faster than along several."""
    return op.Not(op.Equal(x, blank(op)))


# Which strings still have a character of a group, and what is wanted of a pass over them.
Uncut = Callable[[OpBuilder, ir.Value, str], ir.Value]
Wanted = Callable[[OpBuilder, "_Cut", str], "_Cut"]


def _cut_each(op: OpBuilder, x: Cells, group: str, uncut: Uncut, wanted: Wanted) -> Cells:
    """Cells cut at a group of characters: one pass after the other, until none is `uncut`, each adding what is `wanted` of it."""

    def step(b: OpBuilder) -> list[ir.Value]:
        b.input("number", _INT, [])
        b.input("going", _BOOL, [])
        strings = b.input("strings", _TEXT, [None])
        rows = b.input("rows", _INT, [None])
        flags = b.input("uncut", _BOOL, [None])
        places = b.Reshape(b.NonZero(flags), [-1])
        witness = b.const(np.array([_WITNESS], object))
        cut = wanted(b, _cut(b, b.Concat(witness, b.Gather(strings, places, axis=0), axis=0), group), group)
        strings = b.ScatterElements(strings, places, b.Slice(cut.heads, [1], [_END], [0]), axis=0)
        # what is found follows the string that it was found in
        origins = b.Gather(places, b.Sub(cut.rows, 1), axis=0)
        size = b.Squeeze(b.shape(cut.rows), b.axes(0))
        fresh = [cut.tails] if cut.characters is None else [cut.characters, cut.tails]
        behind = b.Add(origins, b.Mul(b.Range(0, size, 1), len(fresh)))
        targets, pool = b.Add(behind, 1), cut.tails
        if len(fresh) > 1:
            targets = b.Reshape(b.Add(b.Unsqueeze(behind, b.axes(1)), b.const([1, 2])), [-1])
            pool = b.Reshape(b.Concat(*(b.Unsqueeze(item, b.axes(1)) for item in fresh), axis=1), [-1])
        before = b.shape(rows)
        after = b.Add(before, b.shape(targets))
        numbers = b.Range(b.Squeeze(before, b.axes(0)), b.Squeeze(after, b.axes(0)), 1)
        source = b.ScatterElements(b.Expand(b.const(np.int64(-1)), after), targets, numbers, axis=0)
        stays = b.Less(source, 0)
        parents = b.Sub(b.CumSum(b.cast(stays, _INT), b.const(np.int64(0))), 1)
        strings = b.Gather(b.Concat(strings, pool, axis=0), b.Where(stays, parents, source), axis=0)
        more = uncut(b, cut.tails, group)
        nothing = b.Expand(b.const(np.array(False)), after)
        return [
            any_of(b, more),
            strings,
            b.Gather(rows, parents, axis=0),
            b.ScatterElements(nothing, b.Add(behind, len(fresh)), more, axis=0),
        ]

    flags = uncut(op, x.strings, group)
    strings, rows, _ = op.Loop(None, any_of(op, flags), x.strings, x.rows, flags, body=op.body(step), outputs=3)
    return Cells(strings, rows, x.count)


@dataclass(frozen=True)
class _Cut:
    """What one pass finds in strings.

    Attributes:
        heads: what stands before the first character in each string, [N].
        characters: the characters found, [E], if they are wanted.
        tails: what stands behind each, up to the next one, [E]; it can hold characters itself.
        rows: which string they are of, [E], ascending; those of one string in their order.
    """

    heads: ir.Value
    characters: ir.Value | None
    tails: ir.Value
    rows: ir.Value


def _cut(op: OpBuilder, x: ir.Value, characters: str) -> _Cut:
    """One pass over strings [N], the first one with none of the characters.

    What stands before one character is split at the next one, so that the last one's pieces come first in a string.
    """
    heads, pieces, counts = [op.Unsqueeze(x, op.axes(1))], [], []
    for character in characters:
        result, count = op.StringSplit(heads[-1], delimiter=character)
        pieces.append(result)
        counts.append(count)
        heads.append(op.Gather(result, np.int64(0), axis=2))
    # all heads are read at the end: a graph of many values that end early takes quadratic time to load
    left = op.Slice(op.Concat(*heads, axis=1), [-1], [_END], [1])
    number = op.Concat(*counts[::-1], axis=1)
    # a column of pieces belongs to a character, and is the nth behind one
    widths = op.reduce("ReduceMax", number, [0], keepdims=False)
    most = op.ReduceMax(widths, keepdims=0)
    columns = op.NonZero(op.Less(op.Range(0, most, 1), op.Unsqueeze(widths, op.axes(1))))
    which, nth = (op.Gather(columns, np.int64(i), axis=0) for i in range(2))
    there = op.And(op.Less(nth, op.Gather(number, which, axis=1)), op.Greater(nth, 0))
    places = op.NonZero(there)
    letters = op.const(np.array(list(characters[::-1]), object))
    return _Cut(
        heads=op.Reshape(left, [-1]),
        characters=op.Gather(letters, op.Gather(which, op.Gather(places, np.int64(1), axis=0), axis=0), axis=0),
        tails=op.Compress(op.Concat(*pieces[::-1], axis=2), op.Reshape(there, [-1])),
        rows=op.Gather(places, np.int64(0), axis=0),
    )
