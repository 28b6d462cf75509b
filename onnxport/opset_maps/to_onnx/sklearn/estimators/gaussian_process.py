"""Gaussian processes (Rasmussen and Williams, Gaussian Processes for Machine Learning, algorithms 2.1 and 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import erf
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import kernels

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import exact_squares, kernel_squares
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import kernel as pairwise_kernel
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full
from onnxport.opset_maps.to_onnx.sklearn.arrays.iteration import in_blocks
from onnxport.opset_maps.to_onnx.sklearn.classes import both_classes, take_class
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, given, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import lower_inner
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, regressor, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, numbers


def covariance(kernel: kernels.Kernel, rows: Array, fitted: np.ndarray) -> Array:
    """The kernel of new rows and fitted ones, [N, M]."""
    match kernel:
        case kernels.Sum():
            return covariance(kernel.k1, rows, fitted) + covariance(kernel.k2, rows, fitted)
        case kernels.Product():
            return covariance(kernel.k1, rows, fitted) * covariance(kernel.k2, rows, fitted)
        case kernels.Exponentiation():
            return covariance(kernel.kernel, rows, fitted) ** kernel.exponent
        case kernels.ConstantKernel():
            return full(rows, (None, len(fitted)), kernel.constant_value, np.float64)
        case kernels.WhiteKernel():
            return full(rows, (None, len(fitted)), 0.0, np.float64)
        case kernels.Matern():
            return _matern(kernel, rows / kernel.length_scale, fitted / kernel.length_scale)
        case kernels.RBF():
            return np.exp(-0.5 * kernel_squares(rows / kernel.length_scale, fitted / kernel.length_scale))
        case kernels.RationalQuadratic():
            result = exact_squares(rows, fitted) / (2 * kernel.alpha * kernel.length_scale**2)
            return (1 + result) ** -kernel.alpha
        case kernels.ExpSineSquared():
            angle = np.pi / kernel.periodicity * np.sqrt(exact_squares(rows, fitted))
            return np.exp(-2 * (np.sin(angle) / kernel.length_scale) ** 2)
        case kernels.DotProduct():
            return rows @ fitted.T + kernel.sigma_0**2
        case kernels.PairwiseKernel() if isinstance(kernel.metric, str):
            return pairwise_kernel(
                rows, fitted, kernel.metric, {"gamma": kernel.gamma, **(kernel.pairwise_kernels_kwargs or {})}
            )
    raise _no_mapping(kernel)


def _matern(kernel: kernels.Kernel, rows: Array, fitted: np.ndarray) -> Array:
    if kernel.nu == np.inf:
        return np.exp(-0.5 * kernel_squares(rows, fitted))
    gap = np.sqrt(exact_squares(rows, fitted))
    if kernel.nu == 0.5:
        return np.exp(-gap)
    if kernel.nu == 1.5:
        scaled = gap * np.sqrt(3.0)
        return (1.0 + scaled) * np.exp(-scaled)
    if kernel.nu == 2.5:
        scaled = gap * np.sqrt(5.0)
        return (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled)
    raise UnsupportedOperator(f"Matern: nu={kernel.nu} needs a Bessel function; use 0.5, 1.5, 2.5 or infinity")


def variance(kernel: kernels.Kernel, rows: Array) -> Array:
    """The kernel of each row with itself, [N]."""
    match kernel:
        case kernels.Sum():
            return variance(kernel.k1, rows) + variance(kernel.k2, rows)
        case kernels.Product():
            return variance(kernel.k1, rows) * variance(kernel.k2, rows)
        case kernels.Exponentiation():
            return variance(kernel.kernel, rows) ** kernel.exponent
        case kernels.ConstantKernel():
            return full(rows, (None,), kernel.constant_value, np.float64)
        case kernels.WhiteKernel():
            return full(rows, (None,), kernel.noise_level, np.float64)
        case kernels.DotProduct():
            return np.sum(rows * rows, axis=1) + kernel.sigma_0**2
        case kernels.RBF() | kernels.RationalQuadratic() | kernels.ExpSineSquared():  # Matern is an RBF
            return full(rows, (None,), 1.0, np.float64)
        case kernels.PairwiseKernel() if kernel.metric in ("rbf", "laplacian", "chi2"):
            return full(rows, (None,), 1.0, np.float64)
        case kernels.PairwiseKernel() if kernel.metric in ("linear", "poly", "polynomial", "sigmoid", "cosine"):
            return _of_square(kernel, np.sum(rows * rows, axis=1))
    raise _no_mapping(kernel)


def _of_square(kernel: kernels.Kernel, square: Array) -> Array:
    """A kernel of sklearn.metrics.pairwise of a row with itself, by the row's square."""
    options = {"gamma": kernel.gamma, "coef0": 1, "degree": 3, **(kernel.pairwise_kernels_kwargs or {})}
    if kernel.metric == "linear":
        return square
    if kernel.metric == "cosine":
        return np.where(square > 0, 1.0, 0.0)
    base = square * float(options["gamma"]) + float(options["coef0"])
    return np.tanh(base) if kernel.metric == "sigmoid" else base ** options["degree"]


