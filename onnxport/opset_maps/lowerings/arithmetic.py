"""Elementwise functions that ONNX lacks, composed of its operators."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnxport.graph import schema
from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import log1p

# What operators of numbers are of booleans.
OF_BOOLEANS = {"Mul": "And", "Max": "Or", "Min": "And"}


def false_like(op: OpBuilder, x: ir.Value) -> ir.Value:
    """False for each element of `x`."""
    return op.Xor(x, x) if x.dtype == ir.DataType.BOOL else op.Less(x, x)


def _is_integer(x: ir.Value) -> bool:
    return x.dtype is not None and x.dtype.is_integer()


def square(op: OpBuilder, x: ir.Value) -> ir.Value:
    """x x."""
    return op.Mul(x, x)


def rsqrt(op: OpBuilder, x: ir.Value) -> ir.Value:
    """1 / sqrt(x)."""
    return op.Reciprocal(op.Sqrt(x))


def exp2(op: OpBuilder, x: ir.Value) -> ir.Value:
    """2 to the x."""
    return op.Pow(op.const(2.0, x.dtype), x)


def log(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The logarithm; of Sigmoid(x), which runtimes give as 0 from -18 on (float64: -37), that of 1 / (1 + exp(-x))."""
    node = x.producer()
    given = node.inputs[0] if node is not None and node.op_type == "Sigmoid" else None
    return op.Log(x if given is None else op.Reciprocal(op.Add(op.Exp(op.Neg(given)), 1.0)))


def log2(op: OpBuilder, x: ir.Value) -> ir.Value:
    """log(x) / log(2)."""
    return op.Div(op.Log(x), math.log(2.0))


def log10(op: OpBuilder, x: ir.Value) -> ir.Value:
    """log(x) / log(10)."""
    return op.Div(op.Log(x), math.log(10.0))


def trunc(op: OpBuilder, x: ir.Value) -> ir.Value:
    """x rounded toward zero."""
    if _is_integer(x):
        return x
    return op.Mul(op.Sign(x), op.Floor(op.Abs(x)))


def frac(op: OpBuilder, x: ir.Value) -> ir.Value:
    """What trunc takes away."""
    return op.Sub(x, trunc(op, x))


def silu(op: OpBuilder, x: ir.Value) -> ir.Value:
    """x sigmoid(x); Swish from opset 24."""
    if op.opset >= 24:
        return op.Swish(x)
    return op.Mul(x, op.Sigmoid(x))


def log_sigmoid(op: OpBuilder, x: ir.Value) -> ir.Value:
    """-softplus(-x)."""
    return op.Neg(op.Softplus(op.Neg(x)))


def relu6(op: OpBuilder, x: ir.Value) -> ir.Value:
    """min(max(x, 0), 6)."""
    return op.Clip(x, op.const(0.0, x.dtype), op.const(6.0, x.dtype))


def isnan(op: OpBuilder, x: ir.Value) -> ir.Value:
    """No number, which of whole numbers none is."""
    return op.IsNaN(x) if x.dtype is None or x.dtype.is_floating_point() else false_like(op, x)


def bitwise(op: OpBuilder, operator: str, *values: ir.Value) -> ir.Value:
    """And, Or, Xor or Not of booleans; of the bits of integers BitwiseAnd and so on, BitwiseNot before opset 18 as -1 - x."""
    dtype = values[0].dtype
    if dtype == ir.DataType.BOOL:
        result: ir.Value = op.node(operator, *values)
        return result
    if operator == "Not" and op.opset < 18:
        return op.Sub(op.const(-1, dtype), values[0])
    of_bits: ir.Value = op.node(f"Bitwise{operator}", *values)
    return of_bits


