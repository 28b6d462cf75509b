"""Gradient boosting: sums of trees behind a link function."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn import tree_ensemble
from onnxport.opset_maps.to_onnx.sklearn.classes import both_classes, label_of_scores
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, regressor
from onnxport.opset_maps.to_onnx.sklearn.table import Table, floating, matrix
from onnxport.opset_maps.to_onnx.sklearn.trees import rows32, trees_of

_GRADIENT = ("GradientBoostingClassifier", "GradientBoostingRegressor")
_HISTOGRAM = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")


def _gradient_raw(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """Initial value plus learning rate times the trees' values, [N, K]."""
    if not (isinstance(model.init_, str) or type(model.init_).__name__ in ("DummyClassifier", "DummyRegressor")):
        raise UnsupportedOperator(f"{type(model).__name__}: init={type(model.init_).__name__} has no mapping yet")
    start = np.asarray(model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32)), np.float64)
    trees = trees_of(list(model.estimators_.ravel()), model.learning_rate)
    columns = model.estimators_.shape[1]
    targets = np.tile(np.arange(columns), model.estimators_.shape[0])
    return op.Add(tree_ensemble.sums(op, trees, rows32(op, x), targets, columns), start)


def _histogram_raw(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """Baseline plus the trees' values, [N, K]; rows are compared in the type they have."""
    if model.is_categorical_ is not None and np.any(model.is_categorical_):
        raise UnsupportedOperator(
            f"{type(model).__name__}: categorical_features have no mapping yet; encode them before"
        )
    stages = model._predictors
    columns = len(stages[0]) if stages else 1
    trees = tree_ensemble.join([_histogram_arrays(item.nodes) for stage in stages for item in stage])
    value = floating(op, matrix(op, x))
    targets = np.tile(np.arange(columns), len(stages))
    return op.Add(
        tree_ensemble.sums(op, trees, value, targets, columns),
        np.asarray(model._baseline_prediction, np.float64).reshape(1, -1),
    )


def _histogram_arrays(nodes: np.ndarray) -> tuple[np.ndarray, ...]:
    return (
        nodes["feature_idx"].astype(np.int64),
        nodes["num_threshold"],
        nodes["missing_go_to_left"].astype(bool),
        nodes["left"].astype(np.int64),
        nodes["right"].astype(np.int64),
        nodes["is_leaf"].astype(bool),
        nodes["value"][:, None].astype(np.float64),
    )


def raw(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The sum of the trees before the link function, [N, K]."""
    return _histogram_raw(op, model, x) if type(model).__name__ in _HISTOGRAM else _gradient_raw(op, model, x)


@sklearn.lower(
    "GradientBoostingRegressor.predict",
    "HistGradientBoostingRegressor.predict",
    cases=[
        built(lambda: regressor("ensemble", "GradientBoostingRegressor", n_estimators=10), f64(20, 4), dynamic=True),
        built(lambda: regressor("ensemble", "HistGradientBoostingRegressor", max_iter=5), f64(20, 4)),
        built(
            lambda: regressor("ensemble", "HistGradientBoostingRegressor", max_iter=5, loss="poisson", positive=True),
            f32(20, 4),
        ),
    ],
)
def boosted_value(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The raw value; its exponential where the loss has a logarithmic link."""
    result = op.Squeeze(raw(op, model, x), op.axes(1))
    link = type(model._loss.link).__name__
    if link == "LogLink" and type(model).__name__ in _HISTOGRAM:
        return op.Exp(result)
    if link != "IdentityLink":
        raise UnsupportedOperator(f"{type(model).__name__}: loss={model.loss!r} has no mapping")
    return result


@sklearn.lower(
    "GradientBoostingClassifier.decision_function",
    "HistGradientBoostingClassifier.decision_function",
    cases=[
        built(lambda: classifier("ensemble", "GradientBoostingClassifier", n_estimators=5), f64(20, 4)),
        built(lambda: classifier("ensemble", "HistGradientBoostingClassifier", max_iter=5, classes=2), f64(20, 4)),
    ],
)
def boosted_scores(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The raw values, a vector for two classes."""
    result = raw(op, model, x)
    return op.Squeeze(result, op.axes(1)) if len(model.classes_) == 2 else result


@sklearn.lower(
    "GradientBoostingClassifier.predict_proba",
    "HistGradientBoostingClassifier.predict_proba",
    cases=[
        built(lambda: classifier("ensemble", "GradientBoostingClassifier", n_estimators=5), f64(20, 4), dynamic=True),
        built(
            lambda: classifier("ensemble", "GradientBoostingClassifier", n_estimators=5, classes=2, loss="exponential"),
            f64(20, 4),
        ),
        built(lambda: classifier("ensemble", "HistGradientBoostingClassifier", max_iter=5), f64(20, 4)),
    ],
)
def boosted_probabilities(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """Softmax of the raw values; for two classes their logistic function, of twice the value with the exponential loss."""
    scores = op.call(model, "decision_function", x)
    if len(model.classes_) > 2:
        return op.Softmax(scores, axis=1)
    exponential = getattr(model, "loss", "") == "exponential"
    return both_classes(op, op.Sigmoid(op.Mul(scores, 2.0) if exponential else scores))


@sklearn.lower(
    "GradientBoostingClassifier.predict",
    "HistGradientBoostingClassifier.predict",
    cases=[
        built(
            lambda: classifier("ensemble", "GradientBoostingClassifier", n_estimators=5, classes=2, text=True),
            f64(20, 4),
        ),
        built(lambda: classifier("ensemble", "HistGradientBoostingClassifier", max_iter=5), f32(20, 4)),
    ],
)
def boosted_label(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The class of the greatest raw value; for two classes the second where the raw value is not negative."""
    scores = op.call(model, "decision_function", x)
    if len(model.classes_) > 2:
        return label_of_scores(op, model.classes_, scores)
    from onnxport.opset_maps.to_onnx.sklearn.classes import take_class

    second = op.GreaterOrEqual(scores, 0.0) if type(model).__name__ in _GRADIENT else op.Greater(scores, 0.0)
    return take_class(op, model.classes_, op.cast(second, ir.DataType.INT64))
