"""Naive Bayes."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays import Array
from onnxport.opset_maps.to_onnx.sklearn.classes import label_of_scores, logsumexp
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, classifier
from onnxport.opset_maps.to_onnx.sklearn.table import Table, called, floats

_HERE = "naive_bayes"


@sklearn.lower("GaussianNB.predict_joint_log_proba", cases=cases(classifier, _HERE, "GaussianNB", {}, {"classes": 2}))
def gaussian_joint(op: OpBuilder, model: Any, x: Table) -> Array:
    """log prior - 1/2 sum log(2 pi var) - 1/2 sum (x - mean)^2 / var."""
    gaps = floats(op, x)[:, None] - model.theta_[None]
    constant = np.log(model.class_prior_) - 0.5 * np.sum(np.log(2.0 * np.pi * model.var_), axis=1)
    return constant - 0.5 * np.sum(gaps**2 / model.var_[None], axis=2)


@sklearn.lower("_BaseNB.predict_log_proba", cases=cases(classifier, _HERE, "GaussianNB"))
def log_probabilities(op: OpBuilder, model: Any, x: Table) -> Array:
    """The joint log probabilities less the logarithm of their sum."""
    joint = called(op, model, "predict_joint_log_proba", x)
    return joint - logsumexp(joint, keepdims=True)


@sklearn.lower("_BaseNB.predict_proba", cases=cases(classifier, _HERE, "GaussianNB"))
def probabilities(op: OpBuilder, model: Any, x: Table) -> Array:
    """exp of the log probabilities."""
    return np.exp(called(op, model, "predict_log_proba", x))


@sklearn.lower("_BaseNB.predict", cases=cases(classifier, _HERE, "GaussianNB", {}, {"text": True}))
def label(op: OpBuilder, model: Any, x: Table) -> Array:
    """The class of the greatest joint log probability."""
    return label_of_scores(model.classes_, called(op, model, "predict_joint_log_proba", x))
