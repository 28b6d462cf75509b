"""Special functions that ONNX lacks, for every exporter.

They are computed in double precision, whatever the operand's type: the algorithms then need no case-by-case analysis of
rounding, and a float32 result is right to the last place or two over the whole domain. Sources are the NIST Digital
Library of Mathematical Functions (DLMF, https://dlmf.nist.gov) by equation; polynomials without a closed form come from
scripts/special_coefficients.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import wraps

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import log1p
from onnxport.graph.passes.gelu import ERFC_OF
from onnxport.opset_maps.lowerings.arithmetic import isinf
from onnxport.opset_maps.lowerings.coefficients import ERFCX, I0_TAIL, I1_TAIL

Function = Callable[..., ir.Value]
_DOUBLE = ir.DataType.DOUBLE

# fmt: off
_GILES_NEAR = (
    1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087,
    -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08,
)
_GILES_FAR = (
    2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773,
    -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257,
)
# fmt: on
# Bernoulli numbers B2, B4, ... (DLMF 24.2).
_BERNOULLI = tuple(
    Fraction(*item) for item in ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510))
)
# From this argument on eight terms of an asymptotic series give double precision.
_ASYMPTOTIC = 10
_SQRT_HALF = math.sqrt(0.5)
# From here on s (s + 1) ... (s + 22) is beyond float64.
_OVERFLOWS = 2.5e13


def in_double(function: Function) -> Function:
    """`function`, computed in double precision on operands of any floating-point type."""

    @wraps(function)
    def wrapped(op: OpBuilder, *operands: ir.Value) -> ir.Value:
        result = function(op, *[op.cast(item, _DOUBLE) for item in operands])
        return op.cast_like(result, operands[0])

    return wrapped


def polynomial(op: OpBuilder, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """The polynomial with `coefficients` from the lowest power up, by Horner's rule."""
    *rest, last = coefficients
    result = op.const(last, x.dtype)
    for item in reversed(rest):
        result = op.Add(op.Mul(result, x), item)
    return result


def constant(op: OpBuilder, value: float) -> ir.Value:
    """A number in double."""
    return op.const(value, _DOUBLE)


