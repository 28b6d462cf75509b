"""Reductions, cumulative sums and extremes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.graph.schema import allowed_dtypes
from onnxport.opset_maps.cases import Case, boolean, case, f32, f64, i32, i64
from onnxport.opset_maps.lowerings import arithmetic, cumulative, reductions
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, rank, static_int, vector

# By TensorFlow's name.
_REDUCTIONS = {
    "Sum": "ReduceSum",
    "Mean": "ReduceMean",
    "Max": "ReduceMax",
    "Min": "ReduceMin",
    "Prod": "ReduceProd",
    "EuclideanNorm": "ReduceL2",
}


def _axes(op: OpBuilder, x: ir.Value, axes: ir.Value) -> list[int] | ir.Value:
    """The reduced axes, counted from the first where they are constant and the rank is known; else an INT64 vector."""
    result = op.constant(axes)
    if result is None:
        return vector(op, axes)
    return [int(axis) if x.shape is None else int(axis) % max(rank(x), 1) for axis in result.ravel()]


def _reduction_cases(name: str) -> list[Case]:
    if name == "EuclideanNorm":
        norm = tf.math.reduce_euclidean_norm
        cases = [case(lambda x: norm(x, axis=1), f32(2, 3, 4)), case(lambda x: norm(x, axis=[]), f32(2, 3))]
        return [*cases, case(lambda x: (norm(x), norm(tf.cast(x * 30, tf.int8), 1)), i32(2, 3)), case(norm, f32())]
    call = getattr(tf.raw_ops, name)
    return [
        case(lambda x: call(input=x, axis=[1]), f32(2, 3, 4)),
        case(lambda x: call(input=x, axis=[0, -1], keep_dims=True), f32(2, 3, 4), dynamic=True),
        case(lambda x: call(input=x, axis=1), i32(2, 3)),
        case(lambda x: call(input=x, axis=tf.constant([], tf.int32)), f32(2, 3)),
    ]


def _register(name: str, operator: str) -> None:
    @tensorflow.lower(name, cases=_reduction_cases(name))
    def lower(op: OpBuilder, input: ir.Value, axis: ir.Value, *, keep_dims: bool = False) -> ir.Value:
        axes = _axes(op, input, axis)
        if name == "Mean" and not reductions.is_floating(input):
            return _integer_mean(op, input, axes, keep_dims)
        if name == "EuclideanNorm" and not reductions.is_floating(input):
            return _integer_norm(op, input, axes, keep_dims)
        # over no axes a norm is the size of each element
        result = reductions.reduced(op, operator, input, axes, keepdims=keep_dims)
        result = op.Abs(result) if name == "EuclideanNorm" and not axes else result
        return _or_of_nothing(op, operator, input, axes, result)

    lower.__doc__ = f"ONNX {operator}."


def _or_of_nothing(op: OpBuilder, operator: str, x: ir.Value, axes: list[int] | ir.Value, result: ir.Value) -> ir.Value:
    """`result`, or where no whole number was reduced the least number as their maximum, the greatest as their minimum."""
    if operator not in ("ReduceMax", "ReduceMin") or x.dtype is None or not x.dtype.is_integer():
        return result
    count = reductions.element_count(op, x, axes)
    if isinstance(count, int) and count:
        return result
    limits = np.iinfo(x.dtype.numpy())
    limit = op.const(limits.min if operator == "ReduceMax" else limits.max, x.dtype)
    return op.Where(op.Equal(count, 0), limit, result)


def _integer_mean(op: OpBuilder, x: ir.Value, axes: list[int] | ir.Value, keep_dims: bool) -> ir.Value:
    """The sum divided by the count, rounded toward zero as TensorFlow does; of nothing 0."""
    total = reductions.reduced(op, "ReduceSum", op.cast(x, ir.DataType.INT64), axes, keepdims=keep_dims)
    count = op.Max(op.const(1), reductions.element_count(op, x, axes))
    if x.dtype == ir.DataType.UINT64:
        return op.Div(op.cast_like(total, x), op.cast_like(count, x))
    return op.cast_like(op.Div(total, count), x)


def _integer_norm(op: OpBuilder, x: ir.Value, axes: list[int] | ir.Value, keep_dims: bool) -> ir.Value:
    """The root of the sum of squares, which wraps around in the operand's type; of a negative one what a cast of NaN is."""
    wide = op.cast(x, ir.DataType.INT64)
    total = reductions.reduced(op, "ReduceSum", op.Mul(wide, wide), axes, keepdims=keep_dims)
    total = op.cast_like(total, x)
    root = op.cast_like(op.Floor(op.Sqrt(op.cast(total, ir.DataType.DOUBLE))), x)
    if x.dtype is None or not x.dtype.is_signed():
        return root
    least = np.iinfo(x.dtype.numpy()).min if x.dtype.bitwidth >= 32 else 0
    return op.Where(op.Less(total, 0), op.const(least, x.dtype), root)


