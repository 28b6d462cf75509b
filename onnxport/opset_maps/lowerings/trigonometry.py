"""Trigonometric and hyperbolic functions that runtimes have in float32 only, composed of what they have in float64 too."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from onnxport.graph import compositions
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.arithmetic import is_negative, isinf, square
from onnxport.opset_maps.lowerings.special import erf

_FLOAT, _DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
# From here on 1 + x x is x x.
_LARGE = 1e9
# From here on exp(-x) is no part of exp(x) + exp(-x).
_ALONE = 22.0


def tan(op: OpBuilder, x: ir.Value) -> ir.Value:
    """sin(x) / cos(x)."""
    return op.Div(op.Sin(x), op.Cos(x))


def atan(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Float32's angle y and what it lacks, whose tangent is (x cos y - sin y) / (cos y + x sin y).

    The addition theorem of the tangent (DLMF 4.21.2); a tangent of 1e-7 is its own angle to the last digit.
    """
    near = op.cast(op.Atan(op.cast(x, _FLOAT)), _DOUBLE)
    sine, cosine = op.Sin(near), op.Cos(near)
    rest = op.Div(op.Sub(op.Mul(x, cosine), sine), op.Add(cosine, op.Mul(x, sine)))
    end = op.Mul(op.Sign(x), math.pi / 2)
    return op.Where(isinf(op, x), end, op.Add(near, rest))


def atan2(op: OpBuilder, y: ir.Value, x: ir.Value) -> ir.Value:
    """The angle of the point (x, y), in [-pi, pi], with C's conventions for zeros and infinities of either sign.

    The angle of the first quadrant, atan(|y| / |x|), is mirrored by the signs of x and y (C standard, annex F.10.1.4).
    """
    height, width = op.Abs(y), op.Abs(x)
    one = op.const(1.0, x.dtype)
    both_infinite = op.And(isinf(op, y), isinf(op, x))
    ratio = op.Div(op.Where(both_infinite, one, height), op.Where(both_infinite, one, width))
    origin = op.And(op.Equal(height, 0.0), op.Equal(width, 0.0))
    tangent = op.Where(origin, op.const(0.0, x.dtype), ratio)
    angle = atan(op, tangent) if x.dtype == ir.DataType.DOUBLE else op.Atan(tangent)
    angle = op.Where(is_negative(op, x), op.Sub(op.const(math.pi, x.dtype), angle), angle)
    return op.Where(is_negative(op, y), op.Neg(angle), angle)


def asin(op: OpBuilder, x: ir.Value) -> ir.Value:
    """atan(x / sqrt((1 - x) (1 + x)))."""
    return atan(op, op.Div(x, op.Sqrt(op.Mul(op.Sub(1.0, x), op.Add(x, 1.0)))))


def acos(op: OpBuilder, x: ir.Value) -> ir.Value:
    """2 atan(sqrt((1 - x) / (1 + x)))."""
    return op.Mul(atan(op, op.Sqrt(op.Div(op.Sub(1.0, x), op.Add(x, 1.0)))), 2.0)


def sinh(op: OpBuilder, x: ir.Value) -> ir.Value:
    """sign(x) (u + u / (u + 1)) / 2 with u = expm1(|x|)."""
    a = op.Abs(x)
    u = compositions.expm1(op, op.Min(a, op.const(_ALONE, x.dtype)))
    result = op.Mul(op.Add(u, op.Div(u, op.Add(u, 1.0))), 0.5)
    result = op.Mul(op.Sign(x), op.Where(op.Greater(a, _ALONE), _half_of_exp(op, a), result))
    return op.Where(op.Equal(x, 0.0), x, result)


def cosh(op: OpBuilder, x: ir.Value) -> ir.Value:
    """(e + 1 / e) / 2 with e = exp(|x|)."""
    a = op.Abs(x)
    e = op.Exp(op.Min(a, op.const(_ALONE, x.dtype)))
    result = op.Mul(op.Add(e, op.Reciprocal(e)), 0.5)
    return op.Where(op.Greater(a, _ALONE), _half_of_exp(op, a), result)


def _half_of_exp(op: OpBuilder, x: ir.Value) -> ir.Value:
    """exp(x) / 2, also where exp(x) itself is beyond the type."""
    root = op.Exp(op.Mul(x, 0.5))
    return op.Mul(op.Mul(root, 0.5), root)


def asinh(op: OpBuilder, x: ir.Value) -> ir.Value:
    """sign(x) log1p(a + a a / (1 + sqrt(1 + a a))) with a = |x|; of a large one log(2 a)."""
    a = op.Abs(x)
    large = op.Greater(a, _LARGE)
    squared = square(op, op.Where(large, op.const(1.0, x.dtype), a))
    rest = op.Div(squared, op.Add(op.Sqrt(op.Add(squared, 1.0)), 1.0))
    result = op.Where(large, _log_of_twice(op, a), compositions.log1p(op, op.Add(a, rest)))
    return op.Where(op.Equal(x, 0.0), x, op.Mul(op.Sign(x), result))


def acosh(op: OpBuilder, x: ir.Value) -> ir.Value:
    """log1p(t + sqrt(t (t + 2))) with t = x - 1; of a large x log(2 x), NaN below 1."""
    large = op.Greater(x, _LARGE)
    t = op.Sub(op.Where(large, op.const(1.0, x.dtype), x), 1.0)
    result = op.Where(
        large, _log_of_twice(op, x), compositions.log1p(op, op.Add(t, op.Sqrt(op.Mul(t, op.Add(t, 2.0)))))
    )
    return op.Where(op.Less(x, 1.0), op.const(math.nan, x.dtype), result)


def atanh(op: OpBuilder, x: ir.Value) -> ir.Value:
    """sign(x) log1p(2 a / (1 - a)) / 2 with a = |x|."""
    a = op.Abs(x)
    result = compositions.log1p(op, op.Div(op.Add(a, a), op.Sub(1.0, a)))
    return op.Where(op.Equal(x, 0.0), x, op.Mul(op.Sign(x), op.Mul(result, 0.5)))


def log_softmax(op: OpBuilder, x: ir.Value, axis: int) -> ir.Value:
    """LogSoftmax; of float64, where runtimes' gives numbers for NaN, x - m less its log-sum-exp, m the greatest x."""
    if x.dtype != _DOUBLE:
        return op.LogSoftmax(x, axis=axis)
    gap = op.Sub(x, op.reduce("ReduceMax", x, [axis], keepdims=True))
    return op.Sub(gap, op.reduce("ReduceLogSumExp", gap, [axis], keepdims=True))


def _log_of_twice(op: OpBuilder, x: ir.Value) -> ir.Value:
    return op.Add(op.Log(x), math.log(2.0))


# By the name of ONNX's operator.
COMPOSED: dict[str, Callable[[OpBuilder, ir.Value], ir.Value]] = {
    "Acos": acos,
    "Acosh": acosh,
    "Asin": asin,
    "Asinh": asinh,
    "Atan": atan,
    "Atanh": atanh,
    "Cosh": cosh,
    "Erf": erf,
    "Sinh": sinh,
    "Tan": tan,
}
