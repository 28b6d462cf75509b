"""Nearest neighbours; and by them embeddings of new rows into fitted manifolds, and label propagation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.facts import Fact
from onnxport.opset_maps.cases import f32
from onnxport.opset_maps.lowerings.linear_algebra import solve
from onnxport.opset_maps.to_onnx.sklearn.arrays import distances
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array, one_value
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.arrays.iteration import in_blocks
from onnxport.opset_maps.to_onnx.sklearn.classes import take_class
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, given, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import lower_label
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, data, fit, regressor, target, transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import is_sparse
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, floats, matrix, numbers, results


def neighbours_of(op: OpBuilder, model: BaseEstimator, x: Table, k: int | None = None) -> tuple[Array, Array]:
    """Distances and numbers of the nearest fitted rows, [N, k]."""
    rows, k = _given(op, model, x), int(k or model.n_neighbors)
    metric, parameters = _metric(model, rows)
    if metric == "precomputed":
        return distances.least_of(rows.astype(np.float64), k)
    fitted = distances.dense(model._fit_X)
    if _both_sparse(model, x) and metric == "euclidean":
        return distances.nearest_of_sparse(rows, fitted, k)
    if model._fit_method == "brute" and metric in ("euclidean", "l2"):
        return distances.nearest_by_product(rows, fitted, k)
    if getattr(model, "_tree", None) is None:
        distance, index = distances.nearest(rows, fitted, k, metric, parameters)
        return _as_scikit(model, rows, distance), index
    visited = np.asarray(model._tree.idx_array)  # of equally near rows a tree meets the first of its own order first
    distance, index = distances.nearest(rows, fitted[visited], k, metric, parameters)
    return distance, take(index.const(visited), index, axis=0)


# On a graph of distances, the same with infinity where nothing is stored.
_STORED: Fact[ir.Value] = Fact("stored_distances")


def _given(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The rows, or distances instead of rows; to scikit-learn, what a sparse matrix of these leaves out is no neighbour."""
    if model.effective_metric_ != "precomputed" or not is_sparse(x):
        return numbers(op, x)
    stored = _STORED.of(matrix(op, x))
    if stored is None:
        raise UnsupportedOperator(
            f"{type(model).__name__}: metric='precomputed' of a sparse matrix, whose zeros are no distances, unless a "
            "KNeighborsTransformer or RadiusNeighborsTransformer with mode='distance' wrote it just before"
        )
    return Array(op, stored)


def _graph(model: BaseEstimator, zeros: Array, infinite: Array) -> Array:
    if model.mode == "distance":
        _STORED.set(zeros.value, infinite.value)
    return zeros


def _as_scikit(model: BaseEstimator, rows: Array, distance: Array) -> Array:
    """Distances in float32 where scikit-learn computes them as a product of float32 matrices."""
    narrow = rows.dtype == model._fit_X.dtype == np.float32 and model._fit_method == "brute"
    return distance.astype(np.float32) if narrow and model.effective_metric_ == "cosine" else distance


def _metric(model: BaseEstimator, rows: Array) -> tuple[str, dict[str, Any]]:
    by_scipy = model._fit_method == "brute" and rows.dtype != model._fit_X.dtype
    if model.effective_metric_ == "braycurtis" and by_scipy:  # its denominator is another one
        raise UnsupportedOperator(
            f"{type(model).__name__}: metric='braycurtis' on rows of another type than the fitted"
        )
    if callable(model.effective_metric_):
        raise UnsupportedOperator(f"{type(model).__name__}: a function as metric has no mapping; use a metric by name")
    if model.effective_metric_ == "nan_euclidean":
        raise UnsupportedOperator(f"{type(model).__name__}: metric='nan_euclidean' has no mapping")
    return model.effective_metric_, dict(model.effective_metric_params_ or {})


def _both_sparse(model: BaseEstimator, x: Table) -> bool:
    return hasattr(model._fit_X, "toarray") and is_sparse(x)


