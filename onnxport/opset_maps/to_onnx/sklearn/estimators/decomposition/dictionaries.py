"""Sparse codes of rows over a dictionary's atoms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64, i64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.arrays.iteration import iterate
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, given, lower
from onnxport.opset_maps.to_onnx.sklearn.fitted import data, fit, transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, floats, numbers

_SMALL: dict[str, Any] = {"n_components": 6, "max_iter": 5}
_FEW: dict[str, Any] = {"n_components": 3, "max_iter": 5}
_THRESHOLD: dict[str, Any] = {"transform_algorithm": "threshold", "transform_alpha": 0.5}
_LASSO: dict[str, Any] = {"transform_algorithm": "lasso_cd"}
# An atom twice, its opposite, one of zeros.
_AWKWARD: dict[str, Any] = {
    "dictionary": np.array([[1, 2, 0, 1], [1, 2, 0, 1], [-1, -2, 0, -1], [0, 0, 0, 0], [0, 1, -3, 0]], float)
}


def _coder(**options: object) -> Any:
    atoms = data(4, 7, seed=5)
    return fit("SparseCoder", data(), **{"dictionary": atoms / np.linalg.norm(atoms, axis=1, keepdims=True), **options})


def _atoms(model: BaseEstimator) -> np.ndarray:
    return np.asarray(model.dictionary if hasattr(model, "dictionary") else model.components_)


@lower(
    "SparseCoder _BaseSparseCoding.transform",
    given(_coder, {"transform_n_nonzero_coefs": 3}, {"transform_n_nonzero_coefs": 4, "split_sign": True}),
    given(_coder, {**_THRESHOLD, "positive_code": True}),
    given(_coder, _THRESHOLD, rows=f32(7, 4)),
    # scikit-learn's own takes no float32 rows after a fit on float64
    given(_coder, _LASSO, {**_LASSO, **_AWKWARD, "transform_alpha": 0.2}),
    built(lambda: _coder(**_LASSO, **_AWKWARD, positive_code=True, split_sign=True), i64(7, 4)),
    built(lambda: transformer("DictionaryLearning", **_FEW, **_LASSO, alpha=0.3), f64(7, 4)),
    built(lambda: transformer("MiniBatchDictionaryLearning", **_FEW, **_LASSO), f64(7, 4)),
    cases(transformer, "DictionaryLearning", {**_SMALL, "transform_n_nonzero_coefs": 3}),
    cases(transformer, "MiniBatchDictionaryLearning", _SMALL),
)
def sparse_code(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The atoms' few coefficients of each row; with ``split_sign`` the positive ones beside the negative ones."""
    rows, atoms, algorithm = floats(op, x), _atoms(model), model.transform_algorithm
    alpha = model.transform_alpha
    alpha = getattr(model, "alpha", None) if alpha is None else alpha
    alpha = 1.0 if alpha is None else float(alpha)
    if algorithm == "threshold":
        similarity = rows @ atoms.T
        result = np.sign(similarity) * np.maximum(np.abs(similarity) - alpha, 0)
        result = np.maximum(result, 0) if model.positive_code else result
    elif algorithm == "omp":
        count = model.transform_n_nonzero_coefs
        count = min(max(atoms.shape[1] / 10, 1), len(atoms)) if count is None else count
        result = matching_pursuit(rows, atoms, int(count))
    elif algorithm == "lasso_cd":
        result = lasso(rows, atoms, alpha, model)
    else:
        raise UnsupportedOperator(
            f"transform_algorithm={algorithm!r} has no mapping; use 'omp', 'lasso_cd' or 'threshold'"
        )
    if not model.split_sign:
        return result
    return np.concatenate([np.maximum(result, 0), -np.minimum(result, 0)], axis=1).astype(np.float64)


def lasso(rows: Array, atoms: np.ndarray, alpha: float, model: BaseEstimator) -> Array:
    """Coefficients whose absolute values, times `alpha`, are part of what is least."""
    if np.float32 in (rows.dtype, atoms.dtype):
        raise UnsupportedOperator(
            f"{type(model).__name__}: transform_algorithm='lasso_cd' needs float64 atoms and rows. On float32 scikit-learn "
            "fails, or stops by a gap that float32 can't resolve; fit and give float64, or use 'omp' or 'threshold'"
        )
    atoms = atoms.astype(np.float64)
    penalty = alpha / atoms.shape[1] * atoms.shape[1]  # rounded as scikit-learn rounds it
    return Lasso(atoms @ atoms.T, penalty, bool(model.positive_code), int(model.transform_max_iter)).codes(rows, atoms)


