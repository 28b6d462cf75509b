"""Linear models: scores are one matrix product."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays import Array
from onnxport.opset_maps.to_onnx.sklearn.classes import (
    both_classes,
    label_of_scores,
    logistic_classes,
    normalized,
    softmax,
)
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, classifier, data, made, regressor, target
from onnxport.opset_maps.to_onnx.sklearn.table import Table, called, floats, numbers

_LINEAR = "linear_model"


def product(x: Array, model: Any) -> Array:
    """X coef' + intercept, in NumPy's common type of X and the coefficients."""
    coef = np.asarray(model.coef_)
    return x @ (coef if coef.ndim == 1 else coef.T) + model.intercept_


@sklearn.lower(
    *(
        f"{name}.predict"
        for name in ("LinearModel", "MultiOutputLinearModel", "Ridge", "RidgeCV", "BayesianRidge", "ARDRegression")
    ),
    cases=[
        *cases(regressor, _LINEAR, "LinearRegression", {}, {"outputs": 2}),
        *cases(regressor, _LINEAR, "Ridge", {}, {"outputs": 2}),
        *cases(regressor, _LINEAR, "HuberRegressor"),
    ],
)
def linear_predict(op: OpBuilder, model: Any, x: Table) -> Array:
    """X coef' + intercept."""
    return product(numbers(op, x), model)


@sklearn.lower("BaseSGDRegressor.predict", cases=cases(regressor, _LINEAR, "SGDRegressor"))
def sgd_regressor(op: OpBuilder, model: Any, x: Table) -> Array:
    """X coef' + intercept, a vector."""
    return product(numbers(op, x), model)


@sklearn.lower("BayesianRidge.predict_std", cases=cases(regressor, _LINEAR, "BayesianRidge"))
def bayesian_deviation(op: OpBuilder, model: Any, x: Table) -> Array:
    """sqrt(x sigma x' + 1 / alpha) of the centred rows."""
    centred = numbers(op, x) - model.X_offset_
    return np.sqrt(np.sum((centred @ model.sigma_) * centred, axis=1) + 1.0 / model.alpha_)


@sklearn.lower("ARDRegression.predict_std", cases=cases(regressor, _LINEAR, "ARDRegression"))
def relevance_deviation(op: OpBuilder, model: Any, x: Table) -> Array:
    """sqrt(x sigma x' + 1 / alpha) of the centred relevant columns."""
    centred = (numbers(op, x) - model.X_offset_)[:, model.lambda_ < model.threshold_lambda]
    return np.sqrt(np.sum((centred @ model.sigma_) * centred, axis=1) + 1.0 / model.alpha_)


@sklearn.lower(
    "_GeneralizedLinearRegressor.predict",
    cases=[
        *cases(regressor, _LINEAR, "PoissonRegressor", {"positive": True}),
        *cases(regressor, _LINEAR, "TweedieRegressor", {}, {"power": 1.5, "positive": True}),
    ],
)
def generalized_predict(op: OpBuilder, model: Any, x: Table) -> Array:
    """The inverse link of X coef + intercept."""
    raw = product(floats(op, x), model)
    link = type(model._base_loss.link).__name__
    if link == "IdentityLink":
        return raw
    if link == "LogLink":
        return np.exp(raw)
    raise UnsupportedOperator(f"{type(model).__name__}: the link {link} has no mapping")


@sklearn.lower("RANSACRegressor.predict", cases=cases(regressor, _LINEAR, "RANSACRegressor"))
def ransac_predict(op: OpBuilder, model: Any, x: Table) -> Array:
    """What the best estimator predicts."""
    return called(op, model.estimator_, "predict", x, step="estimator_")


@sklearn.lower(
    "LinearClassifierMixin.decision_function",
    "LinearDiscriminantAnalysis.decision_function",
    cases=[
        *cases(classifier, _LINEAR, "LogisticRegression", {}, {"classes": 2}),
        *cases(classifier, _LINEAR, "RidgeClassifier", {}, {"classes": 2}),
        *cases(classifier, "svm", "LinearSVC", {"classes": 2}),
    ],
)
def linear_decision_function(op: OpBuilder, model: Any, x: Table) -> Array:
    """X coef' + intercept, a vector for two classes."""
    scores = product(numbers(op, x), model)
    return scores.reshape(-1) if scores.ndim == 2 and scores.shape[1] == 1 else scores


