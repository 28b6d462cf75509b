"""The bits of numbers, by arithmetic: ONNX has an operator for them from opset 26 on, between types of one width.

Bits are words of at most 32 bits, each an INT64 number of at least 0, the low one first. Formats: IEEE 754-2019, section 3.4;
bfloat16 is the upper half of a float32.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.arithmetic import is_negative, isinf
from onnxport.opset_maps.lowerings.axes import rank

_DOUBLE, _INT64 = ir.DataType.DOUBLE, ir.DataType.INT64
_WORD = 32
# Bits of the exponent and of the fraction.
_FORMATS = {
    ir.DataType.FLOAT16: (5, 10),
    ir.DataType.BFLOAT16: (8, 7),
    ir.DataType.FLOAT: (8, 23),
    ir.DataType.DOUBLE: (11, 52),
}


def _two_to(op: OpBuilder, exponent: ir.Value) -> ir.Value:
    return op.Pow(op.const(2.0, _DOUBLE), exponent)


def _fraction_and_exponent(op: OpBuilder, x: ir.Value, least: int) -> tuple[ir.Value, ir.Value]:
    """m and e with |x| = m 2^e, m in [1, 2), or e = `least` and m below 1; of finite numbers in double."""
    size = op.Abs(x)
    small = op.Less(size, 2.0**-1000)  # so that no power below is beyond the numbers of double
    size = op.Where(small, op.Mul(size, 2.0**100), size)
    guess = op.Floor(op.Div(op.Log(op.Where(op.Equal(size, 0.0), op.const(1.0, _DOUBLE), size)), math.log(2.0)))
    guess = op.Where(op.Less(size, _two_to(op, guess)), op.Sub(guess, 1.0), guess)
    guess = op.Where(op.GreaterOrEqual(size, _two_to(op, op.Add(guess, 1.0))), op.Add(guess, 1.0), guess)
    shift = op.Where(small, op.const(100.0, _DOUBLE), op.const(0.0, _DOUBLE))
    least_here = op.Add(shift, float(least))
    exponent = op.Where(op.Equal(size, 0.0), least_here, op.Max(guess, least_here))
    # In two steps: one power alone may be beyond the numbers of double.
    half = op.Floor(op.Mul(exponent, 0.5))
    fraction = op.Div(op.Div(size, _two_to(op, half)), _two_to(op, op.Sub(exponent, half)))
    return fraction, op.Sub(exponent, shift)


def _words_of_float(op: OpBuilder, x: ir.Value, dtype: ir.DataType) -> list[ir.Value]:
    width, digits = _FORMATS[dtype]
    bias = 2 ** (width - 1) - 1
    wide = op.cast(op.cast(x, ir.DataType.FLOAT) if dtype == ir.DataType.BFLOAT16 else x, _DOUBLE)
    infinite, unknown = isinf(op, wide), op.IsNaN(wide)
    special = op.Or(infinite, unknown)
    finite = op.Where(special, op.const(0.0, _DOUBLE), wide)
    fraction, exponent = _fraction_and_exponent(op, finite, 1 - bias)
    normal = op.GreaterOrEqual(fraction, 1.0)
    digits_of = op.cast(
        op.Mul(op.Where(normal, op.Sub(fraction, 1.0), fraction), op.const(2.0**digits, _DOUBLE)), _INT64
    )
    biased = op.Where(normal, op.cast(op.Add(exponent, float(bias)), _INT64), op.const(0))
    biased = op.Where(special, op.const(2**width - 1), biased)
    digits_of = op.Where(unknown, op.const(2 ** (digits - 1)), op.Where(infinite, op.const(0), digits_of))
    sign = op.cast(is_negative(op, op.Where(unknown, op.const(1.0, _DOUBLE), wide)), _INT64)
    head = op.Add(op.Mul(sign, 2**width), biased)
    if dtype != _DOUBLE:
        return [op.Add(op.Mul(head, 2**digits), digits_of)]
    high = op.Div(digits_of, 2**_WORD)
    return [op.Sub(digits_of, op.Mul(high, 2**_WORD)), op.Add(op.Mul(head, 2 ** (digits - _WORD)), high)]


def _words_of(op: OpBuilder, x: ir.Value, dtype: ir.DataType) -> list[ir.Value]:
    if dtype in _FORMATS:
        return _words_of_float(op, x, dtype)
    if not dtype.is_integer():
        raise UnsupportedOperator(f"the bits of {dtype}")
    width = int(dtype.bitwidth)
    number = op.cast(x, _INT64)  # of UINT64 too: a cast keeps the bits
    if width <= _WORD:
        return [op.Mod(number, 2**width)]
    low = op.Mod(number, 2**_WORD)
    return [low, op.Mod(op.Div(op.Sub(number, low), 2**_WORD), 2**_WORD)]


def _float_of(op: OpBuilder, words: list[ir.Value], dtype: ir.DataType) -> ir.Value:
    width, digits = _FORMATS[dtype]
    bias = 2 ** (width - 1) - 1
    high_digits = digits - _WORD if dtype == _DOUBLE else digits
    head, high = op.Div(words[-1], 2**high_digits), op.Mod(words[-1], 2**high_digits)
    low = words[0] if dtype == _DOUBLE else None
    tail = high if low is None else op.Add(op.Mul(high, 2**_WORD), low)
    biased = op.cast(op.Mod(head, 2**width), _DOUBLE)
    fraction = op.Mul(op.cast(tail, _DOUBLE), op.const(2.0**-digits, _DOUBLE))
    normal = op.Greater(biased, 0.0)
    exponent = op.Sub(op.Max(biased, 1.0), float(bias))
    half = op.Floor(op.Mul(exponent, 0.5))
    size = op.Add(fraction, op.cast(normal, _DOUBLE))
    size = op.Mul(op.Mul(size, _two_to(op, half)), _two_to(op, op.Sub(exponent, half)))
    special = op.Equal(biased, float(2**width - 1))
    infinity, nan = (op.const(item, _DOUBLE) for item in (math.inf, math.nan))
    size = op.Where(special, op.Where(op.Equal(tail, 0), infinity, nan), size)
    result = op.Where(op.Equal(op.Div(head, 2**width), 0), size, op.Neg(size))
    return op.cast(op.cast(result, ir.DataType.FLOAT) if dtype == ir.DataType.BFLOAT16 else result, dtype)


def _number_of(op: OpBuilder, words: list[ir.Value], dtype: ir.DataType) -> ir.Value:
    if dtype in _FORMATS:
        return _float_of(op, words, dtype)
    if not dtype.is_integer():
        raise UnsupportedOperator(f"the bits of {dtype}")
    width = int(dtype.bitwidth)
    if width > _WORD:
        high = op.Where(op.GreaterOrEqual(words[1], 2**31), op.Sub(words[1], 2**_WORD), words[1])
        return op.cast(op.Add(op.Mul(high, 2**_WORD), words[0]), dtype)
    if dtype.is_signed():
        half = 2 ** (width - 1)
        return op.cast(op.Where(op.GreaterOrEqual(words[0], half), op.Sub(words[0], 2 * half), words[0]), dtype)
    return op.cast(words[0], dtype)


def bitcast(op: OpBuilder, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    """The bits of `x` as numbers of another type: of a narrower one along a new last axis, of a wider one from a whole last axis.

    Raises:
        UnsupportedOperator: a type whose bits have no arithmetic.
    """
    source = x.dtype or dtype
    if source == dtype:
        return x
    before, after = int(source.bitwidth), int(dtype.bitwidth)
    same = before == after
    if same and source.is_integer() and dtype.is_integer():
        return op.cast(x, dtype)
    if same and op.opset >= 26:
        return op.BitCast(x, to=int(dtype))
    words = _words_of(op, x, source)
    unit = min(before, after, _WORD)
    pieces = _pieces(op, words, min(before, _WORD), unit)
    n = rank(x)
    if after < before:
        numbers = [
            _number_of(op, pieces[i : i + max(after // unit, 1)], dtype) for i in range(0, len(pieces), after // unit)
        ]
        return op.Concat(*[op.Unsqueeze(item, op.axes(n)) for item in numbers], axis=n)
    if same:
        return _number_of(op, pieces, dtype)
    parts = [op.Gather(item, i, axis=-1) for i in range(after // before) for item in pieces]
    return _number_of(op, _joined(op, parts, unit, min(after, _WORD)), dtype)


def _pieces(op: OpBuilder, words: list[ir.Value], width: int, unit: int) -> list[ir.Value]:
    """Words of `width` bits cut into pieces of `unit` bits."""
    if width == unit:
        return words
    return [op.Mod(op.Div(word, 2**start), 2**unit) for word in words for start in range(0, width, unit)]


def _joined(op: OpBuilder, pieces: list[ir.Value], unit: int, width: int) -> list[ir.Value]:
    """Pieces of `unit` bits put together to words of `width` bits."""
    count = width // unit
    words = []
    for start in range(0, len(pieces), count):
        word = pieces[start]
        for i in range(1, count):
            word = op.Add(word, op.Mul(pieces[start + i], 2 ** (unit * i)))
        words.append(word)
    return words


def next_double(op: OpBuilder, x: ir.Value, towards: ir.Value) -> ir.Value:
    """The float64 number after `x` in the direction of another.

    Source: Rump, Zimmermann, Boldo and Melquiond, "Computing predecessor and successor in rounding to nearest", BIT 49, 2009,
    algorithm 2: a step of a little more than half a unit, of the least number below the normal ones, scaled in between.
    """
    unit, least = 2.0**-53, 2.0**-1074
    share = unit * (1 + 4 * unit)
    size = op.Abs(x)
    large, tiny = op.GreaterOrEqual(size, 2.0**-1019), op.Less(size, 2.0**-1021)
    up = op.Where(op.Greater(towards, x), op.const(1.0, _DOUBLE), op.const(-1.0, _DOUBLE))
    stepped = op.Add(x, op.Mul(up, op.Mul(size, share)))
    # Neighbours of the numbers below 2^-1021 are one least number away.
    near = op.Add(x, op.Mul(up, op.const(least, _DOUBLE)))
    scaled = op.Mul(x, 2.0**53)
    between = op.Mul(op.Add(scaled, op.Mul(up, op.Mul(op.Abs(scaled), share))), unit)
    moved = op.Where(tiny, near, op.Where(large, stepped, between))
    largest = op.Mul(op.Sign(x), op.const(np.finfo(np.float64).max))
    result = op.Where(op.And(isinf(op, x), op.Not(op.Equal(x, towards))), largest, moved)
    unknown = op.Or(op.IsNaN(x), op.IsNaN(towards))
    return op.Where(unknown, op.const(np.nan, _DOUBLE), op.Where(op.Equal(x, towards), towards, result))
