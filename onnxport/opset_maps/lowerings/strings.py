"""Strings changed, cut and put together; ONNX has them from opset 20 on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings import cutting
from onnxport.opset_maps.lowerings.characters import characters
from onnxport.opset_maps.lowerings.patterns import Pattern

_INT, _BOOL, _TEXT = ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.STRING
SPACES = "\t\n\v\f\r "  # C's isspace


def replaced(op: OpBuilder, x: ir.Value, changes: Sequence[Sequence[tuple[str, str]]]) -> ir.Value:
    """Strings [N] with each character replaced by the text beside it."""
    new = dict(pair for group in changes for pair in group)
    if not new:
        return x

    def change(b: OpBuilder) -> list[ir.Value]:
        cells = cutting.apart(b, x, ["".join(old for old, _ in group) for group in changes])
        same = chr(0xFDEE)  # a noncharacter of Unicode
        pairs = {"keys_strings": list(new), "values_strings": list(new.values())}
        new_strings = b.ml.LabelEncoder(cells.strings, **pairs, default_string=same)
        strings = b.Where(b.Equal(new_strings, b.const(np.array(same, object))), cells.strings, new_strings)
        return [joined(b, replace(cells, strings=strings))]

    return cutting.changed_if_any(op, cutting.having(op, x, "".join(new)), change, x)


def joined(op: OpBuilder, x: cutting.Cells) -> ir.Value:
    """The cells of each string one behind the other, [count]."""
    pieces = x.in_rows(op, x.strings, cutting.blank(op))

    def step(b: OpBuilder) -> list[ir.Value]:
        number = b.input("number", _INT, [])
        going = b.input("going", _BOOL, [])
        before = b.input("before", _TEXT, [None])
        return [b.Identity(going), b.StringConcat(before, b.Gather(pieces, number, axis=1))]

    size = op.Squeeze(op.dim(pieces, 1), op.axes(0))
    return op.Loop(size, True, op.Expand(cutting.blank(op), x.count), body=op.body(step), outputs=1)


def each(op: OpBuilder, x: ir.Value, change: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """A change of vectors of strings, of strings of any shape."""
    if x.shape is not None and x.shape.rank() == 1:
        return change(x)
    return op.Reshape(change(op.Reshape(x, [-1])), op.shape(x))


def without_ends(op: OpBuilder, x: ir.Value, characters: str = SPACES) -> ir.Value:
    """Strings [N] without the runs of some characters at both ends."""
    inside = cutting.inside_of(characters)

    def change(b: OpBuilder) -> list[ir.Value]:
        cells = cutting.apart(b, x, [characters])
        kept = b.Not(b.RegexFullMatch(cells.strings, pattern=f"[{inside}]"))
        numbers = b.Range(0, b.Squeeze(b.shape(cells.rows), b.axes(0)), 1)
        last = b.ScatterElements(
            b.Expand(b.const(np.int64(-1)), cells.count),
            cells.rows,
            b.Where(kept, numbers, -1),
            axis=0,
            reduction="max",
        )
        far = np.iinfo(np.int64).max
        first = b.ScatterElements(
            b.Expand(b.const(far), cells.count), cells.rows, b.Where(kept, numbers, far), axis=0, reduction="min"
        )
        outside = b.Or(
            b.Less(numbers, b.Gather(first, cells.rows, axis=0)), b.Greater(numbers, b.Gather(last, cells.rows, axis=0))
        )
        return [joined(b, cells.only(b, b.Not(outside)))]

    flags = op.RegexFullMatch(x, pattern=f"(?s)[{inside}].*|.*[{inside}]")
    return cutting.changed_if_any(op, flags, change, x)


def substituted(op: OpBuilder, x: ir.Value, pattern: Pattern, text: str) -> ir.Value:
    """Strings [N] with each match of a pattern replaced by a text."""
    if pattern.text:
        return _with_text(op, x, pattern.text, text)
    if not pattern.runs and not pattern.negated:
        return replaced(op, x, [[(character, text) for character in pattern.characters]])
    if not pattern.runs and text:
        return around(op, x, pattern, [text], first_only=False)
    inside = cutting.inside_of(pattern.characters)
    wanted = f"(?s)[^{inside}]+" if pattern.negated else f"[{inside}]"

    def change(b: OpBuilder) -> list[ir.Value]:
        cells = cutting.apart(b, x, [pattern.characters])
        match = b.RegexFullMatch(cells.strings, pattern=wanted)
        strings = b.Where(match, b.const(np.array(text, object)), cells.strings)
        if pattern.negated:  # what stands between known characters is a run as it is
            return [joined(b, replace(cells, strings=strings))]
        end = np.iinfo(np.int64).max
        before = b.Concat(b.const(np.zeros(1, bool)), b.Slice(match, [0], [-1], [0]), axis=0)
        rows = b.Concat(b.const([-1]), b.Slice(cells.rows, [0], [-1], [0]), axis=0)
        again = b.And(b.And(match, b.Slice(before, [0], [end], [0])), b.Equal(cells.rows, rows))
        return [joined(b, replace(cells, strings=strings).only(b, b.Not(again)))]

    anywhere = f"(?s).*[^{inside}].*" if pattern.negated else f"(?s).*[{inside}].*"
    return cutting.changed_if_any(op, op.RegexFullMatch(x, pattern=anywhere), change, x)


def around(op: OpBuilder, x: ir.Value, pattern: Pattern, texts: Sequence[str], *, first_only: bool) -> ir.Value:
    """Strings [N] with each match of a pattern, or the first one, replaced by texts with the match itself between them.

    Raises:
        UnsupportedOperator: a run stands more than once between the texts, or is the first one.
    """
    if pattern.text and not first_only:
        return substituted(op, x, pattern, pattern.text.join(texts))
    if pattern.text or (pattern.runs and (first_only or len(texts) != 2)):
        raise UnsupportedOperator("the first match alone, or a run of characters more than once, has no ONNX form")
    inside = cutting.inside_of(pattern.characters)
    wanted = f"[{'^' if pattern.negated else ''}{inside}]"

    def change(b: OpBuilder) -> list[ir.Value]:
        cells = characters(b, x)
        match = b.RegexFullMatch(cells, pattern=f"(?s){wanted}")
        count = b.CumSum(b.cast(match, _INT), b.const(np.int64(1)))
        if first_only:
            match = b.And(match, b.Equal(count, 1))
        if not pattern.runs:
            result = b.const(np.array(texts[0], object))
            for text in texts[1:]:
                result = b.StringConcat(b.StringConcat(result, cells), b.const(np.array(text, object)))
            return [all_joined(b, b.Where(match, result, cells), 1, "", keepdims=False)]
        number = b.cast(match, _INT)
        before, after = (b.Equal(_moved(b, number, places), 0) for places in (1, -1))
        starts, ends = b.And(match, before), b.And(match, after)
        opening, closing = (b.const(np.array(text, object)) for text in texts)
        result = b.StringConcat(b.Where(starts, opening, cutting.blank(b)), cells)
        result = b.StringConcat(result, b.Where(ends, closing, cutting.blank(b)))
        return [all_joined(b, result, 1, "", keepdims=False)]

    return cutting.changed_if_any(op, op.RegexFullMatch(x, pattern=f"(?s).*{wanted}.*"), change, x)


def _moved(op: OpBuilder, x: ir.Value, places: int) -> ir.Value:
    """Numbers [N, L] moved by one place along the rows, 0 where none comes from."""
    if places > 0:
        return op.Slice(op.Pad(x, [0, 1, 0, 0]), [0], [-1], [1])
    return op.Slice(op.Pad(x, [0, 0, 0, 1]), [1], [np.iinfo(np.int64).max], [1])


def _with_text(op: OpBuilder, x: ir.Value, old: str, new: str) -> ir.Value:
    escaped = "".join(f"\\x{{{ord(c):x}}}" for c in old)

    def change(b: OpBuilder) -> list[ir.Value]:
        pieces, counts = b.StringSplit(x, delimiter=old)
        size = b.Squeeze(b.dim(pieces, 1), b.axes(0))

        def step(c: OpBuilder) -> list[ir.Value]:
            number = c.input("number", _INT, [])
            going = c.input("going", _BOOL, [])
            before = c.input("before", _TEXT, [None])
            there = c.And(c.Less(number, counts), c.Greater(number, 0))
            between = c.Where(there, c.const(np.array(new, object)), cutting.blank(c))
            after = c.StringConcat(c.StringConcat(before, between), c.Gather(pieces, number, axis=1))
            return [c.Identity(going), after]

        start = b.Expand(cutting.blank(b), b.shape(x))
        return [b.Loop(size, True, start, body=b.body(step), outputs=1)]

    flags = op.RegexFullMatch(x, pattern=f"(?s).*{escaped}.*")
    return cutting.changed_if_any(op, flags, change, x)


def words(op: OpBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Strings [N] cut at runs of C's spaces: the pieces [N, W], empty beyond the last one, and how many there are.

    ONNX's split without a delimiter does not say which characters are spaces: all become blanks first.
    """
    others = [(character, " ") for character in SPACES if character != " "]
    return op.StringSplit(replaced(op, x, [others]), outputs=2)