@lower(
    "KNeighborsMixin.kneighbors",
    cases(regressor, "KNeighborsRegressor", {}, {"metric": "manhattan"}, {"metric": "chebyshev"}),
    cases(regressor, "NearestNeighbors", {"metric": "cosine"}, {"algorithm": "brute"}, {"p": 3}),
    cases(regressor, "NearestNeighbors", {"metric_params": {"w": [1.0, 9.0, 0.1, 2.0]}}),
)
def kneighbors(op: OpBuilder, model: BaseEstimator, x: Table) -> tuple[Array, Array]:
    """Distances and numbers of the nearest fitted rows."""
    return neighbours_of(op, model, x)


def _count_by_distance(weights: str | Callable[..., np.ndarray] | None) -> bool:
    """Whether near neighbours count for more."""
    if weights not in (None, "uniform", "distance"):
        raise UnsupportedOperator("weights= given by a function have no mapping; use 'uniform' or 'distance'")
    return weights == "distance"


def _weights(distance: Array, weights: str | Callable[..., np.ndarray] | None) -> Array | None:
    if not _count_by_distance(weights):
        return None
    zero = distance == 0.0
    weight = 1.0 / np.where(zero, 1.0, distance)
    return np.where(np.any(zero, axis=1, keepdims=True), zero.astype(distance.dtype), weight)


def _targets(model: BaseEstimator) -> tuple[np.ndarray, list[np.ndarray]]:
    y = np.asarray(model._y)
    return (y if y.ndim > 1 else y.reshape(-1, 1)), (model.classes_ if model.outputs_2d_ else [model.classes_])


def _votes(op: OpBuilder, model: BaseEstimator, x: Table) -> list[Array]:
    """For each label column the summed weights of the classes among the neighbours, [N, K]."""
    distance, index = results(op, model, "kneighbors", x)
    weights = _weights(distance, model.weights)
    y, classes = _targets(model)
    parts = []
    for column, labels in enumerate(classes):
        shares = take(index.const(np.eye(len(labels))[y[:, column]]), index, axis=0)
        if weights is not None:
            shares = shares * weights[:, :, None]
        parts.append(np.sum(shares, axis=1))
    return parts


@lower(
    "KNeighborsClassifier.predict_proba",
    cases(classifier, "KNeighborsClassifier", {}, {"weights": "distance"}, {"classes": 2}),
    cases(classifier, "KNeighborsClassifier", {"algorithm": "brute"}, {"n_neighbors": 1}),
)
def neighbour_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
    """Shares of the classes among the neighbours."""
    parts = [votes / np.sum(votes, axis=1, keepdims=True) for votes in _votes(op, model, x)]
    return parts if model.outputs_2d_ else parts[0]


@lower_fitted("KNeighborsClassifier.predict", classifier, {"text": True}, {"weights": "distance"})
def neighbour_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class with the most votes, the first among equals."""
    pairs = zip(_targets(model)[1], _votes(op, model, x), strict=True)
    columns = [take_class(labels, np.argmax(votes, axis=1)) for labels, votes in pairs]
    return np.stack(columns, axis=1) if model.outputs_2d_ else columns[0]


@lower(
    "KNeighborsRegressor.predict",
    cases(regressor, "KNeighborsRegressor", {}, {"weights": "distance"}, {"outputs": 2}),
    cases(regressor, "KNeighborsRegressor", {"outputs": 2, "weights": "distance"}),
)
def neighbour_value(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The mean of the neighbours' values, weighted."""
    distance, index = results(op, model, "kneighbors", x)
    y = np.asarray(model._y)
    values = take(index.const(y if y.ndim > 1 else y[:, None]), index, axis=0)
    weights = _weights(distance, model.weights)
    if weights is None:
        result = np.mean(values, axis=1)
    else:
        total = np.sum(values * weights[:, :, None], axis=1)
        result = (total / np.sum(weights, axis=1, keepdims=True)).astype(np.float64)
    return result if y.ndim > 1 else result.reshape(-1)


