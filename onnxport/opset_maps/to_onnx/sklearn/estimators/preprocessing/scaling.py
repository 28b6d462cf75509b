"""Scalers and other functions of single numbers and rows."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array, Function
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import is_sparse
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, any_floats, numbers
from onnxport.opset_maps.to_onnx.sklearn.text.vectorizers import normalized_rows

_FUNCTIONS = (np.add, np.subtract, np.multiply, np.divide)
_INVERSE: dict[Function, Function] = dict(zip(_FUNCTIONS, (np.subtract, np.add, np.divide, np.multiply), strict=True))


def _steps(model: BaseEstimator, dtype: np.dtype) -> list[tuple[Function, np.ndarray]]:
    """What a scaler does to the columns of a type, one after the other."""
    if hasattr(model, "min_"):
        return [(np.multiply, model.scale_), (np.add, model.min_)]
    if hasattr(model, "with_std"):  # StandardScaler, which computes in the rows' own type
        moved = [(np.subtract, model.mean_.astype(dtype))] if model.with_mean else []
        return [*moved, (np.divide, model.scale_.astype(dtype))] if model.with_std else moved
    moved = [(np.subtract, model.center_)] if getattr(model, "with_centering", False) else []
    return [*moved, (np.divide, model.scale_)] if getattr(model, "with_scaling", True) else moved


@lower(
    "StandardScaler MaxAbsScaler MinMaxScaler RobustScaler.transform",
    cases(transformer, "StandardScaler", {}, {"with_mean": False}),
    cases(transformer, "MaxAbsScaler"),
    cases(transformer, "MinMaxScaler", {"clip": True}, {"feature_range": (-1, 2)}),
    cases(transformer, "RobustScaler", {}, {"unit_variance": True}),
)
def scaler(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """x / scale, (x - mean or center) / scale or x scale + min, clipped to the feature range on request."""
    # NumPy's in-place operations compute in the wider type and store in the array's own: so do these
    rows = any_floats(op, x).copy()
    for function, by in _steps(model, rows.dtype):
        function(rows, by, out=rows)
    if not getattr(model, "clip", False):
        return rows
    low, high = (rows.dtype.type(item) for item in getattr(model, "feature_range", (-1, 1)))
    return np.clip(rows, low, high)


@lower_fitted("StandardScaler MaxAbsScaler MinMaxScaler RobustScaler.inverse_transform", transformer)
def unscaler(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """x scale, x scale + mean or center, or (x - min) / scale."""
    rows = any_floats(op, x).copy()
    for function, by in reversed(_steps(model, rows.dtype)):
        _INVERSE[function](rows, by, out=rows)
    return rows


@lower_fitted("Normalizer.transform", transformer, {}, {"norm": "l1"}, {"norm": "max"})
def normalizer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Rows divided by their norm; rows of zeros stay."""
    rows = any_floats(op, x)
    if is_sparse(x):
        return normalized_rows(rows, model.norm)
    wide = rows.astype(np.float32) if rows.dtype == np.float16 else rows  # NumPy sums what is narrower in float32
    if model.norm == "l2":
        norm = np.sqrt(np.sum(wide * wide, axis=1, keepdims=True).astype(rows.dtype))
    elif model.norm == "l1":
        norm = np.sum(np.abs(wide), axis=1, keepdims=True).astype(rows.dtype)
    else:
        norm = np.max(np.abs(rows), axis=1, keepdims=True)
    # sklearn.preprocessing._data._handle_zeros_in_scale: a norm within rounding of 0 counts as 0
    least = 10 * np.finfo(rows.dtype).eps
    return rows / np.where(norm < least, rows.dtype.type(1), norm)


@lower_fitted("Binarizer.transform", transformer, {"threshold": 0.3})
def binarizer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """1 where x > threshold, else 0, in the type of x."""
    rows = numbers(op, x)
    threshold = float(model.threshold)
    result = rows > (threshold if rows.dtype.kind == "f" else np.float64(threshold))
    return result.astype(rows.dtype)
