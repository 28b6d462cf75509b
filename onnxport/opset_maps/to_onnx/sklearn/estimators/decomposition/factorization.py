"""Non-negative factorisations and topics: what is fitted anew for each row, with the components held fixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full
from onnxport.opset_maps.to_onnx.sklearn.arrays.iteration import iterate
from onnxport.opset_maps.to_onnx.sklearn.entries import given, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, floats, numbers

_POSITIVE = f64(7, 4, low=0.0, high=5.0)
_EPSILON = float(np.finfo(np.float32).eps)
_SMALL: dict[str, Any] = {"n_components": 2, "positive": True, "tol": 1e-2}
_factors = partial(transformer, "NMF", **_SMALL)


def _penalties(model: BaseEstimator, features: int) -> tuple[float, float]:
    """The l1 and l2 penalties on the rows' weights (sklearn.decomposition._nmf._BaseNMF._compute_regularization)."""
    return features * model.alpha_W * model.l1_ratio, features * model.alpha_W * (1.0 - model.l1_ratio)


@lower(
    "NMF.transform",
    # scikit-learn's own takes no float32 rows after a fit on float64
    given(_factors, {}, {"alpha_W": 0.01, "l1_ratio": 0.5}, rows=_POSITIVE),
    given(_factors, {"solver": "mu"}, {"solver": "mu", "beta_loss": "kullback-leibler"}, rows=_POSITIVE),
)
def factorized(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The weights W >= 0 for which W components is nearest to the rows."""
    rows = floats(op, x)
    components = model.components_.astype(rows.dtype)
    solve = _coordinate_descent if model.solver == "cd" else _multiplicative_updates
    return solve(op, model, rows, components)


def _coordinate_descent(op: OpBuilder, model: BaseEstimator, rows: Array, components: np.ndarray) -> Array:
    """Cichocki and Phan, Fast local algorithms for large scale nonnegative matrix factorizations, 2009."""
    l1, l2 = _penalties(model, components.shape[1])
    count = len(components)
    gram = components @ components.T + l2 * np.eye(count, dtype=components.dtype)
    target = rows @ components.T - rows.dtype.type(l1)
    zero = full(rows, (None, 1), 0, rows.dtype)

    def step(states: Sequence[Array], given: Sequence[Array]) -> tuple[Sequence[Array], Array]:
        columns, (first, previous) = list(states[:count]), states[count:]
        (wanted,) = given
        violation = first * 0
        for t in range(count):
            gradient = -wanted[:, t : t + 1]
            for r in range(count):
                gradient = gradient + columns[r] * gram[t, r]
            projected = np.where(columns[t] == 0, np.minimum(gradient, 0), gradient)
            violation = violation + np.sum(np.abs(projected).astype(np.float64))
            if gram[t, t] != 0:
                columns[t] = np.maximum(columns[t] - gradient / gram[t, t], 0)
        start = np.where(previous < 0, violation, first)
        going = (start > 0) & (violation > model.tol * start)
        return [*columns, start, violation], going

    scalar = zero.const(np.float64(-1.0))
    result = iterate(op, int(model.max_iter), [zero] * count + [scalar, scalar], [target], step)
    return np.concatenate(result[:count], axis=1)


def _update(model: BaseEstimator, components: np.ndarray) -> Callable[..., Array]:
    """Lee and Seung's multiplicative update of the weights, for the Frobenius norm or Kullback and Leibler's divergence."""
    l1, l2 = _penalties(model, components.shape[1])
    gram, total = components @ components.T, np.sum(components, axis=1)[None]

    def update(weights: Array, rows: Array, penalties: Array | float = 1.0) -> Array:
        if model._beta_loss == 2:
            numerator, denominator = rows @ components.T, weights @ gram
        elif model._beta_loss == 1:
            numerator = (rows / np.maximum(weights @ components, _EPSILON)) @ components.T
            denominator = np.zeros_like(weights) + total
        else:
            raise UnsupportedOperator(
                f"{type(model).__name__}: beta_loss={model.beta_loss!r} has no mapping; use 'frobenius' or 'kullback-leibler'"
            )
        if l1 > 0:
            denominator = denominator + penalties * l1
        if l2 > 0:
            denominator = denominator + weights * l2
        return weights * (numerator / np.where(denominator == 0, _EPSILON, denominator))

    return update


def _divergence(model: BaseEstimator, rows: Array, weights: Array, components: np.ndarray) -> Array:
    """sqrt(2 divergence) between the rows and their factors' product."""
    product = weights @ components
    if model._beta_loss == 2:
        gap = rows - product
        return np.sqrt(np.sum(gap * gap))
    there = rows > _EPSILON
    ratio = np.where(there, rows / np.maximum(product, _EPSILON), 1.0)
    known = np.where(there, rows, 0.0)
    return np.sqrt(np.maximum(2.0 * (np.sum(known * np.log(ratio)) + np.sum(product) - np.sum(known)), 0.0))


def _first_weights(rows: Array, count: int) -> Array:
    mean = np.sqrt(np.mean(rows) / rows.dtype.type(count))
    return full(rows, (None, count), 1, rows.dtype) * mean


def _multiplicative_updates(op: OpBuilder, model: BaseEstimator, rows: Array, components: np.ndarray) -> Array:
    start, update = _first_weights(rows, len(components)), _update(model, components)

    def step(states: Sequence[Array], given: Sequence[Array]) -> tuple[Sequence[Array], Array]:
        weights, previous, number = states
        x, initial = given
        number = number + 1
        # scikit-learn adds the l1 penalty to a sum that it keeps from one step to the next for this divergence
        weights = update(weights, x, number.astype(x.dtype) if model._beta_loss == 1 else 1.0)
        if model.tol <= 0:
            return [weights, previous, number], number > 0
        now = _divergence(model, x, weights, components)
        checked = number % 10 == 0
        going = ~checked | ((previous - now) / initial >= model.tol)
        return [weights, np.where(checked, now, previous), number], going

    first = _divergence(model, rows, start, components)
    return iterate(op, int(model.max_iter), [start, first, rows.const(np.int64(0))], [rows, first], step)[0]


@lower("MiniBatchNMF.transform", built(lambda: transformer("MiniBatchNMF", **{**_SMALL, "tol": 0.05}), _POSITIVE))
def factorized_in_batches(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Multiplicative updates of the weights until they stand still."""
    rows = floats(op, x)
    components = model.components_.astype(rows.dtype)
    update = _update(model, components)

    def step(states: Sequence[Array], given: Sequence[Array]) -> tuple[Sequence[Array], Array]:
        weights = update(states[0], given[0])
        gap = weights - states[0]
        moved = np.sqrt(np.sum(gap * gap)) / np.sqrt(np.sum(weights * weights))
        return [weights], (moved > model.tol) if model.tol > 0 else moved >= 0

    start = _first_weights(rows, len(components))
    return iterate(op, int(model._transform_max_iter), [start], [rows], step)[0]


def _digamma(x: Array) -> Array:
    """scikit-learn's approximation (sklearn/decomposition/_online_lda_fast.pyx): eight digits, and its results have no more."""
    least = x <= 1e-6
    up, result = np.where(least, 6.0, x), np.zeros_like(x)
    for _ in range(6):
        low = up < 6.0
        result = np.where(low, result - 1.0 / up, result)
        up = np.where(low, up + 1.0, up)
    r = 1.0 / up
    result = result + (np.log(up) - 0.5 * r)
    r = r * r
    result = result - r * ((1.0 / 12.0) - r * ((1.0 / 120.0) - r * (1.0 / 252.0)))
    return np.where(least, -np.euler_gamma - 1.0 / np.where(least, x, 1.0), result)


_TOPICS = {"n_components": 2, "positive": True, "max_iter": 3}


@lower_fitted("LatentDirichletAllocation.transform", transformer, _TOPICS, rows=_POSITIVE)
def topics(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Each document's distribution over topics (Hoffman, Blei and Bach, Online learning for LDA, 2010, E step)."""
    counts = numbers(op, x, model.components_.dtype)
    words = model.exp_dirichlet_component_.astype(counts.dtype)
    prior, eps = model.doc_topic_prior_, np.finfo(counts.dtype).eps

    def expectation(shares: Array) -> Array:
        return np.exp(_digamma(shares) - _digamma(np.sum(shares, axis=1, keepdims=True)))

    def step(states: Sequence[Array], given: Sequence[Array]) -> tuple[Sequence[Array], Array]:
        shares, moving = states
        (documents,) = given
        exponentials = expectation(shares)
        ratio = documents / (exponentials @ words + eps)
        following = exponentials * (ratio @ words.T) + prior
        moved = np.mean(np.abs(following - shares), axis=1, keepdims=True) >= model.mean_change_tol
        shares = np.where(moving, following, shares)
        moving = moving & moved
        return [shares, moving], np.any(moving)

    start = full(counts, (None, len(words)), 1, counts.dtype)
    result, _ = iterate(
        op, int(model.max_doc_update_iter), [start, full(counts, (None, 1), True, bool)], [counts], step
    )
    return result / np.sum(result, axis=1, keepdims=True)