for _name, _operator in _REDUCTIONS.items():
    _register(_name, _operator)


@tensorflow.lower(
    "All", cases=[case(lambda x: tf.reduce_all(x, axis=1), boolean(4, 2)), case(tf.reduce_all, boolean(2, 1))]
)
def all_(op: OpBuilder, input: ir.Value, axis: ir.Value, *, keep_dims: bool = False) -> ir.Value:
    """The least of the elements as integers."""
    return reductions.truth(op, "ReduceMin", input, _axes(op, input, axis), keepdims=keep_dims)


@tensorflow.lower("Any", cases=[case(lambda x: tf.reduce_any(x, axis=1, keepdims=True), boolean(4, 2))])
def any_(op: OpBuilder, input: ir.Value, axis: ir.Value, *, keep_dims: bool = False) -> ir.Value:
    """The greatest of the elements as integers."""
    return reductions.truth(op, "ReduceMax", input, _axes(op, input, axis), keepdims=keep_dims)


def _register_place(name: str, summary: str, cases: list[Case]) -> None:
    @tensorflow.lower(name, cases=cases)
    def lower(
        op: OpBuilder, input: ir.Value, dimension: ir.Value, *, output_type: ir.DataType = ir.DataType.INT64
    ) -> ir.Value:
        operator, x = name, op.cast(input, ir.DataType.INT32) if input.dtype == ir.DataType.BOOL else input
        if operator == "ArgMin" and reductions.is_floating(x):
            operator, x = "ArgMax", op.Neg(x)
        axis = static_int(op, dimension, "dimension") % rank(x)
        return op.cast(op.node(operator, reductions.without_nan(op, x), axis=axis, keepdims=0), output_type)

    lower.__doc__ = summary


_register_place(
    "ArgMax",
    "ONNX ArgMax; the first of equal elements in both. TensorFlow passes over NaN and counts -infinity as the least number.",
    [
        case(lambda x: tf.argmax(x, axis=1), f32(2, 3, 4)),
        case(lambda x: tf.argmax(x, axis=-1, output_type=tf.int32), i32(2, 9)),
    ],
)
_register_place(
    "ArgMin",
    "ONNX ArgMin, of floating-point numbers ArgMax of their opposites.",
    [case(lambda x: tf.argmin(x, axis=0), f32(2, 3, 4))],
)


def _cumulative(**options: bool) -> Callable[[tf.Tensor], tf.Tensor]:
    return lambda x: tf.cumsum(x, axis=1, **options)


@tensorflow.lower(
    "Cumsum",
    cases=[
        case(_cumulative(), f32(2, 5)),
        case(_cumulative(exclusive=True, reverse=True), f32(2, 5)),
        case(_cumulative(reverse=True), i64(2, 5)),
        case(_cumulative(), np.array([[100, 100, -3], [-128, -1, 5]], np.int8)),
    ],
)
def cumsum(op: OpBuilder, x: ir.Value, axis: ir.Value, *, exclusive: bool = False, reverse: bool = False) -> ir.Value:
    """ONNX CumSum; of narrow integers in INT64, whose sums wrap alike."""
    wide = x if x.dtype in allowed_dtypes("", "CumSum", op.opset) else op.cast(x, ir.DataType.INT64)
    return op.cast_like(op.CumSum(wide, int64(op, axis), exclusive=int(exclusive), reverse=int(reverse)), x)


