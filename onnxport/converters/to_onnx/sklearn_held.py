"""What a graph holds in place of fitted numbers that follow from it: the terms that the entries of some classes write.

Each is looked for among the graph's constants, and what is there is recorded; `opset_maps/from_onnx/sklearn/completion.py` takes
the numbers from it again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import centre_of, dense
from onnxport.opset_maps.to_onnx.sklearn.estimators.svm import pair_weights

# Keeps a term, an array, under its name where the graph holds it, and answers whether it does.
Keep = Callable[[str, np.ndarray], bool]
Terms = Callable[[Any, Keep], bool]  # offers the terms of an estimator; whether the graph holds what it is rebuilt from
_HELD: dict[str, Terms] = {}
_MACHINES = "SVC NuSVC SVR NuSVR OneClassSVM"
_TOGETHER = "StackingClassifier StackingRegressor VotingClassifier VotingRegressor"
# By class the attributes that completion.py sets again, and those that nothing reads after the fit.
_LEFT_OUT = {
    "IsolationForest": frozenset(("_decision_path_lengths", "_average_path_length_per_tree")),
    "PCA": frozenset(("n_components_", "n_features_in_", "_fit_svd_solver")),
    **dict.fromkeys(_TOGETHER.split(), frozenset(("named_estimators_",))),
    **dict.fromkeys(
        _MACHINES.split(), frozenset(("support_vectors_", "dual_coef_", "_dual_coef_", "intercept_", "_num_iter"))
    ),
}


def left_out(kind: type) -> frozenset[str]:
    """The attributes of a class that its record leaves out."""
    return _LEFT_OUT.get(kind.__name__, frozenset())


def holds_terms(kind: type) -> bool:
    """Whether estimators of a class have such terms."""
    return kind.__name__ in _HELD


def keep_terms(estimator: BaseEstimator, keep: Keep) -> bool:
    """Offers the terms of an estimator, none where the fitted numbers of its class stand in the graph themselves.

    Returns:
        False where the graph lacks a term without which it can't be rebuilt.
    """
    terms = _HELD.get(type(estimator).__name__)
    # a subclass may have a form of its own of these attributes
    with np.errstate(all="ignore"), suppress(AttributeError, TypeError, ValueError):
        return terms is None or terms(estimator, keep)
    return True


def _holds(*names: str) -> Callable[[Terms], Terms]:
    def register(function: Terms) -> Terms:
        _HELD.update(dict.fromkeys(" ".join(names).split(), function))
        return function

    return register


@_holds("GaussianNB")
def _gaussian(model: Any, keep: Keep) -> bool:
    return keep("constant", np.log(model.class_prior_) - 0.5 * np.sum(np.log(2.0 * np.pi * model.var_), axis=1))


@_holds("BernoulliNB")
def _bernoulli(model: Any, keep: Keep) -> bool:
    absent = np.log(1 - np.exp(model.feature_log_prob_))
    kept = keep("gap", model.feature_log_prob_ - absent)
    return keep("constant", model.class_log_prior_ + np.sum(absent, axis=1)) and kept


@_holds(_MACHINES)
def _machine(model: Any, keep: Keep) -> bool:
    """Of each number the first form that the graph holds; the others are not looked for."""
    classifies = hasattr(model, "classes_")
    vectors = dense(model.support_vectors_).astype(np.float64)
    if not keep("weights", pair_weights(model) if classifies else dense(model._dual_coef_).T):
        return False
    if model.kernel != "rbf" or not len(vectors):
        return keep("vectors", vectors)
    scaled = vectors * np.sqrt(model._gamma)
    centre = centre_of(scaled)
    if keep("twice", 2.0 * (scaled - centre)):  # the form of most
        keep("scaled centre", centre)
        return True
    centre = centre_of(vectors)
    if keep("products", 2.0 * model._gamma * (vectors - centre)):
        keep("centre", centre)
        return True
    return keep("scaled", scaled) or keep("vectors", vectors)


@_holds("KNeighborsClassifier KNeighborsRegressor KNeighborsTransformer LocalOutlierFactor NearestNeighbors")
def _neighbours(model: Any, keep: Keep) -> bool:
    """The fitted rows in the order in which a search tree meets them."""
    order = np.asarray(model._tree.get_arrays()[1])
    keep("order", order)
    keep("ordered", dense(model._fit_X)[order])
    return True
