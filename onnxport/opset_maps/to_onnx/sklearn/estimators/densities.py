"""Densities: Gaussian mixtures and covariances, and kernel density estimates (sklearn.neighbors.KernelDensity)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import digamma, gammaln
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import distances, exact_squares
from onnxport.opset_maps.to_onnx.sklearn.arrays.iteration import in_blocks
from onnxport.opset_maps.to_onnx.sklearn.classes import logsumexp
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import data, regressor, transformer, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, doubles, numbers

_TYPES: list[dict[str, Any]] = [
    {"n_components": 2, "covariance_type": kind} for kind in ("full", "tied", "diag", "spherical")
]
_DIRICHLET = {"n_components": 2, "weight_concentration_prior_type": "dirichlet_distribution"}
_CASES = [*cases(transformer, "GaussianMixture", *_TYPES), *cases(transformer, "BayesianGaussianMixture")]


def _log_determinants(model: BaseEstimator, features: int) -> Any:
    factors = model.precisions_cholesky_
    match model.covariance_type:
        case "full":
            return np.sum(np.log(np.diagonal(factors, axis1=1, axis2=2)), axis=1)
        case "tied":
            return np.sum(np.log(np.diag(factors)))
        case "diag":
            return np.sum(np.log(factors), axis=1)
    return features * np.log(factors)


def log_densities(model: BaseEstimator, rows: Array) -> Array:
    """The logarithm of each component's density, [N, K] (Bishop, Pattern Recognition and Machine Learning, 2.3)."""
    means, factors = model.means_, model.precisions_cholesky_
    features = means.shape[1]
    if model.covariance_type in ("full", "tied"):
        each = factors if model.covariance_type == "full" else [factors] * len(means)
        norms = []
        for mean, factor in zip(means, each, strict=True):
            gap = rows @ factor - mean @ factor
            norms.append(np.sum(gap**2, axis=1))
        total = np.stack(norms, axis=1).astype(rows.dtype)
    elif model.covariance_type == "diag":
        precisions = factors**2
        total = np.sum(means**2 * precisions, axis=1) - 2.0 * (rows @ (means * precisions).T) + rows**2 @ precisions.T
    else:
        precisions = factors**2
        squares = np.sum(rows * rows, axis=1, keepdims=True)
        total = np.sum(means**2, axis=1) * precisions - 2.0 * (rows @ means.T * precisions) + squares * precisions
    return -0.5 * (float(features * np.log(2 * np.pi)) + total) + _log_determinants(model, features)


def _variational_terms(model: BaseEstimator) -> Any:
    """What the expected logarithms of precisions and weights add (Bishop, 10.64 to 10.66)."""
    features = model.means_.shape[1]
    freedom = model.degrees_of_freedom_
    spread = np.sum(digamma(0.5 * (freedom - np.arange(features)[:, None])), axis=0) + features * np.log(2.0)
    result = -0.5 * features * np.log(freedom) + 0.5 * (spread - features / model.mean_precision_)
    weights = model.weight_concentration_
    if model.weight_concentration_prior_type != "dirichlet_process":
        return result + digamma(weights) - digamma(np.sum(weights))
    total = digamma(weights[0] + weights[1])
    rest = np.cumsum(digamma(weights[1]) - total)[:-1]
    return result + digamma(weights[0]) - total + np.concatenate([[0.0], rest])


def weighted_log_densities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """log weight + log density of each component."""
    result = log_densities(model, numbers(op, x))
    if hasattr(model, "weight_concentration_"):
        return result + _variational_terms(model)
    return result + np.log(model.weights_)


