"""Pipelines, unions and searches: compositions of estimators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline, make_union

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, built, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.entries import given, lower
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import METHODS, lower_inner
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, data, fit, quantity, target, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import handed_on
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table, columns, count, matrix, select, side_by_side


def _pipeline() -> Any:
    x = data()
    union = make_union(unfitted("PCA", n_components=2), unfitted("MinMaxScaler"))
    steps = (unfitted("StandardScaler"), union, "passthrough", unfitted("LogisticRegression"))
    return make_pipeline(*steps).fit(x, x[:, 0] > 0.2)


def _columns(**options: object) -> Any:
    parts = [("scale", unfitted("StandardScaler"), [2, 0]), ("range", unfitted("MinMaxScaler"), slice(1, 2))]
    return fit("ColumnTransformer", data(), transformers=[*parts, ("kept", "passthrough", [1])], **options)


def _ending_in(name: str, **options: object) -> Any:
    y = target() if name.endswith("Classifier") else quantity()
    return make_pipeline(unfitted("StandardScaler"), unfitted(name, **options)).fit(data(), y)


# Where the last step is no classifier of scikit-learn; `kneighbors` is not scikit-learn's, which hands it on to no step.
_ENDINGS: dict[str, Any] = {
    "transform": partial(_ending_in, "PCA", n_components=2),
    "score_samples": partial(_ending_in, "GaussianMixture"),
    "predict_std": partial(_ending_in, "BayesianRidge"),
    "kneighbors": partial(_ending_in, "NearestNeighbors"),
    "raw_scores": partial(_ending_in, "xgboost.XGBClassifier", n_estimators=4, max_depth=2),
}


def lower_pipeline(name: str, method: str, cases: Sequence[Case]) -> None:
    """Registers a method of a pipeline's class."""

    @lower(f"{name}.{method}", cases)
    def pipeline(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
        """The steps one after the other, without samplers, which only fitting sees."""
        *steps, (last_name, last) = model.steps
        for name, step in steps:
            if step is not None and step != "passthrough" and not hasattr(step, "fit_resample"):
                x = handed_on(step, x, op.call(step, "transform", x, step=name))
        if last is None or last == "passthrough":
            return matrix(op, x)
        return op.call(last, method, x, step=last_name)


for _method in dict.fromkeys([*METHODS, *_ENDINGS]):
    lower_pipeline("Pipeline", _method, [built(_ENDINGS.get(_method, _pipeline), f64(5, 4))])


@lower("Pipeline.inverse_transform", built(_ENDINGS["transform"], f64(5, 2)))
def unpiped(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
    """The inverses of the steps, the last one's first."""
    for name, step in reversed(model.steps):
        if step is not None and step != "passthrough":
            x = op.call(step, "inverse_transform", x, step=name)
    return matrix(op, x)


def _times(op: OpBuilder, x: Table, weight: float | None) -> Table:
    return x if weight is None else (Array(op, matrix(op, x)) * weight).value


@lower("FeatureUnion.transform", built(_pipeline, f64(5, 4)))
def feature_union(op: OpBuilder, model: BaseEstimator, x: Table) -> Table:
    """The transformers' results side by side, each times its weight."""
    weights = model.transformer_weights or {}
    parts: list[Table] = []
    for name, step in model.transformer_list:
        if isinstance(step, str) and step == "drop":
            continue
        part = x if isinstance(step, str) else op.call(step, "transform", x, step=name)
        parts.append(_times(op, part, weights.get(name)))
    return side_by_side(op, parts)


_WEIGHTED = {"transformer_weights": {"scale": 0.5, "kept": 2}}


@lower("ColumnTransformer.transform", given(_columns, {"remainder": "passthrough"}, _WEIGHTED, rows=f64(5, 4)))
def column_transformer(op: OpBuilder, model: BaseEstimator, x: Table) -> Table:
    """Each transformer on its own columns, the results side by side, each times its weight."""
    weights = model.transformer_weights or {}
    parts: list[Table] = []
    for name, step, selected in model.transformers_:
        indices = _indices(model, selected, x) if not isinstance(step, str) or step != "drop" else []
        if not indices:
            continue
        part: Table = select(op, x, indices) if isinstance(x, Frame) else columns(op, x, indices)
        if not isinstance(step, str):
            part = op.call(step, "transform", part, step=name)
        parts.append(_times(op, part, weights.get(name)))
    return side_by_side(op, parts)


# How a ColumnTransformer's columns are chosen.
Selection = str | int | slice | Sequence[str | int | bool] | np.ndarray


def _indices(model: BaseEstimator, selected: Selection, x: Table) -> list[int]:
    """Positions in the table of the columns that a fitted ColumnTransformer chose by name, position, slice or mask."""
    names = list(getattr(model, "feature_names_in_", ()))
    chosen = _chosen(selected, names, int(model.n_features_in_))
    if not names:
        return chosen
    place = {name: i for i, name in enumerate(names)}
    if isinstance(x, Frame):  # its columns may stand in another order, and others beside them
        place = dict(zip(x.names, np.cumsum([0, *x.widths[:-1]]).tolist()))
    wanted = [names[position] for position in chosen]
    missing = [name for name in wanted if name not in place]
    if missing and count(x) == len(names):  # a step before gave the columns other names
        return chosen
    if missing:
        raise UnsupportedOperator(
            f"ColumnTransformer: the inputs have no column {missing[0]!r} of a type that ONNX has, they have "
            f"{', '.join(map(repr, place))}; pass a DataFrame as inputs=, of numbers, strings and booleans"
        )
    return [place[name] for name in wanted]


def _chosen(selected: Selection, names: list[str], count: int) -> list[int]:
    """Positions among the columns that a ColumnTransformer was fitted on."""
    if isinstance(selected, slice):
        if isinstance(selected.start, str) or isinstance(selected.stop, str):
            start = names.index(selected.start) if selected.start is not None else 0
            stop = names.index(selected.stop) + 1 if selected.stop is not None else count
            return list(range(start, stop))
        return list(range(count))[selected]
    items = np.atleast_1d(np.asarray(selected, object if not isinstance(selected, np.ndarray) else None))
    if items.dtype == bool or (len(items) and all(isinstance(item, (bool, np.bool_)) for item in items)):
        return [int(i) for i in np.flatnonzero(items.astype(bool))]
    return [names.index(item) if isinstance(item, str) else int(item) % count for item in items]


def _search(kind: str, grid: dict[str, list[Any]], **options: object) -> Any:
    return classifier("GridSearchCV", estimator=unfitted(kind, **options), param_grid=grid, cv=2)


_OF_LINES = partial(_search, "LogisticRegression", {"C": [0.1, 1.0]})
_OF_TREES = partial(_search, "xgboost.XGBClassifier", {"max_depth": [1, 2]}, n_estimators=4)
_SEARCHES = "GridSearchCV RandomizedSearchCV HalvingGridSearchCV HalvingRandomSearchCV"
lower_inner("best_estimator_", _SEARCHES, METHODS, [built(_OF_LINES, f64(5, 4))])
lower_inner("best_estimator_", _SEARCHES, ["raw_scores"], [built(_OF_TREES, f64(5, 4))])
