"""The lasso of each row over a dictionary's atoms, by cyclic coordinate descent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.arrays.iteration import iterate

# What scikit-learn's sparse_encode asks of its Lasso: the share of the row's square below which the duality gap must lie.
_TOLERANCE = 1e-8


@dataclass(frozen=True)
class Lasso:
    """min |row - w atoms|^2 / 2 + penalty |w|_1 for each row, in the steps of scikit-learn's enet_coordinate_descent_gram.

    The digits are those of the order of the steps, which is therefore kept: an atom after the other; the duality gap only after
    a sweep that has changed little; atoms left out for good once the gap proves them unused (Fercoq, Gramfort and Salmon, Mind
    the duality gap: safer rules for the lasso, 2015). The rows advance together; one that has converged is laid aside.

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