def _no_mapping(kernel: kernels.Kernel) -> UnsupportedOperator:
    name = f"{type(kernel).__name__}(metric={kernel.metric!r})" if hasattr(kernel, "metric") else type(kernel).__name__
    return UnsupportedOperator(
        f"the kernel {name} has no mapping; use those of scikit-learn, pairwise ones by their names"
    )


def _against_fitted(model: BaseEstimator, rows: Array, function: Callable[[Array], Any]) -> Array:
    """What a function gives of the kernel between the rows and the fitted ones."""
    fitted = model.X_train_
    return in_blocks(rows, len(fitted), lambda block: [function(covariance(model.kernel_, block, fitted))])[0]


def _options(name: str) -> dict[str, Any]:
    named = {
        "noisy": kernels.RBF(2.0) + kernels.WhiteKernel(0.5),
        "matern": kernels.ConstantKernel(2.0) * kernels.Matern(2.0, nu=1.5),
        "rational": kernels.RationalQuadratic(2.0),
        "product": kernels.DotProduct() ** 2,
        "pairwise": kernels.PairwiseKernel(0.5, metric="poly", pairwise_kernels_kwargs={"degree": 2}),
    }
    return {"alpha": 0.1, "optimizer": None, "kernel": named[name]}


_unfitted = partial(unfitted, "GaussianProcessRegressor")


def _prior(model: BaseEstimator) -> tuple[Any, tuple[int, ...]]:
    """The kernel of a process that was not fitted, and how many targets it has beyond one."""
    kernel = kernels.ConstantKernel(1.0) * kernels.RBF(1.0) if model.kernel is None else model.kernel
    count = model.n_targets or 1
    return kernel, (count,) if count > 1 else ()


