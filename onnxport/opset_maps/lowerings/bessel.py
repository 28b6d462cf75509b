"""Bessel and Airy functions, and integrals of the same kind, in double precision.

Each is a fitted polynomial near zero and another beyond, where what oscillates, grows or decays is a factor in front. Edges are
those of Cephes, which PyTorch and TensorFlow follow. Equations are of the NIST Digital Library of Mathematical Functions (DLMF);
the polynomials come from scripts/special_coefficients.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings import coefficients as fitted
from onnxport.opset_maps.lowerings.arithmetic import isinf
from onnxport.opset_maps.lowerings.special import bessel_scaled, constant, exp_within, in_double, polynomial

_WAVES = {0: (fitted.P0, fitted.Q0), 1: (fitted.P1, fitted.Q1)}


def _near(op: OpBuilder, x: ir.Value, table: Sequence[float], top: float, power: int = 2) -> ir.Value:
    """A function of (x / top)^power for x from 0 to `top`; beyond, its value there."""
    ratio = op.Div(op.Min(x, constant(op, top)), top)
    for _ in range(power.bit_length() - 1):
        ratio = op.Mul(ratio, ratio)
    return polynomial(op, op.Sub(op.Mul(ratio, 2.0), 1.0), table)


def _beyond(op: OpBuilder, x: ir.Value, table: Sequence[float], start: float, power: int = 1) -> ir.Value:
    """A function of (start / x)^power for x from `start` on; before, its value there."""
    ratio = op.Div(constant(op, start), op.Max(x, constant(op, start)))
    for _ in range(power.bit_length() - 1):
        ratio = op.Mul(ratio, ratio)
    return polynomial(op, op.Sub(op.Mul(ratio, 2.0), 1.0), table)


def _waves(op: OpBuilder, x: ir.Value, order: int) -> tuple[ir.Value, ir.Value]:
    """J and Y of order 0 or 1 from 8 on (DLMF 10.17.3, 10.17.4)."""
    p, q = (_beyond(op, x, table, 8.0, 2) for table in _WAVES[order])
    q = op.Div(op.Mul(q, 8.0), x)
    sine, cosine = op.Sin(x), op.Cos(x)
    # cos and sin of x - pi / 4, or of x - 3 pi / 4, times the root of 2.
    c, s = op.Add(cosine, sine), op.Sub(sine, cosine)
    c, s = (s, op.Neg(c)) if order else (c, s)
    scale = op.Div(1.0, op.Sqrt(op.Mul(x, math.pi)))
    return op.Mul(scale, op.Sub(op.Mul(p, c), op.Mul(q, s))), op.Mul(scale, op.Add(op.Mul(p, s), op.Mul(q, c)))


def _first_kind(op: OpBuilder, x: ir.Value, order: int) -> ir.Value:
    """J of order 0 or 1 for x not below 0."""
    near = _near(op, x, fitted.J1_NEAR if order else fitted.J0_NEAR, 8.0)
    near = op.Mul(near, x) if order else near
    return op.Where(op.LessOrEqual(x, 8.0), near, _waves(op, op.Max(x, constant(op, 8.0)), order)[0])


def _second_kind(op: OpBuilder, x: ir.Value, order: int) -> ir.Value:
    """Y of order 0 or 1: minus infinity at 0, NaN below."""
    small = op.Min(op.Max(x, constant(op, 5e-324)), constant(op, 8.0))
    logarithm = op.Mul(op.Log(small), 2 / math.pi)
    near = _near(op, small, fitted.Y1_NEAR if order else fitted.Y0_NEAR, 8.0)
    if order:
        near = op.Sub(op.Mul(near, small), op.Div(constant(op, 2 / math.pi), small))
    near = op.Add(near, op.Mul(logarithm, _first_kind(op, small, order)))
    result = op.Where(op.LessOrEqual(x, 8.0), near, _waves(op, op.Max(x, constant(op, 8.0)), order)[1])
    return _defined_from_zero(op, x, result, -math.inf)


def _defined_from_zero(op: OpBuilder, x: ir.Value, result: ir.Value, at_zero: float) -> ir.Value:
    """`result` for positive x, `at_zero` at 0, NaN below."""
    edge = op.Where(op.Equal(x, 0.0), constant(op, at_zero), constant(op, math.nan))
    return op.Where(op.Greater(x, 0.0), result, edge)


@in_double
def bessel_j0(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The Bessel function J0."""
    return _first_kind(op, op.Abs(x), 0)


