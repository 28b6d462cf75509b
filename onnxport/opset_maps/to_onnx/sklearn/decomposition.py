"""Projections on fitted components."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays import Array
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, transformer
from onnxport.opset_maps.to_onnx.sklearn.table import Table, floats

_HERE = "decomposition"


@sklearn.lower(
    "PCA.transform",
    "IncrementalPCA.transform",
    "TruncatedSVD.transform",
    cases=[
        *cases(transformer, _HERE, "PCA", {"n_components": 2}, {"n_components": 3, "whiten": True}),
        *cases(transformer, _HERE, "IncrementalPCA", {"n_components": 2}),
        *cases(transformer, _HERE, "TruncatedSVD", {"n_components": 2}),
    ],
)
def projection(op: OpBuilder, model: Any, x: Table) -> Array:
    """X components' - mean components', whitened on request."""
    found = floats(op, x) @ model.components_.T
    if getattr(model, "mean_", None) is not None:
        found = found - model.mean_.reshape(1, -1) @ model.components_.T
    if getattr(model, "whiten", False):
        scale = np.sqrt(model.explained_variance_)
        smallest = np.finfo(scale.dtype).eps
        found = found / np.where(scale < smallest, smallest, scale)
    return found
