"""Clusters around fitted centres, and clusters of features."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import dense, product_squares, squared_euclidean
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower
from onnxport.opset_maps.to_onnx.sklearn.fitted import transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, floats, numbers

if TYPE_CHECKING:
    from sklearn.cluster._bisect_k_means import _BisectingTree

_FEW: dict[str, Any] = {"n_clusters": 3, "n_init": 1}
_ROWS = f64(7, 4)


@lower("_BaseKMeans Birch.transform", cases(transformer, "KMeans BisectingKMeans Birch", {"n_clusters": 3}))
def centre_distances(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Euclidean distance to each centre."""
    rows = numbers(op, x) if hasattr(model, "subcluster_centers_") else floats(op, x)
    centres = model.subcluster_centers_ if hasattr(model, "subcluster_centers_") else model.cluster_centers_
    result = np.sqrt(squared_euclidean(rows.astype(np.float64), centres))
    return result.astype(np.result_type(rows.dtype, centres.dtype))


def nearest(rows: Array, centres: np.ndarray) -> Array:
    """The number of the nearest centre, the first among equals."""
    return np.argmin(product_squares(rows.astype(np.float64), np.asarray(centres, np.float64)), axis=1)


# scikit-learn's own fails on float32 rows after a fit on float64
@lower(
    "_BaseKMeans.predict", [built(partial(transformer, name, **_FEW), _ROWS) for name in ("KMeans", "MiniBatchKMeans")]
)
def nearest_centre(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The number of the nearest centre, int32 as in scikit-learn."""
    return nearest(numbers(op, x), model.cluster_centers_).astype(np.int32)


@lower("BisectingKMeans.predict", built(lambda: transformer("BisectingKMeans", n_clusters=5), _ROWS))
def bisected(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The label of the leaf that the nearer of two centres leads to, step by step."""
    rows = floats(op, x)
    mean = getattr(model, "_X_mean", 0.0)

    def label(node: _BisectingTree) -> Array:
        if node.left is None:
            return full(rows, (None,), node.label, np.int32)
        first = nearest(rows, np.vstack([node.left.center, node.right.center]) + mean) == 0
        return np.where(first, label(node.left), label(node.right))

    return label(model._bisecting_tree)


@lower(
    "MeanShift AffinityPropagation Birch.predict",
    cases(transformer, "MeanShift"),
    cases(transformer, "AffinityPropagation", {"damping": 0.9}),
    cases(transformer, "Birch", {"n_clusters": 3}, {"n_clusters": None, "threshold": 3.0}),
)
def nearest_of_many(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The label of the nearest centre."""
    rows = numbers(op, x)
    if hasattr(model, "subcluster_centers_"):
        return take(rows.const(model.subcluster_labels_), nearest(rows, model.subcluster_centers_), axis=0)
    if not hasattr(model, "cluster_centers_"):
        raise UnsupportedOperator("AffinityPropagation of a precomputed affinity gives no labels for new rows")
    centres = dense(model.cluster_centers_)
    if not len(centres):  # it did not converge
        return full(rows, (None,), -1, np.int64)
    return nearest(rows, centres)


_POOLED = (np.mean, np.max, np.min, np.sum)


@lower(
    "AgglomerationTransform.transform",
    cases(transformer, "FeatureAgglomeration", {"n_clusters": 2}, {"n_clusters": 2, "pooling_func": np.max}),
)
def pooled_features(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The mean, or another function of NumPy's, of each cluster's columns."""
    rows = numbers(op, x)
    pool = model.pooling_func
    if pool is np.mean:  # scikit-learn sums in float64
        groups = model.labels_[None] == np.arange(np.max(model.labels_) + 1)[:, None]
        return rows.astype(np.float64) @ groups.T.astype(np.float64) / np.sum(groups, axis=1)
    if pool not in _POOLED:
        name = getattr(pool, "__name__", pool)
        raise UnsupportedOperator(
            f"FeatureAgglomeration: pooling_func={name} has no mapping; use numpy.mean, max or min"
        )
    columns = [pool(rows[:, np.flatnonzero(model.labels_ == label)], axis=1) for label in np.unique(model.labels_)]
    return np.stack(columns, axis=1)


@lower(
    "AgglomerationTransform.inverse_transform",
    built(lambda: transformer("FeatureAgglomeration", n_clusters=2), f64(5, 2)),
)
def spread_features(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Each cluster's value in the places of its columns."""
    _, inverse = np.unique(model.labels_, return_inverse=True)
    return numbers(op, x)[:, inverse]
