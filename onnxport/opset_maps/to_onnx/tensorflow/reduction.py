"""Reductions, cumulative sums and extremes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, boolean, case, f32, i32, i64
from onnxport.opset_maps.lowerings import reductions
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, rank, static_int

_REDUCTIONS = {"Sum": "ReduceSum", "Mean": "ReduceMean", "Max": "ReduceMax", "Min": "ReduceMin", "Prod": "ReduceProd"}


def reduced(op: OpBuilder, operator: str, x: ir.Value, axes: ir.Value, keep_dims: bool) -> ir.Value:
    """A reduction over axes that are constant, or from opset 18 (ReduceSum: 13) computed."""
    items = _constant_axes(op, x, axes)
    if items is not None and not items:
        return x
    if items is not None and operator == "ReduceProd":
        return op.reduce("ReduceProd", x, items, keepdims=keep_dims)
    reduce = _over(op, operator, axes) if items is None else reductions.over(op, items)
    if operator == "ReduceMean":
        return reductions.mean(op, x, keepdims=keep_dims, reduce=reduce, count=_count(op, x, axes))
    return reductions.reduced(op, operator, x, keepdims=keep_dims, reduce=reduce)


def _constant_axes(op: OpBuilder, x: ir.Value, axes: ir.Value) -> list[int] | None:
    result = op.constant(axes)
    if result is None:
        return None
    if x.shape is None:
        return [int(axis) for axis in result.ravel()]
    return [int(axis) % max(rank(x), 1) for axis in result.ravel()]


def _over(op: OpBuilder, operator: str, axes: ir.Value) -> reductions.Reduction:
    """Reductions over axes that are computed when the model runs."""
    if op.opset < (13 if operator == "ReduceSum" else 18):
        raise UnsupportedOperator(f"{operator} over axes that are computed when the model runs needs opset 18")
    axes = int64(op, axes)
    axes = op.Reshape(axes, [-1]) if axes.shape is None or axes.shape.rank() != 1 else axes
    return lambda name, value, keep: op.node(name, value, axes, keepdims=int(keep), noop_with_empty_axes=1)


_NARROW = frozenset({ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16})


def _reduction_cases(name: str) -> list[Case]:
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
        if name == "Mean" and not (input.dtype and input.dtype.is_floating_point()):
            return _integer_mean(op, input, axis, keep_dims)
        if input.dtype in _NARROW:
            result = op.cast_like(reduced(op, operator, op.cast(input, ir.DataType.INT32), axis, keep_dims), input)
        else:
            result = reduced(op, operator, input, axis, keep_dims)
        return _or_of_nothing(op, operator, input, axis, result)

    lower.__doc__ = f"ONNX {operator}."


def _or_of_nothing(op: OpBuilder, operator: str, x: ir.Value, axes: ir.Value, result: ir.Value) -> ir.Value:
    """`result`, or where no whole number was reduced the least number as their maximum, the greatest as their minimum."""
    if operator not in ("ReduceMax", "ReduceMin") or x.dtype is None or not x.dtype.is_integer():
        return result
    count = _count(op, x, axes)
    if isinstance(count, int) and count:
        return result
    limits = np.iinfo(x.dtype.numpy())
    limit = op.const(limits.min if operator == "ReduceMax" else limits.max, x.dtype)
    return op.Where(op.Equal(count, 0), limit, result)


def _count(op: OpBuilder, x: ir.Value, axes: ir.Value) -> ir.Value | int:
    items = _constant_axes(op, x, axes)
    return reductions.element_count(op, x, int64(op, axes) if items is None else items)


def _integer_mean(op: OpBuilder, x: ir.Value, axes: ir.Value, keep_dims: bool) -> ir.Value:
    """The sum divided by the count, rounded toward zero as TensorFlow does; of nothing 0."""
    total = reduced(op, "ReduceSum", op.cast(x, ir.DataType.INT64), axes, keep_dims)
    return op.cast_like(op.Div(total, op.Max(op.const(1), _count(op, x, axes))), x)


for _name, _operator in _REDUCTIONS.items():
    _register(_name, _operator)


@tensorflow.lower("EuclideanNorm", cases=[case(lambda x: tf.math.reduce_euclidean_norm(x, axis=1), f32(2, 3, 4))])
def euclidean_norm(op: OpBuilder, input: ir.Value, axis: ir.Value, *, keep_dims: bool = False) -> ir.Value:
    """ONNX ReduceL2."""
    return reduced(op, "ReduceL2", input, axis, keep_dims)


@tensorflow.lower(
    "All", cases=[case(lambda x: tf.reduce_all(x, axis=1), boolean(4, 2)), case(tf.reduce_all, boolean(2, 1))]
)
def all_(op: OpBuilder, input: ir.Value, axis: ir.Value, *, keep_dims: bool = False) -> ir.Value:
    """The least of the elements as integers."""
    return op.cast(reduced(op, "ReduceMin", op.cast(input, ir.DataType.INT32), axis, keep_dims), ir.DataType.BOOL)


@tensorflow.lower("Any", cases=[case(lambda x: tf.reduce_any(x, axis=1, keepdims=True), boolean(4, 2))])
def any_(op: OpBuilder, input: ir.Value, axis: ir.Value, *, keep_dims: bool = False) -> ir.Value:
    """The greatest of the elements as integers."""
    return op.Greater(reduced(op, "ReduceMax", op.cast(input, ir.DataType.INT32), axis, keep_dims), 0)


def _extreme(op: OpBuilder, operator: str, x: ir.Value, axis: ir.Value, output_type: ir.DataType) -> ir.Value:
    if x.dtype == ir.DataType.BOOL:
        x = op.cast(x, ir.DataType.INT32)
    if operator == "ArgMin" and reductions.is_floating(x):
        operator, x = "ArgMax", op.Neg(x)
    x = reductions.without_nan(op, x)
    return op.cast(op.node(operator, x, axis=static_int(op, axis, "dimension") % rank(x), keepdims=0), output_type)


@tensorflow.lower(
    "ArgMax",
    cases=[
        case(lambda x: tf.argmax(x, axis=1), f32(2, 3, 4)),
        case(lambda x: tf.argmax(x, axis=-1, output_type=tf.int32), i32(2, 9)),
    ],
)
def arg_max(
    op: OpBuilder, input: ir.Value, dimension: ir.Value, *, output_type: ir.DataType = ir.DataType.INT64
) -> ir.Value:
    """ONNX ArgMax; the first of equal elements in both. TensorFlow passes over NaN and counts -infinity as the least number."""
    return _extreme(op, "ArgMax", input, dimension, output_type)


@tensorflow.lower("ArgMin", cases=[case(lambda x: tf.argmin(x, axis=0), f32(2, 3, 4))])
def arg_min(
    op: OpBuilder, input: ir.Value, dimension: ir.Value, *, output_type: ir.DataType = ir.DataType.INT64
) -> ir.Value:
    """ONNX ArgMin, of floating-point numbers ArgMax of their opposites."""
    return _extreme(op, "ArgMin", input, dimension, output_type)


def _cumulative(**options: bool) -> Callable[[tf.Tensor], tf.Tensor]:
    return lambda x: tf.cumsum(x, axis=1, **options)


@tensorflow.lower(
    "Cumsum",
    cases=[
        case(_cumulative(), f32(2, 5)),
        case(_cumulative(exclusive=True, reverse=True), f32(2, 5)),
        case(_cumulative(reverse=True), i64(2, 5)),
    ],
)
def cumsum(op: OpBuilder, x: ir.Value, axis: ir.Value, *, exclusive: bool = False, reverse: bool = False) -> ir.Value:
    """ONNX CumSum."""
    return op.CumSum(x, int64(op, axis), exclusive=int(exclusive), reverse=int(reverse))


@tensorflow.lower("Cumprod", min_opset=26, cases=[case(lambda x: tf.math.cumprod(x, axis=1), f32(2, 5), min_opset=26)])
def cumprod(op: OpBuilder, x: ir.Value, axis: ir.Value, *, exclusive: bool = False, reverse: bool = False) -> ir.Value:
    """ONNX CumProd, which opset 26 brings."""
    return op.CumProd(x, int64(op, axis), exclusive=int(exclusive), reverse=int(reverse))
