"""Voting, stacking and bagging: what several estimators say, together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.classes import spread, take_class
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, classifier, regressor, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, columns, matrix

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from sklearn.ensemble import (
        BaggingClassifier,
        BaggingRegressor,
        StackingClassifier,
        StackingRegressor,
        VotingClassifier,
        VotingRegressor,
    )

_HERE = "ensemble"
_ROWS = f64(7, 4)


def _classifiers() -> list[tuple[str, Any]]:
    return [
        ("line", unfitted("linear_model", "LogisticRegression")),
        ("tree", unfitted("tree", "DecisionTreeClassifier", max_depth=3)),
        ("bayes", unfitted("naive_bayes", "GaussianNB")),
    ]


def _regressors() -> list[tuple[str, Any]]:
    return [
        ("ridge", unfitted("linear_model", "Ridge")),
        ("tree", unfitted("tree", "DecisionTreeRegressor", max_depth=3)),
    ]


def _voting(kind: str = "VotingClassifier", **options: object) -> Any:
    maker, parts = (classifier, _classifiers()) if kind.endswith("Classifier") else (regressor, _regressors())
    return maker(_HERE, kind, estimators=parts, **options)


def _names(model: BaseEstimator) -> list[str]:
    return [name for name, part in model.estimators if not isinstance(part, str) or part != "drop"]


def _predictions(op: OpBuilder, model: VotingClassifier | VotingRegressor, method: str, x: Table) -> list[Array]:
    return [called(op, part, method, x, step=name) for name, part in zip(_names(model), model.estimators_, strict=True)]


# -- voting ------------------------------------------------------------------------------------------------------------------


@sklearn.lower(
    "VotingClassifier.predict_proba",
    cases=[
        built(lambda: _voting(voting="soft"), _ROWS, dynamic=True),
        built(lambda: _voting(voting="soft", weights=[2, 1, 1]), _ROWS),
    ],
)
def mean_probabilities(op: OpBuilder, model: VotingClassifier, x: Table) -> Array:
    """The weighted mean of the estimators' probabilities."""
    result = np.stack(_predictions(op, model, "predict_proba", x), axis=0)
    return np.average(result, axis=0, weights=model._weights_not_none)


@sklearn.lower(
    "VotingClassifier.predict",
    cases=[
        built(lambda: _voting(text=True), _ROWS),
        built(lambda: _voting(weights=[3, 1, 1]), _ROWS),
        built(lambda: _voting(voting="soft"), _ROWS),
    ],
)
def voted_label(op: OpBuilder, model: VotingClassifier, x: Table) -> Array:
    """The class with the greatest mean probability, or with the most votes, the first among equals."""
    if model.voting == "soft":
        return take_class(model.le_.classes_, np.argmax(called(op, model, "predict_proba", x), axis=1))
    weights = model._weights_not_none or [1.0] * len(model.estimators_)
    places = np.arange(len(model.le_.classes_))
    votes = [spread(labels, places).astype(np.float64) for labels in _predictions(op, model, "predict", x)]
    total = votes[0] * float(weights[0])
    for vote, weight in zip(votes[1:], weights[1:], strict=True):
        total = total + vote * float(weight)
    return take_class(model.le_.classes_, np.argmax(total, axis=1))


@sklearn.lower(
    "VotingClassifier.transform",
    "VotingRegressor.transform",
    cases=[
        built(_voting, _ROWS),
        built(lambda: _voting(voting="soft"), _ROWS),
        built(lambda: _voting("VotingRegressor"), _ROWS),
    ],
)
def ballots(op: OpBuilder, model: VotingClassifier | VotingRegressor, x: Table) -> Array:
    """The predictions of each estimator: labels' numbers, values, or probabilities side by side."""
    if getattr(model, "voting", "hard") == "hard":
        return np.stack(_predictions(op, model, "predict", x), axis=1)
    result = _predictions(op, model, "predict_proba", x)
    return np.hstack(result) if model.flatten_transform else np.stack(result, axis=0)