def _within(model: BaseEstimator, rows: Array, *, sparse: bool) -> tuple[Array, Array]:
    """Distances to all fitted rows and which of them lie within the radius, [N, M]."""
    metric, parameters = _metric(model, rows)
    if metric == "precomputed":
        distance = rows.astype(np.float64)
        return distance, distance <= float(model.radius)
    radius = float(model.radius)
    if metric == "sqeuclidean":
        distance = distances.exact_squares(rows, distances.dense(model._fit_X), radius)
        return distance, distance <= radius
    if metric == "euclidean" and sparse:
        squares = distances.product_squares(rows, distances.dense(model._fit_X))
        return np.sqrt(squares), squares <= model.radius * model.radius
    if distances.named_metric(metric, parameters) == "euclidean":
        squares = distances.exact_squares(rows, distances.dense(model._fit_X), radius * radius)
        return np.sqrt(squares), squares <= radius * radius
    distance = _as_scikit(model, rows, distances.distances(rows, distances.dense(model._fit_X), metric, parameters))
    return distance, distance <= model.radius  # as NumPy compares them: in float32 where they are that


def _radius_weights(distance: Array, inside: Array, weights: str | Callable[..., np.ndarray] | None) -> Array:
    if not _count_by_distance(weights):
        return inside.astype(np.float64)
    zero = (distance == 0.0) & inside
    weight = np.where(inside & ~zero, 1.0 / np.where(zero, 1.0, distance), 0.0).astype(np.float64)
    return np.where(np.any(zero, axis=1, keepdims=True), zero.astype(np.float64), weight)


@lower_fitted(
    "RadiusNeighborsClassifier.predict_proba", classifier, {"radius": 3.0, "outlier_label": 0}, {"radius": 9.0}
)
def radius_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
    """Shares of the classes within the radius; where there is no row, all to the outlier label.

    Without an outlier label scikit-learn refuses such a row; the graph gives zeros.
    """
    y, classes = _targets(model)
    sparse = _both_sparse(model, x)

    def of_block(rows: Array) -> list[Array]:
        distance, inside = _within(model, rows, sparse=sparse)
        weights = _radius_weights(distance, inside, model.weights)
        empty = ~np.any(inside, axis=1, keepdims=True)
        parts = []
        for column, labels in enumerate(classes):
            votes = weights @ np.eye(len(labels))[y[:, column]]
            if model.outlier_label_ is not None:
                outlier = np.asarray(labels == model.outlier_label_[column], np.float64)
                votes = np.where(empty, outlier[None], votes)
            total = np.sum(votes, axis=1, keepdims=True)
            parts.append(votes / np.where(total == 0.0, 1.0, total))
        return parts

    parts = in_blocks(_given(op, model, x), len(y), of_block)
    return parts if model.outputs_2d_ else parts[0]


@lower_fitted("RadiusNeighborsClassifier.predict", classifier, {"radius": 1.5, "outlier_label": 1})
def radius_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class of the greatest share; the outlier label where there is none."""
    shares = op.call(model, "predict_proba", x)
    _, classes = _targets(model)
    columns = []
    for column, item in enumerate(shares if model.outputs_2d_ else [shares]):
        votes = Array(op, item)
        label = take_class(classes[column], np.argmax(votes, axis=1))
        if model.outlier_label_ is not None:
            nothing = np.all(votes == 0, axis=1)
            outlier = op.const(np.asarray(model.outlier_label_[column], np.asarray(classes[column]).dtype))
            label = label.of(op.Where(nothing.value, outlier, label.value))
        columns.append(label)
    return np.stack(columns, axis=1) if model.outputs_2d_ else columns[0]


@lower_fitted("RadiusNeighborsRegressor.predict", regressor, {"radius": 3.0}, {"radius": 9.0, "weights": "distance"})
def radius_value(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The weighted mean of the values within the radius; where there is no row NaN, or what that is among integers."""
    y = np.asarray(model._y)
    values = y if y.ndim > 1 else y[:, None]
    with np.errstate(invalid="ignore"):
        nothing = np.full_like(values[0], np.nan).astype(np.float64)
    sparse = _both_sparse(model, x)

    def of_block(rows: Array) -> list[Array]:
        weights = _radius_weights(*_within(model, rows, sparse=sparse), model.weights)
        total = np.sum(weights, axis=1, keepdims=True)
        empty = total == 0.0
        mean: Any = np.where(empty, nothing, (weights @ values) / np.where(empty, 1.0, total))
        return [mean]

    (result,) = in_blocks(_given(op, model, x), len(y), of_block)
    return result if y.ndim > 1 else result.reshape(-1)


