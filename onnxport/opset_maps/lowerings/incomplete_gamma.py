"""The incomplete gamma functions in double precision, by their series and their continued fraction in one Loop."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.arithmetic import isinf
from onnxport.opset_maps.lowerings.loops import loop
from onnxport.opset_maps.lowerings.special import constant, lgamma

# Terms for double precision at a of 1, and more for each unit of the root of a: the terms fall off over as many steps.
_TERMS, _TERMS_PER_ROOT, _LARGEST_ROOT = 80, 10, 2000.0


def _parts(op: OpBuilder, a: ir.Value, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """P by its series, Q by its continued fraction (DLMF 8.7.1, 8.9.2, by Lentz's algorithm), and where the first holds."""
    a, x = op.Add(a, op.Mul(x, 0.0)), op.Add(x, op.Mul(a, 0.0))  # in one shape; NaN in either is in both
    edge = op.Add(a, 1.0)
    by_series = op.Less(x, edge)
    one = op.Add(op.Mul(a, 0.0), 1.0)
    near, far = op.Where(by_series, x, edge), op.Where(by_series, edge, x)
    denominator = op.Sub(op.Add(far, 1.0), a)
    first = op.Reciprocal(denominator)
    root = op.Min(op.ReduceMax(op.Sqrt(a), keepdims=0), constant(op, _LARGEST_ROOT))
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
    safe_a, safe_x = (op.Where(usual, item, constant(op, 1.0)) for item in (wide_a, wide_x))
    low, high, by_series = _parts(op, safe_a, safe_x)
    none, whole = constant(op, float(upper)), constant(op, float(not upper))
    rest = op.Sub(1.0, low if upper else high)
    result = op.Where(by_series, rest if upper else low, high if upper else rest)
    # All of the weight lies below x: at a of 0, or x infinite; none: at x of 0, or a infinite.
    all_below = op.Or(op.Equal(wide_a, 0.0), isinf(op, wide_x))
    all_above = op.Or(op.Equal(wide_x, 0.0), isinf(op, wide_a))
    unknown = op.Or(op.And(all_below, all_above), op.Or(op.Less(wide_a, 0.0), op.Less(wide_x, 0.0)))
    unknown = op.Or(unknown, op.Or(op.IsNaN(wide_a), op.IsNaN(wide_x)))
    result = op.Where(all_below, whole, op.Where(all_above, none, result))
    return op.cast_like(op.Where(unknown, constant(op, math.nan), result), a)


def igamma(op: OpBuilder, a: ir.Value, x: ir.Value) -> ir.Value:
    """The regularized lower incomplete gamma function P(a, x)."""
    return _regularized(op, a, x, upper=False)


def igammac(op: OpBuilder, a: ir.Value, x: ir.Value) -> ir.Value:
    """The regularized upper incomplete gamma function Q(a, x)."""
    return _regularized(op, a, x, upper=True)