@in_double
def bessel_j1(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The Bessel function J1."""
    return op.Mul(op.Sign(x), _first_kind(op, op.Abs(x), 1))


def _decaying(op: OpBuilder, x: ir.Value, order: int, *, scaled: bool) -> ir.Value:
    """K of order 0 or 1, times exp(x) if `scaled`: infinite at 0, NaN below (DLMF 10.31, 10.40.2)."""
    small = op.Min(op.Max(x, constant(op, 5e-324)), constant(op, 2.0))
    grown = op.Mul(bessel_scaled(op, small, order), op.Exp(small))
    logarithm = op.Mul(op.Log(op.Mul(small, 0.5)), grown)
    near = _near(op, small, fitted.K1_NEAR if order else fitted.K0_NEAR, 2.0)
    if order:
        near = op.Add(op.Add(op.Mul(near, small), logarithm), op.Div(1.0, small))
    else:
        near = op.Sub(near, logarithm)
    large = op.Max(x, constant(op, 2.0))
    far = op.Div(_beyond(op, large, fitted.K1_TAIL if order else fitted.K0_TAIL, 2.0), op.Sqrt(large))
    near, far = (op.Mul(near, op.Exp(small)), far) if scaled else (near, op.Mul(far, op.Exp(op.Neg(large))))
    return _defined_from_zero(op, x, op.Where(op.LessOrEqual(x, 2.0), near, far), math.inf)


def _documented(write: Callable[..., ir.Value], what: str, **options: object) -> Callable[..., ir.Value]:
    function = in_double(partial(write, **options))
    function.__doc__ = what
    return function


bessel_y0 = _documented(_second_kind, "The Bessel function Y0.", order=0)
bessel_y1 = _documented(_second_kind, "The Bessel function Y1.", order=1)
k0 = _documented(_decaying, "The modified Bessel function K0.", order=0, scaled=False)
k1 = _documented(_decaying, "The modified Bessel function K1.", order=1, scaled=False)
k0e = _documented(_decaying, "exp(x) K0(x).", order=0, scaled=True)
k1e = _documented(_decaying, "exp(x) K1(x).", order=1, scaled=True)


@in_double
def spherical_bessel_j0(op: OpBuilder, x: ir.Value) -> ir.Value:
    """sin(x) / x, 1 at 0 and 0 at the infinities."""
    special = op.Or(op.Equal(x, 0.0), isinf(op, x))
    usual = op.Div(op.Sin(x), op.Where(special, constant(op, 1.0), x))
    return op.Where(special, op.cast(op.Equal(x, 0.0), ir.DataType.DOUBLE), usual)


@in_double
def airy_ai(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The Airy function Ai; NaN at the infinities (DLMF 9.7.5, 9.7.9)."""
    size = op.Abs(x)
    root = op.Sqrt(size)
    zeta = op.Mul(op.Mul(size, root), 2 / 3)
    quarter = op.Sqrt(op.Max(root, constant(op, 1.0)))
    middle = op.Div(op.Add(op.Max(op.Min(x, constant(op, 2.0)), constant(op, -4.0)), 1.0), 3.0)
    middle = polynomial(op, middle, fitted.AIRY_MIDDLE)
    decay = _beyond(op, zeta, fitted.AIRY_DECAY, 2 / 3 * 2**1.5)
    decay = op.Div(op.Mul(decay, op.Exp(op.Neg(zeta))), op.Mul(quarter, 2 * math.sqrt(math.pi)))
    p, q = (_beyond(op, zeta, table, 16 / 3, 2) for table in (fitted.AIRY_P, fitted.AIRY_Q))
    q = op.Div(q, op.Max(zeta, constant(op, 1.0)))
    sine, cosine = op.Sin(zeta), op.Cos(zeta)
    waves = op.Add(op.Mul(p, op.Add(cosine, sine)), op.Mul(q, op.Sub(sine, cosine)))
    waves = op.Div(waves, op.Mul(quarter, math.sqrt(2 * math.pi)))
    result = op.Where(op.Greater(x, 2.0), decay, op.Where(op.Less(x, -4.0), waves, middle))
    return op.Where(isinf(op, x), constant(op, math.nan), result)


@in_double
def dawsn(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Dawson's integral, exp(-x^2) times the integral of exp(t^2) from 0 to x."""
    size = op.Abs(x)
    near = op.Mul(_near(op, size, fitted.DAWSON_NEAR, 4.0), x)
    # From 1e9 on Cephes gives that of the magnitude.
    far = op.Div(_beyond(op, size, fitted.DAWSON_TAIL, 4.0, 2), op.Mul(op.Where(op.Greater(size, 1e9), size, x), 2.0))
    return op.Where(op.LessOrEqual(size, 4.0), near, far)


def _has_inverse(op: OpBuilder, x: ir.Value, dtype: ir.DataType | None, result: ir.Value) -> ir.Value:
    """`result`, and NaN where 1 / x is below `dtype`'s least normal number, which TensorFlow takes for 0."""
    least = np.finfo(np.float64 if dtype == ir.DataType.DOUBLE else np.float32).tiny
    return op.Where(op.Greater(x, 1.0 / float(least)), constant(op, math.nan), result)


def expint(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The exponential integral Ei for positive x; minus infinity at 0, NaN below."""
    dtype, operand = x.dtype, x
    x = op.cast(x, ir.DataType.DOUBLE)
    small = op.Max(x, constant(op, 5e-324))
    near = op.Mul(_near(op, small, fitted.EI_NEAR, 6.0, 1), op.Min(small, constant(op, 6.0)))
    near = op.Add(op.Add(near, op.Log(small)), 0.5772156649015329)
    inside = op.Min(op.Max(x, constant(op, 6.0)), constant(op, 24.0))
    u = op.Div(op.Sub(op.Div(constant(op, 48.0), inside), 5.0), 3.0)
    far = op.Where(op.Less(x, 24.0), polynomial(op, u, fitted.EI_MIDDLE), _beyond(op, x, fitted.EI_TAIL, 24.0))
    far = op.Mul(op.Div(far, op.Max(x, constant(op, 1.0))), exp_within(op, x, dtype))
    far = _has_inverse(op, x, dtype, far)
    return op.cast_like(_defined_from_zero(op, x, op.Where(op.LessOrEqual(x, 6.0), near, far), -math.inf), operand)


def _dilogarithm(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Li2 from 0 to 1/2."""
    return op.Mul(x, _near(op, x, fitted.DILOGARITHM, 0.5, 1))


def spence(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Spence's function, Li2(1 - x); NaN below 0 and at infinity (DLMF 25.12.4, 25.12.6).

    Li2's argument is brought to 0 .. 1/2: x itself up to 1/2, 1 - x up to 1, (x - 1) / x up to 2, 1 / x from there on.
    """
    dtype, operand = x.dtype, x
    x = op.cast(x, ir.DataType.DOUBLE)
    positive = op.Max(x, constant(op, 5e-324))
    safe = op.Min(positive, constant(op, 1e300))
    least, middle, large = op.Less(x, 0.5), op.Less(x, 1.0), op.Greater(x, 2.0)
    inverse = op.Div(1.0, safe)
    rest = op.Sub(1.0, safe)
    argument = op.Where(least, safe, op.Where(middle, rest, op.Where(large, inverse, op.Mul(op.Neg(rest), inverse))))
    value = _dilogarithm(op, op.Min(op.Max(argument, constant(op, 0.0)), constant(op, 0.5)))
    logarithm = op.Log(safe)
    edge = constant(op, math.pi**2 / 6)
    half = op.Mul(op.Mul(logarithm, logarithm), 0.5)
    low = op.Sub(op.Sub(edge, op.Mul(logarithm, op.Log(op.Max(rest, constant(op, 0.5))))), value)
    high = op.Sub(value, op.Mul(logarithm, op.Log(op.Max(op.Sub(1.0, inverse), constant(op, 0.5)))))
    high = op.Sub(op.Sub(high, half), edge)
    between = op.Neg(op.Add(value, half))
    result = op.Where(least, low, op.Where(middle, value, op.Where(large, high, between)))
    outside = op.Or(op.Less(x, 0.0), isinf(op, x))
    result = _has_inverse(op, x, dtype, op.Where(op.Equal(x, 0.0), edge, result))
    return op.cast_like(op.Where(outside, constant(op, math.nan), result), operand)


def _fresnel(op: OpBuilder, x: ir.Value, *, sine: bool) -> ir.Value:
    """The Fresnel integrals (DLMF 7.3, 7.5.3, 7.5.4)."""
    size = op.Abs(x)
    small = op.Min(size, constant(op, 2.0))
    near = op.Mul(_near(op, small, fitted.FRESNEL_S if sine else fitted.FRESNEL_C, 2.0, 4), small)
    near = op.Mul(op.Mul(near, small), small) if sine else near
    large = op.Min(op.Max(size, constant(op, 2.0)), constant(op, 1e100))
    f = op.Div(_beyond(op, large, fitted.FRESNEL_F, 2.0, 4), op.Mul(large, math.pi))
    g = op.Div(_beyond(op, large, fitted.FRESNEL_G, 2.0, 4), op.Mul(op.Mul(op.Mul(large, large), large), math.pi**2))
    angle = op.Mul(op.Mod(op.Mul(large, large), op.const(4.0, ir.DataType.DOUBLE), fmod=1), math.pi / 2)
    s, c = op.Sin(angle), op.Cos(angle)
    waves = op.Add(op.Mul(f, c), op.Mul(g, s)) if sine else op.Sub(op.Mul(g, c), op.Mul(f, s))
    far = op.Where(op.Greater(size, 36974.0), constant(op, 0.5), op.Sub(0.5, waves))  # the end of Cephes' range
    return op.Mul(op.Sign(x), op.Where(op.Less(size, 2.0), near, far))


@in_double
def fresnel_cos(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The integral of cos(pi t^2 / 2) from 0 to x."""
    return _fresnel(op, x, sine=False)


@in_double
def fresnel_sin(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The integral of sin(pi t^2 / 2) from 0 to x."""
    return _fresnel(op, x, sine=True)
