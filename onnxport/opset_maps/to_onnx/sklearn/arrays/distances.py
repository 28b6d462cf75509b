"""Distances of rows to fixed rows, kernels, and the nearest of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir
from scipy.sparse import csr_matrix
from sklearn.utils.extmath import row_norms

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array, Function
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import affine, take
from onnxport.opset_maps.to_onnx.sklearn.arrays.iteration import in_blocks

Parameters = Mapping[str, Any]
_SAME = {"l2": "euclidean", "l1": "manhattan", "cityblock": "manhattan", "infinity": "chebyshev", "p": "minkowski"}
# Beside the wanted nearest rows so many more are looked at exactly: the matrix product that ranks them rounds.
_MARGIN = 8
# From this many numbers of the fixed rows on, and up to so many columns, differences are summed column by column.
_WIDE = 1 << 12
# Of a squared distance below this share of its terms the product's form keeps too few digits.
_CANCELLED = 1e-5
_MANY = 64
# From so many rows on a sum of kernels takes one operator less, where exp of the rows' squares is far from overflow.
_MANY_SUMMED, _SMALL_EXPONENT = 256, 300.0


def dense(rows: np.ndarray | csr_matrix) -> np.ndarray:
    """Fitted rows as an array: an estimator fitted on a sparse matrix keeps them so."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


def distances(x: Array, rows: np.ndarray, metric: str = "euclidean", parameters: Parameters | None = None) -> Array:
    """Distances of the rows of `x` to fixed `rows`, float64 [N, M].

    Args:
        x: [N, F].
        rows: [M, F].
        metric: scikit-learn's name of it.
        parameters: the metric's own: p, w, V, VI.
    """
    parameters = dict(parameters or {})
    metric = named_metric(metric, parameters)
    x, rows = x.astype(np.float64), np.asarray(rows, np.float64)
    if metric in ("euclidean", "sqeuclidean"):
        result = squared_euclidean(x, rows)
        return result if metric == "sqeuclidean" else np.sqrt(result)
    if metric == "correlation":
        x, rows = x - np.mean(x, axis=1, keepdims=True), rows - rows.mean(axis=1, keepdims=True)
    if metric in ("cosine", "correlation"):
        return np.clip(1.0 - _unit(x) @ _unit(rows).T, 0.0, 2.0)
    if metric in ("seuclidean", "mahalanobis"):
        x, rows = _whitened(x, rows, metric, parameters)
        return np.sqrt(squared_euclidean(x, rows))
    return _elementwise(x[:, None, :], rows[None], metric, parameters)


def named_metric(metric: str, parameters: Parameters) -> str:
    """One name for each metric, for its other names and for the orders of Minkowski's distance that have one."""
    metric = _SAME.get(metric, metric)
    if metric != "minkowski" or parameters.get("w") is not None:
        return metric
    return {1: "manhattan", 2: "euclidean", np.inf: "chebyshev"}.get(parameters.get("p", 2), metric)


def _unit(rows: Array | np.ndarray) -> Any:
    norm = np.sqrt(np.sum(rows * rows, axis=1, keepdims=True))
    return rows / np.where(norm == 0, 1.0, norm)


def _whitened(x: Array, rows: np.ndarray, metric: str, parameters: Parameters) -> tuple[Any, Any]:
    if metric == "seuclidean":
        scale = np.sqrt(np.asarray(parameters["V"], np.float64))
        return x / scale, rows / scale
    inverse = parameters.get("VI")
    inverse = np.linalg.inv(parameters["V"]) if inverse is None else inverse
    factor = np.linalg.cholesky(np.asarray(inverse, np.float64))
    return x @ factor, rows @ factor


def squared_euclidean(x: Array, rows: np.ndarray) -> Array:
    """|x|^2 - 2 x y + |y|^2, at least 0: of small distances between large numbers only some digits are right."""
    x, rows = _moved(x, rows.astype(np.result_type(x.dtype, rows.dtype)))
    return _product_form(x, rows)[0]


def _product_form(x: Array, rows: np.ndarray) -> tuple[Array, Array]:
    scale = np.sum(x * x, axis=1, keepdims=True) + np.sum(rows * rows, axis=1)
    return np.maximum(scale - 2.0 * (x @ rows.T), 0.0), scale