def _walked(
    op: OpBuilder,
    x: ir.Value,
    axis: ir.Value,
    write: Callable[[OpBuilder, ir.Value, int], ir.Value],
    start: float,
    *,
    exclusive: bool,
    reverse: bool,
) -> ir.Value:
    """A running result from the front or from the back, of what is before each element or up to it."""
    place = static_int(op, axis, "axis") % rank(x)
    end = np.iinfo(np.int64).max

    def turned(item: ir.Value) -> ir.Value:
        return op.Slice(item, [-1], [-end], [place], [-1]) if reverse else item

    x = turned(x)
    result = write(op, x, place)
    if exclusive:
        first = op.Expand(op.const(start, x.dtype), op.shape(op.Slice(x, [0], [1], [place])))
        result = op.Concat(first, op.Slice(result, [0], [-1], [place]), axis=place)
    return turned(result)


@tensorflow.lower(
    "Cumprod",
    cases=[
        case(lambda x: tf.math.cumprod(x, axis=1), f32(2, 5), dynamic=True),
        case(lambda x: tf.math.cumprod(x, axis=0, exclusive=True, reverse=True), f32(4, 3)),
        case(lambda x: tf.math.cumprod(x, axis=-1), i64(2, 5)),
    ],
)
def cumprod(op: OpBuilder, x: ir.Value, axis: ir.Value, *, exclusive: bool = False, reverse: bool = False) -> ir.Value:
    """ONNX CumProd, which opset 26 brings, or a Scan."""
    return _walked(op, x, axis, cumulative.cumprod, 1, exclusive=exclusive, reverse=reverse)


@tensorflow.lower(
    "CumulativeLogsumexp",
    cases=[
        case(lambda x: tf.math.cumulative_logsumexp(x, axis=1), f32(2, 5), dynamic=True),
        case(lambda x: tf.math.cumulative_logsumexp(x, axis=0, reverse=True), f64(4, 3, low=90, high=100)),
        case(lambda x: tf.math.cumulative_logsumexp(x, axis=0, exclusive=True), f32(4, 3)),
        case(
            lambda x: tf.math.cumulative_logsumexp(x, axis=1),
            np.array([[1, np.nan, 2, 3], [np.nan, 1, 2, np.inf], [-np.inf, -np.inf, 3, np.nan]], np.float32),
        ),
        case(
            lambda x: tf.math.cumulative_logsumexp(x, axis=1),
            np.array([[np.inf, 1, np.inf, 3], [-np.inf, np.inf, np.nan, 1], [np.inf, -np.inf, 3, 2]], np.float32),
        ),
        case(
            lambda x: tf.math.cumulative_logsumexp(x, axis=1, exclusive=True, reverse=True),
            np.array([[1, np.nan, 2, 3], [np.nan, np.inf, 1, np.nan]], np.float64),
        ),
    ],
)
def cumulative_logsumexp(
    op: OpBuilder, x: ir.Value, axis: ir.Value, *, exclusive: bool = False, reverse: bool = False
) -> ir.Value:
    """A Scan of logaddexp, in which a NaN counts as what was added before it.

    Where the second of two numbers is NaN, Eigen's min and max are both the first (LogSumExp of TensorFlow's scan_ops.h); two
    infinities differ by NaN there.
    """

    def add(b: OpBuilder, total: ir.Value, term: ir.Value) -> ir.Value:
        term = b.Where(b.IsNaN(term), total, term)
        least = b.Min(total, term)
        gap = b.Where(b.Equal(least, b.const(np.inf, x.dtype)), b.const(np.nan, x.dtype), b.const(0.0, x.dtype))
        return b.Add(arithmetic.logaddexp(b, total, term), gap)

    def walk(b: OpBuilder, terms: ir.Value, at: int) -> ir.Value:
        return cumulative.logcumsumexp(b, terms, at, add)

    return _walked(op, x, axis, walk, -np.inf, exclusive=exclusive, reverse=reverse)
