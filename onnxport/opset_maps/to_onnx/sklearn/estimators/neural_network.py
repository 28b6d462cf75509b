"""Multi-layer perceptrons and restricted Boltzmann machines."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, built, f32, f64, i64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.at_output import with_shorter
from onnxport.opset_maps.to_onnx.sklearn.arrays.mersenne_twister import integers_below
from onnxport.opset_maps.to_onnx.sklearn.classes import label_of_scores, softmax, with_rest
from onnxport.opset_maps.to_onnx.sklearn.entries import lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, data, fit, regressor, transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import is_sparse
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, floats, numbers

_SMALL: dict[str, Any] = {"hidden_layer_sizes": (8,), "max_iter": 500, "tol": 3e-2}
_ACTIVATIONS = {"identity": None, "relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid"}


def _hidden(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """What the last layer is given."""
    rows = floats(op, x)
    for weights, bias in zip(model.coefs_[:-1], model.intercepts_[:-1], strict=True):
        rows = rows @ weights + bias
        if activation := _ACTIVATIONS[model.activation]:
            rows = rows.of(op.node(activation, rows.value))
    return rows


def _last_layer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    return _hidden(op, model, x) @ model.coefs_[-1] + model.intercepts_[-1]


def _softmax_of_two(op: OpBuilder, model: BaseEstimator, x: Table) -> Array | None:
    """Probabilities of two classes in float32 as softmax of 0 and the score; None of other ones."""
    weights, bias = model.coefs_[-1], model.intercepts_[-1]
    if model.out_activation_ != "logistic" or model.n_outputs_ != 1 or weights.dtype != np.float32:
        return None
    rows = _hidden(op, model, x)
    if rows.dtype != np.float32:
        return None
    wide, start = (np.concatenate([np.zeros_like(item), item], axis=-1) for item in (weights, bias))
    return softmax(rows @ wide + start)


_VARIANTS = (_SMALL, {**_SMALL, "outputs": 2, "activation": "tanh"}, {**_SMALL, "activation": "identity"})


@lower_fitted("MLPRegressor.predict", regressor, *_VARIANTS)
def perceptron_value(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Layer after layer; a vector for one output."""
    result = _last_layer(op, model, x)
    if model.out_activation_ != "identity":  # a Poisson loss
        result = np.exp(result)
    return result[:, 0] if model.n_outputs_ == 1 else result


@lower_fitted("MLPClassifier.predict_proba", classifier, _SMALL, {**_SMALL, "classes": 2, "activation": "logistic"})
def perceptron_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Softmax, or for two classes or several labels the logistic function, of the last layer."""
    result = _last_layer(op, model, x)
    if model.out_activation_ == "softmax":
        return softmax(result)
    result = expit(result)
    return with_shorter(with_rest(result), _softmax_of_two(op, model, x)) if model.n_outputs_ == 1 else result


@lower_fitted("MLPClassifier.predict", classifier, _SMALL, {**_SMALL, "classes": 2, "text": True})
def perceptron_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class of the greatest probability; for several labels, ones where it is above a half."""
    probabilities = called(op, model, "predict_proba", x)
    if model.n_outputs_ == 1 or model.out_activation_ == "softmax":  # of two p > 1 - p just where p > 0.5
        short = _softmax_of_two(op, model, x)
        short_label = None if short is None else label_of_scores(model.classes_, short)
        return with_shorter(label_of_scores(model.classes_, probabilities), short_label)
    return (probabilities > 0.5).astype(np.int64)


def _machine(features: int = 4, **options: object) -> Any:
    return fit("BernoulliRBM", (data(features) > 0).astype(np.float64), n_components=3, n_iter=2, **options)


@lower_fitted("BernoulliRBM.transform", transformer, {"n_components": 3, "n_iter": 2})
def hidden_units(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The hidden units' probabilities."""
    return expit(floats(op, x) @ model.components_.T + model.intercept_hidden_)


@lower(
    "BernoulliRBM.score_samples",
    built(_machine, f64(7, 4)),
    built(lambda: _machine(random_state=7), f64(1500, 4)),
    built(lambda: _machine(5, random_state=np.int64(2**32 - 1)), f64(2000, 5)),
    built(lambda: _machine(5), f32(7, 5)),
    built(lambda: _machine(1), i64(7, 1)),
    built(lambda: _machine(70, random_state=3), boolean(7, 70)),
)
def pseudo_likelihood(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """How much likelier a row is than with one bit flipped, as a logarithm; the seed draws a bit for each row's place."""
    seed = model.random_state
    if not isinstance(seed, Integral):
        seeding = "random_state=None" if seed is None else f"a {type(seed).__name__} as random_state"
        raise UnsupportedOperator(
            f"BernoulliRBM.score_samples draws random numbers, others at each call with {seeding}: fit with an int random_state"
        )
    rows = numbers(op, x)
    features = int(model.components_.shape[1])
    place = integers_below(op, int(seed), features, op.dim(rows.value, 0))
    drawn = place[:, None] == np.arange(features)
    if is_sparse(x):  # whose entries SciPy hands out in float64
        wide = rows.astype(np.float64)
        flipped = np.where(drawn, wide + (-2 * wide + 1), wide)
    else:
        flipped = np.where(drawn, (1 - rows).astype(rows.dtype), rows)
    gain = _free_energy(model, flipped) - _free_energy(model, rows)
    return -features * np.logaddexp(0, -gain)


def _free_energy(model: BaseEstimator, rows: Array) -> Any:
    hidden = np.logaddexp(0, rows @ model.components_.T + model.intercept_hidden_)
    return -(rows @ model.intercept_visible_) - np.sum(hidden, axis=1)
