"""Kernel ridge, isotonic regression, label propagation and manifolds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.lowerings.linear_algebra import solve
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import kernel
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.classes import label_of_scores
from onnxport.opset_maps.to_onnx.sklearn.estimators.preprocessing.scaling import interpolated
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, data, made, quantity, regressor, target, transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, floats, numbers

if TYPE_CHECKING:
    from sklearn.isotonic import IsotonicRegression
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.manifold import Isomap, LocallyLinearEmbedding
    from sklearn.semi_supervised._label_propagation import BaseLabelPropagation


@sklearn.lower(
    "KernelRidge.predict",
    cases=cases(
        regressor,
        "kernel_ridge",
        "KernelRidge",
        {},
        {"kernel": "rbf", "gamma": 0.1, "outputs": 2},
        {"kernel": "laplacian"},
    ),
)
def kernel_ridge(op: OpBuilder, model: KernelRidge, x: Table) -> Array:
    """The kernel with the fitted rows times the dual coefficients."""
    rows = numbers(op, x)
    said = {"gamma": model.gamma, "degree": model.degree, "coef0": model.coef0}
    found = rows if model.kernel == "precomputed" else kernel(rows, model.X_fit_, model.kernel, said)
    return found @ model.dual_coef_


def _isotonic(**options: object) -> Any:
    return made("isotonic", "IsotonicRegression", **options).fit(data(1)[:, 0], quantity())


@sklearn.lower(
    "IsotonicRegression.predict",
    "IsotonicRegression.transform",
    cases=[
        built(lambda: _isotonic(out_of_bounds="clip"), f64(7, 1), dynamic=True),
        built(lambda: _isotonic(out_of_bounds="nan", increasing=False), f32(7, 1)),
    ],
)
def isotonic(op: OpBuilder, model: IsotonicRegression, x: Table) -> Array:
    """The fitted steps, interpolated; NaN beyond them unless clipped, where scikit-learn may raise."""
    rows = numbers(op, x, model.X_thresholds_.dtype).reshape(-1)
    if model.out_of_bounds == "clip":
        rows = np.clip(rows, model.X_min_, model.X_max_)
    found = interpolated(rows, model.X_thresholds_, model.y_thresholds_)
    beyond = (rows < model.X_thresholds_[0]) | (rows > model.X_thresholds_[-1])
    return np.where(beyond, np.nan, found).astype(rows.dtype)


@sklearn.lower("Isomap.transform", cases=cases(transformer, "manifold", "Isomap", {"n_neighbors": 30}))
def geodesic_projection(op: OpBuilder, model: Isomap, x: Table) -> Array:
    """The shortest ways to the fitted rows through the nearest of them, projected."""
    method = "kneighbors" if model.n_neighbors is not None else "radius_neighbors"
    distance, index = (Array(op, item) for item in op.call(model.nbrs_, method, x, step="nbrs_"))
    ways = distance.const(np.asarray(model.dist_matrix_, np.float64))
    least = take(ways, index[:, 0], axis=0) + distance[:, 0][:, None]
    for k in range(1, int(distance.shape[1] or 0)):
        least = np.minimum(least, take(ways, index[:, k], axis=0) + distance[:, k][:, None])
    dtype = np.float32 if numbers(op, x).dtype == np.float32 else np.float64
    squares = (least.astype(dtype) ** 2) * dtype(-0.5)
    return called(op, model.kernel_pca_, "transform", squares.value, step="kernel_pca_")


@sklearn.lower(
    "LocallyLinearEmbedding.transform",
    cases=cases(transformer, "manifold", "LocallyLinearEmbedding", {}, {"n_neighbors": 3, "reg": 0.01}),
)
def barycentres(op: OpBuilder, model: LocallyLinearEmbedding, x: Table) -> Array:
    """The nearest fitted rows' embeddings, weighted as the row is best said as their mean (Roweis and Saul, 2000)."""
    rows = floats(op, x)
    _, index = (Array(op, item) for item in op.call(model.nbrs_, "kneighbors", x, step="nbrs_"))
    gap = take(rows.const(model.nbrs_._fit_X), index, axis=0) - rows[:, None, :]
    gram = gap @ np.swapaxes(gap, 1, 2)
    diagonal: Any = np.eye(int(model.n_neighbors), dtype=gram.dtype)
    trace = np.sum(gram * diagonal, axis=(1, 2))[:, None, None]
    gram = gram + np.where(trace > 0, model.reg * trace, model.reg) * diagonal
    ones = full(gram, (None, int(model.n_neighbors), 1), 1.0, np.float64)
    weights = gram.of(solve(op, gram.value, ones.value))[:, :, 0]
    weights = (weights / np.sum(weights, axis=1, keepdims=True)).astype(rows.dtype)
    return np.sum(take(rows.const(model.embedding_), index, axis=0) * weights[:, :, None], axis=1).astype(np.float64)


def _partly(name: str, **options: object) -> Any:
    labels = target()
    labels[::2] = -1
    return made("semi_supervised", name, **options).fit(data(), labels)


@sklearn.lower(
    "BaseLabelPropagation.predict_proba",
    cases=[
        built(lambda: _partly("LabelPropagation", tol=0.1), f64(7, 4), dynamic=True),
        built(lambda: _partly("LabelSpreading", gamma=0.5), f32(7, 4)),
        built(lambda: _partly("LabelSpreading", kernel="knn"), f64(7, 4)),
    ],
)
def spread_labels(op: OpBuilder, model: BaseLabelPropagation, x: Table) -> Array:
    """The fitted rows' distributions over the labels, weighted by the kernel or summed over the nearest rows."""
    if model.kernel == "knn":
        _, index = (Array(op, item) for item in op.call(model.nn_fit, "kneighbors", x, step="nn_fit"))
        found = np.sum(take(index.const(model.label_distributions_), index, axis=0), axis=1)
    elif model.kernel == "rbf":
        found = kernel(numbers(op, x), model.X_, "rbf", {"gamma": model.gamma}) @ model.label_distributions_
    else:
        raise UnsupportedOperator(f"{type(model).__name__}: a function as kernel has no mapping; use 'rbf' or 'knn'")
    return found / np.sum(found, axis=1, keepdims=True)


@sklearn.lower(
    "BaseLabelPropagation.predict",
    cases=[
        built(lambda: _partly("LabelPropagation", tol=0.1), f64(7, 4), dynamic=True),
        built(lambda: _partly("LabelSpreading", kernel="knn"), f32(7, 4)),
    ],
)
def spread_label(op: OpBuilder, model: BaseLabelPropagation, x: Table) -> Array:
    """The label with the greatest share."""
    return label_of_scores(model.classes_, called(op, model, "predict_proba", x))