def _sine_of_pi(op: OpBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """sin and cos of pi times the distance of x to its nearest integer; their signs are those of that distance."""
    angle = op.Mul(op.Sub(x, op.Round(x)), math.pi)
    return op.Sin(angle), op.Cos(angle)


# -- the gamma function ------------------------------------------------------------------------------------------------


@in_double
def lgamma(op: OpBuilder, x: ir.Value) -> ir.Value:
    """log |gamma(x)|; infinite at the poles and at both infinities."""
    reflected = op.Less(x, 0.5)
    positive = _lgamma_positive(op, op.Where(reflected, op.Sub(constant(op, 1.0), x), x))
    sine, _ = _sine_of_pi(op, op.Where(isinf(op, x), constant(op, 0.0), x))
    # DLMF 5.5.3.
    mirrored = op.Sub(op.Log(op.Div(constant(op, math.pi), op.Abs(sine))), positive)
    infinite = op.Or(isinf(op, x), op.And(reflected, op.Equal(sine, 0.0)))
    result = op.Where(infinite, constant(op, math.inf), op.Where(reflected, mirrored, positive))
    return op.Where(op.Or(op.Equal(x, 1.0), op.Equal(x, 2.0)), constant(op, 0.0), result)


def _lgamma_positive(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Stirling's series (DLMF 5.11.1) at x, or at x + 10 less the log of the factors between."""
    large = op.GreaterOrEqual(x, float(_ASYMPTOTIC))
    one = constant(op, 1.0)
    small = op.Where(large, one, x)
    y = op.Where(large, x, op.Add(x, float(_ASYMPTOTIC)))
    product = small
    for k in range(1, _ASYMPTOTIC):
        product = op.Mul(product, op.Add(small, float(k)))
    inverse = op.Reciprocal(y)
    terms = [float(b / (2 * k * (2 * k - 1))) for k, b in enumerate(_BERNOULLI, 1)]
    series = op.Mul(inverse, polynomial(op, op.Mul(inverse, inverse), terms))
    main = op.Sub(op.Mul(op.Sub(y, 0.5), op.Log(y)), y)
    stirling = op.Add(op.Add(main, 0.5 * math.log(2 * math.pi)), series)
    return op.Where(large, stirling, op.Sub(stirling, op.Log(product)))


@in_double
def digamma(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The derivative of log gamma; NaN at the negative integers, an infinity of the sign opposite to a zero's at zero."""
    reflected = op.Less(x, 0.0)
    y = op.Where(reflected, op.Sub(constant(op, 1.0), x), x)
    large = op.GreaterOrEqual(y, float(_ASYMPTOTIC))
    small = op.Where(large, constant(op, 1.0), y)
    # psi(x) = psi(x + n) - sum 1 / (x + k) (DLMF 5.5.2).
    shift = op.Reciprocal(small)
    for k in range(_ASYMPTOTIC - 1, 0, -1):
        shift = op.Add(shift, op.Reciprocal(op.Add(small, float(k))))
    z = op.Where(large, y, op.Add(y, float(_ASYMPTOTIC)))
    inverse = op.Reciprocal(op.Mul(z, z))
    terms = [float(b / (2 * k)) for k, b in enumerate(_BERNOULLI, 1)]
    series = op.Add(op.Div(constant(op, 0.5), z), op.Mul(inverse, polynomial(op, inverse, terms)))
    # DLMF 5.11.2.
    positive = op.Sub(op.Sub(op.Log(z), series), op.Where(large, constant(op, 0.0), shift))
    sine, cosine = _sine_of_pi(op, op.Where(isinf(op, x), constant(op, 0.0), x))
    pole = op.And(reflected, op.Equal(sine, 0.0))
    # DLMF 5.5.4.
    mirrored = op.Sub(positive, op.Div(op.Mul(cosine, math.pi), sine))
    result = op.Where(pole, constant(op, math.nan), op.Where(reflected, mirrored, positive))
    return op.Where(op.Equal(x, 0.0), op.Neg(op.Reciprocal(x)), result)


@in_double
def trigamma(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The second derivative of log gamma; infinite at the poles."""
    reflected = op.Less(x, 0.5)
    y = op.Where(reflected, op.Sub(constant(op, 1.0), x), x)
    positive = _hurwitz_positive(op, constant(op, 2.0), y)
    sine, _ = _sine_of_pi(op, op.Where(isinf(op, x), constant(op, 0.0), x))
    # DLMF 5.15.6.
    mirrored = op.Sub(op.Div(constant(op, math.pi**2), op.Mul(sine, sine)), positive)
    return op.Where(reflected, mirrored, positive)


def polygamma(op: OpBuilder, n: int, x: ir.Value) -> ir.Value:
    """The n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x) (DLMF 5.15.1, 25.11.12)."""
    if n < 2:
        return digamma(op, x) if n == 0 else trigamma(op, x)
    wide = op.cast(x, _DOUBLE)
    series = zeta(op, op.const(float(n + 1), _DOUBLE), wide)
    return op.cast_like(op.Mul(series, (1.0 if n % 2 else -1.0) * math.factorial(n)), x)


def _hurwitz_positive(op: OpBuilder, s: ir.Value, q: ir.Value) -> ir.Value:
    """zeta(s, q) for s > 1 and q > 0: the first ten terms, and the rest by Euler and Maclaurin's formula (DLMF 25.11.5)."""
    power = op.Neg(s)
    total = op.Pow(q, power)
    for k in range(1, _ASYMPTOTIC):
        total = op.Add(total, op.Pow(op.Add(q, float(k)), power))
    return op.Add(total, _hurwitz_rest(op, s, op.Add(q, float(_ASYMPTOTIC)), total))


def _hurwitz_rest(op: OpBuilder, s: ir.Value, w: ir.Value, total: ir.Value) -> ir.Value:
    """The terms from (q + k)^-s = w^-s on; 0 where that term no longer counts beside `total`."""
    term = op.Pow(w, op.Neg(s))
    rest = op.Add(op.Div(op.Mul(term, w), op.Sub(s, 1.0)), op.Mul(term, 0.5))
    factor = op.Div(op.Mul(term, s), w)
    for k, number in enumerate(_BERNOULLI, 1):
        rest = op.Add(rest, op.Mul(factor, float(number / math.factorial(2 * k))))
        step = op.Mul(op.Add(s, float(2 * k - 1)), op.Add(s, float(2 * k)))
        factor = op.Mul(factor, op.Div(step, op.Mul(w, w)))
    negligible = op.LessOrEqual(op.Abs(term), op.Mul(op.Abs(total), 2.0**-60))
    return op.Where(negligible, constant(op, 0.0), rest)


@in_double
def zeta(op: OpBuilder, s: ir.Value, q: ir.Value) -> ir.Value:
    """Hurwitz' zeta function: the sum of (q + k)^-s over k = 0, 1, ...

    As in Cephes: infinite at s = 1 and at the poles q = 0, -1, ..., NaN for s < 1 and for other negative q unless s is an
    integer.
    """
    below = op.LessOrEqual(q, 0.0)
    q = op.Where(op.Equal(s, s), q, q)  # in the shape of both
    one = constant(op, 1.0)
    pole = op.And(below, op.Equal(q, op.Floor(q)))
    between = op.And(below, op.Not(pole))
    # Of q < 0 the terms with q + k < 0 are those of ceil(q) - q, then 1 more, up to -q, with the sign of (-1)^s.
    starts = (
        op.Where(between, op.Sub(q, op.Floor(q)), op.Where(below, one, q)),
        op.Where(between, op.Sub(op.Ceil(q), q), one),
        op.Where(between, op.Sub(one, q), one),
    )
    sums = _hurwitz_positive(op, s, op.Concat(*(op.Unsqueeze(item, op.axes(0)) for item in starts), axis=0))
    above, mirrored, beyond = (op.Gather(sums, k, axis=0) for k in range(3))
    whole = op.Equal(s, op.Floor(s))
    odd = op.Mod(op.Where(op.And(whole, op.Less(s, 1e15)), s, op.Mul(one, 2.0)), op.const(2.0, _DOUBLE), fmod=1)
    lower = op.Mul(op.Sub(1.0, op.Mul(odd, 2.0)), op.Sub(mirrored, beyond))
    result = op.Where(below, op.Add(above, lower), above)
    inf, nan = constant(op, math.inf), constant(op, math.nan)
    # Products of s overflow beside powers that are 0, in Cephes.
    lost = op.Or(op.And(op.Greater(s, _OVERFLOWS), op.Equal(result, 0.0)), op.Equal(q, math.inf))
    result = op.Where(op.Or(lost, op.And(below, op.Not(whole))), nan, result)
    result = op.Where(pole, inf, result)
    return op.Where(op.Equal(s, 1.0), inf, op.Where(op.Less(s, 1.0), nan, result))


def multigammaln(op: OpBuilder, x: ir.Value, p: int) -> ir.Value:
    """log of the multivariate gamma function of dimension p (DLMF 35.3.4)."""
    wide = op.cast(x, _DOUBLE)
    shifts = op.const(-0.5 * np.arange(p), _DOUBLE)
    terms = lgamma(op, op.Add(op.Unsqueeze(wide, [-1]), shifts))
    total = op.reduce("ReduceSum", terms, [-1], keepdims=False)
    return op.cast_like(op.Add(total, 0.25 * p * (p - 1) * math.log(math.pi)), x)


# -- the error function ------------------------------------------------------------------------------------------------


def _erfcx_positive(op: OpBuilder, x: ir.Value) -> ir.Value:
    t = op.Div(constant(op, 3.0), op.Add(x, 3.0))
    return op.Mul(t, polynomial(op, op.Sub(op.Mul(t, 2.0), 1.0), ERFCX))


def _gauss(op: OpBuilder, x: ir.Value) -> ir.Value:
    """exp(-x^2)."""
    return op.Exp(op.Neg(op.Mul(x, x)))


def _erfc_positive(op: OpBuilder, x: ir.Value) -> ir.Value:
    return op.Where(op.Greater(x, 28.0), constant(op, 0.0), op.Mul(_gauss(op, x), _erfcx_positive(op, x)))


def _erf_small(op: OpBuilder, x: ir.Value) -> ir.Value:
    """erf on [-0.5, 0.5] by its Maclaurin series (DLMF 7.6.1)."""
    terms = [2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(13)]
    return op.Mul(x, polynomial(op, op.Mul(x, x), terms))


@in_double
def erf(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The error function to the last digits of double precision, which no evaluator's Erf gives."""
    magnitude = op.Abs(x)
    tail = op.Mul(op.Sign(x), op.Sub(constant(op, 1.0), _erfc_positive(op, magnitude)))
    return op.Where(op.Less(magnitude, 0.5), _erf_small(op, x), tail)


@in_double
def _erfc(op: OpBuilder, x: ir.Value) -> ir.Value:
    tail = _erfc_positive(op, op.Abs(x))
    return op.Where(op.Less(x, 0.0), op.Sub(constant(op, 2.0), tail), tail)


def erfc(op: OpBuilder, x: ir.Value) -> ir.Value:
    """1 - erf(x) without cancellation."""
    result = _erfc(op, x)
    ERFC_OF.set(result, x)
    return result


@in_double
def erfcx(op: OpBuilder, x: ir.Value) -> ir.Value:
    """exp(x^2) erfc(x)."""
    tail = _erfcx_positive(op, op.Abs(x))
    return op.Where(op.Less(x, 0.0), op.Sub(op.Mul(op.Exp(op.Mul(x, x)), 2.0), tail), tail)


@in_double
def erfinv(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The inverse of erf: infinite at -1 and 1, NaN beyond."""
    magnitude = op.Abs(x)
    return op.Mul(op.Sign(x), _inverse(op, magnitude, op.Sub(constant(op, 1.0), magnitude)))


def _inverse(op: OpBuilder, p: ir.Value, q: ir.Value) -> ir.Value:
    """y >= 0 with erf(y) = p and erfc(y) = q = 1 - p; whichever of the two is smaller has to be exact.

    A start accurate to two digits at least is refined by three steps of Halley's method.
    Source of the start: M. Giles, "Approximating the erfinv function", GPU Computing Gems, 2011.
    """
    zero = constant(op, 0.0)
    inside = op.And(op.Greater(q, 0.0), op.LessOrEqual(q, 1.0))
    safe_q = op.Where(inside, q, constant(op, 0.5))
    safe_p = op.Where(inside, p, constant(op, 0.5))
    w = op.Neg(op.Log(op.Mul(safe_q, op.Sub(constant(op, 2.0), safe_q))))
    near = polynomial(op, op.Sub(w, 2.5), _GILES_NEAR)
    far = polynomial(op, op.Sub(op.Sqrt(w), 3.0), _GILES_FAR)
    # Beyond the range of Giles' polynomial the leading behaviour of erfc's inverse (DLMF 7.17.4) will do for a start.
    leading = op.Add(op.Mul(op.Log(safe_q), 2.0), math.log(math.pi))
    leading = op.Where(op.Less(leading, -5.0), leading, constant(op, -5.0))
    remote = op.Sqrt(op.Mul(op.Sub(op.Neg(leading), op.Log(op.Mul(leading, -0.5))), 0.5))
    y = op.Where(op.Greater(w, 16.0), remote, op.Mul(op.Where(op.Less(w, 5.0), near, far), safe_p))
    for _ in range(3):
        tail = _erfc_positive(op, y)
        excess = op.Where(op.Less(safe_p, 0.5), op.Sub(_erf_small(op, y), safe_p), op.Sub(safe_q, tail))
        slope = op.Mul(_gauss(op, y), 2 / math.sqrt(math.pi))
        newton = op.Div(excess, op.Where(op.Equal(slope, 0.0), constant(op, 1.0), slope))
        y = op.Sub(y, op.Div(newton, op.Add(op.Mul(y, newton), 1.0)))
    edge = op.Where(op.Equal(q, 0.0), constant(op, math.inf), constant(op, math.nan))
    return op.Where(inside, op.Where(op.Equal(p, 0.0), zero, y), edge)


@in_double
def ndtr(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The standard normal distribution: erfc(-x / sqrt(2)) / 2."""
    return op.Mul(erfc(op, op.Mul(x, -_SQRT_HALF)), 0.5)


@in_double
def log_ndtr(op: OpBuilder, x: ir.Value) -> ir.Value:
    """log ndtr(x), accurate in both tails."""
    low = op.Less(x, -1.0)
    left = op.Where(low, x, constant(op, -1.0))
    scaled = _erfcx_positive(op, op.Mul(left, -_SQRT_HALF))
    left = op.Sub(op.Log(op.Mul(scaled, 0.5)), op.Mul(op.Mul(left, left), 0.5))
    right = log1p(op, op.Mul(erfc(op, op.Mul(x, _SQRT_HALF)), -0.5))
    return op.Where(low, left, right)


@in_double
def ndtri(op: OpBuilder, p: ir.Value) -> ir.Value:
    """The inverse of ndtr: infinite at 0 and 1, NaN beyond."""
    upper = op.Greater(p, 0.5)
    tail = op.Where(upper, op.Sub(constant(op, 1.0), p), p)
    q = op.Mul(tail, 2.0)
    y = op.Mul(_inverse(op, op.Sub(constant(op, 1.0), q), q), math.sqrt(2.0))
    return op.Where(upper, y, op.Neg(y))


# -- Bessel functions --------------------------------------------------------------------------------------------------


def bessel_scaled(op: OpBuilder, x: ir.Value, order: int) -> ir.Value:
    """exp(-|x|) I_order(|x|): its power series (DLMF 10.25.2), all terms positive, up to 8, a fitted tail beyond."""
    x = op.Abs(x)
    large = op.Greater(x, 8.0)
    small = op.Where(large, constant(op, 8.0), x)
    half = op.Mul(small, 0.5)
    terms = [1.0 / (math.factorial(k) * math.factorial(k + order)) for k in range(32)]
    series = op.Mul(polynomial(op, op.Mul(half, half), terms), op.Exp(op.Neg(small)))
    if order:
        series = op.Mul(series, half)
    y = op.Where(large, x, constant(op, 8.0))
    inverse = op.Sub(op.Div(constant(op, 16.0), y), 1.0)
    tail = op.Div(polynomial(op, inverse, I1_TAIL if order else I0_TAIL), op.Sqrt(y))
    return op.Where(large, tail, series)


@in_double
def i0e(op: OpBuilder, x: ir.Value) -> ir.Value:
    """exp(-|x|) I0(x)."""
    return bessel_scaled(op, x, 0)


@in_double
def i1e(op: OpBuilder, x: ir.Value) -> ir.Value:
    """exp(-|x|) I1(x)."""
    return op.Mul(op.Sign(x), bessel_scaled(op, x, 1))


# The greatest number whose exponential is a float32.
_EXP_OF_SINGLE = 88.72283905206835


def exp_within(op: OpBuilder, x: ir.Value, dtype: ir.DataType | None) -> ir.Value:
    """exp of a double, infinite where it leaves `dtype`."""
    result = op.Exp(x)
    return result if dtype == _DOUBLE else op.Where(op.Greater(x, _EXP_OF_SINGLE), constant(op, math.inf), result)


def _modified(op: OpBuilder, x: ir.Value, order: int) -> ir.Value:
    """exp(|x|) times exp(-|x|) I(|x|), infinite from where exp(|x|) leaves the operand's type, and NaN at an infinity.

    So it is in Cephes, which PyTorch, SciPy and TensorFlow follow, though I itself is within the type up to 91.9 (float64:
    713.9).
    """
    wide = op.cast(op.Abs(x), _DOUBLE)
    return op.Mul(bessel_scaled(op, wide, order), exp_within(op, wide, x.dtype))


def i0(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The modified Bessel function I0."""
    return op.cast_like(_modified(op, x, 0), x)


def i1(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The modified Bessel function I1."""
    result = _modified(op, x, 1)
    return op.cast_like(op.Mul(op.cast(op.Sign(x), _DOUBLE), result), x)


# -- others ------------------------------------------------------------------------------------------------------------


def sinc(op: OpBuilder, x: ir.Value) -> ir.Value:
    """sin(pi x) / (pi x), 1 at 0."""
    product = op.Mul(x, math.pi)
    zero = op.Equal(x, 0.0)
    one = op.const(1.0, x.dtype)
    return op.Where(zero, one, op.Div(op.Sin(product), op.Where(zero, one, product)))


def entr(op: OpBuilder, x: ir.Value) -> ir.Value:
    """-x log(x), 0 at 0, minus infinity below."""
    positive = op.Greater(x, 0.0)
    zero, inf = op.const(0.0, x.dtype), op.const(-math.inf, x.dtype)
    below = op.Where(op.Less(x, 0.0), inf, x)
    safe = op.Where(positive, x, op.const(1.0, x.dtype))
    return op.Where(positive, op.Neg(op.Mul(x, op.Log(safe))), op.Where(op.Equal(x, 0.0), zero, below))


def xlog1py(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x log(1 + y), 0 where x is 0 and y is a number."""
    zero = op.And(op.Equal(x, 0.0), op.Not(op.IsNaN(y)))
    return op.Where(zero, op.const(0.0, x.dtype), op.Mul(x, log1p(op, y)))
