"""Clusters around fitted centres."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays import Array
from onnxport.opset_maps.to_onnx.sklearn.distances import squared_euclidean
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, transformer
from onnxport.opset_maps.to_onnx.sklearn.table import Table, doubles, floats

_HERE = "cluster"
_FEW: dict[str, Any] = {"n_clusters": 3, "n_init": 1}


@sklearn.lower(
    "KMeans.transform",
    "MiniBatchKMeans.transform",
    cases=[*cases(transformer, _HERE, "KMeans", _FEW), *cases(transformer, _HERE, "MiniBatchKMeans", _FEW)],
)
def centre_distances(op: OpBuilder, model: Any, x: Table) -> Array:
    """Euclidean distance to each centre, in the type of x."""
    rows = floats(op, x)
    return np.sqrt(squared_euclidean(rows.astype(np.float64), model.cluster_centers_)).astype(rows.dtype)


@sklearn.lower(
    "KMeans.predict",
    "MiniBatchKMeans.predict",
    # scikit-learn's own fails on float32 rows after a fit on float64
    cases=[
        built(lambda: transformer(_HERE, "KMeans", **_FEW), f64(7, 4)),
        built(lambda: transformer(_HERE, "MiniBatchKMeans", **_FEW), f64(7, 4)),
    ],
)
def nearest_centre(op: OpBuilder, model: Any, x: Table) -> Array:
    """The number of the nearest centre, int32 as in scikit-learn."""
    return np.argmin(squared_euclidean(doubles(op, x), model.cluster_centers_), axis=1).astype(np.int32)
