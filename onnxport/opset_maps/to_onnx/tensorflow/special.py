"""Special functions, bit operations and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i32
from onnxport.opset_maps.lowerings import arithmetic, special
from onnxport.opset_maps.maps import tensorflow


@tensorflow.lower("Digamma", cases=[case(lambda x: tf.math.digamma(x), f32(2, 3, low=0.2, high=6.0))])
def digamma(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The derivative of log gamma(x); NaN at 0, where PyTorch's is infinite."""
    return op.Where(op.Equal(x, 0.0), op.const(np.nan, x.dtype), special.digamma(op, x))


@tensorflow.lower(
    "Zeta", cases=[case(lambda x, q: tf.math.zeta(x, q), f32(2, 3, low=1.5, high=4.0), f32(2, 3, low=0.5, high=3.0))]
)
def zeta(op: OpBuilder, x: ir.Value, q: ir.Value) -> ir.Value:
    """The Hurwitz zeta function; at its poles, of 0 and negative integers, infinite for even x, else NaN."""
    half = op.Mul(x, 0.5)
    at_pole = op.And(op.LessOrEqual(q, 0.0), op.Equal(q, op.Floor(q)))
    at_pole = op.And(at_pole, op.Not(op.LessOrEqual(x, 1.0)))
    limit = op.Where(op.Equal(half, op.Floor(half)), op.const(np.inf, x.dtype), op.const(np.nan, x.dtype))
    return op.Where(at_pole, limit, special.zeta(op, x, q))


@tensorflow.lower(
    "Round", cases=[case(lambda x: tf.round(x), f32(3, 4)), case(lambda x: tf.round(x * 0.0 + 2.5), f32(2))]
)
def round_(op: OpBuilder, x: ir.Value) -> ir.Value:
    """ONNX Round, halves to even; integers are round already."""
    return op.Round(x) if x.dtype is not None and x.dtype.is_floating_point() else x


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


def _shifts(direction: str) -> Callable[[Any, Any], Any]:
    return lambda x, y: getattr(tf.raw_ops, direction)(x=tf.cast(x, tf.uint32), y=tf.cast(y, tf.uint32))


@tensorflow.lower(
    "LeftShift",
    "RightShift",
    cases=[
        case(_shifts("LeftShift"), i32(2, 3, low=0, high=9), i32(3, low=0, high=5)),
        case(_shifts("RightShift"), i32(2, 3, low=0, high=99), i32(3, low=0, high=5)),
    ],
)
def shift(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """ONNX BitShift of unsigned integers."""
    return op.BitShift(x, y, direction="LEFT" if op.name == "LeftShift" else "RIGHT")
