"""Pipelines, unions and searches: compositions of estimators."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.fitted import data, quantity, target, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import handed_on
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table, columns, count, matrix, select, side_by_side

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.pipeline import FeatureUnion, Pipeline

_METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "score_samples")


def _pipeline() -> Any:
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    x = data()
    union = make_union(PCA(2), MinMaxScaler())
    return make_pipeline(StandardScaler(), union, "passthrough", LogisticRegression()).fit(x, x[:, 0] > 0.2)


def _columns() -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    parts = [(StandardScaler(), [2, 0]), (MinMaxScaler(), slice(1, 2))]
    return make_column_transformer(*parts, remainder="passthrough").fit(data())


def _weighted_columns() -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import StandardScaler

    parts = [("scale", StandardScaler(), [2, 0]), ("kept", "passthrough", [1])]
    return ColumnTransformer(parts, transformer_weights={"scale": 0.5, "kept": 2}).fit(data())


def _ending_in(module: str, name: str, **options: object) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), unfitted(module, name, **options)).fit(data(), quantity())


def _ending_in_trees() -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    trees = import_module("xgboost").XGBClassifier(n_estimators=4, max_depth=2)
    return make_pipeline(StandardScaler(), trees).fit(data(), target())


# Where the last step is no classifier of scikit-learn; `kneighbors` is not scikit-learn's, which hands it on to no step.
_ENDINGS: dict[str, Any] = {
    "transform": lambda: _ending_in("decomposition", "PCA", n_components=2),
    "score_samples": lambda: _ending_in("mixture", "GaussianMixture"),
    "predict_std": lambda: _ending_in("linear_model", "BayesianRidge"),
    "kneighbors": lambda: _ending_in("neighbors", "NearestNeighbors"),
    "raw_scores": _ending_in_trees,
}


def _lower_pipeline(method: str) -> None:
    @sklearn.lower(f"Pipeline.{method}", cases=[built(_ENDINGS.get(method, _pipeline), f64(5, 4), dynamic=True)])
    def pipeline(op: OpBuilder, model: Pipeline, x: Table) -> Any:
        """The steps one after the other."""
        *steps, (last_name, last) = model.steps
        for name, step in steps:
            if step is not None and step != "passthrough":
                x = handed_on(step, x, op.call(step, "transform", x, step=name))
        if last is None or last == "passthrough":
            return matrix(op, x)
        return op.call(last, method, x, step=last_name)


for _method in dict.fromkeys([*_METHODS, *_ENDINGS]):
    _lower_pipeline(_method)


@sklearn.lower(
    "Pipeline.inverse_transform",
    cases=[built(lambda: _ending_in("decomposition", "PCA", n_components=2), f64(5, 2), dynamic=True)],
)
def unpiped(op: OpBuilder, model: Pipeline, x: Table) -> Any:
    """The inverses of the steps, the last one's first."""
    for name, step in reversed(model.steps):
        if step is not None and step != "passthrough":
            x = op.call(step, "inverse_transform", x, step=name)
    return matrix(op, x)


@sklearn.lower("FeatureUnion.transform", cases=[built(_pipeline, f64(5, 4))])
def feature_union(op: OpBuilder, model: FeatureUnion, x: Table) -> Table:
    """The transformers' results side by side, each times its weight."""
    weights = model.transformer_weights or {}
    parts: list[Table] = []
    for name, step in model.transformer_list:
        if isinstance(step, str) and step == "drop":
            continue
        part = x if isinstance(step, str) else op.call(step, "transform", x, step=name)
        if name in weights:
            part = (Array(op, matrix(op, part)) * weights[name]).value
        parts.append(part)
    return side_by_side(op, parts)


@sklearn.lower(
    "ColumnTransformer.transform",
    cases=[built(_columns, f64(5, 4), dynamic=True), built(_weighted_columns, f64(5, 4))],
)
def column_transformer(op: OpBuilder, model: ColumnTransformer, x: Table) -> Table:
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
        if name in weights:
            part = (Array(op, matrix(op, part)) * weights[name]).value
        parts.append(part)
    return side_by_side(op, parts)


# How a ColumnTransformer's columns are chosen.
Selection = str | int | slice | Sequence[str | int | bool] | np.ndarray


def _indices(model: ColumnTransformer, selected: Selection, x: Table) -> list[int]:
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
            f"ColumnTransformer: the inputs have no column {missing[0]!r} of a type that ONNX has; pass a DataFrame as inputs=, "
            "of numbers, strings and booleans"
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


def _lower_search(method: str) -> None:
    @sklearn.lower(
        *(
            f"{name}.{method}"
            for name in ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
        ),
        cases=[built(_search_of_trees if method == "raw_scores" else _search, f64(5, 4))],
    )
    def search(op: OpBuilder, model: BaseSearchCV, x: Table) -> Any:
        """The best estimator."""
        return op.call(model.best_estimator_, method, x, step="best_estimator_")


def _search() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    x = data()
    return GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2).fit(x, x[:, 0] > 0)


def _search_of_trees() -> Any:
    from sklearn.model_selection import GridSearchCV

    model = import_module("xgboost").XGBClassifier(n_estimators=4)
    return GridSearchCV(model, {"max_depth": [1, 2]}, cv=2).fit(data(), target())


for _method in (*_METHODS, "raw_scores"):
    _lower_search(_method)
