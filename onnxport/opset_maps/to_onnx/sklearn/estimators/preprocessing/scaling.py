"""Scalers and other functions of single numbers and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import is_sparse
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, any_floats, numbers
from onnxport.opset_maps.to_onnx.sklearn.text.vectorizers import normalized_rows

if TYPE_CHECKING:
    from sklearn.preprocessing import (
        Binarizer,
        MaxAbsScaler,
        MinMaxScaler,
        Normalizer,
        RobustScaler,
        StandardScaler,
    )

_HERE = "preprocessing"


@sklearn.lower("StandardScaler.transform", cases=cases(transformer, _HERE, "StandardScaler", {}, {"with_mean": False}))
def standard_scaler(op: OpBuilder, model: StandardScaler, x: Table) -> Array:
    """(x - mean) / scale, in the type of x."""
    rows = any_floats(op, x)
    if model.with_mean:
        rows = rows - model.mean_.astype(rows.dtype)
    return rows / model.scale_.astype(rows.dtype) if model.with_std else rows


@sklearn.lower("StandardScaler.inverse_transform", cases=cases(transformer, _HERE, "StandardScaler"))
def standard_unscaler(op: OpBuilder, model: StandardScaler, x: Table) -> Array:
    """x scale + mean."""
    rows = any_floats(op, x)
    if model.with_std:
        rows = rows * model.scale_.astype(rows.dtype)
    return rows + model.mean_.astype(rows.dtype) if model.with_mean else rows


# NumPy's in-place operations compute in the wider type and store in the array's own: so do these.


@sklearn.lower("RobustScaler.transform", cases=cases(transformer, _HERE, "RobustScaler", {}, {"unit_variance": True}))
def robust_scaler(op: OpBuilder, model: RobustScaler, x: Table) -> Array:
    """(x - center) / scale."""
    rows = any_floats(op, x).copy()
    if model.with_centering:
        rows -= model.center_
    if model.with_scaling:
        rows /= model.scale_
    return rows


@sklearn.lower("RobustScaler.inverse_transform", cases=cases(transformer, _HERE, "RobustScaler"))
def robust_unscaler(op: OpBuilder, model: RobustScaler, x: Table) -> Array:
    """x scale + center."""
    rows = any_floats(op, x).copy()
    if model.with_scaling:
        rows *= model.scale_
    if model.with_centering:
        rows += model.center_
    return rows


@sklearn.lower(
    "MinMaxScaler.transform",
    cases=cases(transformer, _HERE, "MinMaxScaler", {"clip": True}, {"feature_range": (-1, 2)}),
)
def min_max_scaler(op: OpBuilder, model: MinMaxScaler, x: Table) -> Array:
    """x scale + min, clipped to the feature range on request."""
    rows = any_floats(op, x).copy()
    rows *= model.scale_
    rows += model.min_
    if model.clip:
        low, high = (rows.dtype.type(item) for item in model.feature_range)
        rows = np.clip(rows, low, high)
    return rows


@sklearn.lower("MinMaxScaler.inverse_transform", cases=cases(transformer, _HERE, "MinMaxScaler"))
def min_max_unscaler(op: OpBuilder, model: MinMaxScaler, x: Table) -> Array:
    """(x - min) / scale."""
    rows = any_floats(op, x).copy()
    rows -= model.min_
    rows /= model.scale_
    return rows


@sklearn.lower("MaxAbsScaler.transform", cases=cases(transformer, _HERE, "MaxAbsScaler"))
def max_abs_scaler(op: OpBuilder, model: MaxAbsScaler, x: Table) -> Array:
    """x / scale."""
    rows = any_floats(op, x).copy()
    rows /= model.scale_
    return np.clip(rows, -1.0, 1.0) if getattr(model, "clip", False) else rows


@sklearn.lower("MaxAbsScaler.inverse_transform", cases=cases(transformer, _HERE, "MaxAbsScaler"))
def max_abs_unscaler(op: OpBuilder, model: MaxAbsScaler, x: Table) -> Array:
    """x scale."""
    rows = any_floats(op, x).copy()
    rows *= model.scale_
    return rows


@sklearn.lower(
    "Normalizer.transform", cases=cases(transformer, _HERE, "Normalizer", {}, {"norm": "l1"}, {"norm": "max"})
)
def normalizer(op: OpBuilder, model: Normalizer, x: Table) -> Array:
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


@sklearn.lower("Binarizer.transform", cases=cases(transformer, _HERE, "Binarizer", {"threshold": 0.3}))
def binarizer(op: OpBuilder, model: Binarizer, x: Table) -> Array:
    """1 where x > threshold, else 0, in the type of x."""
    rows = numbers(op, x)
    threshold = float(model.threshold)
    result = rows > (threshold if rows.dtype.kind == "f" else np.float64(threshold))
    return result.astype(rows.dtype)
