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


@lower_fitted("StandardScaler.transform", transformer, {}, {"with_mean": False})
def standard_scaler(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """(x - mean) / scale, in the type of x."""
    rows = any_floats(op, x)
    if model.with_mean:
        rows = rows - model.mean_.astype(rows.dtype)
    return rows / model.scale_.astype(rows.dtype) if model.with_std else rows


@lower_fitted("StandardScaler.inverse_transform", transformer)
def standard_unscaler(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """x scale + mean."""
    rows = any_floats(op, x)
    if model.with_std:
        rows = rows * model.scale_.astype(rows.dtype)
    return rows + model.mean_.astype(rows.dtype) if model.with_mean else rows


_INVERSE: dict[Function, Function] = {
    np.add: np.subtract,
    np.subtract: np.add,
    np.multiply: np.divide,
    np.divide: np.multiply,
}


def _steps(model: BaseEstimator) -> list[tuple[Function, np.ndarray]]:
    """What a scaler does to the columns, one after the other."""
    if hasattr(model, "min_"):
        return [(np.multiply, model.scale_), (np.add, model.min_)]
    moved = [(np.subtract, model.center_)] if getattr(model, "with_centering", False) else []
    return [*moved, (np.divide, model.scale_)] if getattr(model, "with_scaling", True) else moved


@lower(
    "MaxAbsScaler MinMaxScaler RobustScaler.transform",
    cases(transformer, "MaxAbsScaler"),
    cases(transformer, "MinMaxScaler", {"clip": True}, {"feature_range": (-1, 2)}),
    cases(transformer, "RobustScaler", {}, {"unit_variance": True}),
)
def scaler(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """x / scale, (x - center) / scale or x scale + min, clipped to the feature range on request."""
    # NumPy's in-place operations compute in the wider type and store in the array's own: so do these
    rows = any_floats(op, x).copy()
    for function, by in _steps(model):
        function(rows, by, out=rows)
    if not getattr(model, "clip", False):
        return rows
    low, high = (rows.dtype.type(item) for item in getattr(model, "feature_range", (-1, 1)))
    return np.clip(rows, low, high)


@lower_fitted("MaxAbsScaler MinMaxScaler RobustScaler.inverse_transform", transformer)
def unscaler(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """x scale, x scale + center or (x - min) / scale."""
    rows = any_floats(op, x).copy()
    for function, by in reversed(_steps(model)):
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
