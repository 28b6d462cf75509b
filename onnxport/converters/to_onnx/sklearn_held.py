"""What a graph holds in place of fitted numbers that follow from it: the terms that the entries of some classes write.

Each is looked for among the graph's constants, and what is there is recorded; `opset_maps/from_onnx/sklearn/completion.py` takes
the numbers from it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import centre_of, dense
from onnxport.opset_maps.to_onnx.sklearn.estimators.svm import pair_weights

Held = dict[str, Any]
_HELD: dict[str, Callable[[Any], Held]] = {}


def holds_terms(kind: type) -> bool:
    """Whether estimators of a class have such terms."""
    return kind.__name__ in _HELD


def held_of(estimator: BaseEstimator) -> Held:
    """Terms by name, arrays; empty for classes whose fitted numbers stand in the graph themselves."""
    terms = _HELD.get(type(estimator).__name__)
    if terms is None:
        return {}
    try:
        with np.errstate(all="ignore"):
            return terms(estimator)
    except (AttributeError, TypeError, ValueError):  # a subclass's own form of these attributes
        return {}


def _holds(*names: str) -> Callable[[Callable[[Any], Held]], Callable[[Any], Held]]:
    def register(function: Callable[[Any], Held]) -> Callable[[Any], Held]:
        _HELD.update(dict.fromkeys(" ".join(names).split(), function))
        return function

    return register


@_holds("GaussianNB")
def _gaussian(model: Any) -> Held:
    return {"constant": np.log(model.class_prior_) - 0.5 * np.sum(np.log(2.0 * np.pi * model.var_), axis=1)}


@_holds("BernoulliNB")
def _bernoulli(model: Any) -> Held:
    absent = np.log(1 - np.exp(model.feature_log_prob_))
    return {"gap": model.feature_log_prob_ - absent, "constant": model.class_log_prior_ + np.sum(absent, axis=1)}


@_holds("SVC NuSVC SVR NuSVR OneClassSVM")
def _machine(model: Any) -> Held:
    classifies = hasattr(model, "classes_")
    weights = pair_weights(model) if classifies else dense(model._dual_coef_).T
    vectors = dense(model.support_vectors_).astype(np.float64)
    held = {"weights": weights, "vectors": vectors, "one": np.ravel(weights)}
    if classifies and len(model.classes_) == 2:
        zeros = np.zeros_like(weights)
        held |= {"beside zeros": np.concatenate([zeros, weights], axis=1)}
        held |= {"intercept beside zero": np.concatenate([np.zeros(1), np.ravel(model._intercept_)])}
    if model.kernel == "rbf":
        scaled = vectors * np.sqrt(model._gamma)
        held |= {"scaled": scaled, "scaled centre": centre_of(scaled), "twice": 2.0 * (scaled - centre_of(scaled))}
        held |= {"centre": centre_of(vectors), "products": 2.0 * model._gamma * (vectors - centre_of(vectors))}
    return held


@_holds("KNeighborsClassifier KNeighborsRegressor KNeighborsTransformer LocalOutlierFactor NearestNeighbors")
def _neighbours(model: Any) -> Held:
    """The fitted rows in the order in which a search tree meets them."""
    order = np.asarray(model._tree.get_arrays()[1])
    return {"order": order, "ordered": dense(model._fit_X)[order]}
