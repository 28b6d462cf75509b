"""Methods that follow from another method of the same estimator, or of the one inside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.classes import label_of_scores
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, regressor, transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called

# From a table to the one that the estimator inside is given.
Given = Callable[[OpBuilder, BaseEstimator, Table], Table]
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "score_samples")


def lower_inner(
    attribute: str, names: str, methods: Sequence[str], cases: Sequence[Case], given: Given = lambda op, model, x: x
) -> None:
    """Registers methods that estimators hand on to another one.

    Args:
        attribute: what holds the other one; `estimator` does where that was fitted before.
        names: the estimators' classes, in one line.
        methods: the methods.
        cases: the evidence, the same for each method.
        given: the table that the other one is given.
    """

    def register(method: str) -> None:
        @lower(f"{names}.{method}", cases)
        def inner(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
            """The same method of the estimator inside."""
            step = attribute if hasattr(model, attribute) else "estimator"
            return op.call(getattr(model, step), method, given(op, model, x), step=step)

    for method in methods:
        register(method)


def transformed(op: OpBuilder, model: BaseEstimator, x: Table) -> Table:
    """What the estimator's own `transform` gives."""
    result: Table = op.call(model, "transform", x)
    return result


@lower(
    "AdaBoostClassifier BaseSVC ClassifierChain DecisionTreeClassifier ForestClassifier GradientBoostingClassifier "
    "LogisticRegression MLPClassifier SGDClassifier.predict_log_proba",
    cases(classifier, "LogisticRegression", {}, {"classes": 2}),
    cases(classifier, "AdaBoostClassifier", {"n_estimators": 5}, rows=f64(20, 4)),
)
def log_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
    """The logarithm of the probabilities."""
    shares = op.call(model, "predict_proba", x)
    return [np.log(Array(op, item)) for item in shares] if isinstance(shares, tuple) else np.log(Array(op, shares))


def lower_label(name: str, method: str, cases: Sequence[Case]) -> None:
    """Registers a class's `predict` that compares what another method of the classifier gives."""

    @lower(f"{name}.predict", cases)
    def label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The class of the greatest score, the first among equals; of a vector of scores by the sign."""
        return label_of_scores(model.classes_, called(op, model, method, x))


_ENVELOPE = cases(transformer, "EllipticEnvelope")
_FACTOR = cases(regressor, "LocalOutlierFactor", {"novelty": True})
_FOREST = cases(regressor, "IsolationForest", {"n_estimators": 5})
_LINE = cases(regressor, "SGDOneClassSVM")
_MACHINE = cases(regressor, "OneClassSVM", {}, {"nu": 0.1})


@lower("EllipticEnvelope IsolationForest LocalOutlierFactor.decision_function", _ENVELOPE, _FOREST, _FACTOR)
def outlier_decision(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The samples' scores less the offset, which follows from the contamination."""
    return called(op, model, "score_samples", x) - model.offset_


@lower("SGDOneClassSVM OneClassSVM.score_samples", _LINE, _MACHINE)
def outlier_samples(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The decision function plus the offset."""
    return called(op, model, "decision_function", x) + model.offset_


def _lower_inlier(names: str, label: Callable[[Array], Any], *evidence: Sequence[Case]) -> None:
    @lower(f"{names}.predict", *evidence)
    def inlier(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """1 for an inlier, -1 for an outlier."""
        return label(called(op, model, "decision_function", x))


_lower_inlier("IsolationForest LocalOutlierFactor", lambda x: np.where(x < 0, -1, 1), _FOREST, _FACTOR)
_lower_inlier("EllipticEnvelope", lambda x: np.where(x >= 0, 1, -1), _ENVELOPE)
_lower_inlier("OneClassSVM", lambda x: np.where(x > 0, 1, -1), _MACHINE)
_lower_inlier("SGDOneClassSVM", lambda x: np.where(x >= 0, np.int32(1), np.int32(-1)), _LINE)