@lower(
    "GaussianProcessRegressor.predict",
    cases(regressor, "GaussianProcessRegressor", _options("noisy"), _options("matern"), _options("rational")),
    cases(regressor, "GaussianProcessRegressor", {**_options("product"), "outputs": 2, "normalize_y": True}),
    given(_unfitted),
)
def posterior_mean(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The posterior's mean; the prior's, which is 0, where the process was not fitted."""
    rows = numbers(op, x).astype(np.float64)
    if not hasattr(model, "X_train_"):
        return full(rows, (None, *_prior(model)[1]), 0.0, np.float64)
    result = _against_fitted(model, rows, lambda between: between @ model.alpha_)
    result = result * model._y_train_std + model._y_train_mean
    return result[:, 0] if result.ndim > 1 and result.shape[1] == 1 else result


def _inverse(triangle: np.ndarray) -> np.ndarray:
    """The inverse of a lower triangle, improved once by Newton's step: as if computed in twice the precision and then rounded."""
    first = solve_triangular(triangle, np.eye(len(triangle)), lower=True)
    return np.asarray(first + first @ _residual(triangle, first))


def _residual(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """1 - a b of square matrices in about twice the precision.

    Ozaki, Ogita, Oishi and Rump, 2012: of numbers cut into slices of few enough bits the matrix products are exact.
    """
    bits = (53 - int(np.ceil(np.log2(len(a) + 1)))) // 2
    rest = np.eye(len(a))
    left, right = _slices(a, bits), [item.T for item in _slices(b.T, bits)]
    for total in range(len(left)):  # the greatest products first; those after them are below the last digit
        for i in range(total + 1):
            rest = rest - left[i] @ right[total - i]
    return np.asarray(rest)


def _slices(rows: np.ndarray, bits: int) -> list[np.ndarray]:
    """Three matrices of so many bits below the greatest number of each row, and what is left; their sum is `rows`."""
    parts = []
    for _ in range(3):
        top = np.max(np.abs(rows), axis=1, keepdims=True)
        unit = 2.0 ** (np.ceil(np.log2(np.where(top > 0, top, 1.0))) + 53 - bits)
        parts.append((rows + unit) - unit)
        rows = rows - parts[-1]
    return [*parts, rows]


@lower(
    "GaussianProcessRegressor.predict_std",
    cases(regressor, "GaussianProcessRegressor", _options("noisy"), _options("matern"), _options("pairwise")),
    given(_unfitted, {"n_targets": 2}),
    given(_unfitted, *({"kernel": kernels.PairwiseKernel(metric=kind)} for kind in ("linear", "sigmoid", "cosine"))),
)
def posterior_deviation(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The posterior's standard deviation, or the prior's; variances that are negative by rounding are 0."""
    rows = numbers(op, x).astype(np.float64)
    if not hasattr(model, "X_train_"):
        kernel, targets = _prior(model)
        prior = np.sqrt(variance(kernel, numbers(op, x)))
        return prior[:, None] * np.ones(targets) if targets else prior
    inverse = _inverse(np.tril(model.L_)).T
    result = variance(model.kernel_, numbers(op, x)).copy()
    result -= _against_fitted(model, rows, lambda between: np.sum((between @ inverse) ** 2, axis=1))
    result, scale = np.maximum(result, 0.0), model._y_train_std**2  # which undoes the targets' normalisation
    several = np.ndim(model.alpha_) == 2 and model.alpha_.shape[1] > 1
    return np.sqrt(result[:, None] * np.asarray(scale) if several else result * scale)


_OF_CLASSES = cases(classifier, "GaussianProcessClassifier", {"classes": 2}, {"text": True})
lower_inner("base_estimator_", "GaussianProcessClassifier", ["predict"], _OF_CLASSES)
_CASES = cases(classifier, "_BinaryGaussianProcessClassifierLaplace", {"classes": 2})


@lower_fitted("GaussianProcessClassifier.predict_proba", classifier, {"classes": 2})
def process_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The probabilities of the binary estimators, or of the one there is."""
    if model.n_classes_ > 2 and model.multi_class == "one_vs_one":
        raise UnsupportedOperator(
            "multi_class='one_vs_one' has no probabilities of more than two classes; ask for methods=['predict']"
        )
    return called(op, model.base_estimator_, "predict_proba", x, step="base_estimator_")


@lower("_BinaryGaussianProcessClassifierLaplace.predict_proba", _CASES)
def laplace_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The logistic function averaged over the latent posterior (Williams and Barber, 1998, appendix A)."""
    from sklearn.gaussian_process._gpc import COEFS, LAMBDAS

    rows = numbers(op, x).astype(np.float64)
    between = covariance(model.kernel_, rows, model.X_train_)
    mean = (between @ (model.y_train_ - model.pi_))[:, None]
    half = between @ (model.W_sr_[:, None] * _inverse(np.tril(model.L_)).T)
    spread = (variance(model.kernel_, numbers(op, x)) - np.sum(half * half, axis=1))[:, None]
    weights, slopes = np.ravel(COEFS), np.ravel(LAMBDAS)
    alpha = 1 / (2 * spread)
    shares = np.sqrt(np.pi / alpha) * erf(slopes * mean * np.sqrt(alpha / (alpha + slopes**2)))
    result = np.sum(weights * (shares / (2 * np.sqrt(spread * (2 * np.pi)))), axis=1) + 0.5 * np.sum(weights)
    return both_classes(result)


@lower("_BinaryGaussianProcessClassifierLaplace.predict", _CASES)
def laplace_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class by the sign of the latent function's mean."""
    between = covariance(model.kernel_, numbers(op, x).astype(np.float64), model.X_train_)
    return take_class(model.classes_, (between @ (model.y_train_ - model.pi_) > 0).astype(np.int64))
