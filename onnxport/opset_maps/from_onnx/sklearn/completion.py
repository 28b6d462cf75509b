"""What a rebuilt estimator needs beside its recorded attributes: objects that scikit-learn makes of them, by class."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.neighbors import BallTree, KDTree
from sklearn.utils import Bunch

Held = dict[str, np.ndarray]  # terms that the graph holds in place of fitted numbers
Complete = Callable[[Any, Held], None]
_COMPLETIONS: dict[str, Complete] = {}


def completes(*names: str) -> Callable[[Complete], Complete]:
    """Registers the decorated function for classes of scikit-learn: it gets a rebuilt estimator and sets what is missing."""

    def register(function: Complete) -> Complete:
        for name in " ".join(names).split():
            _COMPLETIONS[name] = function
        return function

    return register


def completed(estimator: Any, held: Held) -> None:
    """Completes an estimator in place, from the terms that the graph holds of it."""
    complete = _COMPLETIONS.get(type(estimator).__name__)
    if complete is not None:
        complete(estimator, held)


@completes("PoissonRegressor GammaRegressor TweedieRegressor")
def _with_loss(model: Any, held: Held) -> None:
    model._base_loss = model._get_loss()


@completes("KMeans MiniBatchKMeans BisectingKMeans")
def _with_threads(model: Any, held: Held) -> None:
    model._n_threads = 1


@completes("PCA")
def _with_sizes(model: Any, held: Held) -> None:
    model.n_components_, model.n_features_in_ = model.components_.shape


@completes("StackingClassifier StackingRegressor VotingClassifier VotingRegressor")
def _with_names(model: Any, held: Held) -> None:
    fitted = iter(model.estimators_)
    parts = {name: part if isinstance(part, str) else next(fitted) for name, part in model.estimators}
    model.named_estimators_ = Bunch(**parts)


@completes("IsotonicRegression")
def _with_function(model: Any, held: Held) -> None:
    model._build_f(model.X_thresholds_, model.y_thresholds_)


@completes("GaussianNB")
def _gaussian(model: Any, held: Held) -> None:
    model.class_prior_ = np.exp(held["constant"] + 0.5 * np.sum(np.log(2.0 * np.pi * model.var_), axis=1))


@completes("BernoulliNB")
def _bernoulli(model: Any, held: Held) -> None:
    model.feature_log_prob_ = -np.logaddexp(0, -held["gap"])
    model.class_log_prior_ = held["constant"] - np.sum(-np.logaddexp(0, held["gap"]), axis=1)


@completes("SVC NuSVC SVR NuSVR OneClassSVM")
def _machine(model: Any, held: Held) -> None:
    """Support vectors and dual coefficients, from what the kernel's form in the graph holds of them."""
    gamma: Any = getattr(model, "_gamma", None)
    if "vectors" in held:
        vectors = held["vectors"]
    elif "scaled" in held:
        vectors = held["scaled"] / np.sqrt(gamma)
    elif "products" in held:
        vectors = held["products"] / (2.0 * gamma) + held.get("centre", 0.0)
    else:
        vectors = (held["twice"] / 2.0 + held.get("scaled centre", 0.0)) / np.sqrt(gamma)
    model.support_vectors_ = np.ascontiguousarray(vectors)
    # earlier files hold the weights and the intercept of two classes as the second of two columns
    weights = held["beside zeros"][:, 1:] if "beside zeros" in held else held["weights"]
    if "intercept beside zero" in held:
        model._intercept_ = held["intercept beside zero"][1:]
    several = hasattr(model, "classes_")
    model._dual_coef_ = np.ascontiguousarray(_of_pairs(weights, model._n_support) if several else weights.T)
    two = several and len(model.classes_) == 2
    model.dual_coef_ = -model._dual_coef_ if two else model._dual_coef_
    model.intercept_ = -model._intercept_ if two else model._intercept_
    for name in ("_probA", "_probB"):
        if not hasattr(model, name):
            setattr(model, name, np.empty(0))


def _of_pairs(weights: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """libsvm's coefficients, [classes - 1, vectors], of those for each pair of classes, [vectors, pairs]."""
    of_class = np.repeat(np.arange(len(counts)), counts)
    coefficients = np.zeros((len(counts) - 1, len(of_class)))
    for pair, (i, j) in enumerate(combinations(range(len(counts)), 2)):
        coefficients[j - 1, of_class == i] = weights[of_class == i, pair]
        coefficients[i, of_class == j] = weights[of_class == j, pair]
    return coefficients


@completes(
    "KNeighborsClassifier KNeighborsRegressor KNeighborsTransformer LocalOutlierFactor NearestNeighbors "
    "RadiusNeighborsClassifier RadiusNeighborsRegressor RadiusNeighborsTransformer"
)
def _with_search_tree(model: Any, held: Held) -> None:
    """The fitted rows, and the tree in which they are searched, which follows from them."""
    if not hasattr(model, "_fit_X"):
        model._fit_X = np.empty_like(held["ordered"])
        model._fit_X[held["order"].astype(np.int64)] = held["ordered"]
    if getattr(model, "_tree", None) is not None or model._fit_method not in ("kd_tree", "ball_tree"):
        return
    kind = KDTree if model._fit_method == "kd_tree" else BallTree
    options = model.effective_metric_params_
    model._tree = kind(model._fit_X, model.leaf_size, metric=model.effective_metric_, **options)


@completes("GradientBoostingClassifier GradientBoostingRegressor")
def _booster(model: Any, held: Held) -> None:
    """The graph's leaves hold the learning rate times the values, and the first trees' the start too: it begins with zero."""
    for tree in model.estimators_.ravel():
        tree.tree_.value[:] /= model.learning_rate
    if isinstance(model.init_, (DummyClassifier, DummyRegressor)):
        model.init_ = "zero"
    model._loss = model._get_loss(sample_weight=None)


@completes("IsolationForest")
def _isolation(model: Any, held: Held) -> None:
    """The graph's leaves hold how deep they lie, and what a row of their size would add, less one."""
    model._decision_path_lengths, model._average_path_length_per_tree = [], []
    for tree in model.estimators_:
        values = tree.tree_.value.reshape(-1)
        model._decision_path_lengths.append(values + 1.0)
        model._average_path_length_per_tree.append(np.zeros(len(values)))
        tree.tree_.value[:] = np.nan
