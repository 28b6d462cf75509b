"""The characters and bytes of strings, and strings of characters: exact for every string of Unicode, of any length.

Tokenizer, an operator of com.microsoft, cuts strings into single characters: ONNX has none that does. A table of ASCII tells what
the code of a character is. Others are few in most texts: each different one is compared with strings of single bytes, by their
order in Unique (`_peeled`), which takes eight comparisons a byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings import cutting

_INT, _TEXT = ir.DataType.INT64, ir.DataType.STRING
_BYTES = np.array([bytes([code]) for code in range(256)], object)
_LONGEST = 4  # bytes of a character in UTF-8
_LEADS = np.array([0, 0, 0xC0, 0xE0, 0xF0])  # what the first byte of so many holds beside the code
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Bytes:
    """Bytes of strings.

    Attributes:
        values: 0 to 255, 0 behind the last one, INT64 [N, B].
        lengths: how many there are, INT64 [N].
        longest: a bound on the lengths that is known while the graph is written, or None.
    """

    values: ir.Value
    lengths: ir.Value
    longest: int | None = None


def characters(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The characters of strings [N], each a string, [N, L] with one column at least; empty behind the last one."""
    # of empty strings alone it gives no column
    witnessed = op.Concat(x, op.const(np.array(["a"], object)), axis=0)
    cells = op.node("Tokenizer", witnessed, domain=MICROSOFT, mark=0, pad_value="", mincharnum=1, separators=[""])
    cells = op.typed(cells, _TEXT, [None, None])
    return op.Slice(cells, [0], [-1], [0])


