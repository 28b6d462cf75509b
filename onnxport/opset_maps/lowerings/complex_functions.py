"""Elementary functions of complex numbers, by their real and imaginary part.

They are computed in double precision, whatever the type of the parts. Sources: the NIST Digital Library of Mathematical Functions
(DLMF, https://dlmf.nist.gov), section 4.21 and 4.35 for sines and cosines of sums; W. Kahan, "Branch cuts for complex elementary
functions", 1987, for inverse functions, whose branch cuts are those of C99.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import expm1 as real_expm1
from onnxport.graph.compositions import log1p as real_log1p
from onnxport.opset_maps.lowerings import complex_numbers, trigonometry
from onnxport.opset_maps.lowerings.arithmetic import hypot, is_negative, isinf
from onnxport.opset_maps.lowerings.complex_numbers import Parts, joined, parts_of
from onnxport.opset_maps.lowerings.special import constant

_DOUBLE = ir.DataType.DOUBLE
OfParts = Callable[[OpBuilder, ir.Value, ir.Value], Parts]


def of_pair(function: OfParts) -> Callable[[OpBuilder, ir.Value], ir.Value]:
    """`function` of the parts in double precision, as a function of a pair."""

    @wraps(function)
    def wrapped(op: OpBuilder, z: ir.Value) -> ir.Value:
        return op.cast_like(joined(op, *function(op, *parts_of(op, op.cast(z, _DOUBLE)))), z)

    return wrapped


def of_pairs(
    function: Callable[[OpBuilder, Parts, Parts], Parts],
) -> Callable[[OpBuilder, ir.Value, ir.Value], ir.Value]:
    """`function` of the parts of two operands in double precision, as a function of pairs."""

    @wraps(function)
    def wrapped(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        wide = [parts_of(op, op.cast(item, _DOUBLE)) for item in (x, y)]
        return op.cast_like(joined(op, *function(op, *wide)), x)

    return wrapped


def times(op: OpBuilder, x: Parts, y: Parts) -> Parts:
    """The product."""
    (a, b), (c, d) = x, y
    return op.Sub(op.Mul(a, c), op.Mul(b, d)), op.Add(op.Mul(a, d), op.Mul(b, c))


def exp(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """The exponential; 0 of a real part of minus infinity, whatever the angle."""
    modulus = op.Exp(a)
    nothing = op.Equal(modulus, 0.0)
    angle = op.Where(nothing, constant(op, 0.0), b)
    return op.Mul(modulus, op.Cos(angle)), op.Mul(modulus, op.Sin(angle))


def log(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """The logarithm of the modulus, and the angle; near modulus 1 by log1p of (|a| - 1)(|a| + 1) + b b."""
    modulus = hypot(op, a, b)
    large, small = op.Max(op.Abs(a), op.Abs(b)), op.Min(op.Abs(a), op.Abs(b))
    near = op.And(op.Greater(modulus, 0.5), op.Less(modulus, 2.0))
    excess = op.Add(op.Mul(op.Sub(large, 1.0), op.Add(large, 1.0)), op.Mul(small, small))
    close = op.Mul(real_log1p(op, op.Where(near, excess, constant(op, 0.0))), 0.5)
    return op.Where(near, close, op.Log(modulus)), trigonometry.atan2(op, b, a)


def log1p(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """log(1 + z): half of log1p of 2 a + a a + b b, and the angle of 1 + z."""
    near = op.Less(hypot(op, a, b), 0.5)
    excess = op.Add(op.Mul(a, op.Add(a, 2.0)), op.Mul(b, b))
    close = op.Mul(real_log1p(op, op.Where(near, excess, constant(op, 0.0))), 0.5)
    real, angle = log(op, op.Add(a, 1.0), b)
    return op.Where(near, close, real), angle


def expm1(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """The exponential less 1: m cos b - 2 sin(b / 2)^2, m that of a."""
    half = op.Sin(op.Mul(b, 0.5))
    real = op.Sub(op.Mul(real_expm1(op, a), op.Cos(b)), op.Mul(op.Mul(half, half), 2.0))
    return real, op.Mul(op.Exp(a), op.Sin(b))


def sqrt(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """The root with a real part of at least 0: r with r r = (|z| + |a|) / 2, and |b| / (2 r)."""
    infinite = op.Or(isinf(op, a), isinf(op, b))
    modulus = hypot(op, a, b)
    # Half of each, so that the sum of two large numbers stays finite.
    large = op.Sqrt(op.Add(op.Mul(modulus, 0.5), op.Mul(op.Abs(a), 0.5)))
    zero = op.Equal(large, 0.0)
    small = op.Div(op.Abs(b), op.Mul(op.Where(zero, constant(op, 1.0), large), 2.0))
    small = op.Where(infinite, op.Where(isinf(op, b), constant(op, math.inf), constant(op, 0.0)), small)
    left = op.And(op.Less(a, 0.0), op.Not(isinf(op, b)))
    real, imaginary = op.Where(left, small, large), op.Where(left, large, small)
    return real, op.Where(is_negative(op, b), op.Neg(imaginary), imaginary)


def sin(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """sin a cosh b + i cos a sinh b (DLMF 4.21.37)."""
    return op.Mul(op.Sin(a), trigonometry.cosh(op, b)), op.Mul(op.Cos(a), trigonometry.sinh(op, b))


def cos(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """cos a cosh b - i sin a sinh b (DLMF 4.21.38)."""
    return op.Mul(op.Cos(a), trigonometry.cosh(op, b)), op.Neg(op.Mul(op.Sin(a), trigonometry.sinh(op, b)))


def tanh(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """(h (1 + t t) + i t / cosh(a)^2) / (1 + h h t t) with h = tanh a and t = tan b (DLMF 4.35.36, divided by cosines)."""
    h, t = op.Tanh(a), trigonometry.tan(op, b)
    # Of a large argument cosh is infinite and its reciprocal 0.
    inverse = op.Reciprocal(trigonometry.cosh(op, a))
    squared = op.Mul(t, t)
    below = op.Add(op.Mul(op.Mul(h, h), squared), 1.0)
    return op.Div(op.Mul(h, op.Add(squared, 1.0)), below), op.Div(op.Mul(t, op.Mul(inverse, inverse)), below)


def asin(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """atan2(a, Re(u v)) + i asinh(Im(conj(u) v)) with u = sqrt(1 - z) and v = sqrt(1 + z) (Kahan)."""
    u, v = _roots(op, a, b)
    real, _ = times(op, u, v)
    _, imaginary = times(op, (u[0], op.Neg(u[1])), v)
    return trigonometry.atan2(op, a, real), trigonometry.asinh(op, imaginary)


def acos(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """2 atan2(Re u, Re v) + i asinh(Im(conj(v) u)) with u = sqrt(1 - z) and v = sqrt(1 + z) (Kahan)."""
    u, v = _roots(op, a, b)
    _, imaginary = times(op, (v[0], op.Neg(v[1])), u)
    return op.Mul(trigonometry.atan2(op, u[0], v[0]), 2.0), trigonometry.asinh(op, imaginary)


def acosh(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """asinh(Re(conj(u) v)) + 2 i atan2(Im u, Re v) with u = sqrt(z - 1) and v = sqrt(z + 1) (Kahan)."""
    u, v = sqrt(op, op.Sub(a, 1.0), b), sqrt(op, op.Add(a, 1.0), b)
    real, _ = times(op, (u[0], op.Neg(u[1])), v)
    return trigonometry.asinh(op, real), op.Mul(trigonometry.atan2(op, u[1], v[0]), 2.0)


def _roots(op: OpBuilder, a: ir.Value, b: ir.Value) -> tuple[Parts, Parts]:
    return sqrt(op, op.Sub(constant(op, 1.0), a), op.Neg(b)), sqrt(op, op.Add(a, 1.0), b)


def atanh(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """log1p(4 a / ((1 - a)^2 + b b)) / 4 + i atan2(2 b, (1 - a) (1 + a) - b b) / 2 (Kahan)."""
    left, squared = op.Sub(constant(op, 1.0), a), op.Mul(b, b)
    real = op.Mul(real_log1p(op, op.Div(op.Mul(a, 4.0), op.Add(op.Mul(left, left), squared))), 0.25)
    across = op.Sub(op.Mul(left, op.Add(a, 1.0)), squared)
    return real, op.Mul(trigonometry.atan2(op, op.Mul(b, 2.0), across), 0.5)


def turned(function: OfParts, *, inverse: bool = False) -> OfParts:
    """z -> -i f(i z), which leads from hyperbolic functions to circular ones; with `inverse` i f(-i z), which leads back."""

    def wrapped(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
        given = (b, op.Neg(a)) if inverse else (op.Neg(b), a)
        real, imaginary = function(op, *given)
        return (op.Neg(imaginary), real) if inverse else (imaginary, op.Neg(real))

    wrapped.__doc__ = f"The other kind of: {function.__doc__}"
    return wrapped


tan, atan = turned(tanh), turned(atanh)
sinh, asinh = turned(sin, inverse=True), turned(asin, inverse=True)


def cosh(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """cos(i z)."""
    return cos(op, op.Neg(b), a)


def scaled(function: OfParts, factor: float, *, before: bool = False) -> OfParts:
    """`function` times a number, or (`before`) of the argument times a number."""

    def wrapped(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
        first, second = function(op, *(op.Mul(item, factor) for item in (a, b))) if before else function(op, a, b)
        return (first, second) if before else (op.Mul(first, factor), op.Mul(second, factor))

    wrapped.__doc__ = f"{function.__doc__} Scaled by {factor:.4g}."
    return wrapped


def inverse(op: OpBuilder, parts: Parts) -> Parts:
    """1 over a number."""
    return complex_numbers.quotient(op, (constant(op, 1.0), constant(op, 0.0)), parts)


def rsqrt(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """1 over the root."""
    return inverse(op, sqrt(op, a, b))


def sigmoid(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """1 / (1 + exp(-z)); of a real part below 0 exp(z) / (1 + exp(z)): no exponential overflows."""
    below, size = op.Less(a, 0.0), op.Exp(op.Neg(op.Abs(a)))
    real, imaginary = op.Mul(size, op.Cos(b)), op.Mul(size, op.Sin(op.Where(below, b, op.Neg(b))))
    dividend = op.Where(below, real, constant(op, 1.0)), op.Where(below, imaginary, constant(op, 0.0))
    return complex_numbers.quotient(op, dividend, (op.Add(real, 1.0), imaginary))


def silu(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """z sigmoid(z)."""
    return times(op, (a, b), sigmoid(op, a, b))


def sinc(op: OpBuilder, a: ir.Value, b: ir.Value) -> Parts:
    """sin(pi z) / (pi z), 1 at 0."""
    scaled_parts = op.Mul(a, math.pi), op.Mul(b, math.pi)
    zero = op.And(op.Equal(a, 0.0), op.Equal(b, 0.0))
    below = op.Where(zero, constant(op, 1.0), scaled_parts[0]), scaled_parts[1]
    real, imaginary = complex_numbers.quotient(op, sin(op, *scaled_parts), below)
    return op.Where(zero, constant(op, 1.0), real), imaginary


def power(op: OpBuilder, x: Parts, y: Parts) -> Parts:
    """exp(y log x); 0 to a power with a positive real part is 0, and to the power 0 it is 1."""
    zero = op.And(op.Equal(x[0], 0.0), op.Equal(x[1], 0.0))
    safe = op.Where(zero, constant(op, 1.0), x[0]), x[1]
    real, imaginary = exp(op, *times(op, y, log(op, *safe)))
    none = op.And(op.Equal(y[0], 0.0), op.Equal(y[1], 0.0))
    of_zero = op.Where(none, constant(op, 1.0), constant(op, 0.0))
    undefined = op.And(zero, op.And(op.Not(none), op.Not(op.Greater(y[0], 0.0))))
    real = op.Where(undefined, constant(op, math.nan), op.Where(zero, of_zero, real))
    return real, op.Where(undefined, constant(op, math.nan), op.Where(zero, constant(op, 0.0), imaginary))


def whole_product(op: OpBuilder, x: Parts, total: Callable[[ir.Value], ir.Value]) -> Parts:
    """The exponential of sums of logarithms, where `total` gives a sum: minus infinity, that of 0, stays so in every sum."""
    real, angle = log(op, *x)
    return exp(op, total(real), total(angle))
