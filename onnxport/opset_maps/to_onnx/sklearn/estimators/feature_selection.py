"""Selection of features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, classifier, transformer, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, columns, matrix, numbers

if TYPE_CHECKING:
    from sklearn.feature_selection import RFE, SelectorMixin

_HERE = "feature_selection"


def _recursive(kind: str = "RFE", **options: object) -> Any:
    return classifier(_HERE, kind, estimator=unfitted("linear_model", "LogisticRegression"), **options)


@sklearn.lower(
    "SelectorMixin.transform",
    cases=[
        *cases(transformer, _HERE, "VarianceThreshold", {"threshold": 0.5}),
        *cases(classifier, _HERE, "SelectKBest", {"k": 2}),
        built(_recursive, f64(5, 4)),
    ],
)
def selected(op: OpBuilder, model: SelectorMixin, x: Table) -> ir.Value:
    """The columns that were chosen."""
    indices = np.flatnonzero(model.get_support())
    if not len(indices):  # as scikit-learn, which warns of it
        return op.Gather(matrix(op, x), indices, axis=1)
    return columns(op, x, indices.tolist())


@sklearn.lower(
    "SelectorMixin.inverse_transform",
    cases=[built(lambda: classifier(_HERE, "SelectKBest", k=2), f64(5, 2))],
)
def unselected(op: OpBuilder, model: SelectorMixin, x: Table) -> Array:
    """The chosen columns in their places, zeros in the others."""
    rows = numbers(op, x)
    mask = np.asarray(model.get_support())
    source = np.where(mask, np.cumsum(mask) - 1, 0)
    return np.where(mask, rows[:, source], rows.dtype.type(0))


def _lower_delegated(method: str) -> None:
    @sklearn.lower(f"RFE.{method}", cases=[built(_recursive, f64(5, 4))])
    def delegated(op: OpBuilder, model: RFE, x: Table) -> Any:
        """The method of the estimator fitted on the chosen columns."""
        return op.call(model.estimator_, method, op.call(model, "transform", x), step="estimator_")


for _method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
    _lower_delegated(_method)
