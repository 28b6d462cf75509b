"""Gaussian mixtures and covariances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import digamma

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.classes import logsumexp
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, numbers

if TYPE_CHECKING:
    from sklearn.covariance import EllipticEnvelope, EmpiricalCovariance
    from sklearn.mixture._base import BaseMixture

_HERE = "mixture"
_TYPES: list[dict[str, Any]] = [
    {"n_components": 2, "covariance_type": kind} for kind in ("full", "tied", "diag", "spherical")
]
_DIRICHLET = {"n_components": 2, "weight_concentration_prior_type": "dirichlet_distribution"}
_CASES = [*cases(transformer, _HERE, "GaussianMixture", *_TYPES), *cases(transformer, _HERE, "BayesianGaussianMixture")]


def _log_determinants(model: BaseMixture, features: int) -> Any:
    factors = model.precisions_cholesky_
    match model.covariance_type:
        case "full":
            return np.sum(np.log(np.diagonal(factors, axis1=1, axis2=2)), axis=1)
        case "tied":
            return np.sum(np.log(np.diag(factors)))
        case "diag":
            return np.sum(np.log(factors), axis=1)
    return features * np.log(factors)


def log_densities(model: BaseMixture, rows: Array) -> Array:
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


def _variational_terms(model: BaseMixture) -> Any:
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


def weighted_log_densities(op: OpBuilder, model: BaseMixture, x: Table) -> Array:
    """log weight + log density of each component."""
    result = log_densities(model, numbers(op, x))
    if hasattr(model, "weight_concentration_"):
        return result + _variational_terms(model)
    return result + np.log(model.weights_)


@sklearn.lower(
    "BaseMixture.predict",
    cases=[*_CASES, *cases(transformer, _HERE, "BayesianGaussianMixture", _DIRICHLET)],
)
def component(op: OpBuilder, model: BaseMixture, x: Table) -> Array:
    """The most probable component."""
    return np.argmax(weighted_log_densities(op, model, x), axis=1)


@sklearn.lower("BaseMixture.predict_proba", cases=_CASES)
def responsibilities(op: OpBuilder, model: BaseMixture, x: Table) -> Array:
    """The components' shares in the density."""
    logs = weighted_log_densities(op, model, x)
    return np.exp(logs - logsumexp(logs, keepdims=True))


@sklearn.lower("BaseMixture.score_samples", cases=_CASES)
def log_likelihood(op: OpBuilder, model: BaseMixture, x: Table) -> Array:
    """The logarithm of the density."""
    return logsumexp(weighted_log_densities(op, model, x))


# -- covariances -------------------------------------------------------------------------------------------------------------


@sklearn.lower(
    "EmpiricalCovariance.mahalanobis",
    cases=[*cases(transformer, "covariance", "EmpiricalCovariance"), *cases(transformer, "covariance", "MinCovDet")],
)
def mahalanobis(op: OpBuilder, model: EmpiricalCovariance, x: Table) -> Array:
    """Squared Mahalanobis distance to the fitted location."""
    gap = numbers(op, x).astype(np.float64) - model.location_
    return np.sum((gap @ model.get_precision()) * gap, axis=1)


@sklearn.lower("EllipticEnvelope.score_samples", cases=cases(transformer, "covariance", "EllipticEnvelope"))
def envelope_samples(op: OpBuilder, model: EllipticEnvelope, x: Table) -> Array:
    """The opposite of the squared Mahalanobis distance."""
    return -called(op, model, "mahalanobis", x)


@sklearn.lower("EllipticEnvelope.decision_function", cases=cases(transformer, "covariance", "EllipticEnvelope"))
def envelope_scores(op: OpBuilder, model: EllipticEnvelope, x: Table) -> Array:
    """The samples' scores less the offset that the contamination asks for."""
    return called(op, model, "score_samples", x) - model.offset_


@sklearn.lower("EllipticEnvelope.predict", cases=cases(transformer, "covariance", "EllipticEnvelope"))
def envelope_label(op: OpBuilder, model: EllipticEnvelope, x: Table) -> Array:
    """1 inside, -1 outside."""
    return np.where(called(op, model, "decision_function", x) >= 0, 1, -1)
