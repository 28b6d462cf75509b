"""Orthogonal polynomials of a degree that may be a tensor, in PyTorch's steps.

A recurrence runs as far as the largest degree asks; between -1 and 1 the Chebyshev polynomials of high degree are written by
angles (DLMF 18.5.1 to 18.5.4), as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.loops import loop
from onnxport.opset_maps.lowerings.trigonometry import COMPOSED

_INT64 = ir.DataType.INT64
_DOUBLE = ir.DataType.DOUBLE
# following(op, x, k, before, now) gives the polynomial of degree k + 1 from those of k - 1 and k.
Following = Callable[[OpBuilder, ir.Value, ir.Value, ir.Value, ir.Value], ir.Value]
# by_angle(op, degree, angle) in double.
ByAngle = Callable[[OpBuilder, ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class Polynomials:
    """One family of polynomials."""

    first: Callable[[OpBuilder, ir.Value], ir.Value]  # that of degree 1
    following: Following
    by_angle: ByAngle | None = None
    least: int = 0  # the degree from which `by_angle` is used
    limits: tuple[int, int] | None = None  # the greatest degrees of float32 and double that give numbers


def _chebyshev(op: OpBuilder, x: ir.Value, k: ir.Value, before: ir.Value, now: ir.Value) -> ir.Value:
    return op.Sub(op.Mul(op.Add(x, x), now), before)


def _hermite(op: OpBuilder, x: ir.Value, k: ir.Value, before: ir.Value, now: ir.Value) -> ir.Value:
    return op.Sub(op.Mul(op.Add(x, x), now), op.Mul(op.Mul(k, 2.0), before))


def _hermite_e(op: OpBuilder, x: ir.Value, k: ir.Value, before: ir.Value, now: ir.Value) -> ir.Value:
    return op.Sub(op.Mul(x, now), op.Mul(k, before))


def _laguerre(op: OpBuilder, x: ir.Value, k: ir.Value, before: ir.Value, now: ir.Value) -> ir.Value:
    grown = op.Mul(op.Add(op.Add(k, k), op.Sub(1.0, x)), now)
    return op.Div(op.Sub(grown, op.Mul(k, before)), op.Add(k, 1.0))


def _legendre(op: OpBuilder, x: ir.Value, k: ir.Value, before: ir.Value, now: ir.Value) -> ir.Value:
    grown = op.Mul(op.Mul(op.Add(op.Add(k, k), 1.0), x), now)
    return op.Div(op.Sub(grown, op.Mul(k, before)), op.Add(k, 1.0))


def _twice(op: OpBuilder, x: ir.Value, more: float) -> ir.Value:
    return op.Add(op.Add(x, x), more) if more else op.Add(x, x)


def _half_more(op: OpBuilder, degree: ir.Value, angle: ir.Value) -> ir.Value:
    return op.Mul(op.Add(degree, 0.5), angle)


FAMILIES = {
    "chebyshev_polynomial_t": Polynomials(
        lambda op, x: x, _chebyshev, lambda op, n, angle: op.Cos(op.Mul(n, angle)), least=7
    ),
    "chebyshev_polynomial_u": Polynomials(
        lambda op, x: _twice(op, x, 0.0),
        _chebyshev,
        lambda op, n, angle: op.Div(op.Sin(op.Mul(op.Add(n, 1.0), angle)), op.Sin(angle)),
        least=9,
    ),
    "chebyshev_polynomial_v": Polynomials(
        lambda op, x: _twice(op, x, -1.0),
        _chebyshev,
        lambda op, n, angle: op.Div(op.Cos(_half_more(op, n, angle)), op.Cos(op.Mul(angle, 0.5))),
        least=9,
    ),
    "chebyshev_polynomial_w": Polynomials(
        lambda op, x: _twice(op, x, 1.0),
        _chebyshev,
        lambda op, n, angle: op.Div(op.Sin(_half_more(op, n, angle)), op.Sin(op.Mul(angle, 0.5))),
        least=9,
    ),
    "hermite_polynomial_h": Polynomials(lambda op, x: _twice(op, x, 0.0), _hermite, limits=(128, 512)),
    "hermite_polynomial_he": Polynomials(lambda op, x: x, _hermite_e, limits=(128, 512)),
    "laguerre_polynomial_l": Polynomials(lambda op, x: op.Sub(1.0, x), _laguerre),
    "legendre_polynomial_p": Polynomials(lambda op, x: x, _legendre),
}


def orthogonal(op: OpBuilder, family: Polynomials, x: ir.Value, degree: ir.Value) -> ir.Value:
    """The polynomial of each degree at each x, 0 for negative degrees.

    Args:
        op: the builder.
        family: the polynomials.
        x: numbers; the recurrence is computed in their type.
        degree: INT64, of a shape that goes with that of `x`.
    """
    zero, one = op.const(0.0, x.dtype), op.const(1.0, x.dtype)
    x = op.Add(x, op.cast_like(op.Mul(degree, 0), x))  # in the shape of both
    most = op.ReduceMax(op.Concat(op.Reshape(degree, [-1]), op.const([1]), axis=0), keepdims=0)

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        before, now = states
        number = b.cast_like(b.Add(k, 1), x)
        more = b.Less(b.Add(k, 1), degree)
        return [now, b.Where(more, family.following(b, x, number, before, now), now)]

    _, result = loop(op, op.Sub(most, 1), [op.Expand(one, op.shape(x)), family.first(op, x)], step)
    result = op.Where(op.Equal(degree, 0), one, result)
    if family.by_angle is not None:
        wide = op.cast(x, _DOUBLE)
        inside = op.Less(op.Abs(wide), 1.0)
        angle = COMPOSED["Acos"](op, op.Where(inside, wide, op.const(0.5, _DOUBLE)))
        far = op.cast_like(family.by_angle(op, op.cast(degree, _DOUBLE), angle), x)
        result = op.Where(op.And(inside, op.Not(op.Less(degree, family.least))), far, result)
    if family.limits is not None:
        limit = family.limits[x.dtype == _DOUBLE]
        result = op.Where(op.Greater(degree, limit), op.const(float("nan"), x.dtype), result)
    return op.Where(op.Less(degree, 0), zero, result)
