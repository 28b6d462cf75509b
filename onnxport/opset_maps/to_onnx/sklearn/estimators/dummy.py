"""Estimators that predict the same for every row."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full
from onnxport.opset_maps.to_onnx.sklearn.classes import take_class
from onnxport.opset_maps.to_onnx.sklearn.entries import lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, regressor
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, matrix


def _each(model: BaseEstimator, item: Any) -> list[Any]:
    """What an attribute holds for each output."""
    return list(item) if model.n_outputs_ > 1 else [item]


def _shares(model: BaseEstimator) -> list[np.ndarray]:
    """The probabilities of the classes, for each output."""
    strategy = model._strategy if hasattr(model, "_strategy") else model.strategy
    priors = _each(model, model.class_prior_)
    if strategy == "prior":
        return [np.asarray(prior, np.float64) for prior in priors]
    if strategy == "most_frequent":
        return [np.eye(len(prior))[int(np.argmax(prior))] for prior in priors]
    if strategy == "constant":
        constants = model.constant if model.n_outputs_ > 1 else np.ravel(model.constant)
        pairs = zip(_each(model, model.classes_), constants, strict=True)
        return [np.asarray(np.asarray(labels) == constant, np.float64) for labels, constant in pairs]
    raise UnsupportedOperator(f"DummyClassifier: strategy={strategy!r} draws random labels")


@lower_fitted("DummyClassifier.predict_proba", classifier, {}, {"strategy": "most_frequent"})
def dummy_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
    """The same probabilities for every row."""
    rows = Array(op, matrix(op, x))
    parts = [full(rows, (None, 1), 1.0, np.float64) * shares for shares in _shares(model)]
    return parts if model.n_outputs_ > 1 else parts[0]


@lower_fitted("DummyClassifier.predict_log_proba", classifier)
def dummy_log_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
    """The logarithm of the probabilities."""
    rows = Array(op, matrix(op, x))
    with np.errstate(divide="ignore"):
        logs = [np.log(shares) for shares in _shares(model)]
    ones = full(rows, (None, 1), True, bool)
    parts = [np.where(ones, item[None], item[None]) for item in logs]
    return parts if model.n_outputs_ > 1 else parts[0]


@lower_fitted("DummyClassifier.predict", classifier, {"text": True})
def dummy_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The same label for every row."""
    rows = Array(op, matrix(op, x))
    zero = full(rows, (None,), 0, np.int64)
    columns = [
        take_class(labels, zero + int(np.argmax(shares)))
        for labels, shares in zip(_each(model, model.classes_), _shares(model), strict=True)
    ]
    return np.stack(columns, axis=1) if model.n_outputs_ > 1 else columns[0]


@lower_fitted("DummyRegressor.predict", regressor, {}, {"outputs": 2})
def dummy_value(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The same value for every row."""
    constant = np.asarray(model.constant_).reshape(1, -1)
    result = full(Array(op, matrix(op, x)), (None, 1), 1, constant.dtype) * constant
    return result[:, 0] if model.n_outputs_ == 1 else result


@lower_fitted("DummyRegressor.predict_std", regressor)
def dummy_deviation(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Zeros."""
    return np.zeros_like(dummy_value(op, model, x), np.float64)