@sklearn.lower(
    "VotingRegressor.predict",
    cases=[
        built(lambda: _voting("VotingRegressor"), _ROWS, dynamic=True),
        built(lambda: _voting("VotingRegressor", weights=[1, 3]), _ROWS),
    ],
)
def mean_value(op: OpBuilder, model: VotingRegressor, x: Table) -> Array:
    """The weighted mean of the estimators' values."""
    return np.average(np.stack(_predictions(op, model, "predict", x), axis=1), axis=1, weights=model._weights_not_none)


# -- stacking ----------------------------------------------------------------------------------------------------------------


def _stacking(kind: str = "StackingClassifier", **options: object) -> Any:
    return _voting(kind, cv=2, **options)


@sklearn.lower(
    "StackingClassifier.transform",
    "StackingRegressor.transform",
    cases=[
        built(_stacking, _ROWS, dynamic=True),
        built(lambda: _stacking(passthrough=True, classes=2), _ROWS),
        built(lambda: _stacking("StackingRegressor"), _ROWS),
    ],
)
def stacked(op: OpBuilder, model: StackingClassifier | StackingRegressor, x: Table) -> Array:
    """The estimators' results side by side, of two classes' probabilities the second; the rows too on request."""
    methods = iter(model.stack_method_)
    parts: list[Any] = []
    for name, part in zip(_names(model), model.estimators_, strict=True):
        method = next(methods)
        result = op.call(part, method, x, step=name)
        if isinstance(result, tuple):
            parts += [Array(op, item)[:, 1:] for item in result]
            continue
        values = Array(op, result)
        if values.ndim == 1:
            parts.append(values[:, None])
        else:
            binary = method == "predict_proba" and len(model.classes_) == 2
            parts.append(values[:, 1:] if binary else values)
    if model.passthrough:
        parts.append(Array(op, matrix(op, x)))
    return np.hstack(parts)


@sklearn.lower("StackingClassifier.predict_proba", cases=[built(_stacking, _ROWS)])
def stacked_probabilities(op: OpBuilder, model: StackingClassifier, x: Table) -> Any:
    """The final estimator's probabilities; of several label columns what it gives for the first class of each."""
    probabilities = op.call(
        model.final_estimator_, "predict_proba", op.call(model, "transform", x), step="final_estimator_"
    )
    if isinstance(probabilities, tuple) and isinstance(model._label_encoder, list):
        return np.stack([Array(op, item)[:, 0] for item in probabilities], axis=1)
    return probabilities


@sklearn.lower("StackingClassifier.decision_function", cases=[built(_stacking, _ROWS)])
def stacked_scores(op: OpBuilder, model: StackingClassifier, x: Table) -> Any:
    """The final estimator's scores."""
    return op.call(model.final_estimator_, "decision_function", op.call(model, "transform", x), step="final_estimator_")


@sklearn.lower("StackingClassifier.predict", cases=[built(lambda: _stacking(text=True), _ROWS)])
def stacked_label(op: OpBuilder, model: StackingClassifier, x: Table) -> Any:
    """The final estimator's label."""
    labels = op.call(model.final_estimator_, "predict", op.call(model, "transform", x), step="final_estimator_")
    if isinstance(model._label_encoder, list):
        parts = [take_class(e.classes_, Array(op, labels)[:, i]) for i, e in enumerate(model._label_encoder)]
        return np.stack(parts, axis=1)
    result = Array(op, labels)
    places = result if result.ndim == 1 else result[:, 0]  # CatBoost gives a column
    return take_class(model._label_encoder.classes_, places)


@sklearn.lower("StackingRegressor.predict", cases=[built(lambda: _stacking("StackingRegressor"), _ROWS)])
def stacked_value(op: OpBuilder, model: StackingRegressor, x: Table) -> Any:
    """The final estimator's value."""
    return op.call(model.final_estimator_, "predict", op.call(model, "transform", x), step="final_estimator_")


# -- bagging -----------------------------------------------------------------------------------------------------------------


def _bagged(op: OpBuilder, model: BaggingClassifier | BaggingRegressor, method: str, x: Table) -> list[Array]:
    parts = []
    for number, (part, features) in enumerate(zip(model.estimators_, model.estimators_features_, strict=True)):
        chosen = columns(op, x, [int(i) for i in features])
        parts.append(called(op, part, method, chosen, step=f"estimators_.{number}"))
    return parts


