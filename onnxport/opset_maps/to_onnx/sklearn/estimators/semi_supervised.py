"""Label propagation."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import kernel
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import take
from onnxport.opset_maps.to_onnx.sklearn.entries import lower
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import lower_label
from onnxport.opset_maps.to_onnx.sklearn.fitted import data, target, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, numbers, results


def _partly(name: str, **options: object) -> Any:
    labels = target()
    labels[::2] = -1
    return unfitted(name, **options).fit(data(), labels)


_CASES = [
    built(lambda: _partly("LabelPropagation", tol=0.1), f64(7, 4), dynamic=True),
    built(lambda: _partly("LabelSpreading", gamma=0.5), f32(7, 4)),
    *(built(lambda: _partly("LabelSpreading", kernel="knn"), rows) for rows in (f64(7, 4), f32(7, 4))),
]


@lower("BaseLabelPropagation.predict_proba", _CASES)
def spread_labels(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The fitted rows' distributions over the labels, weighted by the kernel or summed over the nearest rows."""
    if model.kernel == "knn":
        _, index = results(op, model.nn_fit, "kneighbors", x, step="nn_fit")
        shares = np.sum(take(index.const(model.label_distributions_), index, axis=0), axis=1)
    elif model.kernel == "rbf":
        shares = kernel(numbers(op, x), model.X_, "rbf", {"gamma": model.gamma}) @ model.label_distributions_
    else:
        raise UnsupportedOperator(f"{type(model).__name__}: a function as kernel has no mapping; use 'rbf' or 'knn'")
    return shares / np.sum(shares, axis=1, keepdims=True)


lower_label("BaseLabelPropagation", "predict_proba", _CASES)