def parts(op: OpBuilder, x: ir.Value, separator: str) -> tuple[ir.Value, ir.Value]:
    """Strings [N] cut at a separator: the pieces [N, W], and how many there are; of the empty string one, which is empty."""
    empty = op.Equal(x, cutting.blank(op))
    pieces, counts = op.StringSplit(op.Where(empty, op.const(np.array(separator, object)), x), delimiter=separator)
    return pieces, op.Where(empty, op.const(1), counts)


def all_joined(op: OpBuilder, x: ir.Value, axis: int, separator: str, *, keepdims: bool) -> ir.Value:
    """Strings along an axis as one, with a separator between them."""
    first = op.Gather(x, np.int64(0), axis=axis)

    def step(b: OpBuilder) -> list[ir.Value]:
        number = b.input("number", _INT, [])
        going = b.input("going", _BOOL, [])
        before = b.input("before", _TEXT, None)
        item = b.Gather(x, b.Add(number, 1), axis=axis)
        return [b.Identity(going), b.StringConcat(b.StringConcat(before, b.const(np.array(separator, object))), item)]

    count = op.Squeeze(op.Sub(op.dim(x, axis), 1), op.axes(0))
    result = op.Loop(count, True, first, body=op.body(step), outputs=1)
    return op.Unsqueeze(result, op.axes(axis)) if keepdims else result