@lower_fitted("KNeighborsTransformer.transform", regressor)
def neighbour_graph(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The distances to the nearest fitted rows (or 1), 0 elsewhere: [N, M], dense."""
    distance, index = neighbours_of(op, model, x, model.n_neighbors + (model.mode == "distance"))
    filled = distance if model.mode == "distance" else np.ones_like(distance, np.float64)
    parts = []
    for blank in (0.0, np.inf):
        nothing = full(index, (None, int(model.n_samples_fit_)), blank, filled.dtype)
        parts.append(nothing.of(op.ScatterElements(nothing.value, index.value, one_value(filled), axis=1)))
    return _graph(model, *parts)


@lower_fitted("RadiusNeighborsTransformer.transform", regressor)
def radius_graph(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The distances to the fitted rows within the radius (or 1), 0 elsewhere: [N, M], dense."""
    distance, inside = _within(model, _given(op, model, x), sparse=_both_sparse(model, x))
    filled = distance if model.mode == "distance" else np.ones_like(distance, np.float64)
    return _graph(model, np.where(inside, filled, 0.0), np.where(inside, filled, np.inf))


@lower_fitted("LocalOutlierFactor.score_samples", regressor, {"novelty": True})
def local_outlier_samples(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The opposite of the mean ratio of the neighbours' densities to the row's own."""
    distance, index = neighbours_of(op, model, x, model.n_neighbors_)
    if numbers(op, x).dtype == np.float32:
        distance = distance.astype(np.float32)
    reach = np.maximum(distance, take(model._distances_fit_X_[:, model.n_neighbors_ - 1], index))
    density = 1.0 / (np.mean(reach, axis=1, keepdims=True) + 1e-10)
    return -np.mean(take(model._lrd, index) / density, axis=1)


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


def _partly(name: str, **options: object) -> Any:
    labels = target()
    labels[::2] = -1
    return fit(name, data(), labels, **options)


_NEAREST = {"name": "LabelSpreading", "kernel": "knn"}
_CASES = [
    *given(_partly, {"name": "LabelPropagation", "tol": 0.1}, _NEAREST),
    *given(_partly, {"name": "LabelSpreading", "gamma": 0.5}, _NEAREST, rows=f32(7, 4)),
]


@lower("BaseLabelPropagation.predict_proba", _CASES)
def spread_labels(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The fitted rows' distributions over the labels, weighted by the kernel or summed over the nearest rows."""
    if model.kernel == "knn":
        _, index = results(op, model.nn_fit, "kneighbors", x, step="nn_fit")
        shares = np.sum(take(index.const(model.label_distributions_), index, axis=0), axis=1)
    elif model.kernel == "rbf":
        shares = distances.kernel(numbers(op, x), model.X_, "rbf", {"gamma": model.gamma}) @ model.label_distributions_
    else:
        raise UnsupportedOperator(f"{type(model).__name__}: a function as kernel has no mapping; use 'rbf' or 'knn'")
    return shares / np.sum(shares, axis=1, keepdims=True)


lower_label("BaseLabelPropagation", "predict_proba", _CASES)
