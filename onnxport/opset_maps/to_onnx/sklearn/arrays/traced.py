"""Arrays that a user's function is given: NaN is handled as NumPy handles it, which a runtime's own operators do not.

The greatest and least element are NaN where there is one, the place of these is the first NaN's, and NaN comes last in order.
scikit-learn's own estimators are hardly given NaN there, so that arrays of theirs go without; where one is, it asks for this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import FUNCTIONS, Array, Axis, Function
from onnxport.opset_maps.to_onnx.sklearn.arrays.column_functions import size_of


class TracedArray(Array):
    """An array of a user's function."""

    __slots__ = ()

    def of(self, value: ir.Value) -> TracedArray:
        """Another value of the same graph."""
        return TracedArray(self.op, value)

    def lowering(self, function: Function) -> Callable[..., Any] | None:
        """The implementation of a function of NumPy's, if there is one."""
        return _OF_NAN.get(function) or super().lowering(function)


def _extreme(function: Function) -> Callable[..., Array]:
    def extreme(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
        result: Array = FUNCTIONS[function](x, axis=axis, keepdims=keepdims)
        if x.dtype.kind != "f":
            return result
        return np.where(np.any(np.isnan(x), axis=axis, keepdims=keepdims), x.dtype.type(np.nan), result)

    return extreme


def _extreme_index(function: Function) -> Callable[..., Array]:
    def place(x: Array, axis: int | None = None) -> Array:
        result: Array = FUNCTIONS[function](x, axis=axis)
        if x.dtype.kind != "f":
            return result
        missing = np.isnan(x)
        return np.where(np.any(missing, axis=axis), FUNCTIONS[np.argmax](missing.astype(np.int32), axis=axis), result)

    return place


def _sort(x: Array, axis: int = -1) -> Array:
    if x.dtype.kind != "f":
        return FUNCTIONS[np.sort](x, axis=axis)
    size, missing = size_of(x, axis), np.isnan(x)
    ordered = FUNCTIONS[np.sort](np.where(missing, x.dtype.type(np.inf), x), axis=axis)
    shape = [size if item == axis % x.ndim else 1 for item in range(x.ndim)]
    behind = np.arange(size).reshape(shape) >= size - np.sum(missing.astype(np.int64), axis=axis, keepdims=True)
    return np.where(behind, x.dtype.type(np.nan), ordered)


def _argsort(x: Array, axis: int = -1, kind: object = None) -> Array:
    if x.dtype.kind != "f":
        return FUNCTIONS[np.argsort](x, axis=axis)
    missing = np.isnan(x)
    order = FUNCTIONS[np.argsort](np.where(missing, x.dtype.type(np.inf), x), axis=axis)
    last = np.take_along_axis(missing.astype(np.int64), order, axis=axis)  # an infinity comes before them
    return np.take_along_axis(order, FUNCTIONS[np.argsort](last, axis=axis), axis=axis)


def _searchsorted(values: ArrayLike, x: Array, side: str = "left") -> Array:
    result = FUNCTIONS[np.searchsorted](values, x, side=side)
    return np.where(np.isnan(x), len(values), result) if x.dtype.kind == "f" else result


def _digitize(x: Array, bins: ArrayLike, right: bool = False) -> Array:
    bins = np.asarray(bins)
    if np.any(np.diff(bins) < 0):
        raise UnsupportedOperator("numpy.digitize with bins that decrease")
    return _searchsorted(bins, x, side="left" if right else "right")


_OF_NAN: dict[Any, Callable[..., Any]] = {
    **{function: _extreme(function) for function in (np.max, np.amax, np.min, np.amin)},
    **{function: _extreme_index(function) for function in (np.argmax, np.argmin)},
    np.sort: _sort,
    np.argsort: _argsort,
    np.searchsorted: _searchsorted,
    np.digitize: _digitize,
}
