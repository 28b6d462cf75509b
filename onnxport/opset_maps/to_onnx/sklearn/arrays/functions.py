"""NumPy's functions on `Array`s of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike, DTypeLike

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.lowerings import reductions
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import FUNCTIONS, Array, Axis, Function, Numbers, implements

# Weights of so many times more rows than columns are held column by column: a runtime's product reads them faster so.
_TALL = 128


def _axes(x: Array, axis: Axis) -> list[int] | None:
    if axis is None:
        return None
    return [int(item) % x.ndim for item in (axis if isinstance(axis, (tuple, list)) else [axis])]


def reduced(x: Array, operator: str, axis: Axis, keepdims: bool = False) -> Array:
    """A reduction by its ONNX name."""
    return x.of(reductions.reduced(x.op, operator, x.value, _axes(x, axis), keepdims=keepdims))


def floating(x: Array) -> Array:
    """Floating-point numbers as they are, others in float64."""
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def _array(like: Array, item: object) -> Array:
    return item if isinstance(item, Array) else like.const(item)


def _first(items: Sequence[Any]) -> Array:
    return next(item for item in items if isinstance(item, Array))


def _arrays(items: Sequence[Any]) -> list[Array]:
    like = _first(items)
    return [_array(like, item) for item in items]


@implements(np.sum)
def _sum(x: Array, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False) -> Array:
    wanted = dtype or (np.int64 if x.dtype.kind in "bi" else x.dtype)
    return reduced(x.astype(wanted), "ReduceSum", axis, keepdims)


@implements(np.mean)
def _mean(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    x = floating(x)
    return x.of(x.op.reduce("ReduceMean", x.value, _axes(x, axis), keepdims=keepdims))


@implements(np.prod)
def _prod(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    x, axes = x if x.dtype.kind == "f" else x.astype(np.int64), _axes(x, axis)
    return x.of(x.op.reduce("ReduceProd", x.value, list(range(x.ndim)) if axes is None else axes, keepdims=keepdims))


def _extreme(operator: str) -> Function:
    def extreme(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
        counted = x.astype(np.int32) if x.dtype == bool else x
        return reduced(counted, operator, axis, keepdims).astype(x.dtype)

    return extreme


_greatest, _least = _extreme("ReduceMax"), _extreme("ReduceMin")
FUNCTIONS[np.max] = FUNCTIONS[np.amax] = _greatest
FUNCTIONS[np.min] = FUNCTIONS[np.amin] = _least


@implements(np.any)
def _any(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    return _greatest(_truth(x), axis, keepdims)


@implements(np.all)
def _all(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    return _least(_truth(x), axis, keepdims)


def _truth(x: Array) -> Array:
    return x if x.dtype == bool else x != 0


@implements(np.var)
def _var(x: Array, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Array:
    gap = x - _mean(x, axis, keepdims=True)
    mean = _mean(gap * gap, axis, keepdims)
    if not ddof:
        return mean
    axes = _axes(x, axis)
    if axes is None or any(x.shape[i] is None for i in axes):
        raise UnsupportedOperator("numpy.var with ddof over rows")
    count = int(np.prod([x.shape[i] for i in axes]))
    return mean * (count / (count - ddof))


@implements(np.std)
def _std(x: Array, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Array:
    return np.sqrt(_var(x, axis, ddof, keepdims))


def _argument(operator: str) -> Function:
    def argument(x: Array, axis: int | None = None) -> Array:
        if axis is None:
            raise UnsupportedOperator(f"{operator} over all elements")
        if x.dtype == bool:
            x = x.astype(np.int32)
        # scores that are NaN are what estimators refuse; of a user's function `Traced` looks for NaN itself
        return x.of(reductions.extreme_of_numbers(x.op, operator, x.value, axis % x.ndim, keepdims=False))

    return argument


FUNCTIONS[np.argmax] = _argument("ArgMax")
FUNCTIONS[np.argmin] = _argument("ArgMin")


@implements(np.where)
def _where(condition: Numbers, x: Numbers, y: Numbers) -> Array:
    like = _first([condition, x, y])
    kinds = [item if type(item) in (int, float) else _array(like, item).dtype for item in (x, y)]
    dtype = np.result_type(*kinds)
    x, y = (item if isinstance(item, Array) else like.const(item, dtype) for item in (x, y))
    if dtype != object:
        x, y = x.astype(dtype), y.astype(dtype)
    condition = _array(like, condition)
    if dtype == bool:  # runtimes have no Where of booleans
        condition = condition.astype(bool)
        return (condition & x) | (~condition & y)
    return like.of(like.op.Where(_truth(condition).value, x.value, y.value))


@implements(np.concatenate)
def _concatenate(items: Sequence[Any], axis: int = 0) -> Array:
    like, arrays = _first(items), _arrays(items)
    if len(arrays) == 1:
        return arrays[0]
    dtype = np.result_type(*(item.dtype for item in arrays))
    parts = [item.astype(dtype).value for item in arrays]
    return like.of(like.op.Concat(*parts, axis=axis % like.ndim))


@implements(np.hstack)
def _hstack(items: Sequence[Any]) -> Array:
    return _concatenate(items, axis=0 if _first(items).ndim == 1 else 1)


@implements(np.stack)
def _stack(items: Sequence[Any], axis: int = 0) -> Array:
    return _concatenate([_expand(item, axis) for item in _arrays(items)], axis=axis)


@implements(np.column_stack)
def _column_stack(items: Sequence[Any]) -> Array:
    return _concatenate([item[:, None] if item.ndim == 1 else item for item in _arrays(items)], axis=1)


@implements(np.vstack)
def _vstack(items: Sequence[Any]) -> Array:
    return _concatenate([item[None] if item.ndim == 1 else item for item in _arrays(items)], axis=0)


@implements(np.expand_dims)
def _expand(x: Array, axis: int) -> Array:
    return x.of(x.op.Unsqueeze(x.value, x.op.axes(axis % (x.ndim + 1))))


@implements(np.squeeze)
def _squeeze(x: Array, axis: Axis = None) -> Array:
    axes = _axes(x, axis) if axis is not None else [i for i, size in enumerate(x.shape) if size == 1]
    return x.of(x.op.Squeeze(x.value, x.op.axes(*axes))) if axes else x


@implements(np.transpose)
def _transpose(x: Array, axes: Sequence[int] | None = None) -> Array:
    return x.T if axes is None else x.of(x.op.Transpose(x.value, perm=list(axes)))


@implements(np.swapaxes)
def _swapaxes(x: Array, a: int, b: int) -> Array:
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return _transpose(x, order)


@implements(np.dot)
def _dot(x: Numbers, y: Numbers) -> Array:
    first, second = _arrays([x, y])
    return first @ second


@implements(np.clip)
def _clip(x: Array, low: Numbers | None = None, high: Numbers | None = None, **names: object) -> Array:
    low, high = names.get("a_min", names.get("min", low)), names.get("a_max", names.get("max", high))
    if low is not None:
        x = np.maximum(x, low)
    return np.minimum(x, high) if high is not None else x


def affine(x: Array, weights: np.ndarray, bias: np.ndarray) -> Array:
    """x weights + bias, [N, K], by one operator: runtimes join MatMul and Add of float32 alone."""
    dtype = np.result_type(x.dtype, weights, bias)
    op, turned = x.op, weights.shape[0] >= _TALL * weights.shape[1]
    matrix = np.ascontiguousarray(weights.T) if turned else weights
    rows, by, start = x.astype(dtype).value, op.const(matrix.astype(dtype)), op.const(bias.astype(dtype))
    return x.of(op.Gemm(rows, by, start, transB=1 if turned else None))


@implements(np.take)
def take(x: Numbers, index: Numbers, axis: int | None = None) -> Array:
    """numpy.take, also of a constant at places that are in the graph, which NumPy's own does not dispatch."""
    like = _first([x, index])
    array = _array(like, x)
    if axis is None:
        if array.ndim != 1:
            raise UnsupportedOperator("numpy.take without an axis")
        axis = 0
    return array[(*[slice(None)] * (axis % array.ndim), index)]


