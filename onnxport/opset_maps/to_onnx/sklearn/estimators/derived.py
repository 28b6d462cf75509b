"""Methods that follow from another method of the same estimator, or of the one inside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.classes import label_of_scores
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, classifier, regressor, transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "score_samples")


def lower_inner(
    attribute: str,
    names: Sequence[str],
    methods: Sequence[str],
    cases: Sequence[Case],
    given: Callable[[OpBuilder, BaseEstimator, Table], Table] = lambda op, model, x: x,
) -> None:
    """Registers methods that estimators hand on to another one.

    Args:
        attribute: what holds the other one; `estimator` does where that was fitted before.
        names: the estimators' classes.
        methods: the methods.
        cases: the evidence, the same for each method.
        given: the table that the other one is given.
    """

    def lower(method: str) -> None:
        @sklearn.lower(*(f"{name}.{method}" for name in names), cases=cases)
        def inner(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
            """The same method of the estimator inside."""
            step = attribute if hasattr(model, attribute) else "estimator"
            return op.call(getattr(model, step), method, given(op, model, x), step=step)

    for method in methods:
        lower(method)


def transformed(op: OpBuilder, model: BaseEstimator, x: Table) -> Table:
    """What the estimator's own `transform` gives."""
    result: Table = op.call(model, "transform", x)
    return result


_ROWS = f64(20, 4)


@sklearn.lower(
    *(
        f"{name}.predict_log_proba"
        for name in (
            "AdaBoostClassifier", "BaseSVC", "ClassifierChain", "DecisionTreeClassifier", "ForestClassifier",
            "GradientBoostingClassifier", "LogisticRegression", "MLPClassifier", "SGDClassifier",
        )
    ),
    cases=[
        *cases(classifier, "LogisticRegression", {}, {"classes": 2}),
        *cases(classifier, "AdaBoostClassifier", {"n_estimators": 5}, rows=_ROWS),
    ],
)  # fmt: skip
def log_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
    """The logarithm of the probabilities."""
    shares = op.call(model, "predict_proba", x)
    return [np.log(Array(op, item)) for item in shares] if isinstance(shares, tuple) else np.log(Array(op, shares))


def lower_label(names: Sequence[str], method: str, cases: Sequence[Case]) -> None:
    """Registers a `predict` that compares what another method of the classifier gives."""

    @sklearn.lower(*(f"{name}.predict" for name in names), cases=cases)
    def label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The class of the greatest score, the first among equals; of a vector of scores by the sign."""
        return label_of_scores(model.classes_, called(op, model, method, x))


_ENVELOPE = cases(transformer, "EllipticEnvelope")
_FACTOR = cases(regressor, "LocalOutlierFactor", {"novelty": True})
_FOREST = cases(regressor, "IsolationForest", {"n_estimators": 5})
_LINE = cases(regressor, "SGDOneClassSVM")
_MACHINE = cases(regressor, "OneClassSVM", {}, {"nu": 0.1})


@sklearn.lower(
    *(f"{name}.decision_function" for name in ("EllipticEnvelope", "IsolationForest", "LocalOutlierFactor")),
    cases=[*_ENVELOPE, *_FOREST, *_FACTOR],
)
def outlier_decision(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The samples' scores less the offset, which follows from the contamination."""
    return called(op, model, "score_samples", x) - model.offset_


@sklearn.lower("SGDOneClassSVM.score_samples", "OneClassSVM.score_samples", cases=[*_LINE, *_MACHINE])
def outlier_samples(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The decision function plus the offset."""
    return called(op, model, "decision_function", x) + model.offset_


def _lower_inlier(names: Sequence[str], label: Callable[[Array], Any], cases: Sequence[Case]) -> None:
    @sklearn.lower(*(f"{name}.predict" for name in names), cases=cases)
    def inlier(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """1 for an inlier, -1 for an outlier."""
        return label(called(op, model, "decision_function", x))


_lower_inlier(["IsolationForest", "LocalOutlierFactor"], lambda x: np.where(x < 0, -1, 1), [*_FOREST, *_FACTOR])
_lower_inlier(["EllipticEnvelope"], lambda x: np.where(x >= 0, 1, -1), _ENVELOPE)
_lower_inlier(["OneClassSVM"], lambda x: np.where(x > 0, 1, -1), _MACHINE)
_lower_inlier(["SGDOneClassSVM"], lambda x: np.where(x >= 0, np.int32(1), np.int32(-1)), _LINE)