def centre_of(rows: np.ndarray) -> np.ndarray:
    """About the rows' mean, rounded to a power of two near each column's spread: whole numbers less it stay exact."""
    mean = rows.mean(axis=0)
    gap = rows - mean
    spread = np.sqrt(np.mean(gap * gap, axis=0))
    step = 2.0 ** np.floor(np.log2(np.where(spread > 0, spread, 1.0)))
    return np.where(spread > 0, np.rint(mean / step) * step, rows[0])


def _moved(x: Array, rows: np.ndarray) -> tuple[Array, np.ndarray]:
    """Both moved by about the fixed rows' mean, which keeps distances, and equal distances equal."""
    centre = centre_of(rows) if len(rows) else np.zeros(0)
    return (x - centre, rows - centre) if centre.any() else (x, rows)


def kernel_squares(x: Array, rows: np.ndarray) -> Array:
    """Squared distances of which exp(-d) is taken: from the differences where the product's rounding could be seen in that."""
    return exact_squares(x, rows) if _far_apart(rows) else squared_euclidean(x, rows)


def gaussian_sums(x: Array, rows: np.ndarray, gamma: float, weights: np.ndarray, bias: np.ndarray) -> Array:
    """exp(-gamma |x - y|^2) weights + bias, float64 [N, K] of weights [M, K]."""
    op, scaled = x.op, rows * np.sqrt(gamma)
    if _far_apart(scaled):
        return affine(np.exp(-exact_squares(x * np.sqrt(gamma), scaled)), weights, bias)
    if len(rows) >= _MANY_SUMMED:
        apart, moved = _moved(x, rows)
        squares = gamma * np.sum(moved * moved, axis=1)
        if squares.max() <= _SMALL_EXPONENT:
            # exp(2 x y - |x|^2) is at most exp(|y|^2), and exp(-|y|^2) goes into the weights
            own = apart.of(op.reduce("ReduceSumSquare", apart.value, [1], keepdims=True)) * -gamma
            product = op.Gemm(apart.value, op.const(2.0 * gamma * moved.T), own.value)
            return affine(np.exp(x.of(product)), np.exp(-squares)[:, None] * weights, bias)
    # few rows in the terms' own order: sums that cancel exactly do so here
    x, rows = _moved(x * np.sqrt(gamma), scaled)
    own = x.of(op.reduce("ReduceSumSquare", x.value, [1], keepdims=True))
    product = op.Gemm(x.value, op.const(2.0 * rows.T), op.const(-np.sum(rows * rows, axis=1)))
    return affine(np.exp(x.of(product) - own), weights, bias)


def _far_apart(rows: np.ndarray) -> bool:
    """Whether the product's rounding of squared distances could be seen in exp of them."""
    moved = rows - rows.mean(axis=0) if len(rows) else rows
    return bool(np.max(np.sum(moved * moved, axis=1), initial=0.0) > 1e3)


def exact_squares(x: Array, rows: np.ndarray, critical: float | None = None) -> Array:
    """Squared Euclidean distances, float64 [N, M], small ones and those near the `critical` one as exact as from differences.

    The product's form gives them all; where rounding may have taken digits that count, the pairs are computed once more.
    """
    x, rows = x.astype(np.float64), np.asarray(rows, np.float64)
    squares, scale = _product_form(*_moved(x, rows))
    doubtful: Any = squares <= scale * _CANCELLED
    if critical is not None:
        doubtful = doubtful | (np.abs(squares - critical) <= scale * 1e-11)
    return _once_more(squares, doubtful, x, x.const(rows))


def _once_more(squares: Array, doubtful: Array, x: Array, rows: Array) -> Array:
    """The squared distances, the doubtful ones computed from differences."""
    pairs = x.of(x.op.NonZero(doubtful.value))
    gap = take(x, pairs[0], axis=0) - take(rows, pairs[1], axis=0)
    exact = _over_columns(gap, None, lambda a, _: a * a)
    return squares.of(x.op.ScatterND(squares.value, pairs.T.value, exact.value))


