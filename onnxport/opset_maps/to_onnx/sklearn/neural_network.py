"""Multi-layer perceptrons."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays import Array
from onnxport.opset_maps.to_onnx.sklearn.classes import label_of_scores, softmax, with_rest
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, classifier, regressor
from onnxport.opset_maps.to_onnx.sklearn.table import Table, called, floats

_HERE = "neural_network"
_SMALL: dict[str, Any] = {"hidden_layer_sizes": (8,), "max_iter": 500, "tol": 3e-2}
_ACTIVATIONS = {"identity": None, "relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid"}


def _last_layer(op: OpBuilder, model: Any, x: Table) -> Array:
    rows = floats(op, x)
    last = len(model.coefs_) - 1
    for index, (weights, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        rows = rows @ weights + bias
        activation = _ACTIVATIONS[model.activation]
        if index < last and activation:
            rows = rows.of(op.node(activation, rows.value))
    return rows


@sklearn.lower(
    "MLPRegressor.predict",
    cases=cases(
        regressor,
        _HERE,
        "MLPRegressor",
        _SMALL,
        {**_SMALL, "outputs": 2, "activation": "tanh"},
        {**_SMALL, "activation": "identity"},
    ),
)
def perceptron_value(op: OpBuilder, model: Any, x: Table) -> Array:
    """Layer after layer; a vector for one output."""
    found = _last_layer(op, model, x)
    if model.out_activation_ != "identity":  # a Poisson loss
        found = np.exp(found)
    return found[:, 0] if model.n_outputs_ == 1 else found


@sklearn.lower(
    "MLPClassifier.predict_proba",
    cases=cases(classifier, _HERE, "MLPClassifier", _SMALL, {**_SMALL, "classes": 2, "activation": "logistic"}),
)
def perceptron_probabilities(op: OpBuilder, model: Any, x: Table) -> Array:
    """Softmax, or for two classes or several labels the logistic function, of the last layer."""
    found = _last_layer(op, model, x)
    if model.out_activation_ == "softmax":
        return softmax(found)
    found = expit(found)
    return with_rest(found) if model.n_outputs_ == 1 else found


@sklearn.lower(
    "MLPClassifier.predict",
    cases=cases(classifier, _HERE, "MLPClassifier", _SMALL, {**_SMALL, "classes": 2, "text": True}),
)
def perceptron_label(op: OpBuilder, model: Any, x: Table) -> Array:
    """The class of the greatest probability; for several labels, ones where it is above a half."""
    found = called(op, model, "predict_proba", x)
    if model.n_outputs_ == 1 or model.out_activation_ == "softmax":  # of two p > 1 - p just where p > 0.5
        return label_of_scores(model.classes_, found)
    return (found > 0.5).astype(np.int64)