def matching_pursuit(rows: Array, atoms: np.ndarray, count: int) -> Array:
    """Coefficients of at most `count` atoms, chosen one after the other by their product with what is left of the row.

    Rubinstein, Zibulevsky and Elad, Efficient implementation of the K-SVD algorithm, 2008. The Cholesky factor of the chosen
    atoms' Gram matrix grows by one column a step, and with it both the products with all atoms (`factors`, whose part at the
    chosen atoms is that factor) and the coefficients (`inverses`, the columns of the inverse). Of equal products the atom
    wins that stands first after the exchanges of places which scikit-learn makes.
    """
    narrow, least = rows.dtype, float(np.finfo(rows.dtype).eps)
    gram = (atoms @ atoms.T).astype(narrow).astype(np.float64)
    similarity: Any = (rows @ atoms.T).astype(np.float64)
    zeros = full(similarity, (None, len(atoms)), 0.0, np.float64)
    result, chosen, moving = zeros, zeros, full(similarity, (None, 1), True, bool)
    places = zeros + np.arange(len(atoms), dtype=np.float64)
    factors: list[Any] = []
    inverses: list[Any] = []
    for step in range(count):
        size = np.abs(similarity)
        top = np.max(size, axis=1, keepdims=True)
        first = np.argmin(np.where(size == top, places, float(len(atoms))), axis=1)
        one: Any = (first[:, None] == np.arange(len(atoms))[None]).astype(np.float64)

        def at(x: Array, one: Array = one) -> Any:
            return np.sum(x * one, axis=1, keepdims=True)

        products = [at(factor) for factor in factors]
        square = at(zeros + np.diag(gram))
        column, inverse = one @ gram, one
        for factor, earlier, product in zip(factors, inverses, products, strict=True):
            square = square - product * product
            column = column - factor * product
            inverse = inverse - earlier * product
        value = at(similarity)
        moving = moving & (at(chosen) == 0) & (value * value >= least)
        if step:
            moving = moving & (square > least)
        pivot = np.sqrt(np.where(moving, square, 1.0))
        weight = np.where(moving, value / pivot, 0.0)
        column, inverse = column / pivot, inverse / pivot
        similarity, result = similarity - column * weight, result + inverse * weight
        factors.append(column)
        inverses.append(inverse)
        chosen = chosen + one
        places = np.where(one == 1, float(step), np.where(places == step, at(places), places))
    return result.astype(narrow)


