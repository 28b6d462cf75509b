"""Projections on fitted components."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator
from sklearn.utils.extmath import fast_logdet

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import dense, kernel
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, data, regressor, transformer, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import is_sparse
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, doubles, floats, numbers

_TWO: dict[str, Any] = {"n_components": 2}


@lower(
    "PCA IncrementalPCA TruncatedSVD GaussianRandomProjection SparseRandomProjection NeighborhoodComponentsAnalysis.transform",
    cases(transformer, "PCA", _TWO, {"n_components": 3, "whiten": True}),
    cases(transformer, "IncrementalPCA TruncatedSVD GaussianRandomProjection SparseRandomProjection", _TWO),
    cases(classifier, "NeighborhoodComponentsAnalysis", {"max_iter": 5}),
)
def projection(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """(X - mean) components', whitened on request, in the type of X components'; of sparse rows the product comes first."""
    rows, components, mean = floats(op, x), dense(model.components_).T, getattr(model, "mean_", None)
    if mean is None:
        result = rows @ components
    elif not is_sparse(x):
        result = ((rows - mean) @ components).astype(np.result_type(rows.dtype, components.dtype))
    else:
        # the mean stays in the file, for the way back; runtimes compute the product when they load it
        held = op.initializer(f"{type(model).__name__}.mean_", ir.Tensor(mean.reshape(1, -1)))
        result = rows @ components
        result -= Array(op, held) @ components
    if getattr(model, "whiten", False):
        scale = np.sqrt(model.explained_variance_)
        result /= np.maximum(scale, np.finfo(scale.dtype).eps)
    return result


@lower(
    "PCA IncrementalPCA TruncatedSVD NMF MiniBatchNMF SparsePCA MiniBatchSparsePCA.inverse_transform",
    cases(transformer, "PCA", {"n_components": 4, "whiten": True}),
    cases(transformer, "NMF", {"n_components": 4, "positive": True, "tol": 0.1}),
)
def back_projection(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """X components + mean, unwhitened first."""
    components = model.components_
    if getattr(model, "whiten", False):
        components = np.sqrt(model.explained_variance_)[:, None] * components
    result = floats(op, x) @ components
    return result + model.mean_ if getattr(model, "mean_", None) is not None else result


@lower_fitted("PCA FactorAnalysis.score_samples", transformer, _TWO)
def gaussian_likelihood(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The log likelihood under the model's Gaussian (Tipping and Bishop, Mixtures of probabilistic PCA, 1999)."""
    rows = (floats(op, x) if hasattr(model, "explained_variance_") else numbers(op, x)) - model.mean_
    precision = model.get_precision()
    result = -0.5 * np.sum(rows * (rows @ precision), axis=1)
    result -= 0.5 * (len(precision) * np.log(2.0 * np.pi) - fast_logdet(precision))
    return result