def _elementwise(x: Array, y: np.ndarray, metric: str, parameters: Parameters) -> Array:
    """Distances of vectors along the last axis, by their elements."""
    match metric:
        case "manhattan":
            return _over_columns(x, y, lambda a, b: np.abs(a - b))
        case "chebyshev":
            return _over_columns(x, y, lambda a, b: np.abs(a - b), np.maximum)
        case "minkowski":
            p, w = float(parameters.get("p", 2)), parameters.get("w")
            if w is None:
                return _over_columns(x, y, lambda a, b: np.abs(a - b) ** p) ** (1.0 / p)
            return np.sum(np.abs(x - y) ** p * np.asarray(w, np.float64), axis=-1) ** (1.0 / p)
        case "canberra":
            return _over_columns(x, y, _canberra)
        case "braycurtis":
            total = _over_columns(x, y, lambda a, b: np.abs(a) + np.abs(b))  # scikit-learn's, not SciPy's
            return _over_columns(x, y, lambda a, b: np.abs(a - b)) / np.where(total == 0, 1.0, total)
        case "hamming":
            return np.mean((x != y).astype(np.float64), axis=-1)
    raise UnsupportedOperator(f"metric={metric!r} has no mapping")


def _canberra(a: Array, b: Array | np.ndarray) -> Any:
    total = np.abs(a) + np.abs(b)
    return np.abs(a - b) / np.where(total == 0, 1.0, total)


def _over_columns(x: Array, y: Array | np.ndarray | None, term: Function, join: Function = np.add) -> Any:
    """The terms' sum (or greatest) over the last axis, a column after the other where that is short or tables are large."""
    size = x.shape[-1]
    if size is None or size > _MANY or (isinstance(y, np.ndarray) and y.size <= _WIDE):
        return np.sum(term(x, y), axis=-1) if join is np.add else np.max(term(x, y), axis=-1)
    if y is None:
        terms = term(x, None)
        columns = [terms.of(part) for part in x.op.split(terms.value, [1] * size, -1)]
        return np.squeeze(reduce(join, columns), axis=-1)
    return reduce(join, (term(x[..., column], y[..., column]) for column in range(size)))


def nearest(x: Array, rows: np.ndarray, k: int, metric: str, parameters: Parameters) -> tuple[Array, Array]:
    """Distances to the `k` nearest of fixed `rows`, ascending, and their numbers: float64 and int64 [N, k].

    Candidates are ranked by one matrix product where the metric allows it; their distances are then computed from the
    differences, since a small distance is lost in the product's rounding.
    """
    rows, metric = np.asarray(rows, np.float64), named_metric(metric, parameters)

    def of_block(block: Array) -> tuple[Array, Array]:
        if metric not in ("euclidean", "sqeuclidean", "seuclidean", "mahalanobis"):
            return least_of(distances(block, rows, metric, parameters), k)
        moved, fixed = block.astype(np.float64), rows
        if metric in ("seuclidean", "mahalanobis"):
            moved, fixed = _whitened(moved, rows, metric, parameters)
        squares, index = _nearest_squares(moved, fixed, k)
        return (squares if metric == "sqeuclidean" else np.sqrt(squares)), index

    least, index = in_blocks(x, len(rows), of_block)
    return least, index


def _nearest_squares(x: Array, rows: np.ndarray, k: int) -> tuple[Array, Array]:
    """The product's form ranks; where a row beyond its candidates may be nearer than one of them, differences do."""
    moved, centred = _moved(x, rows)
    ranks, _ = _product_form(moved, centred)
    count = min(k + _MARGIN, len(rows))
    worst, candidates = least_of(ranks, count)
    fixed = x.const(rows)
    squares, index = _measured(x, fixed, candidates, k)
    if count == len(rows):
        return squares, index
    norms = np.sum(centred * centred, axis=1)
    own = np.sum(moved * moved, axis=1, keepdims=True)
    error = (own + float(norms.max())) * (4.0 * (rows.shape[1] + 8) * np.finfo(np.float64).eps)
    sure: Any = np.all(squares[:, -1:] <= worst[:, -1:] - error)

    def with_differences(b: OpBuilder) -> list[ir.Value]:
        given, result = Array(b, x.value), Array(b, ranks.value)
        doubtful = result <= (Array(b, own.value) + norms) * _CANCELLED
        exact = _once_more(result, doubtful, given, Array(b, fixed.value))
        nearer = _measured(given, Array(b, fixed.value), least_of(exact, count)[1], k)
        return [item.value for item in nearer]

    as_they_are, again = x.op.body(lambda b: [squares.value, index.value]), x.op.body(with_differences)
    values = x.op.If(sure.value, then_branch=as_they_are, else_branch=again, outputs=2)
    squares, index = (x.of(value) for value, item in zip(values, (squares, index), strict=True))
    return squares, index


