"""Tree ensembles as arrays: all trees of all rows descend at once, one gather a level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import onnx_ir as ir

from onnxport.errors import InvalidModelError
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Array, Tensor

# What a node compares by, numbered as ai.onnx.ml's TreeEnsemble does; a leaf compares nothing.
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF = range(8)


@dataclass(frozen=True)
class Forest:
    """Trees as arrays over their nodes.

    A leaf's children are itself, so that a row which has arrived stays.

    Attributes:
        features: which column a node looks at.
        values: what it compares with.
        modes: how.
        missing_true: whether NaN goes to the true branch.
        true: index of the true branch.
        false: index of the false branch.
        roots: index of each tree's root.
        weights: [nodes, targets], zero off the leaves.
        given: [nodes, targets], whether the leaf has a weight for the target.
        members: the set of values of each MEMBER node.
    """

    features: Array
    values: Array
    modes: Array
    missing_true: Array
    true: Array
    false: Array
    roots: Array
    weights: Array
    given: Array
    members: dict[int, Array]

    @property
    def depth(self) -> int:
        """Length of the longest path from a root to a leaf.

        Raises:
            InvalidModelError: the nodes form a cycle.
        """
        levels, front = 0, np.unique(self.roots)
        while True:
            front = front[self.modes[front] != LEAF]
            if not front.size:
                return levels
            levels += 1
            if levels > len(self.modes):
                raise InvalidModelError("the nodes of a tree form a cycle")
            front = np.unique(np.concatenate([self.true[front], self.false[front]]))

    def leaves(self, xp: Namespace, x: Tensor) -> Tensor:
        """INT64 [rows, trees]: the leaf that each row of x [rows, features] reaches in each tree."""
        rows = xp.shape(x)[0]
        trees = len(self.roots)
        at = xp.broadcast_to(xp.expand_dims(_ints(xp, self.roots), [0]), (rows, trees))
        depth = self.depth
        if not depth:
            return at
        tables = _Tables(xp, self, xp.dtype(x))
        for _ in range(depth):
            at = tables.step(x, at)
        return at


class _Tables:
    """The arrays of a forest as constants of the framework."""

    def __init__(self, xp: Namespace, forest: Forest, dtype: ir.DataType) -> None:
        self.xp = xp
        self.forest = forest
        self.used = sorted(set(forest.modes.tolist()) - {LEAF})
        self.features = _ints(xp, forest.features)
        self.values = xp.astype(xp.constant(forest.values), dtype)
        self.true, self.false = _ints(xp, forest.true), _ints(xp, forest.false)
        self.modes = _ints(xp, forest.modes) if len(self.used) > 1 else None
        self.missing = xp.constant(forest.missing_true) if forest.missing_true.any() else None

    def step(self, x: Tensor, at: Tensor) -> Tensor:
        """One level down."""
        xp = self.xp
        seen = xp.take_along_axis(x, xp.take(self.features, at, 0), 1)
        limit = xp.take(self.values, at, 0)
        if self.modes is None:
            goes = self._holds(self.used[0], seen, limit, at)
        else:
            modes = xp.take(self.modes, at, 0)
            goes = reduce(
                xp.logical_or,
                (xp.logical_and(xp.equal(modes, mode), self._holds(mode, seen, limit, at)) for mode in self.used),
            )
        if self.missing is not None:
            goes = xp.logical_or(goes, xp.logical_and(xp.isnan(seen), xp.take(self.missing, at, 0)))
        return xp.where(goes, xp.take(self.true, at, 0), xp.take(self.false, at, 0))

    def _holds(self, mode: int, seen: Tensor, limit: Tensor, at: Tensor) -> Tensor:
        xp = self.xp
        if mode == MEMBER:
            return self._is_member(seen, at)
        compare = xp.less_equal, xp.less, xp.greater_equal, xp.greater, xp.equal, xp.not_equal
        return compare[mode](seen, limit)

    def _is_member(self, seen: Tensor, at: Tensor) -> Tensor:
        """Whether a value is in its node's set: the sets side by side, the short ones filled up with one of their own."""
        xp = self.xp
        sets = self.forest.members
        longest = max(len(values) for values in sets.values())
        row_of = np.zeros(len(self.forest.modes), np.int64)
        table = np.full((len(sets), longest), np.nan, self.forest.values.dtype)
        for row, (node, values) in enumerate(sets.items()):
            row_of[node] = row
            table[row, : len(values)] = values
        held = xp.take(xp.astype(xp.constant(table), xp.dtype(seen)), xp.take(_ints(xp, row_of), at, 0), 0)
        hits = xp.equal(xp.expand_dims(seen, [2]), held)
        return xp.max(hits, (2,))


def _ints(xp: Namespace, array: Array) -> Tensor:
    return xp.constant(np.ascontiguousarray(array, np.int64))


def aggregated(xp: Namespace, forest: Forest, x: Tensor, how: str, base: Array | None) -> Tensor:
    """[rows, targets]: the weights of the reached leaves over all trees, the base values added."""
    return aggregate(xp, forest, forest.leaves(xp, x), xp.dtype(x), how, base)


def aggregate(xp: Namespace, forest: Forest, at: Tensor, dtype: ir.DataType, how: str, base: Array | None) -> Tensor:
    """[rows, targets]: the weights of the reached leaves `at` [rows, trees] over all trees, the base values added."""
    scores = xp.take(xp.astype(xp.constant(forest.weights), dtype), at, 0)  # rows, trees, targets
    if how in ("SUM", "AVERAGE"):
        total = xp.sum(scores, (1,))
        total = xp.divide(total, float(len(forest.roots))) if how == "AVERAGE" else total
    else:
        total = _extreme(xp, forest, scores, at, how)
    return total if base is None else xp.add(total, xp.astype(xp.constant(base), dtype))


def scored(xp: Namespace, forest: Forest, at: Tensor) -> Tensor | None:
    """Bool [rows, targets]: whether a tree has a weight for the target; None where every leaf has one for all."""
    if forest.given[forest.modes == LEAF].all():
        return None
    return xp.max(xp.take(xp.constant(forest.given), at, 0), (1,))


def _extreme(xp: Namespace, forest: Forest, scores: Tensor, at: Tensor, how: str) -> Tensor:
    """Greatest or least weight among the trees that have one for the target; 0 where none has."""
    reduce = xp.max if how == "MAX" else xp.min
    voted = scored(xp, forest, at)
    if voted is None:
        return reduce(scores, (1,))
    given = xp.take(xp.constant(forest.given), at, 0)
    best = reduce(xp.where(given, scores, float("-inf") if how == "MAX" else float("inf")), (1,))
    return xp.where(voted, best, 0)
