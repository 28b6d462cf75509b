"""The incomplete gamma functions in double precision, by their series and their continued fraction in one Loop.

From 1000 on they are an error function and a correction (DLMF 8.12): series and fraction would take ever more terms, and the
logarithms of their factor cancel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import log1p
from onnxport.opset_maps.lowerings.arithmetic import isinf
from onnxport.opset_maps.lowerings.loops import loop
from onnxport.opset_maps.lowerings.special import constant, erfc, lgamma, polynomial

# Terms for double precision at a of 1, and more for each unit of the root of a: the terms fall off over as many steps.
_TERMS, _TERMS_PER_ROOT = 80, 10
# From this `a` on the expansion holds to double precision.
_LARGE = 1000.0
# Stirling's coefficients of the gamma function (DLMF 5.11.3).
_STIRLING = (Fraction(1), Fraction(1, 12), Fraction(1, 288), Fraction(-139, 51840))
_POWERS = 20  # of the corrections' series that are kept


def _corrections() -> list[list[float]]:
    """The series in eta of the coefficients C0 to C3 (DLMF 8.12.9 and 8.12.11), in exact fractions.

    mu(eta) follows from mu mu' = eta (1 + mu), C0 is 1 / mu - 1 / eta, and Ck is Ck-1' / eta + (-1)^k gk / mu.
    """
    length = _POWERS + 8
    mu = [Fraction(0), Fraction(1)]
    for k in range(2, length + 2):
        known = sum((mu[i] * (k + 1 - i) * mu[k + 1 - i] for i in range(2, k)), Fraction(0))
        mu.append((mu[k - 1] - known) / (k + 1))
    inverse = [Fraction(1)]  # of mu / eta
    for k in range(1, length):
        inverse.append(-sum((mu[i + 1] * inverse[k - i] for i in range(1, k + 1)), Fraction(0)))
    series = [inverse[1:]]
    for k, factor in enumerate(_STIRLING[1:], 1):
        before, sign = series[-1], (-1) ** k
        series.append([(n + 2) * before[n + 2] + sign * factor * inverse[n + 1] for n in range(len(before) - 2)])
    return [[float(item) for item in row[:_POWERS]] for row in series]


_CORRECTIONS = _corrections()


def _expanded(op: OpBuilder, a: ir.Value, x: ir.Value, *, upper: bool) -> ir.Value:
    """P or Q for `a` from 1000 on (DLMF 8.12.3 and 8.12.4)."""
    mu = op.Div(op.Sub(x, a), a)
    small = op.Less(op.Abs(mu), 0.1)
    inside = op.Where(small, mu, constant(op, 0.0))
    near = polynomial(op, inside, [(-1) ** k / (k + 2) for k in range(16)])
    height = op.Where(small, op.Mul(op.Mul(inside, inside), near), op.Sub(mu, log1p(op, mu)))  # mu - log(1 + mu)
    sign, decay = op.Sign(mu), op.Mul(a, height)
    eta = op.Mul(sign, op.Min(op.Sqrt(op.Mul(height, 2.0)), constant(op, 1.3)))  # beyond, no weight is left
    correction = constant(op, 0.0)
    for row in reversed(_CORRECTIONS):
        correction = op.Add(op.Div(correction, a), polynomial(op, eta, row))
    correction = op.Div(op.Mul(op.Exp(op.Neg(decay)), correction), op.Mul(op.Sqrt(a), math.sqrt(2 * math.pi)))
    distance = op.Mul(sign, op.Sqrt(decay))
    half = op.Mul(erfc(op, distance if upper else op.Neg(distance)), 0.5)
    return op.Add(half, correction) if upper else op.Sub(half, correction)


def _parts(op: OpBuilder, a: ir.Value, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """P by its series, Q by its continued fraction (DLMF 8.7.1, 8.9.2, by Lentz's algorithm), and where the first holds."""
    a, x = op.Add(a, op.Mul(x, 0.0)), op.Add(x, op.Mul(a, 0.0))  # in one shape; NaN in either is in both
    edge = op.Add(a, 1.0)
    by_series = op.Less(x, edge)
    one = op.Add(op.Mul(a, 0.0), 1.0)
    near, far = op.Where(by_series, x, edge), op.Where(by_series, edge, x)
    denominator = op.Sub(op.Add(far, 1.0), a)
    first = op.Reciprocal(denominator)
    root = op.ReduceMax(op.Sqrt(a), keepdims=0)
    count = op.Add(op.cast(op.Mul(root, float(_TERMS_PER_ROOT)), ir.DataType.INT64), _TERMS)

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        term, total, c, d, fraction = states
        i = b.Add(b.cast(k, ir.DataType.DOUBLE), 1.0)
        term = b.Div(b.Mul(term, near), b.Add(a, i))
        part = b.Mul(i, b.Sub(a, i))
        level = b.Add(denominator, b.Mul(i, 2.0))
        d = b.Reciprocal(b.Add(b.Mul(part, d), level))
        c = b.Add(level, b.Div(part, c))
        return [term, b.Add(total, term), c, d, b.Mul(fraction, b.Mul(c, d))]

    huge = op.Mul(one, 1e300)
    _, total, _, _, fraction = loop(op, count, [one, one, huge, first, first], step)
    below = op.Exp(op.Sub(op.Sub(op.Mul(a, op.Log(near)), near), lgamma(op, edge)))
    above = op.Exp(op.Sub(op.Sub(op.Mul(a, op.Log(far)), far), lgamma(op, a)))
    return op.Mul(below, total), op.Mul(above, fraction), by_series


def _regularized(op: OpBuilder, a: ir.Value, x: ir.Value, *, upper: bool) -> ir.Value:
    """P or (`upper`) Q, with the limits at 0 and at infinity; NaN for negative operands and where there is no limit."""
    wide_a, wide_x = op.cast(a, ir.DataType.DOUBLE), op.cast(x, ir.DataType.DOUBLE)
    usual = op.And(
        op.And(op.Greater(wide_a, 0.0), op.Greater(wide_x, 0.0)), op.Not(op.Or(isinf(op, wide_a), isinf(op, wide_x)))
    )
    large = op.And(usual, op.GreaterOrEqual(wide_a, _LARGE))
    few = op.And(usual, op.Not(large))
    safe_a, safe_x = (op.Where(few, item, constant(op, 1.0)) for item in (wide_a, wide_x))
    low, high, by_series = _parts(op, safe_a, safe_x)
    none, whole = constant(op, float(upper)), constant(op, float(not upper))
    rest = op.Sub(1.0, low if upper else high)
    result = op.Where(by_series, rest if upper else low, high if upper else rest)
    far_a, far_x = (op.Where(large, item, constant(op, _LARGE)) for item in (wide_a, wide_x))
    result = op.Where(large, _expanded(op, far_a, far_x, upper=upper), result)
    if a.dtype == ir.DataType.DOUBLE:  # where Cephes' logarithm of the factor is the difference of two infinities
        lost = op.And(op.Equal(op.Mul(far_a, op.Log(far_x)), math.inf), op.Less(far_x, op.Mul(far_a, 0.7)))
        result = op.Where(lost, constant(op, math.nan), result)
    # All of the weight lies below x: at a of 0, or x infinite; none: at x of 0, or a infinite.
    all_below = op.Or(op.Equal(wide_a, 0.0), isinf(op, wide_x))
    all_above = op.Or(op.Equal(wide_x, 0.0), isinf(op, wide_a))
    unknown = op.Or(op.And(all_below, all_above), op.Or(op.Less(wide_a, 0.0), op.Less(wide_x, 0.0)))
    limited = op.Or(op.Or(isinf(op, wide_a), isinf(op, wide_x)), op.Equal(wide_x, 0.0))  # whatever the other is
    unknown = op.Or(unknown, op.And(op.Or(op.IsNaN(wide_a), op.IsNaN(wide_x)), op.Not(limited)))
    result = op.Where(all_below, whole, op.Where(all_above, none, result))
    return op.cast_like(op.Where(unknown, constant(op, math.nan), result), a)


def igamma(op: OpBuilder, a: ir.Value, x: ir.Value) -> ir.Value:
    """The regularized lower incomplete gamma function P(a, x)."""
    return _regularized(op, a, x, upper=False)


def igammac(op: OpBuilder, a: ir.Value, x: ir.Value) -> ir.Value:
    """The regularized upper incomplete gamma function Q(a, x)."""
    return _regularized(op, a, x, upper=True)