def _measured(x: Array, rows: Array, candidates: Array, k: int) -> tuple[Array, Array]:
    """Squared distances, from the differences, of the nearest candidates, and their numbers."""
    # sorted within each row, so that of rows at equal distance the first in the fitted order wins
    candidates = least_of(candidates, int(candidates.shape[1] or 0))[0]
    gap = x[:, None, :] - take(rows, candidates, axis=0)
    squares, places = least_of(_over_columns(gap, None, lambda a, _: a * a), k)
    index: Any = np.take_along_axis(candidates, places, axis=1)
    return squares, index


def nearest_by_product(x: Array, rows: np.ndarray, k: int) -> tuple[Array, Array]:
    """As `nearest`, ranked by |x|^2 - 2 x y + |y|^2 as it stands, which scikit-learn's brute force compares."""
    rows = np.asarray(rows, np.float64)

    def of_block(x: Array) -> tuple[Array, Array]:
        index = least_of(product_squares(x, rows), k)[1]
        gap: Any = x[:, None, :] - take(x.const(rows), index, axis=0)
        return np.sqrt(_over_columns(gap, None, lambda a, _: a * a)), index

    least, index = in_blocks(x.astype(np.float64), len(rows), of_block)
    return least, index


def nearest_of_sparse(x: Array, rows: np.ndarray, k: int) -> tuple[Array, Array]:
    """As `nearest`, ranked and measured by `product_squares`: of sparse matrices scikit-learn computes nothing else."""

    def of_block(x: Array) -> tuple[Array, Array]:
        squares, index = least_of(product_squares(x, rows), k)
        return np.sqrt(squares), index

    least, index = in_blocks(x, len(rows), of_block)
    return least, index


def product_squares(x: Array, rows: np.ndarray) -> Array:
    """|x|^2 - 2 x y + |y|^2 as it stands, at least 0, [N, M]: summed in float64, kept in float32 where both sides are that."""
    wide, fixed = x.astype(np.float64), rows.astype(np.float64)
    own = _over_columns(wide, None, lambda a, _: a * a)[:, None]
    result = (own + (wide @ fixed.T) * -2.0) + row_norms(fixed, squared=True)
    return np.maximum(_like(result, x, rows), 0.0)


def least_of(values: Array, k: int) -> tuple[Array, Array]:
    """The `k` least of each row of a table, ascending, and their places."""
    least, places = values.op.TopK(values.value, [k], axis=1, largest=0, sorted=1)
    return values.of(least), values.of(places)


def kernel(x: Array, rows: np.ndarray, name: str, parameters: Parameters) -> Array:
    """The kernel of rows and fixed rows, [N, M], by scikit-learn's name (sklearn.metrics.pairwise)."""
    rows = dense(rows)
    dtype = np.float32 if x.dtype == rows.dtype == np.float32 else np.float64
    x, rows = x.astype(dtype), rows.astype(dtype)
    given = parameters.get("gamma")
    gamma = 1.0 / rows.shape[1] if given is None else float(given)
    coef0, degree = float(parameters.get("coef0", 1)), parameters.get("degree", 3)
    match name:
        case "linear":
            return x @ rows.T
        case "poly" | "polynomial":
            base = x @ rows.T * gamma + coef0
            return base ** (int(degree) if float(degree).is_integer() else degree)
        case "sigmoid":
            return np.tanh(x @ rows.T * gamma + coef0)
        case "rbf":
            return np.exp(-gamma * _like(squared_euclidean(x.astype(np.float64), rows.astype(np.float64)), x, rows))
        case "laplacian":
            return np.exp(-gamma * distances(x, rows, "manhattan"))
        case "cosine":
            return _unit(x) @ _unit(rows).T
        case "chi2" | "additive_chi2":
            first, second = x.astype(np.float64)[:, None, :], rows.astype(np.float64)[None]
            total = first + second
            terms = (first - second) ** 2 / np.where(total == 0, 1.0, total)
            result = _like(-np.sum(terms, axis=2), x, rows)
            return result if name == "additive_chi2" else np.exp(result * (1.0 if given is None else float(given)))
    raise UnsupportedOperator(f"kernel={name!r} has no mapping")


def _like(values: Array, x: Array, rows: np.ndarray) -> Array:
    """In float32 where both sides are that, as scikit-learn's distances are."""
    return values.astype(np.float32) if x.dtype == rows.dtype == np.float32 else values
