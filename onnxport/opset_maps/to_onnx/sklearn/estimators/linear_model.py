"""Linear models: scores are one matrix product."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn import classes
from onnxport.opset_maps.to_onnx.sklearn.arrays import sparse_rows
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.at_output import undivided, with_shorter
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import affine
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, given, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import lower_inner
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, data, fit, regressor, target
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, floats, numbers

# So many coefficients may stand in the attributes of one operator.
_FEW = 1 << 14


def product(x: Array, model: BaseEstimator) -> Array:
    """X coef' + intercept, in NumPy's common type of X and the coefficients."""
    coef = np.asarray(model.coef_)
    return x @ (coef if coef.ndim == 1 else coef.T) + model.intercept_


@lower(
    "ARDRegression BaseSGDRegressor BayesianRidge LinearModel MultiOutputLinearModel Ridge RidgeCV.predict",
    cases(regressor, "LinearRegression Ridge", {}, {"outputs": 2}),
    cases(regressor, "HuberRegressor SGDRegressor"),
)
def linear_predict(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """X coef' + intercept."""
    return product(numbers(op, x), model)


@lower_fitted("BayesianRidge ARDRegression.predict_std", regressor)
def bayesian_deviation(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """sqrt(x sigma x' + 1 / alpha) of the centred rows, for ARDRegression of their relevant columns."""
    centred = numbers(op, x) - model.X_offset_
    if hasattr(model, "threshold_lambda"):
        centred = centred[:, model.lambda_ < model.threshold_lambda]
    return np.sqrt(np.sum((centred @ model.sigma_) * centred, axis=1) + 1.0 / model.alpha_)


@lower(
    "_GeneralizedLinearRegressor.predict",
    cases(regressor, "PoissonRegressor", {"positive": True}),
    cases(regressor, "TweedieRegressor", {}, {"power": 1.5, "positive": True}),
)
def generalized_predict(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The inverse link of X coef + intercept."""
    return classes.link_inverse(model, product(floats(op, x), model))


lower_inner("estimator_", "RANSACRegressor", ["predict"], cases(regressor, "RANSACRegressor"))


@lower(
    "LinearClassifierMixin LinearDiscriminantAnalysis.decision_function",
    cases(classifier, "LogisticRegression", {}, {"classes": 2}),
    cases(classifier, "RidgeClassifier", {}, {"classes": 2}),
    cases(classifier, "LinearSVC", {"classes": 2}),
)
def linear_decision_function(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """X coef' + intercept, a vector for two classes."""
    scores = product(numbers(op, x), model)
    return scores.reshape(-1) if scores.ndim == 2 and scores.shape[1] == 1 else scores


@lower(
    "LinearClassifierMixin.predict",
    cases(classifier, "SGDClassifier", {}, {"classes": 2, "text": True}),
    cases(classifier, "Perceptron"),
)
def linear_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class of the greatest score."""
    pair = _pair(op, model, x)
    if pair is not None:
        label = classes.label_of_pair(model.classes_, pair)
    else:
        label = classes.label_of_scores(model.classes_, called(op, model, "decision_function", x))
    short = _in_one(op, model, x)
    return with_shorter(label, short[0] if short else None)


def _pair(op: OpBuilder, model: BaseEstimator, x: Table) -> Array | None:
    """Columns 0 and -s of the scores of two classes, by one product; None of more classes or rows that are nearly all zeros."""
    rows, weights = numbers(op, x), np.atleast_2d(model.coef_)
    if len(weights) != 1 or len(model.classes_) != 2 or sparse_rows.has_few(rows.value, 1):
        return None
    bias = np.broadcast_to(np.array([0, -1], weights.dtype) * model.intercept_, (2,))
    return affine(rows, np.concatenate([np.zeros_like(weights), -weights]).T, bias)


def _in_one(op: OpBuilder, model: BaseEstimator, x: Table) -> tuple[Array, Array] | None:
    """Labels and probabilities (softmax; of two classes with a score of 0 for the first) by one operator of float32.

    None where scikit-learn does not compute in float32, or the labels are neither int64 nor strings. The softmax keeps small
    probabilities as the logistic function of that operator does not.
    """
    rows, known = numbers(op, x), np.asarray(model.classes_)
    weights, bias = np.atleast_2d(model.coef_), np.ravel(model.intercept_)
    text = known.dtype.kind in "OU" and all(isinstance(item, str) for item in known.tolist())
    if not (text or known.dtype == np.int64) or weights.size > _FEW or sparse_rows.has_few(rows.value, len(weights)):
        return None
    if not rows.dtype == weights.dtype == bias.dtype == np.float32 or bias.shape != (len(weights),):
        return None
    if len(known) == 2:
        weights, bias = (np.concatenate([np.zeros_like(item), item]) for item in (weights, bias))
    if len(weights) != len(known):
        return None
    rows, weights = undivided(rows, weights)
    labels = {"classlabels_strings" if text else "classlabels_ints": known.tolist()}
    label, shares = op.ml.LinearClassifier(
        rows.value, coefficients=weights.ravel(), intercepts=bias, post_transform="SOFTMAX", **labels
    )
    return Array(op, label), Array(op, shares)


_of_two_labels = partial(fit, "RidgeClassifier", data(), np.stack([target(2), 1 - target(2)], axis=1))


@lower("_RidgeClassifierMixin.predict", cases(classifier, "RidgeClassifier", {"text": True}), given(_of_two_labels))
def ridge_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class of the greatest score; for many labels the sign of each score."""
    if not model._label_binarizer.y_type_.startswith("multilabel"):
        return linear_label(op, model, x)
    return (called(op, model, "decision_function", x) > 0).astype(np.int64)


def one_against_rest(scores: Array) -> Array:
    """Logistic functions of the scores, divided by their sum."""
    if scores.ndim > 1:
        return classes.normalized(expit(scores))
    return classes.logistic_classes(classes.zero_and_minus(scores))


@lower_fitted("LogisticRegression LinearDiscriminantAnalysis.predict_proba", classifier, {}, {"classes": 2})
def logistic_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Logistic function of the score for two classes, softmax of the scores for more."""
    pair = _pair(op, model, x)
    if pair is not None:
        result = classes.logistic_classes(pair)
    else:
        scores = called(op, model, "decision_function", x)
        result = one_against_rest(scores) if len(model.classes_) <= 2 else classes.softmax(scores)
    short = _in_one(op, model, x)
    return with_shorter(result, short[1] if short else None)


_LOSSES = [{"loss": loss, "classes": count} for loss in ("log_loss", "modified_huber") for count in (3, 2)]


@lower_fitted("SGDClassifier.predict_proba", classifier, *_LOSSES)
def sgd_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Logistic functions of the scores, or (clip(score, -1, 1) + 1) / 2, divided by their sum."""
    scores = called(op, model, "decision_function", x)
    if model.loss == "log_loss":
        return one_against_rest(scores)
    probabilities = (np.clip(scores, -1, 1) + 1.0) / 2.0
    return classes.both_classes(probabilities) if scores.ndim == 1 else classes.normalized(probabilities)


@lower_fitted("SGDOneClassSVM.decision_function", regressor)
def one_class_scores(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """X coef' - offset."""
    return (numbers(op, x) @ model.coef_.T - model.offset_).reshape(-1)