@sklearn.lower(
    "LinearClassifierMixin.predict",
    cases=[
        *cases(classifier, _LINEAR, "SGDClassifier", {}, {"classes": 2, "text": True}),
        *cases(classifier, _LINEAR, "Perceptron"),
    ],
)
def linear_label(op: OpBuilder, model: Any, x: Table) -> Array:
    """The class of the greatest score."""
    return label_of_scores(model.classes_, called(op, model, "decision_function", x))


def _many_labels() -> Any:
    y = np.stack([target(2), 1 - target(2)], axis=1)
    return made(_LINEAR, "RidgeClassifier").fit(data(), y)


@sklearn.lower(
    "_RidgeClassifierMixin.predict",
    cases=[*cases(classifier, _LINEAR, "RidgeClassifier", {"text": True}), built(_many_labels, f64(7, 4))],
)
def ridge_label(op: OpBuilder, model: Any, x: Table) -> Array:
    """The class of the greatest score; for many labels the sign of each score."""
    if not model._label_binarizer.y_type_.startswith("multilabel"):
        return linear_label(op, model, x)
    return (called(op, model, "decision_function", x) > 0).astype(np.int64)


def one_against_rest(scores: Array) -> Array:
    """Logistic functions of the scores, divided by their sum."""
    return logistic_classes(scores) if scores.ndim == 1 else normalized(expit(scores))


@sklearn.lower(
    "LogisticRegression.predict_proba",
    "LinearDiscriminantAnalysis.predict_proba",
    cases=[
        *cases(classifier, _LINEAR, "LogisticRegression", {}, {"classes": 2}),
        *cases(classifier, "discriminant_analysis", "LinearDiscriminantAnalysis", {}, {"classes": 2}),
    ],
)
def logistic_probabilities(op: OpBuilder, model: Any, x: Table) -> Array:
    """Logistic function of the score for two classes, softmax of the scores for more."""
    scores = called(op, model, "decision_function", x)
    return one_against_rest(scores) if len(model.classes_) <= 2 else softmax(scores)


@sklearn.lower(
    "LogisticRegression.predict_log_proba",
    "SGDClassifier.predict_log_proba",
    "MLPClassifier.predict_log_proba",
    cases=cases(classifier, _LINEAR, "LogisticRegression", {}, {"classes": 2}),
)
def log_probabilities(op: OpBuilder, model: Any, x: Table) -> Array:
    """The logarithm of the probabilities."""
    return np.log(called(op, model, "predict_proba", x))


@sklearn.lower(
    "SGDClassifier.predict_proba",
    cases=cases(
        classifier,
        _LINEAR,
        "SGDClassifier",
        {"loss": "log_loss"},
        {"loss": "log_loss", "classes": 2},
        {"loss": "modified_huber"},
        {"loss": "modified_huber", "classes": 2},
    ),
)
def sgd_probabilities(op: OpBuilder, model: Any, x: Table) -> Array:
    """Logistic functions of the scores, or (clip(score, -1, 1) + 1) / 2, divided by their sum."""
    scores = called(op, model, "decision_function", x)
    if model.loss == "log_loss":
        return one_against_rest(scores)
    probabilities = (np.clip(scores, -1, 1) + 1.0) / 2.0
    return both_classes(probabilities) if scores.ndim == 1 else normalized(probabilities)


@sklearn.lower("SGDOneClassSVM.decision_function", cases=cases(regressor, _LINEAR, "SGDOneClassSVM"))
def one_class_scores(op: OpBuilder, model: Any, x: Table) -> Array:
    """X coef' - offset."""
    return (numbers(op, x) @ model.coef_.T - model.offset_).reshape(-1)


@sklearn.lower("SGDOneClassSVM.score_samples", cases=cases(regressor, _LINEAR, "SGDOneClassSVM"))
def one_class_samples(op: OpBuilder, model: Any, x: Table) -> Array:
    """The decision function plus the offset."""
    return called(op, model, "decision_function", x) + model.offset_


@sklearn.lower("SGDOneClassSVM.predict", cases=cases(regressor, _LINEAR, "SGDOneClassSVM"))
def one_class_label(op: OpBuilder, model: Any, x: Table) -> Array:
    """1 for an inlier, -1 for an outlier."""
    return np.where(called(op, model, "decision_function", x) >= 0, np.int32(1), np.int32(-1))
