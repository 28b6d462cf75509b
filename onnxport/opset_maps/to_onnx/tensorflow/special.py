"""Special functions, bit operations and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, f32, i32, i64
from onnxport.opset_maps.elementwise import BY_TF
from onnxport.opset_maps.lowerings import arithmetic, bessel, special
from onnxport.opset_maps.lowerings.elementwise import lower_row
from onnxport.opset_maps.lowerings.incomplete_beta import betainc
from onnxport.opset_maps.lowerings.incomplete_gamma import igamma, igammac
from onnxport.opset_maps.lowerings.reductions import is_floating
from onnxport.opset_maps.maps import tensorflow


@tensorflow.lower("Digamma", cases=[case(lambda x: tf.math.digamma(x), f32(2, 3, low=0.2, high=6.0))])
def digamma(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The derivative of log gamma(x); NaN at 0, where PyTorch's is infinite."""
    return op.Where(op.Equal(x, 0.0), op.const(np.nan, x.dtype), special.digamma(op, x))


@tensorflow.lower(
    "Zeta",
    cases=[
        case(lambda x, q: tf.math.zeta(x, q), f32(2, 3, low=1.5, high=4.0), f32(2, 3, low=0.5, high=3.0)),
        case(
            lambda x, q: tf.math.zeta(x, q),
            np.array([np.inf] * 6, np.float32),
            np.array([0.5, 1, 2, -2.5, np.inf, np.nan], np.float32),
        ),
    ],
)
def zeta(op: OpBuilder, x: ir.Value, q: ir.Value) -> ir.Value:
    """The Hurwitz zeta function; at its poles, of 0 and negative integers, infinite for even x, else NaN."""
    half = op.Mul(x, 0.5)
    at_pole = op.And(op.LessOrEqual(q, 0.0), op.Equal(q, op.Floor(q)))
    at_pole = op.And(at_pole, op.Not(op.LessOrEqual(x, 1.0)))
    infinity = op.const(np.inf, x.dtype)
    limit = op.Where(op.Equal(half, op.Floor(half)), infinity, op.const(np.nan, x.dtype))
    result = op.Where(at_pole, limit, special.zeta(op, x, q))
    # q^-x of an infinite x
    of_q = op.Where(op.Less(q, 1.0), infinity, op.cast_like(op.Equal(q, 1.0), x))
    known = op.And(op.Equal(x, infinity), op.Not(op.Or(at_pole, op.IsNaN(q))))
    far = op.And(op.Equal(q, infinity), op.Greater(x, 1.0))  # NaN in Cephes, and in PyTorch
    return op.Where(far, op.const(0.0, x.dtype), op.Where(known, of_q, result))


_BESSEL = {
    "BesselY0": bessel.bessel_y0,
    "BesselY1": bessel.bessel_y1,
    "BesselK0": bessel.k0,
    "BesselK0e": bessel.k0e,
    "BesselK1": bessel.k1,
    "BesselK1e": bessel.k1e,
}
_EDGES = np.array([0.0, -1.0, -0.0, 1.0, 9.0], np.float32)


def _bessel_cases(name: str) -> list[Case]:
    call = getattr(tf.raw_ops, name)
    return [
        case(lambda x: call(x=x), f32(20, low=0.01, high=20.0)),
        *(case(lambda x: call(x=x), _EDGES.astype(dtype)) for dtype in (np.float32, np.float64)),
    ]


@tensorflow.lower(*_BESSEL, cases=[item for name in _BESSEL for item in _bessel_cases(name)])
def bessel_from_zero(op: OpBuilder, x: ir.Value) -> ir.Value:
    """A Bessel function of positive numbers; below 0 the infinity that PyTorch's has at 0 alone."""
    result = _BESSEL[op.name](op, x)
    if op.name == "BesselY1" and x.dtype != ir.DataType.DOUBLE:
        result = op.Where(op.Equal(x, 0.0), op.const(np.nan, x.dtype), result)
    infinity = -np.inf if op.name in ("BesselY0", "BesselY1") else np.inf
    return op.Where(op.Less(x, 0.0), op.const(infinity, x.dtype), result)


