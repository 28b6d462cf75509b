"""Reductions of NaN, and of no elements at all.

onnxruntime's ReduceMax, ReduceMin, ArgMax and ArgMin pass over a NaN unless it stands first, and its ReduceMean of no elements
is 0. The specification defines neither; NumPy and the frameworks give NaN (an extreme of TensorFlow's ArgMax apart).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder

# A reduction over axes that are settled: the operator, what is reduced, and whether the axes stay.
Reduction = Callable[[str, ir.Value, bool], ir.Value]


def over(op: OpBuilder, axes: Sequence[int] | None) -> Reduction:
    """Reductions over some axes, or all."""
    return lambda operator, x, keepdims: op.reduce(operator, x, axes, keepdims=keepdims)


def is_floating(x: ir.Value) -> bool:
    """Whether `x` can hold NaN."""
    return x.dtype is not None and x.dtype.is_floating_point()


def reduced(op: OpBuilder, operator: str, x: ir.Value, *, keepdims: bool, reduce: Reduction) -> ir.Value:
    """ReduceSum, ReduceMax, ReduceMin or another reduction of at least one element."""
    if operator in ("ReduceMax", "ReduceMin") and is_floating(x):
        return op.Add(reduce(operator, x, keepdims), nan_or_zero(op, x, keepdims=keepdims, reduce=reduce))
    return reduce(operator, x, keepdims)


def nan_or_zero(op: OpBuilder, x: ir.Value, *, keepdims: bool, reduce: Reduction) -> ir.Value:
    """NaN where one of the elements is NaN, else 0: a sum of the elements cut to 0, since Clip keeps NaN."""
    return reduce("ReduceSum", cut_to_zero(op, x), keepdims)


def cut_to_zero(op: OpBuilder, x: ir.Value) -> ir.Value:
    """0 for each number and infinity, NaN for NaN."""
    zero = op.const(0.0, x.dtype)
    return op.Clip(x, zero, zero)


def mean(op: OpBuilder, x: ir.Value, *, keepdims: bool, reduce: Reduction, count: ir.Value | int | None) -> ir.Value:
    """ReduceMean; NaN where there is nothing to reduce.

    Args:
        count: how many elements each mean is of (`element_count`).
    """
    result = reduce("ReduceMean", x, keepdims)
    if count is None or (isinstance(count, int) and count > 0):
        return result
    nan = op.const(math.nan, x.dtype)
    if isinstance(count, int):
        return op.Mul(result, nan)
    return op.Where(op.Equal(count, 0), nan, result)


def element_count(op: OpBuilder, x: ir.Value, axes: Sequence[int] | ir.Value) -> ir.Value | int:
    """How many elements are reduced along `axes`: a number where their sizes are static, else an INT64 scalar."""
    if isinstance(axes, ir.Value):
        return op.ReduceProd(op.Gather(op.Shape(x), axes, axis=0), keepdims=0)
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
    axis = (
        axis % x.shape.rank() if x.shape is not None else axis
    )  # over a negative one onnxruntime reduces no empty tensor
    result: ir.Value = op.node(operator, x, axis=axis, keepdims=int(keepdims))
    if not is_floating(x):
        return result
    is_nan = op.Cast(op.IsNaN(x), to=ir.DataType.INT32)
    any_nan = op.cast(op.reduce("ReduceMax", is_nan, [axis], keepdims=keepdims), ir.DataType.BOOL)
    nan = op.ArgMax(is_nan, axis=axis, keepdims=int(keepdims), select_last_index=int(last_nan))
    return op.Where(any_nan, nan, result)


def without_nan(op: OpBuilder, x: ir.Value) -> ir.Value:
    """`x` with the type's least number for NaN and minus infinity, where TensorFlow's search for the greatest starts."""
    if x.dtype is None or not is_floating(x):
        return x
    least = op.const(np.finfo(x.dtype.numpy()).min, x.dtype)
    return op.Where(op.GreaterOrEqual(x, least), x, least)
