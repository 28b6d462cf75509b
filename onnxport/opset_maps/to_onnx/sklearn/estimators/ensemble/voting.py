"""Voting, stacking and bagging: what several estimators say, together."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.classes import spread, take_class
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, given, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import lower_inner, lower_label, transformed
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, regressor, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, columns, matrix

_OF_CLASSES = {"line": "LogisticRegression", "tree": "DecisionTreeClassifier", "bayes": "GaussianNB"}
_OF_NUMBERS = {"ridge": "Ridge", "tree": "DecisionTreeRegressor"}


def _voting(kind: str = "VotingClassifier", **options: object) -> Any:
    maker, parts = (classifier, _OF_CLASSES) if kind.endswith("Classifier") else (regressor, _OF_NUMBERS)
    return maker(kind, estimators=[(name, unfitted(part)) for name, part in parts.items()], **options)


def _names(model: BaseEstimator) -> list[str]:
    return [name for name, part in model.estimators if not isinstance(part, str) or part != "drop"]


def _predictions(op: OpBuilder, model: BaseEstimator, method: str, x: Table) -> list[Array]:
    return [called(op, part, method, x, step=name) for name, part in zip(_names(model), model.estimators_, strict=True)]


_SOFT = ({"voting": "soft"}, {"voting": "soft", "weights": [2, 1, 1]})
_VOTES = given(_voting, *_SOFT, {"text": True}, {"weights": [3, 1, 1]})
_VALUES = given(partial(_voting, "VotingRegressor"), {}, {"weights": [1, 3]})


@lower("VotingClassifier.predict_proba", _VOTES)
def mean_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The weighted mean of the estimators' probabilities."""
    result = np.stack(_predictions(op, model, "predict_proba", x), axis=0)
    return np.average(result, axis=0, weights=model._weights_not_none)


@lower("VotingClassifier.predict", _VOTES)
def voted_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class with the greatest mean probability, or with the most votes, the first among equals."""
    if model.voting == "soft":
        return take_class(model.le_.classes_, np.argmax(called(op, model, "predict_proba", x), axis=1))
    weights = model._weights_not_none or [1.0] * len(model.estimators_)
    places = np.arange(len(model.le_.classes_))
    votes = [spread(labels, places).astype(np.float64) for labels in _predictions(op, model, "predict", x)]
    weighted = (vote * float(weight) for vote, weight in zip(votes, weights, strict=True))
    return take_class(model.le_.classes_, np.argmax(total(weighted), axis=1))


@lower("VotingClassifier VotingRegressor.transform", _VOTES, _VALUES)
def ballots(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The predictions of each estimator: labels' numbers, values, or probabilities side by side."""
    if getattr(model, "voting", "hard") == "hard":
        return np.stack(_predictions(op, model, "predict", x), axis=1)
    result = _predictions(op, model, "predict_proba", x)
    return np.hstack(result) if model.flatten_transform else np.stack(result, axis=0)