def _gamma_cases(call: Callable[[Any, Any], Any]) -> list[Case]:
    inf, nan = np.inf, np.nan
    edges = np.array(
        [[0, 0, 1, 2, -1, 1, -1, nan, inf, inf, 2, inf, nan], [1, 0, 0, 9, 1, -1, 0, 0, inf, 1, inf, nan, inf]],
        np.float32,
    )
    return [case(call, f32(60, low=0.1, high=9.0), f32(60, low=0.1, high=9.0)), case(call, *edges)]


@tensorflow.lower("Igamma", "Igammac", cases=[*_gamma_cases(tf.math.igamma), *_gamma_cases(tf.math.igammac)])
def incomplete_gamma(op: OpBuilder, a: ir.Value, x: ir.Value) -> ir.Value:
    """A series below a + 1, a continued fraction above; NaN for a of 0, where PyTorch's have limits.

    P of 0 is 0, whatever a is; both are 0 where a and x are infinite; else NaN stays, where PyTorch's have limits.
    """
    apply = igammac if op.name == "Igammac" else igamma
    unknown = op.Or(op.Equal(a, 0.0), op.Or(op.IsNaN(a), op.IsNaN(x)))
    result = op.Where(unknown, op.const(np.nan, a.dtype), apply(op, a, x))
    infinity = op.const(np.inf, a.dtype)
    none = op.And(op.Equal(a, infinity), op.Equal(x, infinity))
    if op.name == "Igamma":
        none = op.Or(none, op.Equal(x, 0.0))
    return op.Where(none, op.const(0.0, a.dtype), result)


@tensorflow.lower(
    "Betainc",
    cases=[
        case(tf.math.betainc, f32(60, low=0.1, high=9.0), f32(60, low=0.1, high=9.0), f32(60, low=0.0, high=1.0)),
        case(
            tf.math.betainc,
            np.array([1, 2, 0, 1, -1, 300, 3, np.inf, 2, np.nan, 0], np.float32),
            np.array([2, 3, 1, 1, 1, 500, 2, 2, np.nan, np.inf, 1], np.float32),
            np.array([0, 1, 0.5, 2, 0.5, 0.4, 0.25, 0, 1, 1, 1], np.float32),
        ),
    ],
)
def incomplete_beta(op: OpBuilder, a: ir.Value, b: ir.Value, x: ir.Value) -> ir.Value:
    """A continued fraction from the nearer end; NaN outside of its domain."""
    return betainc(op, a, b, x)


@tensorflow.lower(
    "Round", cases=[case(lambda x: tf.round(x), f32(3, 4)), case(lambda x: tf.round(x * 0.0 + 2.5), f32(2))]
)
def round_(op: OpBuilder, x: ir.Value) -> ir.Value:
    """ONNX Round, halves to even."""
    if not is_floating(x):
        raise UnsupportedOperator(
            "Round of whole numbers: TensorFlow's kernel gives zeros; tf.round leaves them as they are"
        )
    return op.Round(x)


