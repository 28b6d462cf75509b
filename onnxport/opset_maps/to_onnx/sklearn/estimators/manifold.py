"""Embeddings of new rows into fitted manifolds."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.linear_algebra import solve
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.entries import lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, floats, numbers, results


@lower_fitted("Isomap.transform", transformer, {"n_neighbors": 30})
def geodesic_projection(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The shortest ways to the fitted rows through the nearest of them, projected."""
    method = "kneighbors" if model.n_neighbors is not None else "radius_neighbors"
    distance, index = results(op, model.nbrs_, method, x, step="nbrs_")
    ways = distance.const(np.asarray(model.dist_matrix_, np.float64))
    least = take(ways, index[:, 0], axis=0) + distance[:, 0][:, None]
    for k in range(1, int(distance.shape[1] or 0)):
        least = np.minimum(least, take(ways, index[:, k], axis=0) + distance[:, k][:, None])
    dtype = np.float32 if numbers(op, x).dtype == np.float32 else np.float64
    squares = (least.astype(dtype) ** 2) * dtype(-0.5)
    return called(op, model.kernel_pca_, "transform", squares.value, step="kernel_pca_")


@lower_fitted("LocallyLinearEmbedding.transform", transformer, {}, {"n_neighbors": 3, "reg": 0.01})
def barycentres(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The nearest fitted rows' embeddings, with the weights whose mean of them is nearest to the row (Roweis and Saul, 2000)."""
    rows = floats(op, x)
    _, index = results(op, model.nbrs_, "kneighbors", x, step="nbrs_")
    gap = take(rows.const(model.nbrs_._fit_X), index, axis=0) - rows[:, None, :]
    gram = gap @ np.swapaxes(gap, 1, 2)
    diagonal: Any = np.eye(int(model.n_neighbors), dtype=gram.dtype)
    trace = np.sum(gram * diagonal, axis=(1, 2))[:, None, None]
    gram = gram + np.where(trace > 0, model.reg * trace, model.reg) * diagonal
    ones = full(gram, (None, int(model.n_neighbors), 1), 1.0, np.float64)
    weights = gram.of(solve(op, gram.value, ones.value))[:, :, 0]
    weights = (weights / np.sum(weights, axis=1, keepdims=True)).astype(rows.dtype)
    return np.sum(take(rows.const(model.embedding_), index, axis=0) * weights[:, :, None], axis=1).astype(np.float64)