@lower("VotingRegressor.predict", _VALUES)
def mean_value(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The weighted mean of the estimators' values."""
    return np.average(np.stack(_predictions(op, model, "predict", x), axis=1), axis=1, weights=model._weights_not_none)


_stacking = partial(_voting, "StackingClassifier", cv=2)
_OF_VALUES = given(partial(_voting, "StackingRegressor", cv=2))


@lower(
    "StackingClassifier StackingRegressor.transform",
    given(_stacking, {}, {"passthrough": True, "classes": 2}),
    _OF_VALUES,
)
def stacked(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The estimators' results side by side, of two classes' probabilities the second; the rows too on request."""
    parts: list[Any] = []
    for name, part, method in zip(_names(model), model.estimators_, model.stack_method_, strict=True):
        result = op.call(part, method, x, step=name)
        if isinstance(result, tuple):
            parts += [Array(op, item)[:, 1:] for item in result]
            continue
        values = Array(op, result)
        binary = values.ndim > 1 and method == "predict_proba" and len(model.classes_) == 2
        parts.append(values[:, None] if values.ndim == 1 else values[:, 1:] if binary else values)
    if model.passthrough:
        parts.append(Array(op, matrix(op, x)))
    return np.hstack(parts)


@lower("StackingClassifier.predict_proba", given(_stacking))
def stacked_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
    """The final estimator's probabilities; of several label columns what it gives for the first class of each."""
    rows = op.call(model, "transform", x)
    probabilities = op.call(model.final_estimator_, "predict_proba", rows, step="final_estimator_")
    if isinstance(probabilities, tuple) and isinstance(model._label_encoder, list):
        return np.stack([Array(op, item)[:, 0] for item in probabilities], axis=1)
    return probabilities


lower_inner("final_estimator_", "StackingClassifier", ["decision_function"], given(_stacking), transformed)


@lower("StackingClassifier.predict", given(_stacking, {"text": True}))
def stacked_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
    """The final estimator's label."""
    labels = op.call(model.final_estimator_, "predict", op.call(model, "transform", x), step="final_estimator_")
    if isinstance(model._label_encoder, list):
        parts = [take_class(e.classes_, Array(op, labels)[:, i]) for i, e in enumerate(model._label_encoder)]
        return np.stack(parts, axis=1)
    result = Array(op, labels)
    places = result if result.ndim == 1 else result[:, 0]  # CatBoost gives a column
    return take_class(model._label_encoder.classes_, places)


lower_inner("final_estimator_", "StackingRegressor", ["predict"], _OF_VALUES, transformed)


def _bagged(op: OpBuilder, model: BaseEstimator, method: str, x: Table) -> list[Array]:
    parts = []
    for number, (part, features) in enumerate(zip(model.estimators_, model.estimators_features_, strict=True)):
        chosen = columns(op, x, [int(i) for i in features])
        parts.append(called(op, part, method, chosen, step=f"estimators_.{number}"))
    return parts


def total(parts: Iterable[Array]) -> Array:
    """The sum of arrays, one after the other."""
    return reduce(add, parts)


_BAGGED = {"n_estimators": 4}
_NARROW: dict[str, Any] = {"n_estimators": 4, "max_features": 2}


def _bagging(inner: str, **options: object) -> Any:
    return classifier("BaggingClassifier", estimator=unfitted(inner), **options)


_OF_RIDGES = given(partial(_bagging, "RidgeClassifier"), _NARROW)


@lower(
    "BaggingClassifier.predict_proba",
    cases(classifier, "BaggingClassifier", {**_BAGGED, "estimator": unfitted("GaussianNB")}),
    _OF_RIDGES,
)
def bagged_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
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


lower_label("BaggingClassifier", "predict_proba", given(partial(_bagging, "GaussianNB"), {"text": True, **_NARROW}))


@lower("BaggingClassifier.decision_function", _OF_RIDGES)
def bagged_scores(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The mean of the estimators' scores."""
    return total(_bagged(op, model, "decision_function", x)) / model.n_estimators


@lower("BaggingClassifier.predict_log_proba", given(partial(_bagging, "GaussianNB"), _BAGGED))
def bagged_log_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The logarithm of the mean probability."""
    if not all(
        hasattr(part, "predict_log_proba") and len(part.classes_) == model.n_classes_ for part in model.estimators_
    ):
        return np.log(called(op, model, "predict_proba", x))
    parts = [part.astype(np.float64) for part in _bagged(op, model, "predict_log_proba", x)]
    top = reduce(np.maximum, parts)
    top = np.maximum(top, float(np.finfo(top.dtype).min) / 4)  # where all say that it can't be
    return np.log(total([np.exp(part - top) for part in parts])) + top - np.log(model.n_estimators)


@lower_fitted("BaggingRegressor.predict", regressor, {**_NARROW, "estimator": unfitted("Ridge")})
def bagged_value(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The mean of the estimators' values."""
    return total(_bagged(op, model, "predict", x)) / model.n_estimators
