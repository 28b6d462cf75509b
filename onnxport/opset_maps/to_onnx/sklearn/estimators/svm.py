"""Support vector machines: kernels with the support vectors, votes of pairs of classes, libsvm's coupled probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, built, f32, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import dense, gaussian_sums, kernel
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import affine, full
from onnxport.opset_maps.to_onnx.sklearn.arrays.iteration import in_blocks, iterate
from onnxport.opset_maps.to_onnx.sklearn.classes import take_class, votes_of_pairs
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, data, fit, regressor, target
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, doubles

# From so many vectors on the kernel is computed for a block of rows at a time; below, asking for the number of rows takes a tenth
# of one row's time, and the kernel of 10,000 rows at most 650 MB.
_LARGE = 1 << 13
_KERNELS: list[dict[str, Any]] = [
    {},
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2, "coef0": 1.0},
    {"kernel": "sigmoid", "gamma": 0.1},
]


_PRECOMPUTED = built(lambda: fit("SVC", data() @ data().T, target(), kernel="precomputed"), f64(7, 120))


def _probable(name: str, classes: int) -> list[Case]:
    def make() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # scikit-learn 1.11 takes the option away
            return classifier(name, classes=classes, probability=True)

    return [built(make, rows, name=f"{classes} classes") for rows in (f64(7, 4), f32(7, 4))]


def _kernel_sum(op: OpBuilder, model: BaseEstimator, x: Table, weights: np.ndarray, intercept: np.ndarray) -> Array:
    """The kernel of the rows, in float64, with the support vectors, times their weights [vectors, functions], plus intercepts."""
    rows = doubles(op, x)
    name, vectors = model.kernel, dense(model.support_vectors_).astype(np.float64)
    if callable(name):
        raise UnsupportedOperator(f"{type(model).__name__}: a function as kernel has no mapping; use a kernel by name")
    if not len(model.support_):
        return full(rows, (None, weights.shape[1]), 0.0, np.float64) + intercept
    if name == "precomputed":
        return affine(rows[:, model.support_], weights, intercept)
    if name == "linear":
        return affine(rows, vectors.T @ weights, intercept)
    parameters = {"gamma": model._gamma, "coef0": model.coef0, "degree": model.degree}

    def of_block(block: Array) -> list[Array]:
        if name == "rbf":
            return [gaussian_sums(block, vectors, model._gamma, weights, intercept)]
        return [affine(kernel(block, vectors, name, parameters), weights, intercept)]

    return in_blocks(rows, len(vectors), of_block, least=_LARGE)[0]


def _pairs(model: BaseEstimator) -> list[tuple[int, int]]:
    return list(combinations(range(len(model.classes_)), 2))


def pair_weights(model: BaseEstimator) -> np.ndarray:
    """For each pair i < j of classes the coefficient of each support vector for class i, [vectors, pairs]."""
    if len(model._n_support) != len(model.classes_):
        raise UnsupportedOperator(f"{type(model).__name__}: a class has no rows of weight above 0")
    coefficients = dense(model._dual_coef_)
    if len(model.classes_) == 2:  # the one coefficient of a vector is that against the other class
        return coefficients.T
    of_class = np.repeat(np.arange(len(model.classes_)), model._n_support)
    weights = np.zeros((coefficients.shape[1], len(_pairs(model))))
    for pair, (i, j) in enumerate(_pairs(model)):
        # a vector of class c has its coefficient against class d in row d, less one where d comes after c
        weights[of_class == i, pair] = coefficients[j - 1, of_class == i]
        weights[of_class == j, pair] = coefficients[i, of_class == j]
    return weights


def pair_scores(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """For each pair i < j of classes how much a row is class i, [N, pairs]: libsvm's decision values."""
    return _kernel_sum(op, model, x, pair_weights(model), model._intercept_)