def total(parts: list[Array]) -> Array:
    """The sum of arrays, one after the other."""
    result = parts[0]
    for part in parts[1:]:
        result = result + part
    return result


_BAGGED = {"n_estimators": 4}
_NARROW: dict[str, Any] = {"n_estimators": 4, "max_features": 2}
_OF_RIDGES = built(
    lambda: classifier(_HERE, "BaggingClassifier", estimator=unfitted("linear_model", "RidgeClassifier"), **_NARROW),
    _ROWS,
)


@sklearn.lower(
    "BaggingClassifier.predict_proba",
    cases=[
        *cases(classifier, _HERE, "BaggingClassifier", {**_BAGGED, "estimator": unfitted("naive_bayes", "GaussianNB")}),
        _OF_RIDGES,
    ],
)
def bagged_probabilities(op: OpBuilder, model: BaggingClassifier, x: Table) -> Array:
    """The mean of the estimators' probabilities, or their shares of the votes."""
    count = model.n_classes_
    if not all(hasattr(part, "predict_proba") for part in model.estimators_):
        votes = [spread(item, np.arange(count)).astype(np.float64) for item in _bagged(op, model, "predict", x)]
        return total(votes) / model.n_estimators
    parts = []
    for part, result in zip(model.estimators_, _bagged(op, model, "predict_proba", x), strict=True):
        if len(part.classes_) != count:
            placed = np.zeros((len(part.classes_), count))
            placed[np.arange(len(part.classes_)), part.classes_] = 1.0
            result = result @ placed
        parts.append(result.astype(np.float64))
    return total(parts) / model.n_estimators


@sklearn.lower(
    "BaggingClassifier.predict",
    cases=[
        built(
            lambda: classifier(
                _HERE, "BaggingClassifier", text=True, estimator=unfitted("naive_bayes", "GaussianNB"), **_NARROW
            ),
            _ROWS,
        )
    ],
)
def bagged_label(op: OpBuilder, model: BaggingClassifier, x: Table) -> Array:
    """The class of the greatest mean probability."""
    return take_class(model.classes_, np.argmax(called(op, model, "predict_proba", x), axis=1))


@sklearn.lower(
    "BaggingClassifier.decision_function",
    cases=[_OF_RIDGES],
)
def bagged_scores(op: OpBuilder, model: BaggingClassifier, x: Table) -> Array:
    """The mean of the estimators' scores."""
    return total(_bagged(op, model, "decision_function", x)) / model.n_estimators


@sklearn.lower(
    "BaggingClassifier.predict_log_proba",
    cases=[
        built(
            lambda: classifier(_HERE, "BaggingClassifier", estimator=unfitted("naive_bayes", "GaussianNB"), **_BAGGED),
            _ROWS,
        )
    ],
)
def bagged_log_probabilities(op: OpBuilder, model: BaggingClassifier, x: Table) -> Array:
    """The logarithm of the mean probability."""
    if not all(
        hasattr(part, "predict_log_proba") and len(part.classes_) == model.n_classes_ for part in model.estimators_
    ):
        return np.log(called(op, model, "predict_proba", x))
    parts = [part.astype(np.float64) for part in _bagged(op, model, "predict_log_proba", x)]
    top = parts[0]
    for part in parts[1:]:
        top = np.maximum(top, part)
    top = np.maximum(top, float(np.finfo(top.dtype).min) / 4)  # where all say that it can't be
    return np.log(total([np.exp(part - top) for part in parts])) + top - np.log(model.n_estimators)


@sklearn.lower(
    "BaggingRegressor.predict",
    cases=cases(regressor, _HERE, "BaggingRegressor", {**_NARROW, "estimator": unfitted("linear_model", "Ridge")}),
)
def bagged_value(op: OpBuilder, model: BaggingRegressor, x: Table) -> Array:
    """The mean of the estimators' values."""
    return total(_bagged(op, model, "predict", x)) / model.n_estimators
