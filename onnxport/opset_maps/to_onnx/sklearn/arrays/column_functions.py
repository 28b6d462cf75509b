"""NumPy's functions that leave missing values out, take quantiles, or choose, repeat and move columns of `Array`s."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.lowerings import special
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import FUNCTIONS, Array, Axis, Numbers, implements
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import sorted_by, take

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


# -- missing values ----------------------------------------------------------------------------------------------------------


def _present(x: Array) -> Array:
    return ~np.isnan(x)


def _zeros_for_missing(x: Array) -> Array:
    return np.where(np.isnan(x), x.dtype.type(0), x)


@implements(np.nansum)
def _nansum(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    return np.sum(_zeros_for_missing(x) if x.dtype.kind == "f" else x, axis=axis, keepdims=keepdims)


@implements(np.nanmean)
def _nanmean(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    if x.dtype.kind != "f":
        return np.mean(x, axis=axis, keepdims=keepdims)
    return _nansum(x, axis, keepdims) / np.sum(_present(x).astype(x.dtype), axis=axis, keepdims=keepdims)


@implements(np.nanvar)
def _nanvar(x: Array, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Array:
    if x.dtype.kind != "f":
        return np.var(x, axis=axis, ddof=ddof, keepdims=keepdims)
    gap = _zeros_for_missing(x - _nanmean(x, axis, keepdims=True))
    free = np.sum(_present(x).astype(x.dtype), axis=axis, keepdims=keepdims) - x.dtype.type(ddof)
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
        return np.where(np.any(_present(x), axis=axis, keepdims=keepdims), result, x.dtype.type(np.nan))

    return lower


FUNCTIONS[np.nanmax] = _extreme_of_those_there(np.max, -np.inf)
FUNCTIONS[np.nanmin] = _extreme_of_those_there(np.min, np.inf)


# -- order -------------------------------------------------------------------------------------------------------------------


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
    x, shares = x if x.dtype.kind == "f" else x.astype(np.float64), np.asarray(q, np.float64)
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
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    size, ordered = size_of(x, axis), sorted_by(x, axis)[0]
    middle = [take(ordered, np.array(item), axis=axis) for item in ((size - 1) // 2, size // 2)]
    result = middle[0] if size % 2 else (middle[0] + middle[1]) / x.dtype.type(2)
    result = np.where(np.any(np.isnan(x), axis=axis), x.dtype.type(np.nan), result)
    return np.expand_dims(result, axis) if keepdims else result


@implements(np.ptp)
def _ptp(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    return np.max(x, axis=axis, keepdims=keepdims) - np.min(x, axis=axis, keepdims=keepdims)


# -- columns -----------------------------------------------------------------------------------------------------------------


@implements(np.flip)
def _flip(x: Array, axis: int | None = None) -> Array:
    axes = list(range(x.ndim)) if axis is None else [axis % x.ndim]
    each = [1] * len(axes)
    return x.of(x.op.Slice(x.value, [-item for item in each], [_FIRST for _ in each], axes, [-item for item in each]))


@implements(np.fliplr)
def _fliplr(x: Array) -> Array:
    return _flip(x, 1)


@implements(np.tile)
def _tile(x: Array, reps: ArrayLike) -> Array:
    times = [int(item) for item in np.atleast_1d(reps)]
    for _ in range(len(times) - x.ndim):
        x = x[None]
    return x.of(x.op.Tile(x.value, [1] * (x.ndim - len(times)) + times))


@implements(np.repeat)
def _repeat(x: Array, repeats: ArrayLike, axis: Axis = None) -> Array:
    if axis is None:
        raise UnsupportedOperator("numpy.repeat without an axis")
    return take(x, np.repeat(np.arange(size_of(x, axis)), np.asarray(repeats)), axis=axis)


@implements(np.append)
def _append(x: Numbers, values: Numbers, axis: Axis = None) -> Array:
    if axis is None:
        raise UnsupportedOperator("numpy.append without an axis")
    return np.concatenate([x, values], axis=axis)


@implements(np.delete)
def _delete(x: Array, places: ArrayLike, axis: Axis = None) -> Array:
    if axis is None:
        raise UnsupportedOperator("numpy.delete without an axis")
    return take(x, np.delete(np.arange(size_of(x, axis)), places), axis=axis)


@implements(np.roll)
def _roll(x: Array, shift: ArrayLike, axis: Axis = None) -> Array:
    if axis is None:
        raise UnsupportedOperator("numpy.roll without an axis")
    return take(x, np.roll(np.arange(size_of(x, axis)), shift), axis=axis)


@implements(np.split, np.array_split)
def _split(x: Array, parts: ArrayLike, axis: int = 0) -> list[Array]:
    return [take(x, part, axis=axis) for part in np.array_split(np.arange(size_of(x, axis)), parts)]


@implements(np.hsplit)
def _hsplit(x: Array, parts: ArrayLike) -> list[Array]:
    return _split(x, parts, 1)


@implements(np.moveaxis)
def _moveaxis(x: Array, source: Axis, destination: Axis) -> Array:
    shape = np.moveaxis(np.empty(tuple(range(1, x.ndim + 1))), source, destination).shape
    return np.transpose(x, [size - 1 for size in shape])


# -- sums and curves ---------------------------------------------------------------------------------------------------------


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


@implements(np.interp)
def _interp(
    x: Array, xp: Sequence[float], fp: Sequence[float], left: float | None = None, right: float | None = None
) -> Array:
    given, values = np.asarray(xp, np.float64), np.asarray(fp, np.float64)
    x = x.astype(np.float64)
    slope = np.append(np.diff(values) / np.diff(given), 0.0)
    place = np.clip(np.searchsorted(given, x, side="right") - 1, 0, len(given) - 1)
    between = take(slope, place) * (x - take(given, place)) + take(values, place)
    between = np.where(x < given[0], values[0] if left is None else float(left), between)
    return np.where(x > given[-1], values[-1] if right is None else float(right), between)


@implements(np.sinc)
def _sinc(x: Array) -> Array:
    return x.of(special.sinc(x.op, (x if x.dtype.kind == "f" else x.astype(np.float64)).value))


@implements(np.around)
def _around(x: Array, decimals: int = 0) -> Array:
    return np.round(x, decimals)


@implements(np.fix)
def _fix(x: Array) -> Array:
    return np.trunc(x)


@implements(np.real)
def _real(x: Array) -> Array:
    return x
