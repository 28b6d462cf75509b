"""NumPy's functions that leave missing values out, take quantiles, or choose, repeat and move columns of `Array`s."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.lowerings import special
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import FUNCTIONS, Array, Axis, Numbers, implements
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import floating, sorted_by, take

_FIRST = np.iinfo(np.int64).min


def size_of(x: Array, axis: int) -> int:
    """The size of an axis.

    Raises:
        UnsupportedOperator: it is known only at run time.
    """
    size = x.shape[axis]
    if size is None:
        raise UnsupportedOperator("along the rows, whose number is known only at run time")
    return int(size)


def _zeros_for_missing(x: Array) -> Array:
    return np.where(np.isnan(x), x.dtype.type(0), x)


@implements(np.nansum)
def _nansum(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    return np.sum(_zeros_for_missing(x) if x.dtype.kind == "f" else x, axis=axis, keepdims=keepdims)


@implements(np.nanmean)
def _nanmean(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    if x.dtype.kind != "f":
        return np.mean(x, axis=axis, keepdims=keepdims)
    return _nansum(x, axis, keepdims) / np.sum((~np.isnan(x)).astype(x.dtype), axis=axis, keepdims=keepdims)


@implements(np.nanvar)
def _nanvar(x: Array, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Array:
    if x.dtype.kind != "f":
        return np.var(x, axis=axis, ddof=ddof, keepdims=keepdims)
    gap = _zeros_for_missing(x - _nanmean(x, axis, keepdims=True))
    free = np.sum((~np.isnan(x)).astype(x.dtype), axis=axis, keepdims=keepdims) - x.dtype.type(ddof)
    variance = np.sum(gap * gap, axis=axis, keepdims=keepdims) / free
    return np.where(free > 0, variance, x.dtype.type(np.nan))


@implements(np.nanstd)
def _nanstd(x: Array, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Array:
    return np.sqrt(_nanvar(x, axis, ddof, keepdims))


def _extreme_of_those_there(extreme: Callable[..., Any], nothing: float) -> Callable[..., Array]:
    def lower(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
        if x.dtype.kind != "f":
            return extreme(x, axis=axis, keepdims=keepdims)
        result = extreme(np.where(np.isnan(x), x.dtype.type(nothing), x), axis=axis, keepdims=keepdims)
        return np.where(np.any(~np.isnan(x), axis=axis, keepdims=keepdims), result, x.dtype.type(np.nan))

    return lower


FUNCTIONS[np.nanmax] = _extreme_of_those_there(np.max, -np.inf)
FUNCTIONS[np.nanmin] = _extreme_of_those_there(np.min, np.inf)


def _quantile_at(ordered: Array, share: float, axis: int, dtype: np.dtype) -> Array:
    """Between the two neighbours in order, from the nearer one, as NumPy's linear method goes."""
    place = share * (size_of(ordered, axis) - 1)
    low = int(np.floor(place))
    high, part = min(low + 1, size_of(ordered, axis) - 1), dtype.type(place - low)
    below, above = (take(ordered, np.array(item), axis=axis) for item in (low, high))
    gap = (above - below).astype(dtype)
    return above.astype(dtype) - gap * (1 - part) if part >= 0.5 else below.astype(dtype) + gap * part


@implements(np.quantile)
def _quantile(x: Array, q: ArrayLike, axis: Axis = None, *, method: str = "linear", keepdims: bool = False) -> Array:
    if axis is None or method != "linear":
        raise UnsupportedOperator("numpy.quantile over all axes, or of another method than 'linear'")
    x, shares = floating(x), np.asarray(q, np.float64)
    dtype = np.result_type(x.dtype, np.float64) if shares.ndim else x.dtype  # a list of shares is of float64
    ordered, missing = sorted_by(x, axis)[0], np.any(np.isnan(x), axis=axis)
    quantiles = [
        np.where(missing, dtype.type(np.nan), _quantile_at(ordered, float(share), axis, dtype))
        for share in shares.ravel()
    ]
    quantiles = [np.expand_dims(item, axis) if keepdims else item for item in quantiles]
    return quantiles[0] if not shares.ndim else np.stack(quantiles)


