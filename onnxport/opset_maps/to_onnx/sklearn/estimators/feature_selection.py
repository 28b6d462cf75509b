"""Selection of features."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, given, lower
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import METHODS, lower_inner, transformed
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, transformer, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, columns, matrix, numbers


def _recursive() -> Any:
    return classifier("RFE", estimator=unfitted("LogisticRegression"))


@lower(
    "SelectorMixin.transform",
    cases(transformer, "VarianceThreshold", {"threshold": 0.5}),
    cases(classifier, "SelectKBest", {"k": 2}),
    given(_recursive),
)
def selected(op: OpBuilder, model: BaseEstimator, x: Table) -> ir.Value:
    """The columns that were chosen."""
    indices = np.flatnonzero(model.get_support())
    if not len(indices):  # as scikit-learn, which warns of it
        return op.Gather(matrix(op, x), indices, axis=1)
    return columns(op, x, indices.tolist())


@lower("SelectorMixin.inverse_transform", built(lambda: classifier("SelectKBest", k=2), f64(5, 2)))
def unselected(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The chosen columns in their places, zeros in the others."""
    rows = numbers(op, x)
    mask = np.asarray(model.get_support())
    source = np.where(mask, np.cumsum(mask) - 1, 0)
    return np.where(mask, rows[:, source], rows.dtype.type(0))


lower_inner("estimator_", "RFE", METHODS[:4], given(_recursive), given=transformed)
