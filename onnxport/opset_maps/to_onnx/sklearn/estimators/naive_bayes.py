"""Naive Bayes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Array as Drawn
from onnxport.opset_maps.cases import built
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import take
from onnxport.opset_maps.to_onnx.sklearn.classes import logsumexp
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import lower_label
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, data, target, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, floats, numbers

_COUNTS = Drawn("int64", (7, 4), 0, 3)


def _of_counts(name: str, **options: object) -> Any:
    counts = np.clip(np.abs(data()).astype(np.int64), 0, 3)
    counts[:4] = np.arange(4)[:, None]  # each column has each count
    return unfitted(name, **options).fit(counts, target())


@lower_fitted("GaussianNB.predict_joint_log_proba", classifier, {}, {"classes": 2})
def gaussian_joint(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """log prior - 1/2 sum log(2 pi var) - 1/2 sum (x - mean)^2 / var."""
    gaps = floats(op, x)[:, None] - model.theta_[None]
    constant = np.log(model.class_prior_) - 0.5 * np.sum(np.log(2.0 * np.pi * model.var_), axis=1)
    return constant - 0.5 * np.sum(gaps**2 / model.var_[None], axis=2)


@lower(
    "MultinomialNB ComplementNB.predict_joint_log_proba",
    built(lambda: _of_counts("MultinomialNB"), _COUNTS),
    built(lambda: _of_counts("ComplementNB", norm=True), Drawn("float32", (7, 4), 0, 3)),
)
def multinomial_joint(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Counts times the features' log probabilities, plus the log prior where the model uses it."""
    joint = numbers(op, x) @ model.feature_log_prob_.T
    uses_prior = not hasattr(model, "feature_all_") or len(model.classes_) == 1
    return joint + model.class_log_prior_ if uses_prior else joint


@lower(
    "BernoulliNB.predict_joint_log_proba",
    cases(classifier, "BernoulliNB", {}, {"binarize": 0.5}),
    built(lambda: unfitted("BernoulliNB", binarize=None).fit(data() > 0, target()), Drawn("int64", (7, 4), 0, 1)),
)
def bernoulli_joint(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The log probabilities of the features that are there, and of the others that they are not."""
    rows = numbers(op, x)
    if model.binarize is not None:
        rows = (rows > model.binarize).astype(rows.dtype)
    absent = np.log(1 - np.exp(model.feature_log_prob_))
    return rows @ (model.feature_log_prob_ - absent).T + (model.class_log_prior_ + np.sum(absent, axis=1))


@lower("CategoricalNB.predict_joint_log_proba", built(lambda: _of_counts("CategoricalNB"), _COUNTS))
def categorical_joint(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The categories' log probabilities; a category that was not fitted is an error, as in scikit-learn."""
    rows = numbers(op, x).astype(np.int64)
    joint = take(rows.const(model.feature_log_prob_[0].T), rows[:, 0], axis=0)
    for column, logs in enumerate(model.feature_log_prob_[1:], 1):
        joint = joint + take(rows.const(logs.T), rows[:, column], axis=0)
    return joint + model.class_log_prior_


@lower("_BaseNB.predict_log_proba", cases(classifier, "GaussianNB"))
def log_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The joint log probabilities less the logarithm of their sum."""
    joint = called(op, model, "predict_joint_log_proba", x)
    return joint - logsumexp(joint, keepdims=True)


@lower("_BaseNB.predict_proba", cases(classifier, "GaussianNB"))
def probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """exp of the log probabilities."""
    return np.exp(called(op, model, "predict_log_proba", x))


lower_label("_BaseNB", "predict_joint_log_proba", cases(classifier, "GaussianNB", {}, {"text": True}))
