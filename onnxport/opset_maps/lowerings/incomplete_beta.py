"""The incomplete beta function in double precision, by its continued fraction in a Loop."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import log1p
from onnxport.opset_maps.lowerings.loops import loop
from onnxport.opset_maps.lowerings.special import constant, lgamma

# The fraction converges in about the root of the larger parameter, below the mean of the distribution.
_TERMS, _TERMS_PER_ROOT, _LARGEST_ROOT = 100, 12, 2000.0
_DOUBLE = ir.DataType.DOUBLE


def _fraction(op: OpBuilder, a: ir.Value, b: ir.Value, x: ir.Value) -> ir.Value:
    """The continued fraction of DLMF 8.17.22, by Lentz's algorithm, of operands of one shape."""
    total, above, below = op.Add(a, b), op.Add(a, 1.0), op.Sub(a, 1.0)
    one = op.Add(op.Mul(op.Add(total, x), 0.0), 1.0)
    first = op.Reciprocal(op.Sub(1.0, op.Div(op.Mul(total, x), above)))
    root = op.ReduceMax(op.Sqrt(op.node("Max", a, b)), keepdims=0)
    root = op.Where(op.LessOrEqual(root, _LARGEST_ROOT), root, constant(op, _LARGEST_ROOT))
    count = op.Add(op.cast(op.Mul(root, float(_TERMS_PER_ROOT)), ir.DataType.INT64), _TERMS)

    def advanced(o: OpBuilder, part: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        c, d, result = states
        d = o.Reciprocal(o.Add(o.Mul(part, d), 1.0))
        c = o.Add(o.Div(part, c), 1.0)
        return [c, d, o.Mul(result, o.Mul(c, d))]

    def step(o: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        m = o.Add(o.cast(k, _DOUBLE), 1.0)
        twice = o.Mul(m, 2.0)
        even = o.Div(o.Mul(o.Mul(m, o.Sub(b, m)), x), o.Mul(o.Add(below, twice), o.Add(a, twice)))
        states = advanced(o, even, states)
        odd = o.Div(o.Mul(o.Mul(o.Neg(o.Add(a, m)), o.Add(total, m)), x), o.Mul(o.Add(a, twice), o.Add(above, twice)))
        return advanced(o, odd, states)

    return loop(op, count, [one, op.Mul(first, one), op.Mul(first, one)], step)[2]


def betainc(op: OpBuilder, a: ir.Value, b: ir.Value, x: ir.Value) -> ir.Value:
    """The regularized incomplete beta function I_x(a, b); NaN outside of x from 0 to 1 and where a or b is 0 or less.

    At x of 0 and 1 it is x, of infinite parameters and of NaN too.
    """
    wide = [op.cast(item, _DOUBLE) for item in (a, b, x)]
    blank = op.Mul(op.Add(op.Add(*wide[:2]), wide[2]), 0.0)
    one, zero = constant(op, 1.0), constant(op, 0.0)
    inside = op.And(op.And(op.Greater(wide[0], 0.0), op.Greater(wide[1], 0.0)), op.Equal(blank, 0.0))
    at_zero, at_one = op.Equal(wide[2], 0.0), op.Equal(wide[2], 1.0)
    between = op.And(op.Greater(wide[2], 0.0), op.Less(wide[2], 1.0))
    p, q = (op.Where(inside, item, one) for item in wide[:2])
    place = op.Add(op.Where(op.And(inside, between), wide[2], constant(op, 0.5)), op.Where(inside, blank, zero))
    # Above the mean the function of the other end converges (DLMF 8.17.4).
    swapped = op.Greater(place, op.Div(op.Add(p, 1.0), op.Add(op.Add(p, q), 2.0)))
    rest = op.Sub(1.0, place)
    first, second = op.Where(swapped, q, p), op.Where(swapped, p, q)
    near = op.Where(swapped, rest, place)
    logarithms = (
        op.Where(swapped, log1p(op, op.Neg(place)), op.Log(place)),
        op.Where(swapped, op.Log(place), log1p(op, op.Neg(place))),
    )
    constant_part = op.Sub(lgamma(op, op.Add(first, second)), op.Add(lgamma(op, first), lgamma(op, second)))
    power = op.Add(op.Mul(first, logarithms[0]), op.Mul(second, logarithms[1]))
    front = op.Div(op.Exp(op.Add(power, constant_part)), first)
    value = op.Mul(front, _fraction(op, first, second, near))
    value = op.Where(swapped, op.Sub(1.0, value), value)
    value = op.Where(at_zero, zero, op.Where(at_one, one, value))
    negative = op.Or(op.LessOrEqual(wide[0], 0.0), op.LessOrEqual(wide[1], 0.0))
    at_end = op.And(op.Or(at_zero, at_one), op.Not(negative))
    known = op.Or(op.And(inside, between), at_end)
    return op.cast_like(op.Where(known, value, constant(op, math.nan)), a)
