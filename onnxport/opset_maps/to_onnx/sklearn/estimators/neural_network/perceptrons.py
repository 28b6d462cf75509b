"""Multi-layer perceptrons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.at_output import with_shorter
from onnxport.opset_maps.to_onnx.sklearn.classes import label_of_scores, softmax, with_rest
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, classifier, regressor
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, floats

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

_HERE = "neural_network"
_SMALL: dict[str, Any] = {"hidden_layer_sizes": (8,), "max_iter": 500, "tol": 3e-2}
_ACTIVATIONS = {"identity": None, "relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid"}


def _hidden(op: OpBuilder, model: MLPClassifier | MLPRegressor, x: Table) -> Array:
    """What the last layer is given."""
    rows = floats(op, x)
    for weights, bias in zip(model.coefs_[:-1], model.intercepts_[:-1], strict=True):
        rows = rows @ weights + bias
        if activation := _ACTIVATIONS[model.activation]:
            rows = rows.of(op.node(activation, rows.value))
    return rows


def _last_layer(op: OpBuilder, model: MLPClassifier | MLPRegressor, x: Table) -> Array:
    return _hidden(op, model, x) @ model.coefs_[-1] + model.intercepts_[-1]


def _softmax_of_two(op: OpBuilder, model: MLPClassifier, x: Table) -> Array | None:
    """Probabilities of two classes in float32 as softmax of 0 and the score; None of other ones."""
    weights, bias = model.coefs_[-1], model.intercepts_[-1]
    if model.out_activation_ != "logistic" or model.n_outputs_ != 1 or weights.dtype != np.float32:
        return None
    rows = _hidden(op, model, x)
    if rows.dtype != np.float32:
        return None
    wide, start = (np.concatenate([np.zeros_like(item), item], axis=-1) for item in (weights, bias))
    return softmax(rows @ wide + start)


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
def perceptron_value(op: OpBuilder, model: MLPRegressor, x: Table) -> Array:
    """Layer after layer; a vector for one output."""
    result = _last_layer(op, model, x)
    if model.out_activation_ != "identity":  # a Poisson loss
        result = np.exp(result)
    return result[:, 0] if model.n_outputs_ == 1 else result


@sklearn.lower(
    "MLPClassifier.predict_proba",
    cases=cases(classifier, _HERE, "MLPClassifier", _SMALL, {**_SMALL, "classes": 2, "activation": "logistic"}),
)
def perceptron_probabilities(op: OpBuilder, model: MLPClassifier, x: Table) -> Array:
    """Softmax, or for two classes or several labels the logistic function, of the last layer."""
    result = _last_layer(op, model, x)
    if model.out_activation_ == "softmax":
        return softmax(result)
    result = expit(result)
    return with_shorter(with_rest(result), _softmax_of_two(op, model, x)) if model.n_outputs_ == 1 else result


@sklearn.lower(
    "MLPClassifier.predict",
    cases=cases(classifier, _HERE, "MLPClassifier", _SMALL, {**_SMALL, "classes": 2, "text": True}),
)
def perceptron_label(op: OpBuilder, model: MLPClassifier, x: Table) -> Array:
    """The class of the greatest probability; for several labels, ones where it is above a half."""
    probabilities = called(op, model, "predict_proba", x)
    if model.n_outputs_ == 1 or model.out_activation_ == "softmax":  # of two p > 1 - p just where p > 0.5
        short = _softmax_of_two(op, model, x)
        short_label = None if short is None else label_of_scores(model.classes_, short)
        return with_shorter(label_of_scores(model.classes_, probabilities), short_label)
    return (probabilities > 0.5).astype(np.int64)
