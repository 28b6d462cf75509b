"""Kernel density estimates (sklearn.neighbors.KernelDensity)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import (
    distances,
    exact_squares,
)
from onnxport.opset_maps.to_onnx.sklearn.arrays.iteration import in_blocks
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, data, regressor, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, doubles

if TYPE_CHECKING:
    from sklearn.neighbors import (
        KernelDensity,
    )


_HERE = "neighbors"


_KERNEL_NORMS = {
    "gaussian": lambda h, d: 0.5 * d * np.log(2 * np.pi) + d * np.log(h),
    "tophat": lambda h, d: _log_ball(d) + d * np.log(h),
    "epanechnikov": lambda h, d: _log_ball(d) + np.log(2.0 / (d + 2.0)) + d * np.log(h),
    "exponential": lambda h, d: _log_sphere(d - 1) + _log_gamma(d) + d * np.log(h),
    "linear": lambda h, d: _log_ball(d) - np.log(d + 1.0) + d * np.log(h),
    "cosine": lambda h, d: _log_cosine_moment(d) + _log_sphere(d - 1) + d * np.log(h),
}


def _log_gamma(x: float) -> float:
    return float(gammaln(x))


def _log_ball(d: int) -> float:
    return 0.5 * d * np.log(np.pi) - _log_gamma(0.5 * d + 1)


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


@sklearn.lower(
    "KernelDensity.score_samples",
    cases=[
        *cases(regressor, _HERE, "KernelDensity", {}, {"kernel": "exponential"}, {"metric": "manhattan"}),
        built(lambda: unfitted(_HERE, "KernelDensity", kernel="cosine", bandwidth=9.0).fit(data(3)), f64(7, 3)),
    ],
)
def kernel_density(op: OpBuilder, model: KernelDensity, x: Table) -> Array:
    """log of the mean kernel of the distances to the fitted rows (sklearn/neighbors/_binary_tree.pxi.tp)."""
    if model.kernel not in _KERNEL_NORMS:
        raise UnsupportedOperator(f"KernelDensity: kernel={model.kernel!r} has no mapping")
    rows = np.asarray(model.tree_.data)
    h = float(model.bandwidth_)
    weights = model.tree_.sample_weight
    offset = -_KERNEL_NORMS[model.kernel](h, rows.shape[1]) - np.log(
        float(len(rows) if weights is None else np.sum(weights))
    )

    def of_block(block: Array) -> list[Array]:
        logs = _log_kernel(model.kernel, _tree_distances(model, block, rows, h), h)
        if weights is not None:
            logs = logs + np.log(np.asarray(weights))
        top = np.maximum(np.max(logs, axis=1, keepdims=True), -1e300)
        return [np.log(np.sum(np.exp(logs - top), axis=1)) + np.squeeze(top, axis=1)]

    return in_blocks(doubles(op, x), len(rows), of_block)[0] + offset


def _tree_distances(model: KernelDensity, x: Array, rows: np.ndarray, h: float) -> Array:
    if model.metric in ("euclidean", "l2", "p", "minkowski") and not model.metric_params:
        return np.sqrt(exact_squares(x, rows, h * h))
    return distances(x, rows, model.metric, model.metric_params)


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