@lower(
    "BaseSVC.decision_function",
    cases(classifier, "SVC", *_KERNELS, {"decision_function_shape": "ovo"}, {"classes": 2}),
    cases(classifier, "NuSVC", {}, {"classes": 2, "nu": 0.3}),
    _PRECOMPUTED,
)
def machine_scores(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The pairs' scores, or the classes' votes and a share of the scores; for two classes that of the second."""
    result = pair_scores(op, model, x)
    if len(model.classes_) == 2:
        return -result.reshape(-1)
    if model.decision_function_shape == "ovo":
        return result
    return votes_of_pairs((result < 0).astype(np.int64), -result, len(model.classes_))


@lower(
    "BaseSVC.predict",
    cases(classifier, "SVC", *_KERNELS, {"break_ties": True, "text": True}, {"classes": 2, "text": True}),
    cases(classifier, "NuSVC", {}, {"classes": 2, "nu": 0.3}),
    _PRECOMPUTED,
)
def machine_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class with the most votes of the pairs, the first among equals; with ``break_ties`` that of the greatest score."""
    count = len(model.classes_)
    if model.break_ties and count > 2:
        if model.decision_function_shape == "ovo":
            raise UnsupportedOperator("scikit-learn allows break_ties only with decision_function_shape='ovr'")
        return take_class(model.classes_, np.argmax(called(op, model, "decision_function", x), axis=1))
    scores = pair_scores(op, model, x)
    if count == 2:  # the second class for what is not above 0, as libsvm has it: NaN too, where a kernel overflows
        return take_class(model.classes_, np.where(scores.reshape(-1) > 0, 0, 1))
    first = scores > 0
    wins, losses = (np.eye(count)[[pair[side] for pair in _pairs(model)]] for side in (0, 1))
    votes = first.astype(np.float64) @ wins + (~first).astype(np.float64) @ losses
    return take_class(model.classes_, np.argmax(votes, axis=1))


@lower("BaseSVC.predict_proba", _probable("SVC", 3), _probable("SVC", 2), _probable("NuSVC", 3))
def machine_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Platt's logistic functions of the pairs' scores, coupled."""
    scores = pair_scores(op, model, x)
    result = 1.0 / (1.0 + np.exp(scores * model._probA + model._probB))
    return coupled(np.clip(result, 1e-7, 1 - 1e-7), len(model.classes_))


def coupled(first: Array, count: int) -> Array:
    """Probabilities of classes from those of the first class of each pair, [N, pairs].

    Wu, Lin and Weng, Probability estimates for multi-class classification by pairwise coupling, 2004, the second approach, by
    coordinates until the greatest error is below 0.005 / classes, a row at a time: what libsvm computes.
    """
    places = {pair: number for number, pair in enumerate(combinations(range(count), 2))}
    both = np.concatenate([first, 1.0 - first, full(first, (None, 1), 0.0, np.float64)], axis=1)
    order = np.full((count, count), 2 * len(places))
    for (i, j), number in places.items():
        order[i, j], order[j, i] = number, len(places) + number
    r = both[:, order.ravel()].reshape(-1, count, count)
    diagonal: Any = np.eye(count)
    turned = np.swapaxes(r, 1, 2)
    q: Any = np.sum(turned * turned, axis=2)[:, :, None] * diagonal - r * turned
    unit = [diagonal[t][None] for t in range(count)]

    def step(states: Sequence[Array], given: Sequence[Array]) -> tuple[Sequence[Array], Array]:
        start, moving = states
        (matrix,) = given
        gradient = np.sum(matrix * start[:, None, :], axis=2)
        energy = np.sum(start * gradient, axis=1, keepdims=True)
        moving = moving & (np.max(np.abs(gradient - energy), axis=1, keepdims=True) >= 0.005 / count)
        p: Any = start
        for t in range(count):
            own = matrix[:, t, t : t + 1]
            by = (energy - gradient[:, t : t + 1]) / own
            whole = 1.0 + by
            energy = (energy + by * (by * own + 2.0 * gradient[:, t : t + 1])) / whole / whole
            gradient = (gradient + by * matrix[:, t, :]) / whole
            p = (p + by * unit[t]) / whole
        p = np.where(moving, p, start)
        return [p, moving], np.any(moving)

    states = [full(first, (None, count), 1.0 / count, np.float64), full(first, (None, 1), True, bool)]
    return iterate(first.op, max(100, count), states, [q], step)[0]


@lower("SVR NuSVR.predict", cases(regressor, "SVR", *_KERNELS), cases(regressor, "NuSVR", {}, {"kernel": "linear"}))
@lower_fitted("OneClassSVM.decision_function", regressor, *_KERNELS)
def machine_value(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The kernel with the support vectors times the dual coefficients, plus the intercept."""
    return _kernel_sum(op, model, x, dense(model._dual_coef_).T, model._intercept_).reshape(-1)