@implements(np.take_along_axis)
def _take_along_axis(x: Numbers, index: Numbers, axis: int = -1) -> Array:
    array, places = _arrays([x, index])
    return array.of(array.op.GatherElements(array.value, places.value, axis=axis % array.ndim))


@implements(np.full_like)
def _full_like(x: Array, fill: ArrayLike, dtype: DTypeLike = None) -> Array:
    return full(x, x.shape, fill, dtype or x.dtype)


def full(like: Array, shape: Sequence[int | None], fill: ArrayLike, dtype: DTypeLike) -> Array:
    """An array of one number; None in the shape stands for the same axis of `like`."""
    op = like.op
    sizes = [op.dim(like.value, axis) if size is None else int(size) for axis, size in enumerate(shape)]
    value = op.Expand(op.const(np.asarray(fill, dtype)), op.shape_vector(sizes))
    known = like.value.shape or [None] * len(shape)
    value.shape = ir.Shape([known[axis] if size is None else int(size) for axis, size in enumerate(shape)])
    return like.of(value)


@implements(np.broadcast_to)
def _broadcast_to(x: Array, shape: Sequence[int | None]) -> Array:
    if any(size is None for size in shape):
        raise UnsupportedOperator("a shape that is known only at run time")
    return x.of(x.op.Expand(x.value, [int(size) for size in shape]))