@lower("BaseMixture.predict", _CASES, cases(transformer, "BayesianGaussianMixture", _DIRICHLET))
def component(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The most probable component."""
    return np.argmax(weighted_log_densities(op, model, x), axis=1)


@lower("BaseMixture.predict_proba", _CASES)
def responsibilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The components' shares in the density."""
    logs = weighted_log_densities(op, model, x)
    return np.exp(logs - logsumexp(logs, keepdims=True))


@lower("BaseMixture.score_samples", _CASES)
def log_likelihood(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The logarithm of the density."""
    return logsumexp(weighted_log_densities(op, model, x))


@lower("EmpiricalCovariance.mahalanobis", cases(transformer, "EmpiricalCovariance"), cases(transformer, "MinCovDet"))
def mahalanobis(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Squared Mahalanobis distance to the fitted location."""
    gap = numbers(op, x).astype(np.float64) - model.location_
    return np.sum((gap @ model.get_precision()) * gap, axis=1)


@lower_fitted("EllipticEnvelope.score_samples", transformer)
def envelope_samples(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The opposite of the squared Mahalanobis distance."""
    return -called(op, model, "mahalanobis", x)


_KERNEL_NORMS = {
    "gaussian": lambda h, d: 0.5 * d * np.log(2 * np.pi) + d * np.log(h),
    "tophat": lambda h, d: _log_ball(d) + d * np.log(h),
    "epanechnikov": lambda h, d: _log_ball(d) + np.log(2.0 / (d + 2.0)) + d * np.log(h),
    "exponential": lambda h, d: _log_sphere(d - 1) + gammaln(d) + d * np.log(h),
    "linear": lambda h, d: _log_ball(d) - np.log(d + 1.0) + d * np.log(h),
    "cosine": lambda h, d: _log_cosine_moment(d) + _log_sphere(d - 1) + d * np.log(h),
}


def _log_ball(d: int) -> float:
    return float(0.5 * d * np.log(np.pi) - gammaln(0.5 * d + 1))


def _log_cosine_moment(d: int) -> float:
    """log of the integral of r^(d - 1) cos(pi r / 2) from 0 to 1; as scikit-learn's, NaN for some even `d`."""
    result, term = 0.0, 2.0 / np.pi
    for k in range(1, d + 1, 2):
        result += term
        term *= -(d - k) * (d - k - 1) * (2.0 / np.pi) ** 2
    with np.errstate(invalid="ignore"):
        return float(np.log(result))


def _log_sphere(d: int) -> float:
    return np.log(2 * np.pi) + _log_ball(d - 1)


@lower(
    "KernelDensity.score_samples",
    cases(regressor, "KernelDensity", {}, {"kernel": "exponential"}, {"metric": "manhattan"}),
    built(lambda: unfitted("KernelDensity", kernel="cosine", bandwidth=9.0).fit(data(3)), f64(7, 3)),
)
def kernel_density(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """log of the mean kernel of the distances to the fitted rows (sklearn/neighbors/_binary_tree.pxi.tp)."""
    if model.kernel not in _KERNEL_NORMS:
        raise UnsupportedOperator(f"KernelDensity: kernel={model.kernel!r} has no mapping")
    rows, h, weights = np.asarray(model.tree_.data), float(model.bandwidth_), model.tree_.sample_weight
    count = float(len(rows) if weights is None else np.sum(weights))
    offset = -_KERNEL_NORMS[model.kernel](h, rows.shape[1]) - np.log(count)

    def of_block(block: Array) -> list[Array]:
        euclidean = model.metric in ("euclidean", "l2", "p", "minkowski") and not model.metric_params
        squares = exact_squares(block, rows, h * h) if euclidean else None
        gap = distances(block, rows, model.metric, model.metric_params) if squares is None else np.sqrt(squares)
        logs = _log_kernel(model.kernel, gap, h)
        if weights is not None:
            logs = logs + np.log(np.asarray(weights))
        top = np.maximum(np.max(logs, axis=1, keepdims=True), -1e300)
        return [np.log(np.sum(np.exp(logs - top), axis=1)) + np.squeeze(top, axis=1)]

    return in_blocks(doubles(op, x), len(rows), of_block)[0] + offset


def _log_kernel(name: str, gap: Array, h: float) -> Any:
    match name:
        case "gaussian":
            return -0.5 * (gap * gap) / (h * h)
        case "exponential":
            return -gap / h
        case "tophat":
            return np.where(gap < h, 0.0, -np.inf)
        case "epanechnikov":
            return np.where(gap < h, np.log(np.maximum(1.0 - (gap * gap) / (h * h), 1e-300)), -np.inf)
        case "cosine":
            return np.where(gap < h, np.log(np.cos(0.5 * np.pi * np.where(gap < h, gap, 0.0) / h)), -np.inf)
    return np.where(gap < h, np.log(np.maximum(1.0 - gap / h, 1e-300)), -np.inf)