def isinf(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Infinite of either sign."""
    if not (x.dtype and x.dtype.is_floating_point()):
        return op.And(op.Equal(x, x), False)
    if x.dtype in schema.allowed_dtypes("", "IsInf", op.opset):
        return op.IsInf(x)
    return op.IsInf(op.cast(x, ir.DataType.FLOAT))


def isfinite(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Neither infinite nor NaN."""
    if not (x.dtype and x.dtype.is_floating_point()):
        return op.Equal(x, x)
    return op.Not(op.Or(isinf(op, x), op.IsNaN(x)))


def not_equal(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """not a = b."""
    return op.Not(op.Equal(a, b))


def power(op: OpBuilder, base: ir.Value, exponent: ir.Value) -> ir.Value:
    """Pow; of integers by products that wrap around, since runtimes take powers in double."""
    return integer_power(op, base, exponent) if _is_integer(base) else op.Pow(base, exponent)


def integer_power(op: OpBuilder, base: ir.Value, exponent: ir.Value) -> ir.Value:
    """The power of integers of one type by squaring, which wraps around. Below 0 only that of 1 or -1 is not 0."""
    dtype = base.dtype or ir.DataType.INT64
    wide = ir.DataType.INT64 if dtype.bitwidth > 32 or dtype == ir.DataType.UINT32 else ir.DataType.INT32
    x, e = op.cast(base, wide), op.cast(exponent, wide)
    nothing = op.Add(op.Sub(x, x), op.Sub(e, e))  # of the result's shape
    size = op.node("Max", e, op.const(0, wide))
    states = (op.Add(nothing, 1), op.Add(nothing, x), op.Add(nothing, size))
    known = op.constant(exponent)
    if known is not None or dtype.bitwidth <= 16:
        bits = dtype.bitwidth - int(dtype.is_signed())
        for _ in range(bits if known is None else max(int(known.max(initial=0)), 0).bit_length()):
            states = _squared(op, states)
        result = states[0]
    else:
        result = _squared_while(op, states)
    if not dtype.is_signed() or (known is not None and known.min(initial=0) >= 0):
        return op.cast(result, dtype)
    odd, one = op.Equal(op.Mod(op.Abs(e), 2), 1), op.const(1, wide)
    below = op.Where(op.Or(op.Equal(x, 1), op.And(op.Equal(x, -1), op.Not(odd))), one, 0)
    below = op.Where(op.And(op.Equal(x, -1), odd), op.const(-1, wide), below)
    return op.cast(op.Where(op.Less(e, 0), below, result), dtype)


_Powers = tuple[
    ir.Value, ir.Value, ir.Value
]  # the product so far, the factor of the next bit, what is left of the exponent


def _squared(op: OpBuilder, states: _Powers) -> _Powers:
    result, factor, size = states
    half = op.Div(size, 2)
    even = op.Equal(size, op.Mul(half, 2))
    return op.Mul(result, op.Where(even, op.const(1, result.dtype), factor)), op.Mul(factor, factor), half


def _squared_while(op: OpBuilder, states: _Powers) -> ir.Value:
    """The power of exponents that are only known when the model runs, as long as one of them has bits left."""

    def left(b: OpBuilder, size: ir.Value) -> ir.Value:
        every = b.Concat(b.Reshape(size, [-1]), b.const(np.zeros(1), size.dtype), axis=0)
        return b.Greater(b.reduce("ReduceMax", every, [0], keepdims=False), 0)

    def step(b: OpBuilder) -> list[ir.Value]:
        b.input("k", ir.DataType.INT64, [])
        b.input("going", ir.DataType.BOOL, [])
        before = [b.input("state", item.dtype or ir.DataType.INT64, item.shape) for item in states]
        after = _squared(b, (before[0], before[1], before[2]))
        return [left(b, after[2]), *after]

    result: ir.Value = op.Loop(None, left(op, states[2]), *states, body=op.body(step), outputs=3)[0]
    result.shape = states[0].shape
    return result


def real_div(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """a / b of floating-point operands; by a constant as a product, which is what TensorFlow makes of it in a graph."""
    divisor = op.constant(b)
    # Of two constants TensorFlow computes the quotient: 10 / (10 / 12) is 12, and with a product 11.999999.
    if divisor is not None and divisor.dtype.kind == "f" and op.constant(a) is None:
        with np.errstate(all="ignore"):
            inverse = (1 / divisor).astype(divisor.dtype)
        least = np.finfo(divisor.dtype).tiny
        if np.all(np.isfinite(inverse) & (np.abs(inverse) >= least) & (np.abs(divisor) >= least)):
            return op.Mul(a, op.const(inverse))
    return op.Div(a, b)


def floor_div(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Python's //: the quotient rounded toward minus infinity, computed through the exact remainder.

    Source: CPython's float_floor_div, which NumPy and PyTorch follow: 1.0 // 0.1 is 9, though 1.0 / 0.1 rounds to 10.
    """
    if _is_integer(a):
        return _integer_floor_div(op, a, b)
    remainder = op.Mod(a, b, fmod=1)
    quotient = op.Div(op.Sub(a, remainder), b)
    wrong_side = op.And(op.Not(op.Equal(remainder, 0.0)), op.Less(op.Mul(op.Sign(remainder), op.Sign(b)), 0.0))
    quotient = op.Where(wrong_side, op.Sub(quotient, 1.0), quotient)
    floor = op.Floor(quotient)
    floor = op.Where(op.Greater(op.Sub(quotient, floor), 0.5), op.Add(floor, 1.0), floor)
    return op.Where(op.Equal(b, 0.0), op.Div(a, b), floor)


def floor_quotient(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """floor(a / b), TensorFlow's //; ONNX's own integer division rounds toward zero."""
    return _integer_floor_div(op, a, b) if _is_integer(a) else of_quotient(op, a, b, lambda x: op.Floor(x))


def of_quotient(op: OpBuilder, a: ir.Value, b: ir.Value, rounding: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """A quotient rounded to its type and then to a whole number: runtimes keep float16 in float32 from one node to the next."""
    if a.dtype != ir.DataType.FLOAT16:
        return rounding(op.Div(a, b))
    wide = ir.DataType.FLOAT
    quotient = op.cast(op.Div(op.cast(a, wide), op.cast(b, wide)), ir.DataType.FLOAT16)
    return op.cast(rounding(op.cast(quotient, wide)), ir.DataType.FLOAT16)


def _integer_floor_div(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    quotient = op.Div(a, b)
    if not (a.dtype and a.dtype.is_signed()):
        return quotient
    remainder = op.Sub(a, op.Mul(quotient, b))
    wrong_side = op.And(op.Not(op.Equal(remainder, 0)), op.Xor(op.Less(remainder, 0), op.Less(b, 0)))
    return op.Sub(quotient, op.cast_like(wrong_side, a))


def floor_mod(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """The remainder with the sign of the divisor (Python's %)."""
    if _is_integer(a):
        return op.Mod(a, b)
    remainder = op.Mod(a, b, fmod=1)
    wrong_side = op.And(op.Not(op.Equal(remainder, 0.0)), op.Less(op.Mul(op.Sign(remainder), op.Sign(b)), 0.0))
    return op.Where(wrong_side, op.Add(remainder, b), remainder)


def trunc_mod(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """The remainder with the sign of the dividend (C's fmod)."""
    return op.Sub(a, op.Mul(op.Div(a, b), b)) if a.dtype == ir.DataType.INT64 else op.Mod(a, b, fmod=1)


def is_negative(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Negative, the negative zero included: 1/x tells the two zeros apart."""
    return op.Or(op.Less(x, 0.0), op.Less(op.Reciprocal(x), 0.0))


def squared_difference(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """(a - b)(a - b)."""
    return square(op, op.Sub(a, b))


def xlogy(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x log(y), 0 where x is 0 and y is a number."""
    zero = op.And(op.Equal(x, 0.0), op.Not(op.IsNaN(y)))
    return op.Where(zero, op.const(0.0, x.dtype), op.Mul(x, op.Log(y)))


def div_no_nan(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """a / b, 0 where b is 0."""
    zero = op.Equal(b, 0.0)
    return op.Where(zero, op.const(0.0, a.dtype), op.Div(a, op.Where(zero, op.const(1.0, a.dtype), b)))


def hypot(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """sqrt(a a + b b), scaled by the larger operand so that squares do not overflow; infinite where an operand is."""
    large, small = op.Max(op.Abs(a), op.Abs(b)), op.Min(op.Abs(a), op.Abs(b))
    zero = op.Equal(large, 0.0)
    ratio = op.Div(small, op.Where(zero, op.const(1.0, a.dtype), large))
    length = op.Mul(large, op.Sqrt(op.Add(op.Mul(ratio, ratio), 1.0)))
    infinite = op.Or(isinf(op, a), isinf(op, b))
    return op.Where(infinite, op.const(math.inf, a.dtype), length)


def fmax(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """The greater one; of a number and NaN the number."""
    return _extreme_number(op, "Max", a, b)


def fmin(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """The lesser one; of a number and NaN the number."""
    return _extreme_number(op, "Min", a, b)


def _extreme_number(op: OpBuilder, operator: str, a: ir.Value, b: ir.Value) -> ir.Value:
    if a.dtype == ir.DataType.BOOL:
        return op.node(OF_BOOLEANS[operator], a, b)
    if _is_integer(a):
        return op.node(operator, a, b)
    return op.Where(op.IsNaN(a), b, op.Where(op.IsNaN(b), a, op.node(operator, a, b)))


def logaddexp(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """log(exp(a) + exp(b)) from the larger operand: max + log1p(exp(-|a - b|)); equal infinities stay."""
    large = op.Max(a, b)
    same = op.Equal(a, b)
    gap = op.Where(same, op.const(0.0, a.dtype), op.Neg(op.Abs(op.Sub(a, b))))
    return op.Add(large, log1p(op, op.Exp(gap)))


def next_single(op: OpBuilder, x: ir.Value, towards: ir.Value) -> ir.Value:
    """The float32 number after `x` in the direction of another.

    A step of a little more than |x| 2^-24 in double, or of three quarters of the least number, rounds to the neighbour: it is
    more than half of the distance to it and less than one and a half (IEEE 754-2019, 5.3.1, nextUp).
    """
    wide, goal = op.cast(x, ir.DataType.DOUBLE), op.cast(towards, ir.DataType.DOUBLE)
    step = op.Max(op.Mul(op.Abs(wide), 2.0**-24 * (1 + 2.0**-20)), op.const(0.75 * 2.0**-149, ir.DataType.DOUBLE))
    moved = op.cast(op.Add(wide, op.Mul(op.Sign(op.Sub(goal, wide)), step)), ir.DataType.FLOAT)
    largest = op.Mul(op.Sign(x), op.const(np.finfo(np.float32).max))
    result = op.Where(op.And(isinf(op, x), op.Not(op.Equal(x, towards))), largest, moved)
    unknown = op.Or(op.IsNaN(x), op.IsNaN(towards))
    return op.Where(unknown, op.const(np.nan, ir.DataType.FLOAT), op.Where(op.Equal(x, towards), towards, result))


def shift_left(op: OpBuilder, x: ir.Value, count: ir.Value) -> ir.Value:
    """x shifted by `count` bits, both INT64: ONNX's BitShift takes unsigned integers only."""
    inside = op.And(op.GreaterOrEqual(count, 0), op.Less(count, 64))
    return op.Where(inside, op.Mul(x, _powers_of_two(op, count)), op.const(0, ir.DataType.INT64))


def shift_right(op: OpBuilder, x: ir.Value, count: ir.Value) -> ir.Value:
    """x shifted to the right by `count` bits, both INT64, the sign kept: a quotient rounded down."""
    integer = ir.DataType.INT64
    inside = op.And(op.GreaterOrEqual(count, 0), op.Less(count, 63))
    sign = op.Where(op.Less(x, 0), op.const(-1, integer), op.const(0, integer))
    divisor = _powers_of_two(op, op.Where(inside, count, op.const(0, integer)))
    return op.Where(inside, floor_div(op, x, divisor), sign)


def _powers_of_two(op: OpBuilder, count: ir.Value) -> ir.Value:
    """2 to the `count` for counts of 0 to 63, the last of which is the sign bit of INT64."""
    table = [1 << k if k < 63 else -(1 << 63) for k in range(64)]
    return op.Gather(op.const(np.asarray(table, np.int64)), op.Clip(count, 0, 63), axis=0)
