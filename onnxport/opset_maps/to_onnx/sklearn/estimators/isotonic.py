"""Isotonic regression."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.entries import lower
from onnxport.opset_maps.to_onnx.sklearn.fitted import data, fit, quantity
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, numbers
from onnxport.opset_maps.to_onnx.sklearn.trees.places import interpolated

_isotonic = partial(fit, "IsotonicRegression", data(1)[:, 0], quantity())


@lower(
    "IsotonicRegression.predict transform",
    built(lambda: _isotonic(out_of_bounds="clip"), f64(7, 1), dynamic=True),
    built(lambda: _isotonic(out_of_bounds="nan", increasing=False), f32(7, 1)),
)
def isotonic(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The fitted steps, interpolated; NaN beyond them unless clipped, where scikit-learn may raise."""
    rows = numbers(op, x, model.X_thresholds_.dtype).reshape(-1)
    if model.out_of_bounds == "clip":
        rows = np.clip(rows, model.X_min_, model.X_max_)
    result = interpolated(rows, model.X_thresholds_, model.y_thresholds_)
    beyond = (rows < model.X_thresholds_[0]) | (rows > model.X_thresholds_[-1])
    return np.where(beyond, np.nan, result).astype(rows.dtype)
