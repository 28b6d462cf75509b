"""Reductions of NaN, of narrow types, and of no elements at all.

ONNX does not say what extremes of NaN are, nor the mean of no elements, and kernels differ (docs/conformance/special_values.md).
NumPy and the frameworks give NaN (an extreme of TensorFlow's ArgMax apart), and so does the graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph import schema
from onnxport.graph.builder import OpBuilder

# The axes of a reduction: numbers, an INT64 vector that is computed when the model runs, or None for all of them.
Axes = Sequence[int] | ir.Value | None
_NARROW = (ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16)


def is_floating(x: ir.Value) -> bool:
    """Whether `x` can hold NaN."""
    return x.dtype is not None and x.dtype.is_floating_point()


def _widened(op: OpBuilder, operator: str, x: ir.Value) -> ir.Value:
    """`x` in a type that the operator takes: INT32 for booleans, and for narrow integers that it has no form for."""
    own = x.dtype != ir.DataType.BOOL and x.dtype in schema.allowed_dtypes("", operator, op.opset)
    return op.cast(x, ir.DataType.INT32) if x.dtype in _NARROW and not own else x


def _reduce(op: OpBuilder, operator: str, x: ir.Value, axes: Axes, *, keepdims: bool) -> ir.Value:
    if not isinstance(axes, ir.Value):
        return op.reduce(operator, x, axes, keepdims=keepdims)
    if op.opset < (13 if operator == "ReduceSum" else 18):
        raise UnsupportedOperator(f"{operator} over axes that are computed when the model runs needs opset 18")
    result: ir.Value = op.node(operator, x, axes, keepdims=int(keepdims), noop_with_empty_axes=1)
    return result


def reduced(op: OpBuilder, operator: str, x: ir.Value, axes: Axes, *, keepdims: bool) -> ir.Value:
    """ReduceSum, ReduceMax, ReduceMin or another reduction, in the type of `x`; no axes leave `x` as it is.

    An extreme is NaN where an element is, and of at least one element; the mean of nothing is NaN.

    Raises:
        UnsupportedOperator: the opset knows no axes that are computed when the model runs.
    """
    if not isinstance(axes, ir.Value) and axes is not None and not axes:
        return x
    if operator == "ReduceMean":
        return mean(op, x, axes, keepdims=keepdims, count=element_count(op, x, axes))
    result = op.cast_like(_reduce(op, operator, _widened(op, operator, x), axes, keepdims=keepdims), x)
    if operator in ("ReduceMax", "ReduceMin") and is_floating(x):  # Clip keeps NaN
        result = op.Add(result, _reduce(op, "ReduceSum", cut_to_zero(op, x), axes, keepdims=keepdims))
    return result


def cut_to_zero(op: OpBuilder, x: ir.Value) -> ir.Value:
    """0 for each number and infinity, NaN for NaN."""
    zero = op.const(0.0, x.dtype)
    return op.Clip(x, zero, zero)


def truth(op: OpBuilder, operator: str, x: ir.Value, axes: Axes, *, keepdims: bool) -> ir.Value:
    """Whether one element is not zero (ReduceMax), or none is zero (ReduceMin); of no elements false and true."""
    numbers = op.cast(op.cast(x, ir.DataType.BOOL), ir.DataType.INT32)
    result = reduced(op, operator, numbers, axes, keepdims=keepdims)  # of nothing the type's least or greatest number
    return op.Greater(result, 0) if operator == "ReduceMax" else op.cast(result, ir.DataType.BOOL)


def mean(op: OpBuilder, x: ir.Value, axes: Axes, *, keepdims: bool, count: ir.Value | int) -> ir.Value:
    """ReduceMean of `count` elements (`element_count`); NaN where there is nothing to reduce."""
    result = _reduce(op, "ReduceMean", x, axes, keepdims=keepdims)
    if isinstance(count, int) and count > 0:
        return result
    nan = op.const(math.nan, x.dtype)
    return op.Mul(result, nan) if isinstance(count, int) else op.Where(op.Equal(count, 0), nan, result)


def element_count(op: OpBuilder, x: ir.Value, axes: Axes) -> ir.Value | int:
    """How many elements are reduced along `axes`: a number where their sizes are static, else an INT64 scalar."""
    if isinstance(axes, ir.Value):
        return op.ReduceProd(op.Gather(op.Shape(x), axes, axis=0), keepdims=0)
    if axes is None:
        if x.shape is None:
            return op.Size(x)
        axes = range(x.shape.rank())
    sizes = [x.shape[axis] if x.shape is not None else None for axis in axes]
    static = [size for size in sizes if isinstance(size, int)]
    if len(static) == len(sizes) or 0 in static:
        return math.prod(static)
    dynamic = [axis for axis, size in zip(axes, sizes, strict=True) if not isinstance(size, int)]
    count = op.Squeeze(op.dim(x, dynamic[0]), op.axes(0))
    for axis in dynamic[1:]:
        count = op.Mul(count, op.Squeeze(op.dim(x, axis), op.axes(0)))
    return count if math.prod(static) == 1 else op.Mul(count, math.prod(static))


def first_extreme(
    op: OpBuilder, operator: str, x: ir.Value, axis: int, *, keepdims: bool, last_nan: bool = False
) -> ir.Value:
    """ArgMax or ArgMin, where the first (or last) NaN is more extreme than every number, as in NumPy and PyTorch."""
    if x.shape is not None:
        axis %= x.shape.rank()
    result = extreme_of_numbers(op, operator, x, axis, keepdims=keepdims)
    if not is_floating(x):
        return result
    is_nan = op.Cast(op.IsNaN(x), to=ir.DataType.INT32)
    any_nan = op.cast(op.reduce("ReduceMax", is_nan, [axis], keepdims=keepdims), ir.DataType.BOOL)
    nan = op.ArgMax(is_nan, axis=axis, keepdims=int(keepdims), select_last_index=int(last_nan))
    return op.Where(any_nan, nan, result)


def extreme_of_numbers(op: OpBuilder, operator: str, x: ir.Value, axis: int, *, keepdims: bool) -> ir.Value:
    """ArgMax or ArgMin of what holds no NaN."""
    if x.shape is not None:  # a tensor without elements too is reduced along an axis counted from the first
        axis %= x.shape.rank()
    result: ir.Value = op.node(operator, _widened(op, operator, x), axis=axis, keepdims=int(keepdims))
    return result


def without_nan(op: OpBuilder, x: ir.Value) -> ir.Value:
    """`x` with the type's least number for NaN and minus infinity, where TensorFlow's search for the greatest starts."""
    if x.dtype is None or not is_floating(x):
        return x
    least = op.const(float(x.dtype.min), x.dtype)
    return op.Where(op.GreaterOrEqual(x, least), x, least)