def codes(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The code points of strings of one character each, INT64 of their shape; -1 of the empty string."""
    pool = op.Concat(op.Reshape(x, [-1]), op.const(np.array([""], object)), axis=0)
    distinct, _, places, _ = op.node("Unique", pool, outputs=4)
    ascii_ones = {"": -1, **{chr(code): code for code in range(128)}}
    known = cutting.encoded(op, distinct, ascii_ones, -2)
    known = cutting.changed_if_any(op, op.Equal(known, -2), lambda b: [_decoded(b, distinct)], known)
    places = op.Slice(places, [0], [-1], [0])
    return op.Reshape(op.Gather(known, places, axis=0), op.shape(x))


def _decoded(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The code points of single characters [N], by their bytes."""
    rows = _peeled(op, x, _LONGEST)
    parts = [op.Gather(rows, np.int64(i), axis=0) for i in range(_LONGEST)]
    size = op.reduce("ReduceSum", op.cast(op.GreaterOrEqual(rows, 0), _INT), [0], keepdims=False)
    code = op.Sub(parts[0], op.Gather(op.const(_LEADS), size, axis=0))
    for part in parts[1:]:
        code = op.Where(op.Less(part, 0), code, op.Add(op.Mul(code, 64), op.Sub(part, 128)))
    return code


def _peeled(op: OpBuilder, x: ir.Value, count: int) -> ir.Value:
    """The first bytes of strings [N], INT64 [count, N]; -1 behind the last one.

    What stands before a byte is known; with a candidate behind it, it is a string that comes before or behind the one asked, as
    Unique sorts them.
    """
    size = op.shape(x)

    def step(b: OpBuilder) -> list[ir.Value]:
        b.input("number", _INT, [])
        going = b.input("going", ir.DataType.BOOL, [])
        before = b.input("before", _TEXT, [None])
        value = b.Expand(b.const(np.int64(0)), size)
        for bit in reversed(range(8)):
            trial = b.Add(value, 1 << bit)
            probe = b.StringConcat(before, b.Gather(b.const(_BYTES), trial, axis=0))
            _, _, order, _ = b.node("Unique", b.Concat(x, probe, axis=0), outputs=4)
            own, other = b.Slice(order, [0], size, [0]), b.Slice(order, size, [np.iinfo(np.int64).max], [0])
            value = b.Where(b.GreaterOrEqual(own, other), trial, value)
        ended = b.Equal(x, before)
        longer = b.StringConcat(before, b.Gather(b.const(_BYTES), value, axis=0))
        return [b.Identity(going), b.Where(ended, before, longer), b.Where(ended, -1, value)]

    _, result = op.Loop(op.const(count), True, op.Expand(cutting.blank(op), size), body=op.body(step), outputs=2)
    return op.typed(result, _INT, [count, None])


def sizes(op: OpBuilder, code: ir.Value) -> ir.Value:
    """How many bytes characters have in UTF-8; 0 of a negative code."""
    steps = [op.cast(op.GreaterOrEqual(code, least), _INT) for least in (0, 0x80, 0x800, 0x10000)]
    return op.Add(op.Add(steps[0], steps[1]), op.Add(steps[2], steps[3]))


def _parts(op: OpBuilder, code: ir.Value, size: ir.Value) -> ir.Value:
    """The bytes of characters, INT64 [..., 4], 0 behind the last one."""
    number = op.const(np.arange(_LONGEST))
    last = op.axes(-1)
    size = op.Unsqueeze(size, last)
    powers = op.Gather(op.const(64 ** np.arange(_LONGEST)), op.Max(op.Sub(op.Sub(size, 1), number), 0), axis=0)
    shifted = op.Div(op.Max(op.Unsqueeze(code, last), 0), powers)
    first = op.Add(shifted, op.Gather(op.const(_LEADS), size, axis=0))
    part = op.Where(op.Equal(number, 0), first, op.Add(op.Mod(shifted, 64), 128))
    return op.Where(op.Less(number, size), part, 0)


def of_codes(op: OpBuilder, code: ir.Value) -> ir.Value:
    """Strings of one character each, of code points of any shape; the empty string of a negative one."""
    shape = op.shape(code)
    code = op.Reshape(code, [-1])
    letters = op.const(np.array([*map(chr, range(128)), ""], object))
    plain = op.Gather(letters, op.Where(op.Less(code, 0), 128, op.Min(code, 128)), axis=0)

    def with_others(b: OpBuilder) -> list[ir.Value]:
        size = sizes(b, code)
        parts = _parts(b, code, size)
        text = b.Expand(cutting.blank(b), b.shape(code))
        pieces = b.const(np.array([*_BYTES, b""], object))
        for number in range(_LONGEST):
            part = b.Where(b.Less(number, size), b.Gather(parts, np.int64(number), axis=1), 256)
            text = b.StringConcat(text, b.Gather(pieces, part, axis=0))
        return [text]

    return op.Reshape(cutting.changed_if_any(op, op.Greater(code, 127), with_others, plain), shape)


def bytes_of_codes(op: OpBuilder, code: ir.Value) -> Bytes:
    """The bytes in UTF-8 of strings whose characters have some codes, INT64 [N, L], negative where there is none."""
    size = sizes(op, code)

    def wide(b: OpBuilder) -> list[ir.Value]:
        return [_side_by_side(b, _parts(b, code, size), size)]

    result = cutting.changed_if_any(op, op.Reshape(op.Greater(code, 127), [-1]), wide, op.Max(code, 0))
    return Bytes(op.typed(result, _INT, [None, None]), op.reduce("ReduceSum", size, [1], keepdims=False))


def _side_by_side(op: OpBuilder, parts: ir.Value, size: ir.Value) -> ir.Value:
    """Bytes of characters [N, L, 4] of which so many count [N, L], one behind the other, 0 beyond the last, [N, B]."""
    ends = op.CumSum(size, op.const(np.int64(1)))
    room = op.ReduceMax(ends, keepdims=0)
    # what is no byte is laid at the last place of all, which is cut off
    number = op.const(np.arange(_LONGEST))
    target = op.Add(op.Unsqueeze(op.Sub(ends, size), op.axes(2)), number)
    target = op.Where(op.Less(number, op.Unsqueeze(size, op.axes(2))), target, room)
    shape = op.Concat(op.dim(size, 0), op.Reshape(op.Add(room, 1), [1]), axis=0)
    nothing = op.Expand(op.const(np.int64(0)), shape)
    count = op.Mul(op.dim(size, 1), _LONGEST)
    flat = op.Concat(op.dim(size, 0), count, axis=0)
    result = op.ScatterElements(nothing, op.Reshape(target, flat), op.Reshape(parts, flat), axis=1)
    return op.Slice(result, [0], op.Reshape(room, [1]), [1])


def bytes_of(op: OpBuilder, x: ir.Value) -> Bytes:
    """The bytes of strings [N] in UTF-8."""
    return bytes_of_codes(op, codes(op, characters(op, x)))


def in_groups(op: OpBuilder, x: ir.Value, size: int) -> ir.Value:
    """Rows [N, M size] in groups [N, M, size], also where there are none."""
    return op.Reshape(x, op.Concat(op.dim(x, 0), op.Div(op.dim(x, 1), size), op.const([size]), axis=0), allowzero=1)


def out_of_groups(op: OpBuilder, x: ir.Value, size: int) -> ir.Value:
    """Groups [N, M, size] as rows [N, M size]."""
    return op.Reshape(x, op.Concat(op.dim(x, 0), op.Mul(op.dim(x, 1), size), axis=0), allowzero=1)


def digits(op: OpBuilder, x: ir.Value) -> Bytes:
    """The bytes of integers [N] written in decimal, as a Cast to strings writes them."""
    x = op.cast(x, _INT)
    low = op.Where(op.Less(x, 0), x, op.Neg(x))  # below zero, where the least of all integers has its place
    powers = np.power(np.int64(10), np.arange(19))
    below = op.cast(op.LessOrEqual(op.Unsqueeze(low, op.axes(1)), op.const(-powers[1:])), _INT)
    count = op.Add(op.reduce("ReduceSum", below, [1], keepdims=True), 1)
    minus = op.cast(op.Unsqueeze(op.Less(x, 0), op.axes(1)), _INT)
    length = op.Add(count, minus)
    number = op.const(np.arange(20))
    power = op.Gather(op.const(powers), op.Min(op.Max(op.Sub(op.Sub(length, 1), number), 0), 18), axis=0)
    rest = op.Div(op.Unsqueeze(low, op.axes(1)), power)
    digit = op.Add(op.Sub(op.Mul(op.Div(rest, 10), 10), rest), ord("0"))
    text = op.Where(op.Less(number, minus), ord("-"), digit)
    text = op.Where(op.Less(number, length), text, 0)
    return Bytes(text, op.Squeeze(length, op.axes(1)), 20)