@tensorflow.lower("Mod", cases=[case(lambda x, y: tf.raw_ops.Mod(x=x, y=y), i32(2, 3), i32(3, low=1, high=4))])
def mod(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The remainder with the sign of the dividend."""
    return arithmetic.trunc_mod(op, x, y)


@tensorflow.lower(
    "ApproximateEqual",
    cases=[case(lambda x, y: tf.raw_ops.ApproximateEqual(x=x, y=y, tolerance=0.5), f32(3, 4), f32(3, 4))],
)
def approximate_equal(op: OpBuilder, x: ir.Value, y: ir.Value, *, tolerance: float = 1e-5) -> ir.Value:
    """|x - y| < tolerance."""
    return op.Less(op.Abs(op.Sub(x, y)), tolerance)


_SHIFTS = ("LeftShift", "RightShift")


def _shifts(direction: str) -> Callable[[Any, Any], Any]:
    return lambda x, y: getattr(tf.raw_ops, direction)(x=tf.cast(x, tf.uint32), y=tf.cast(y, tf.uint32))


@tensorflow.lower(
    *_SHIFTS,
    cases=[
        case(_shifts("LeftShift"), i32(2, 3, low=0, high=9), i32(3, low=0, high=5)),
        case(_shifts("RightShift"), i32(2, 3, low=0, high=99), i32(3, low=0, high=5)),
        case(tf.bitwise.left_shift, i32(2, 3, low=-99, high=99), i32(3, low=0, high=40)),
        case(tf.bitwise.right_shift, i64(2, 3, low=-99, high=99), i64(3, low=-3, high=70)),
        *(case(_shifts(way), i32(2, 3, low=-99, high=99), np.array([31, 32, 99], np.int32)) for way in _SHIFTS),
    ],
)
def shift(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """ONNX BitShift of unsigned integers; of signed ones a product or quotient, the count kept within the width."""
    if x.dtype is not None and x.dtype.is_signed():
        count = op.Clip(op.cast(y, ir.DataType.INT64), 0, x.dtype.bitwidth - 1)
        apply = arithmetic.shift_left if op.name == "LeftShift" else arithmetic.shift_right
        return op.cast_like(apply(op, op.cast(x, ir.DataType.INT64), count), x)
    assert y.dtype is not None
    count = op.Min(y, op.const(y.dtype.bitwidth - 1, y.dtype))
    return op.BitShift(x, count, direction="LEFT" if op.name == "LeftShift" else "RIGHT")


@tensorflow.lower(
    "Polygamma",
    cases=[
        *(case(lambda x, n=n: tf.math.polygamma(tf.constant(n), x), f32(5, low=0.3)) for n in (0.0, 1.0, 3.0)),
        case(tf.math.polygamma, np.array([0, 1, 2, 5, 0.5, -1], np.float32), f32(6, low=0.3, high=4.0)),
        case(
            tf.math.polygamma,
            np.array([0, 2, 3, np.inf, np.inf, np.inf, 2, -1], np.float32),
            np.array([0, -1, -1, 0.5, 1, -1, -np.inf, 1], np.float32),
        ),
        *(
            case(lambda x, n=n: tf.math.polygamma(tf.constant(n), x), np.array([0, -1, 2, -2.5], np.float32))
            for n in (-1.0, 0.0, 2.0)
        ),
    ],
)
def polygamma(op: OpBuilder, a: ir.Value, x: ir.Value) -> ir.Value:
    """A derivative of digamma: of an order that varies by the zeta function; NaN of an order that is no whole number."""
    order = op.constant(a)
    known = order is not None and np.unique(order).size == 1
    n = float(order.ravel()[0]) if order is not None and known else -1.0
    if order is None or not 0 <= n < 100 or n != int(n):
        return _polygamma_of(op, a, x)
    x = op.Expand(x, op.const(order.shape)) if order.ndim else x
    if n == 0:
        return digamma(op, x)
    result = special.polygamma(op, int(n), x)
    if n > 1:
        result = op.Where(op.Equal(x, np.inf), op.const(0.0, x.dtype), result)
    if n % 2:
        return result
    at_pole = op.And(op.LessOrEqual(x, 0.0), op.Equal(x, op.Floor(x)))
    return op.Where(at_pole, op.const(np.nan, x.dtype), result)


def _polygamma_of(op: OpBuilder, a: ir.Value, x: ir.Value) -> ir.Value:
    double = ir.DataType.DOUBLE
    order, wide = op.cast(a, double), op.cast(x, double)
    known = op.And(op.GreaterOrEqual(order, 0.0), op.Equal(order, op.Floor(order)))
    above = op.Add(op.Where(op.And(known, op.Greater(order, 0.0)), order, op.const(1.0, double)), 1.0)
    # (-1)^(n + 1), which is 1 of an infinite order
    odd = op.Mod(op.Where(op.Equal(above, np.inf), op.const(2.0, double), above), op.const(2.0, double), fmod=1)
    sign = op.Sub(1.0, op.Mul(odd, 2.0))
    series = op.Mul(op.Mul(sign, op.Exp(special.lgamma(op, above))), zeta(op, above, wide))
    result = op.Where(op.Equal(order, 0.0), digamma(op, wide), series)
    return op.cast_like(op.Where(known, result, op.const(np.nan, double)), x)


@tensorflow.lower(
    "ToBool",
    cases=[case(lambda x: tf.raw_ops.ToBool(input=x), f32()), case(lambda x: tf.raw_ops.ToBool(input=x), f32(0, 2))],
)
def to_bool(op: OpBuilder, input: ir.Value) -> ir.Value:
    """Whether a number is not zero, or a tensor has elements."""
    if input.shape is None or input.dtype == ir.DataType.STRING:
        raise UnsupportedOperator("ToBool of strings or of an unknown rank")
    return op.cast(input if input.shape.rank() == 0 else op.Size(input), ir.DataType.BOOL)


@tensorflow.lower(
    "PopulationCount",
    cases=[
        *(case(lambda x: tf.raw_ops.PopulationCount(x=x), drawn) for drawn in (i32(9, low=-90, high=90), i64(9))),
        case(lambda x: tf.raw_ops.PopulationCount(x=x), np.array([0, 255, 128, 7], np.uint8)),
        case(lambda x: tf.raw_ops.PopulationCount(x=x), np.array([0, 2**64 - 1, 2**63, 7], np.uint64)),
    ],
)
def population_count(op: OpBuilder, x: ir.Value) -> ir.Value:
    """How many bits are set, of the unsigned number with the same bits."""
    bits = (x.dtype or ir.DataType.INT32).bitwidth
    wide = op.cast(x, ir.DataType.INT64)
    total = op.cast(op.Less(wide, 0), ir.DataType.INT64)  # the sign's bit; the rest is not negative then
    least = op.const(-(2 ** (bits - 1)))
    rest = op.Where(op.Less(wide, 0), op.Sub(wide, least), wide)
    for place in range(bits - 1 if bits == 64 or (x.dtype or ir.DataType.INT32).is_signed() else bits):
        total = op.Add(total, op.Mod(op.Div(rest, 2**place), 2))
    return op.cast(total, ir.DataType.UINT8)


@tensorflow.lower(
    "Erf",
    cases=[
        case(lambda x: tf.raw_ops.Erf(x=x), f32(2, 3)),
        case(lambda x: tf.raw_ops.Erf(x=x), np.array([1e153, -1.3e154, 1.4e154, -1e200, np.inf, np.nan])),
    ],
)
def erf(op: OpBuilder, x: ir.Value) -> ir.Value:
    """ONNX Erf; of float64 NaN from where the square of x is infinite, as in TensorFlow's kernel."""
    result = lower_row(BY_TF["Erf"])(op, x)
    if x.dtype != ir.DataType.DOUBLE:
        return result
    square = op.Mul(x, x)
    return op.Add(result, op.Sub(square, square))


@tensorflow.lower(
    "Erfinv",
    cases=[
        case(lambda x: tf.raw_ops.Erfinv(x=x), f32(40, low=-1.0, high=1.0)),
        *(
            case(lambda x: tf.raw_ops.Erfinv(x=x), np.array([1 - gap, 1 - 4 * gap, gap - 1, 1.0, -1.0, 2.0], dtype))
            for gap, dtype in ((2.0**-24, np.float32), (2.0**-53, np.float64))
        ),
    ],
)
def erfinv(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The inverse of erf; infinite where (x + 1) / 2 rounds to 1: TensorFlow takes it from that of ndtr."""
    result = lower_row(BY_TF["Erfinv"])(op, x)
    if x.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return result
    rounded = op.Equal(op.Mul(op.Add(x, 1.0), 0.5), 1.0)
    return op.Where(rounded, op.const(np.inf, x.dtype), result)