@lower_fitted("FactorAnalysis.transform", transformer, _TWO)
def factors(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The latent variables' expectation (Barber, Bayesian Reasoning and Machine Learning, 21.1)."""
    scaled = model.components_ / model.noise_variance_
    covariance = np.linalg.inv(np.eye(len(scaled)) + scaled @ model.components_.T)
    return ((numbers(op, x) - model.mean_) @ scaled.T) @ covariance


@lower_fitted("FastICA.transform", transformer, _TWO, {"whiten": "arbitrary-variance", "tol": 0.1})
def sources(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """(x - mean) components'."""
    rows = _centred(floats(op, x), model.mean_) if model.whiten else floats(op, x)
    return rows @ model.components_.T


@lower_fitted("FastICA.inverse_transform", transformer, {"n_components": 4, "tol": 0.1})
def mixed_sources(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """x mixing' + mean."""
    rows = floats(op, x) @ model.mixing_.T
    if model.whiten:
        rows += model.mean_
    return rows


@lower_fitted("SparsePCA MiniBatchSparsePCA.transform", transformer, _TWO)
def ridge_projection(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The ridge regression of the rows on the components."""
    components = model.components_
    gram = components @ components.T + model.ridge_alpha * np.eye(len(components))
    result = (numbers(op, x) - model.mean_) @ np.linalg.solve(gram, components).T
    return result.astype(components.dtype)


@lower_fitted(
    "KernelPCA.transform", transformer, _TWO, {**_TWO, "kernel": "rbf", "gamma": 0.01}, {**_TWO, "kernel": "cosine"}
)
def kernel_projection(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The centred kernel with the fitted rows times the scaled eigenvectors.

    In float64 throughout: of kernels that are nearly constant the centring leaves few of float32's digits.
    """
    parameters = model.kernel_params if callable(model.kernel) else {}
    options = parameters or {"gamma": model.gamma_, "degree": model.degree, "coef0": model.coef0}
    rows = numbers(op, x)
    result = rows.astype(np.float64)
    result = result if model.kernel == "precomputed" else kernel(result, model.X_fit_, model.kernel, options)
    result = centred_kernel(op, model._centerer, result.value)
    nonzero = np.flatnonzero(model.eigenvalues_)
    scaled = np.zeros_like(model.eigenvectors_)
    scaled[:, nonzero] = model.eigenvectors_[:, nonzero] / np.sqrt(model.eigenvalues_[nonzero])
    narrow = rows.dtype == scaled.dtype == np.float32
    return (result @ scaled.astype(np.float64)).astype(np.float32 if narrow else np.float64)


def _centerer() -> Any:
    return unfitted("KernelCenterer").fit(data(4, 4) @ data(4, 4).T)


@lower("KernelCenterer.transform", built(_centerer, f64(5, 4)), built(_centerer, f32(5, 4)))
def centred_kernel(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """A kernel as that of rows moved to the fitted rows' mean in feature space."""
    rows = floats(op, x)
    means = np.sum(rows, axis=1, keepdims=True) / len(model.K_fit_rows_)
    centred = _centred(rows, model.K_fit_rows_)
    centred -= means
    centred += model.K_fit_all_
    return centred


_INVERTED = {"n_components": 4, "fit_inverse_transform": True, "kernel": "rbf", "gamma": 0.01}


@lower_fitted("KernelPCA.inverse_transform", transformer, _INVERTED)
def kernel_pre_image(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The ridge regression learned from projections to rows."""
    options = {"gamma": model.gamma_, "degree": model.degree, "coef0": model.coef0}
    if not hasattr(model, "X_transformed_fit_"):
        raise UnsupportedOperator("KernelPCA: fit_inverse_transform=False: fit it with True")
    return kernel(numbers(op, x), model.X_transformed_fit_, model.kernel, options) @ model.dual_coef_


@lower("BaseRandomProjection.inverse_transform", cases(transformer, "GaussianRandomProjection", {"n_components": 4}))
def random_back_projection(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """X times the pseudo-inverse of the components."""
    inverse = model.inverse_components_ if model.compute_inverse_components else model._compute_inverse_components()
    return floats(op, x) @ dense(inverse).T


def _centred(rows: Array, mean: np.ndarray) -> Array:
    """Rows less their mean, in their own type as NumPy's in-place operation."""
    rows = rows.copy()
    rows -= mean
    return rows


@lower("_PLS.transform", cases(regressor, "PLSRegression CCA", {"outputs": 2}))
def partial_scores(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The scaled rows' scores."""
    rows = _centred(floats(op, x), model._x_mean)
    rows /= model._x_std
    return rows @ model.x_rotations_


@lower("_PLS.inverse_transform", cases(regressor, "PLSRegression", {"n_components": 4}))
def partial_rows(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Rows from their scores."""
    rows = floats(op, x) @ model.x_loadings_.T
    rows *= model._x_std
    rows += model._x_mean
    return rows


@lower(
    "_PLS.predict",
    cases(regressor, "PLSRegression", {}, {"outputs": 2}),
    cases(regressor, "PLSCanonical", {"outputs": 2}),
)
def partial_prediction(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """(x - mean) coef' + intercept."""
    result = _centred(floats(op, x), model._x_mean) @ model.coef_.T + model.intercept_
    return result.reshape(-1) if model._predict_1d else result


@lower_fitted("PLSSVD.transform", regressor, {"outputs": 2})
def singular_scores(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The scaled rows' scores."""
    return ((doubles(op, x) - model._x_mean) / model._x_std) @ model.x_weights_