@implements(np.percentile)
def _percentile(x: Array, q: ArrayLike, axis: Axis = None, *, method: str = "linear", keepdims: bool = False) -> Array:
    return _quantile(x, np.asarray(q, np.float64) / 100, axis, method=method, keepdims=keepdims)


@implements(np.median)
def _median(x: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    if axis is None:
        raise UnsupportedOperator("numpy.median over all axes")
    x = floating(x)
    size, ordered = size_of(x, axis), sorted_by(x, axis)[0]
    middle = [take(ordered, np.array(item), axis=axis) for item in ((size - 1) // 2, size // 2)]
    result = middle[0] if size % 2 else (middle[0] + middle[1]) / x.dtype.type(2)
    result = np.where(np.any(np.isnan(x), axis=axis), x.dtype.type(np.nan), result)
    return np.expand_dims(result, axis) if keepdims else result


@implements(np.ptp)
def _ptp(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    return np.max(x, axis=axis, keepdims=keepdims) - np.min(x, axis=axis, keepdims=keepdims)


@implements(np.flip)
def _flip(x: Array, axis: int | None = None) -> Array:
    axes = list(range(x.ndim)) if axis is None else [axis % x.ndim]
    each = [1] * len(axes)
    return x.of(x.op.Slice(x.value, [-item for item in each], [_FIRST for _ in each], axes, [-item for item in each]))


@implements(np.tile)
def _tile(x: Array, reps: ArrayLike) -> Array:
    times = [int(item) for item in np.atleast_1d(reps)]
    for _ in range(len(times) - x.ndim):
        x = x[None]
    return x.of(x.op.Tile(x.value, [1] * (x.ndim - len(times)) + times))


@implements(np.append)
def _append(x: Numbers, values: Numbers, axis: Axis = None) -> Array:
    if axis is None:
        raise UnsupportedOperator("numpy.append without an axis")
    return np.concatenate([x, values], axis=axis)


def _rearranged(function: Callable[..., Any]) -> Callable[..., Array]:
    """A function that repeats, leaves out or moves columns: what it does to their numbers."""

    def lower(*args: object, **named: object) -> Array:
        bound = signature(function).bind(*args, **named)
        bound.apply_defaults()
        x, how, axis = bound.args
        if axis is None:
            raise UnsupportedOperator(f"numpy.{function.__name__} without an axis")
        return take(x, function(np.arange(size_of(x, axis)), how), axis=axis)

    return lower


FUNCTIONS.update({function: _rearranged(function) for function in (np.repeat, np.delete, np.roll)})


@implements(np.split, np.array_split)
def _split(x: Array, parts: ArrayLike, axis: int = 0) -> list[Array]:
    return [take(x, part, axis=axis) for part in np.array_split(np.arange(size_of(x, axis)), parts)]


FUNCTIONS[np.fliplr] = lambda x: _flip(x, 1)
FUNCTIONS[np.hsplit] = lambda x, parts: _split(x, parts, 1)


@implements(np.moveaxis)
def _moveaxis(x: Array, source: Axis, destination: Axis) -> Array:
    shape = np.moveaxis(np.empty(tuple(range(1, x.ndim + 1))), source, destination).shape
    return np.transpose(x, [size - 1 for size in shape])


@implements(np.count_nonzero)
def _count_nonzero(x: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    return np.sum((x if x.dtype == bool else x != 0).astype(np.int64), axis=axis, keepdims=keepdims)


@implements(np.trapezoid)
def _trapezoid(x: Array, *, dx: float = 1.0, axis: int = -1) -> Array:
    lead = [slice(None)] * (axis % x.ndim)
    return np.sum(dx * (x[(*lead, slice(1, None))] + x[(*lead, slice(None, -1))]) / 2.0, axis=axis)


@implements(np.polyval)
def _polyval(coefficients: ArrayLike, x: Array) -> Array:
    result: Any = np.zeros_like(x)
    for item in np.asarray(coefficients):
        result = result * x + item
    return result


@implements(np.sinc)
def _sinc(x: Array) -> Array:
    return x.of(special.sinc(x.op, floating(x).value))
