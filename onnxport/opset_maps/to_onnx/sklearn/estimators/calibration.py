"""Calibrated probabilities, and isotonic regression."""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full
from onnxport.opset_maps.to_onnx.sklearn.classes import softmax
from onnxport.opset_maps.to_onnx.sklearn.entries import given, lower
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import lower_label
from onnxport.opset_maps.to_onnx.sklearn.estimators.ensemble.voting import total
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, data, fit, quantity, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, numbers
from onnxport.opset_maps.to_onnx.sklearn.trees.places import interpolated

if TYPE_CHECKING:
    from sklearn.calibration import _CalibratedClassifier


def _calibrated(inner: BaseEstimator | None = None, **options: object) -> Any:
    inner = unfitted("GaussianNB") if inner is None else inner
    return classifier("CalibratedClassifierCV", estimator=inner, cv=2, **options)


def _against_rest() -> Any:
    """Trees of which for some rows none is for its class."""
    return unfitted("OneVsRestClassifier", estimator=unfitted("DecisionTreeClassifier", max_depth=3))


@lower(
    "CalibratedClassifierCV.predict_proba",
    given(lambda: _calibrated(unfitted("RidgeClassifier"))),
    given(_calibrated, {"classes": 2}, {"method": "isotonic"}),
    given(lambda: _calibrated(unfitted("LogisticRegression"), method="temperature")),
    given(_calibrated, {"classes": 2, "method": "temperature", "ensemble": False}),
    built(lambda: _calibrated(_against_rest(), method="temperature"), f64(60, 4)),
)
def calibrated_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The mean of the calibrated classifiers' probabilities."""
    parts = [
        _one_calibrated(op, part, x, f"calibrated_classifiers_.{i}").astype(np.float64)
        for i, part in enumerate(model.calibrated_classifiers_)
    ]
    return total(parts) / len(parts)


lower_label("CalibratedClassifierCV", "predict_proba", given(_calibrated, {"text": True}))


def _one_calibrated(op: OpBuilder, model: _CalibratedClassifier, x: Table, step: str) -> Array:
    """A classifier's scores, each through its calibrator, divided by their sum."""
    scored = hasattr(model.estimator, "decision_function")
    method = "decision_function" if scored else "predict_proba"
    response = called(op, model.estimator, method, x, step=f"{step}.estimator")
    count = len(model.classes)
    if not scored and len(model.estimator.classes_) == 2:
        response = response[:, 1]
    scores = response[:, None] if response.ndim == 1 else response
    if model.method == "temperature":
        result = _tempered(model.calibrators[0], scores, probable=not scored, binary=count == 2)
    else:
        result = _one_by_one(op, model, scores, count)
    return np.where((result > 1.0) & (result <= 1.0 + 1e-5), 1.0, result)


def _one_by_one(op: OpBuilder, model: _CalibratedClassifier, scores: Array, count: int) -> Array:
    columns: list[Array] = [full(scores, (None,), 0.0, np.float64)] * count
    places = np.searchsorted(np.asarray(model.classes), np.asarray(model.estimator.classes_))
    width = scores.shape[1] or len(places)  # one score of an estimator of two classes, however many there are in all
    for number, (place, calibrator) in enumerate(zip(places[:width], model.calibrators, strict=False)):
        score = scores[:, number]
        if hasattr(calibrator, "a_"):
            result = expit(-(score * calibrator.a_ + calibrator.b_))
        else:
            result = called(op, calibrator, "predict", score[:, None].value, step=f"calibrators.{number}")
        columns[int(place) + (count == 2)] = result.astype(np.float64)
    if count == 2:
        return np.stack([1.0 - columns[1], columns[1]], axis=1)
    result = np.stack(columns, axis=1)
    whole = np.sum(result, axis=1, keepdims=True)
    return np.where(whole == 0, 1.0 / count, result / np.where(whole == 0, 1.0, whole))


def _tempered(calibrator: BaseEstimator, scores: Array, *, probable: bool, binary: bool) -> Array:
    """Softmax of the logits times the inverse temperature (Guo et al., On calibration of modern neural networks, 2017).

    scikit-learn takes what it is given for probabilities where those of every row of the batch sum to 1, else for logits.
    """
    if scores.shape[1] is None:
        raise UnsupportedOperator("CalibratedClassifierCV: the number of scores is not known")
    if scores.shape[1] == 1 and not (probable and binary):
        logits = np.hstack([-scores, scores])
    else:
        shares = np.hstack([1 - scores, scores]) if scores.shape[1] == 1 else scores
        off = np.abs(np.sum(shares, axis=1, keepdims=True) - 1.0) > 1e-5 + 1e-8
        no_shares = np.sum(((shares < 0) | (shares > 1) | off).astype(np.int64)) > 0
        logits = np.where(no_shares, shares, np.log(shares + _least_share()))
    return softmax(logits * calibrator.beta_)


def _least_share() -> float:
    """What scikit-learn adds to a probability before it takes its logarithm."""
    from sklearn.calibration import _convert_to_logits  # there since temperatures are

    return float(signature(_convert_to_logits).parameters["eps"].default)


_isotonic = partial(fit, "IsotonicRegression", data(1)[:, 0], quantity())


@lower(
    "IsotonicRegression.predict transform",
    built(lambda: _isotonic(out_of_bounds="clip"), f64(7, 1)),
    built(lambda: _isotonic(out_of_bounds="nan", increasing=False), f32(7, 1)),
)
def isotonic(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The fitted steps, interpolated; NaN beyond them unless clipped, where scikit-learn may raise."""
    rows = numbers(op, x, model.X_thresholds_.dtype).reshape(-1)
    if model.out_of_bounds == "clip":
        rows = np.clip(rows, model.X_min_, model.X_max_)
    result = interpolated(rows, model.X_thresholds_, model.y_thresholds_)
    beyond = (rows < model.X_thresholds_[0]) | (rows > model.X_thresholds_[-1])
    return np.where(beyond, np.nan, result).astype(rows.dtype)
