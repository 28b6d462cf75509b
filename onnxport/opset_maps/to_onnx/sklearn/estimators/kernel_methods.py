"""Kernel ridge regression, and feature maps whose products approximate a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import kernel
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full
from onnxport.opset_maps.to_onnx.sklearn.entries import lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import regressor, transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, floats, numbers


@lower_fitted(
    "KernelRidge.predict", regressor, {}, {"kernel": "rbf", "gamma": 0.1, "outputs": 2}, {"kernel": "laplacian"}
)
def kernel_ridge(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The kernel with the fitted rows times the dual coefficients."""
    rows = numbers(op, x)
    parameters = {"gamma": model.gamma, "degree": model.degree, "coef0": model.coef0}
    result = rows if model.kernel == "precomputed" else kernel(rows, model.X_fit_, model.kernel, parameters)
    return result @ model.dual_coef_


_SMALL: dict[str, Any] = {"n_components": 6}
_POSITIVE = f64(7, 4, low=0.1, high=3.0)


def _waves(model: BaseEstimator, rows: Array) -> Array:
    result = rows @ model.random_weights_
    result += model.random_offset_
    return np.cos(result) * (2.0 / model.n_components) ** 0.5


@lower_fitted("RBFSampler.transform", transformer, {**_SMALL, "gamma": 0.01})
def fourier_features(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Random Fourier features (Rahimi and Recht, 2007)."""
    return _waves(model, numbers(op, x))


@lower_fitted("SkewedChi2Sampler.transform", transformer, {**_SMALL, "positive": True}, rows=_POSITIVE)
def skewed_features(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Random features of the logarithm (Li, Ionescu and Sminchisescu, 2010); scikit-learn refuses x <= -skewedness."""
    rows = floats(op, x).copy()
    rows += model.skewedness
    return _waves(model, np.log(rows))


_STEPS = [{"positive": True, "sample_steps": steps} for steps in (2, 3, 1)]


@lower_fitted("AdditiveChi2Sampler.transform", transformer, *_STEPS, rows=_POSITIVE)
def additive_features(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Samples of the kernel's spectrum (Vedaldi and Zisserman, Efficient additive kernels, 2011); 0 where x is 0."""
    rows = numbers(op, x)
    interval = model.sample_interval or {1: 0.8, 2: 0.5, 3: 0.4}.get(model.sample_steps)
    if interval is None:
        raise UnsupportedOperator("AdditiveChi2Sampler: sample_interval is not set")
    nonzero = rows != 0.0
    safe = np.where(nonzero, rows, 1.0)
    parts = [np.sqrt(safe * interval)]
    logs, root = interval * np.log(safe), 2 * safe * interval
    for step in range(1, model.sample_steps):
        scale = np.sqrt(root / np.cosh(np.pi * step * interval))
        parts += [scale * np.cos(step * logs), scale * np.sin(step * logs)]
    zero = np.zeros_like(rows)
    return np.hstack([np.where(nonzero, part.astype(rows.dtype), zero) for part in parts])


@lower_fitted(
    "Nystroem.transform", transformer, {**_SMALL, "gamma": 0.01}, {**_SMALL, "kernel": "polynomial", "degree": 2}
)
def nystroem(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The kernel with the chosen rows, normalised (Williams and Seeger, 2001).

    In float64 throughout: among rows that are alike the normalisation multiplies differences of the kernel by up to a million.
    """
    rows = numbers(op, x)
    if callable(model.kernel):
        raise UnsupportedOperator("Nystroem: a function as kernel has no mapping; use a kernel by name")
    if model.kernel == "precomputed":
        return rows[:, model.component_indices_] @ model.normalization_.T
    result = kernel(rows.astype(np.float64), model.components_, model.kernel, model._get_kernel_params())
    narrow = rows.dtype == model.components_.dtype == model.normalization_.dtype == np.float32
    return (result @ model.normalization_.T.astype(np.float64)).astype(np.float32 if narrow else np.float64)


@lower_fitted(
    "PolynomialCountSketch.transform", transformer, {**_SMALL}, {**_SMALL, "degree": 3, "coef0": 1, "gamma": 0.5}
)
def count_sketch(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The convolution of count sketches, by Fourier transforms (Pham and Pagh, 2013)."""
    rows = np.sqrt(model.gamma) * numbers(op, x).astype(np.float64)
    if model.coef0 != 0:
        rows = np.hstack([rows, full(rows, (None, 1), np.sqrt(model.coef0), np.float64)])
    size = model.n_components
    features, degree = model.indexHash_.shape[1], len(model.indexHash_)
    if features**degree <= size * degree:
        return _products(rows, model, size)
    turns = _turns(size)
    real, imaginary = None, None
    for places, signs in zip(model.indexHash_, model.bitHash_, strict=True):
        sketch = np.zeros((len(places), size))
        sketch[np.arange(len(places)), places] = signs
        a, b = rows @ (sketch @ turns.real), rows @ (sketch @ turns.imag)
        real, imaginary = (a, b) if real is None else (real * a - imaginary * b, real * b + imaginary * a)
    return (real @ turns.real + imaginary @ turns.imag) / size


def _products(rows: Array, model: BaseEstimator, size: int) -> Array:
    """The sketch by its definition, signed products of features summed by their places: 0 where the transforms leave rounding."""
    terms, places, signs = rows, model.indexHash_[0], model.bitHash_[0]
    for more, their in zip(model.indexHash_[1:], model.bitHash_[1:], strict=True):
        places, signs = np.add.outer(places, more).ravel() % size, np.outer(signs, their).ravel()
        terms = (terms[:, :, None] * rows[:, None]).reshape(-1, len(places))
    sketch = np.zeros((len(places), size))
    sketch[np.arange(len(places)), places] = signs
    return terms @ sketch


def _turns(size: int) -> np.ndarray:
    """exp(-2 pi i j k / size), [size, size], each part from the angle below an eighth of a turn that has the same one."""
    steps = np.outer(np.arange(size), np.arange(size)) % size * 8
    eighth, rest = np.divmod(steps, size)
    angle = np.where(eighth % 2 == 0, rest, size - rest) * (2 * np.pi / (8 * size))
    cosine, sine = np.cos(angle), np.sin(angle)
    across = (eighth + 1) // 2 % 2 == 1  # beside the other axis
    cosine, sine = np.where(across, sine, cosine), np.where(across, cosine, sine)
    result: np.ndarray = np.where((eighth + 2) // 4 % 2 == 1, -cosine, cosine) - 1j * np.where(eighth >= 4, -sine, sine)
    return result