@lower(
    "SparseCoder _BaseSparseCoding.inverse_transform",
    built(_coder, f64(7, 7)),
    built(lambda: _coder(split_sign=True), f64(7, 14)),
)
def decoded(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The atoms' sum, weighted by the code."""
    code, atoms = numbers(op, x), _atoms(model)
    if model.split_sign:
        code = code[:, : len(atoms)] - code[:, len(atoms) :]
    return code @ atoms


# What scikit-learn's sparse_encode asks of its Lasso: the share of the row's square below which the duality gap must lie.
_TOLERANCE = 1e-8


@dataclass(frozen=True)
class Lasso:
    """min |row - w atoms|^2 / 2 + penalty |w|_1 for each row, in the steps of scikit-learn's enet_coordinate_descent_gram.

    The digits are those of the order of the steps, which is therefore kept: an atom after the other; the duality gap only after
    a sweep that has changed little; atoms left out for good once the gap proves them unused (Fercoq, Gramfort and Salmon, Mind
    the duality gap: safer rules for the lasso, 2015). The rows advance together; one that has converged is set aside.

    Attributes:
        gram: the atoms' products, [K, K].
        penalty: of the coefficients' absolute values; 0 leaves no atom out.
        positive: no coefficient is below 0.
        sweeps: the most sweeps over the atoms.
    """

    gram: np.ndarray
    penalty: float
    positive: bool
    sweeps: int

    def codes(self, rows: Array, atoms: np.ndarray) -> Array:
        """The coefficients [N, K] of rows [N, F]."""
        op, count = rows.op, len(atoms)
        products, square = rows @ atoms.T, np.sum(rows * rows, axis=1, keepdims=True)
        start = full(rows, (None, count), 0.0, rows.dtype)
        gap, unused = self._gap(start, start, products, square)
        active = full(rows, (None, count), True, bool) & (np.diag(self.gram) != 0) & ~unused
        place = rows.of(op.Range(0, op.Squeeze(op.dim(rows.value, 0), op.axes(0)), 1))
        going = ~((gap >= 0) & (gap <= square * _TOLERANCE))
        parts = _kept(going, [place, start, start, active, products, square])
        return iterate(op, self.sweeps, [start, rows.const(np.ones(1, np.int64)), *parts], [], self._sweep)[0]

    def _sweep(self, states: Sequence[Array], given: Sequence[Array]) -> tuple[Sequence[Array], Array]:
        result, number, place, before, product, active, products, square = states
        w, product, _ = iterate(
            before.op, len(self.gram), [before, product, number * 0], [products, active], self._coordinate
        )
        top = np.max(np.abs(w), axis=1, keepdims=True)
        change = np.max(np.abs(w - before), axis=1, keepdims=True)
        still = (top == 0) | (change / np.where(top == 0, 1.0, top) <= _TOLERANCE)
        due = still | (number == self.sweeps)
        gap, unused = self._gap(w, product, products, square)
        reached = due & (gap <= square * _TOLERANCE)
        dropped = active & due & ~reached & unused
        product = product - np.where(dropped, w, 0.0) @ self.gram
        w = np.where(dropped, 0.0, w)
        result = result.of(result.op.ScatterND(result.value, place[:, None].value, w.value))
        parts = _kept(~reached, [place, w, product, active & ~dropped, products, square])
        return [result, number + 1, *parts], np.sum(~reached) > 0

    def _coordinate(self, states: Sequence[Array], given: Sequence[Array]) -> tuple[Sequence[Array], Array]:
        w, product, place = states
        products, active = given
        own = np.diag(self.gram)
        square = take(place.const(np.where(own == 0, 1, own)), place)
        old = w[:, place]
        rest = products[:, place] - product[:, place] + old * square
        over = (
            np.maximum(rest - self.penalty, 0.0) if self.positive else rest - np.clip(rest, -self.penalty, self.penalty)
        )
        new = np.where(active[:, place], over / square, old)
        product = product + (new - old) * take(place.const(self.gram), place, axis=0)
        w = np.where(place == np.arange(len(own)), new, w)
        return [w, product, place + 1], place.const(np.bool_(True))

    def _gap(self, w: Array, product: Array, products: Array, square: Array) -> tuple[Array, Array]:
        """The duality gap [N, 1], and which atoms it proves unused [N, K]."""
        gradient = products - product
        if self.penalty == 0:
            gap = np.sum(gradient * gradient, axis=1, keepdims=True)
            return gap, full(gradient, (None, len(self.gram)), False, bool)
        linear = np.sum(w * products, axis=1, keepdims=True)
        residual = square + np.sum(w * product, axis=1, keepdims=True) - 2.0 * linear
        steepest = np.max(gradient if self.positive else np.abs(gradient), axis=1, keepdims=True)
        scale = np.where(steepest > self.penalty, self.penalty / np.where(steepest == 0, 1.0, steepest), 1.0)
        primal = 0.5 * residual + self.penalty * np.sum(np.abs(w), axis=1, keepdims=True)
        gap = primal - (-0.5 * (scale * scale) * residual + scale * (square - linear))
        radius = np.sqrt(2.0 * np.abs(gap)) / self.penalty
        own = np.diag(self.gram)
        distance = 1.0 - np.abs(gradient / np.maximum(steepest, self.penalty))
        return gap, distance / np.sqrt(np.where(own == 0, 1, own)) > radius


def _kept(going: Array, parts: Sequence[Array]) -> list[Array]:
    """The rows of `parts` for which `going` [N, 1] is true."""
    op, chosen = going.op, going[:, 0].value
    items = [op.Compress(part.value, chosen, axis=0) for part in parts]
    for value, part in zip(items, parts, strict=True):
        value.shape = ir.Shape([None, *part.shape[1:]])
    return [going.of(value) for value in items]