@implements(np.isin)
def _isin(x: Array, values: ArrayLike) -> Array:
    equal = x[..., None] == np.asarray(values).ravel()
    return _any(equal, axis=-1)


@implements(np.round, np.around)
def _round(x: Array, decimals: int = 0) -> Array:
    if x.dtype.kind in "iub":
        return x
    scale = 10.0 ** abs(decimals)
    if not decimals:
        return np.rint(x)
    return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale


@implements(np.nan_to_num)
def _nan_to_num(
    x: Array, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Array:
    if x.dtype.kind in "iub":
        return x
    limits = np.finfo(x.dtype)
    high, low = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    x = np.where(np.isnan(x), x.dtype.type(nan), x)
    infinite = np.isinf(x)
    x = np.where(infinite & (x > 0), x.dtype.type(high), x)
    return np.where(infinite & (x < 0), x.dtype.type(low), x)


@implements(np.cumsum)
def _cumsum(x: Array, axis: int) -> Array:
    if x.dtype.kind in "bi":
        x = x.astype(np.int64)
    return x.of(x.op.CumSum(x.value, np.asarray(axis % x.ndim, np.int64)))


@implements(np.diff)
def _diff(x: Array, n: int = 1, axis: int = -1) -> Array:
    for _ in range(n):
        lead = [slice(None)] * (axis % x.ndim)
        x = x[(*lead, slice(1, None))] - x[(*lead, slice(None, -1))]
    return x


@implements(np.linalg.norm)
def _norm(x: Array, ord: float | None = None, axis: Axis = None, keepdims: bool = False) -> Array:
    x = floating(x)
    if ord in (None, 2):
        return reduced(x, "ReduceL2", axis, keepdims)
    if ord == 1:
        return _sum(np.abs(x), axis, keepdims=keepdims)
    if ord == np.inf:
        return np.max(np.abs(x), axis=axis, keepdims=keepdims)
    raise UnsupportedOperator(f"numpy.linalg.norm of order {ord}")


@implements(np.average)
def _average(x: Array, axis: int | None = None, weights: ArrayLike | None = None) -> Array:
    if weights is None:
        return _mean(x, axis)
    weights = np.asarray(weights)
    if axis is None or weights.ndim != 1:
        raise UnsupportedOperator("numpy.average with weights for each element")
    shape = [1] * x.ndim
    shape[axis] = -1
    weights = weights.astype(np.result_type(x.dtype, weights.dtype, np.float64 if x.dtype.kind in "bi" else x.dtype))
    return _sum(x * weights.reshape(shape), axis) / weights.sum()


@implements(np.select)
def _select(conditions: Sequence[Any], choices: Sequence[Any], default: Numbers = 0) -> Array:
    result = default
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = np.where(condition, choice, result)
    return result


def sorted_by(x: Array, axis: int = -1) -> tuple[Array, Array]:
    """The values of `x` sorted along a static axis, and where they stood; equal ones in their order."""
    values, index = x.op.TopK(x.value, x.op.dim(x.value, axis), axis=axis, largest=0, sorted=1)
    return x.of(values), x.of(index)


@implements(np.einsum)
def _einsum(equation: str, *operands: Numbers) -> Array:
    arrays = _arrays(operands)
    dtype = np.result_type(*(item.dtype for item in arrays))
    return arrays[0].of(arrays[0].op.Einsum(*(item.astype(dtype).value for item in arrays), equation=equation))


# What an array has itself, and cases of the functions above.
FUNCTIONS.update(
    {
        np.ndim: lambda x: x.ndim,
        np.copy: lambda x: x.copy(),
        np.real: lambda x: x,
        np.ravel: lambda x: x.ravel(),
        np.reshape: lambda x, shape: x.reshape(shape),
        np.atleast_1d: lambda x: x if x.ndim else x.reshape(1),
        np.atleast_2d: lambda x: x if x.ndim > 1 else x[None],
        np.zeros_like: lambda x, dtype=None: _full_like(x, 0, dtype),
        np.ones_like: lambda x, dtype=None: _full_like(x, 1, dtype),
        np.sort: lambda x, axis=-1: sorted_by(x, axis)[0],
        np.argsort: lambda x, axis=-1, kind=None: sorted_by(x, axis)[1],
        np.fix: lambda x: np.trunc(x),
    }
)


def symbol(x: ir.Value) -> Any:
    """The size of the first axis as shapes hold it."""
    return x.shape[0] if x.shape is not None else None
