"""Trees as arrays, and their ONNX form: which leaf a row reaches, or the sum of what the leaves hold.

A row's path is decided by comparisons alone, so a leaf's number is exact in float32 however the leaves' values are then
summed. Float32 rows are compared in float32 with each threshold rounded down, to the greatest float32 not above it: x <=
threshold is then the same for every float32 x. Float64 rows are compared in float64: by TreeEnsemble from ai.onnx.ml 5 on, by
TreeEnsembleRegressor from 3 on, and before that by the number of thresholds below the value, which is small and exact.

Runtimes take a batch of rows through all trees before the next: trees that do not fit the processor's cache are read from memory
again for each batch. A large ensemble is therefore a sum of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array, Function, one_value
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import reduced, take

# Whole numbers below this are exact in float32.
_EXACT = 1 << 24
_LEQ, _MEMBER = 0, 6
_MEAN, _SUM = 0, 1
# An ensemble of so many nodes, of 24 bytes each, is large: a processor's cache does not hold it, and to tell missing values
# costs less than a second test at each node.
_LARGE = 1 << 17
# It is written in parts of about so many nodes, at most _PARTS of them, each of which costs a microsecond a call: a forest of
# 100 trees on one row takes twice as long in 19 parts as whole, and a tenth less on 10,000.
_PART, _PARTS = 1 << 15, 128
# Where what follows the trees takes time too, in parts about as long as the first level of that cache, at most so many of all.
_SHORT_PART, _ALL_SHORT_PARTS = 1 << 11, 256
# Up to so many targets get trees of their own: runtimes add to one target faster than to one among several.
_TARGETS = 32


@dataclass(frozen=True)
class Tree:
    """One binary tree, as arrays over its nodes; the root is node 0.

    Attributes:
        feature: column that a node compares, int [nodes].
        threshold: value that it compares with, x <= threshold goes left, float64 [nodes].
        missing: NaN goes left, bool [nodes].
        left: next node, int [nodes].
        right: next node, int [nodes].
        leaf: the node is a leaf, bool [nodes].
        value: what a leaf holds, float64 [nodes, K].
        members: for the nodes that ask for membership the values that go left.
    """

    feature: np.ndarray
    threshold: np.ndarray
    missing: np.ndarray
    left: np.ndarray
    right: np.ndarray
    leaf: np.ndarray
    value: np.ndarray
    members: dict[int, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Trees:
    """Binary trees, one after the other; nodes and leaves are numbered over all trees, roots come first in their tree.

    Attributes:
        feature: column that a node compares, [nodes].
        threshold: value that it compares with, x <= threshold goes to `true`, float64 [nodes].
        missing: NaN goes to `true`, bool [nodes].
        true: next node, or leaf where `true_leaf`.
        true_leaf: bool [nodes].
        false: next node, or leaf where `false_leaf`.
        false_leaf: bool [nodes].
        roots: first node of each tree.
        leaf_tree: tree that each leaf belongs to, [leaves].
        leaf_node: number of each leaf among its own tree's nodes, [leaves].
        leaf_value: what each leaf holds, float64 [leaves, K].
        members: for nodes that ask for membership the values that go to `true`.
    """

    feature: np.ndarray
    threshold: np.ndarray
    missing: np.ndarray
    true: np.ndarray
    true_leaf: np.ndarray
    false: np.ndarray
    false_leaf: np.ndarray
    roots: np.ndarray
    leaf_tree: np.ndarray
    leaf_node: np.ndarray
    leaf_value: np.ndarray
    members: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of trees."""
        return len(self.roots)

    def only(self, chosen: np.ndarray) -> Trees:
        """Some of the trees, by their ascending numbers; nodes, leaves and trees are numbered anew."""
        nodes, node_tree, node_shift = _runs(self.roots, len(self.feature), chosen)
        first_leaf = np.searchsorted(self.leaf_tree, np.arange(self.count))
        kept, leaf_tree, leaf_shift = _runs(first_leaf, len(self.leaf_tree), chosen)

        def child(numbers: np.ndarray, is_leaf: np.ndarray) -> np.ndarray:
            shift = np.where(is_leaf[nodes], leaf_shift[node_tree], node_shift[node_tree])
            return np.asarray(numbers[nodes] + shift)

        asking = enumerate(nodes.tolist()) if self.members else ()
        members = {new: self.members[old] for new, old in asking if old in self.members}
        return Trees(
            self.feature[nodes],
            self.threshold[nodes],
            self.missing[nodes],
            child(self.true, self.true_leaf),
            self.true_leaf[nodes],
            child(self.false, self.false_leaf),
            self.false_leaf[nodes],
            self.roots[chosen] + node_shift,
            leaf_tree,
            self.leaf_node[kept],
            self.leaf_value[kept],
            members,
        )


def _runs(first: np.ndarray, total: int, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of runs of items that start at `first` the chosen: their items, each one's run, and by how much a run's numbers move."""
    sizes = np.diff(np.append(first, total))[chosen]
    starts = np.cumsum(sizes) - sizes
    shift = starts - first[chosen]
    run = np.repeat(np.arange(len(chosen)), sizes)
    return np.arange(int(sizes.sum())) - shift[run], run, shift


def join(trees: Sequence[Tree]) -> Trees:
    """One `Trees` of several trees."""
    split = [_split_leaf(tree) if tree.leaf[0] else tree for tree in trees]
    sizes = np.array([len(tree.leaf) for tree in split])
    starts = np.cumsum(sizes) - sizes
    leaf = np.concatenate([tree.leaf for tree in split])
    number = np.where(leaf, np.cumsum(leaf), np.cumsum(~leaf)) - 1
    tree_of = np.repeat(np.arange(len(split)), sizes)
    inner, outer = np.flatnonzero(~leaf), np.flatnonzero(leaf)

    def column(name: str) -> np.ndarray:
        return np.concatenate([getattr(tree, name) for tree in split])[inner]

    moved = starts[tree_of[inner]]
    to_left, to_right = column("left") + moved, column("right") + moved
    alone = np.array([tree is not given for tree, given in zip(split, trees, strict=True)])
    leaf_tree = tree_of[outer]
    return Trees(
        column("feature"),
        column("threshold"),
        column("missing"),
        number[to_left],
        leaf[to_left],
        number[to_right],
        leaf[to_right],
        number[starts],
        leaf_tree,
        np.where(alone[leaf_tree], 0, outer - starts[leaf_tree]),
        np.concatenate([tree.value[tree.leaf] for tree in split]),
        {
            int(number[start + node]): item
            for start, tree in zip(starts, split, strict=True)
            for node, item in tree.members.items()
        },
    )


def _split_leaf(tree: Tree) -> Tree:
    """A tree that is one leaf as a node whose branches both lead there."""
    none, child = np.zeros(2, int), np.ones(2, int)
    value = np.repeat(tree.value[:1], 2, axis=0)
    return Tree(none, np.zeros(2), none > 0, child, child, np.array([False, True]), value)


def leaves(op: OpBuilder, trees: Trees, x: ir.Value) -> Array:
    """The number of the leaf that each row reaches in each tree, int64 [N, trees]."""
    trees, x = _without_missing_tests(op, trees, x)
    numbers, first = _leaf_numbers(op, trees, x)
    return numbers.astype(np.int64) + first if first.any() else numbers.astype(np.int64)


def _leaf_numbers(op: OpBuilder, trees: Trees, x: ir.Value, start: int = 0) -> tuple[Array, np.ndarray]:
    """The leaves' numbers in the type that the operator gives, [N, trees], and what is to be added to each tree's, [trees]."""
    # before TreeEnsemble a leaf that two branches lead to, of a tree that is one leaf, counts twice: there its number is 0
    numbers = np.arange(len(trees.leaf_tree))
    if op.ml_opset >= 5 and start + len(numbers) < _EXACT:
        numbers, first = start + numbers, np.zeros(trees.count, np.int64)
    else:
        first = np.searchsorted(trees.leaf_tree, np.arange(trees.count))
        numbers, first = numbers - first[trees.leaf_tree], first + start
    return Array(op, _ensemble(op, trees, x, trees.leaf_tree, numbers, trees.count)), first


def values(op: OpBuilder, trees: Trees, x: ir.Value) -> Array:
    """What the reached leaves hold, float64 [N, trees, K]."""
    numbers = leaves(op, trees, x)
    return take(numbers.const(trees.leaf_value), numbers, axis=0)


def sums(op: OpBuilder, trees: Trees, x: ir.Value, targets: np.ndarray, count: int, start: ArrayLike = 0.0) -> Array:
    """The sum over trees of the reached leaves' single values, float64 [N, count].

    Args:
        op: the builder.
        trees: trees whose leaves hold one value.
        x: rows, [N, F].
        targets: the column of each tree.
        count: number of columns.
        start: what the sums begin with, one number or [count].
    """
    if op.ml_opset < 5:
        reached = values(op, trees, x)[:, :, 0]
        parts = reached @ (targets[:, None] == np.arange(count)).astype(np.float64)
        return parts + np.ravel(start) if np.any(start) else parts
    if np.any(start):
        trees = _beginning_with(trees, targets, np.broadcast_to(np.ravel(start), (count,)))
    trees, wide = _without_missing_tests(op, trees, op.cast(x, ir.DataType.DOUBLE))
    own = [np.flatnonzero(targets == target) for target in range(count)]
    if 1 < count <= _TARGETS and all(map(len, own)):
        columns = [sums(op, trees.only(mine), wide, np.zeros(len(mine), np.int64), 1) for mine in own]
        return np.concatenate(columns, axis=1)
    parts = [
        _ensemble(op, part, wide, targets[chosen][part.leaf_tree], part.leaf_value[:, 0], count)
        for chosen, part in _parts(trees)
    ]
    return Array(op, op.Sum(*parts) if len(parts) > 1 else parts[0])


def mean(op: OpBuilder, trees: Trees, x: ir.Value) -> Array:
    """The mean over trees of what the reached leaves hold, float64 [N, K]."""
    several = trees.leaf_value.shape[1] > 1
    if several and len(trees.feature) < _LARGE:
        return _reduced(op, [trees], x, np.mean)
    if several or op.ml_opset < 5 or len(_parts(trees)) > 1:
        return totals(op, trees, x) / float(trees.count)
    trees, wide = _without_missing_tests(op, trees, op.cast(x, ir.DataType.DOUBLE))
    return Array(op, _ensemble(op, trees, wide, trees.leaf_tree * 0, trees.leaf_value[:, 0], 1, _MEAN))


def totals(op: OpBuilder, trees: Trees, x: ir.Value) -> Array:
    """The sum over trees of what the reached leaves hold, float64 [N, K]."""
    if trees.leaf_value.shape[1] == 1:
        return sums(op, trees, x, np.zeros(trees.count, np.int64), 1)
    if len(trees.feature) < _LARGE:
        return _reduced(op, [trees], x, np.sum)
    trees, x = _without_missing_tests(op, trees, x)
    # each part has its own table of values: worth it where one of all trees would be large
    parts = [part for _, part in _parts(trees)]
    most = max(1, _ALL_SHORT_PARTS // len(parts))
    short = ([piece for _, piece in _parts(part, _SHORT_PART, most)] for part in parts)
    return Array(op, op.Sum(*(_reduced(op, pieces, x, np.sum).value for pieces in short)))


def _reduced(op: OpBuilder, parts: Sequence[Trees], x: ir.Value, reduction: Function) -> Array:
    """What the reached leaves hold, tree after tree as scikit-learn adds them, float64 [N, K]."""
    starts = np.cumsum([0, *(len(part.leaf_tree) for part in parts)])
    pairs = (_leaf_numbers(op, part, x, int(start)) for part, start in zip(parts, starts, strict=False))
    part_numbers, firsts = zip(*pairs, strict=True)
    # a tree's rows come together: what is read of the table then stays in the processor's cache
    numbers: Any = np.concatenate(part_numbers, axis=1) if len(part_numbers) > 1 else part_numbers[0]
    reached, first = numbers.T.astype(np.int64), np.concatenate(firsts)
    if first.any():
        reached = reached + first[:, None]
    result: Array = reduction(
        take(reached.const(np.concatenate([part.leaf_value for part in parts])), reached, axis=0), axis=0
    )
    return result


def _without_missing_tests(op: OpBuilder, trees: Trees, x: ir.Value) -> tuple[Trees, ir.Value]:
    """Many nodes without a test for missing values: those where NaN goes to `true` look at columns where it is -infinity."""
    if len(trees.feature) < _LARGE or not trees.missing.any() or x.dtype is None or x.shape is None:
        return trees, x
    width = x.shape[1]
    if not isinstance(width, int) or trees.members:
        return trees, x
    lowest = op.const(-np.inf, x.dtype)
    both = op.Concat(x, op.Where(op.IsNaN(x), lowest, x), axis=1)
    moved = np.where(trees.missing, trees.feature + width, trees.feature)
    return replace(trees, feature=moved, missing=np.zeros_like(trees.missing)), both


def _beginning_with(trees: Trees, targets: np.ndarray, start: np.ndarray) -> Trees:
    """The trees, of which the first of each target also gives what its sum begins with."""
    present, first = np.unique(targets, return_index=True)
    begun = np.zeros(trees.count)
    begun[first] = start[present]
    return replace(trees, leaf_value=trees.leaf_value + begun[trees.leaf_tree][:, None])


def _parts(trees: Trees, size: int = 0, most: int = _PARTS) -> list[tuple[np.ndarray, Trees]]:
    """The trees in at most so many parts of `size` nodes that a processor's cache holds, each with its trees' numbers.

    Without a size those that are not large are one part.
    """
    nodes, every = len(trees.feature), np.arange(trees.count)
    if not size and nodes < _LARGE:
        return [(every, trees)]
    size = max(size or _PART, -(-nodes // most))
    if nodes < 1.5 * size:
        return [(every, trees)]
    part = trees.roots // size
    chosen = np.split(every, np.flatnonzero(np.diff(part)) + 1)
    return [(numbers, trees.only(numbers)) for numbers in chosen]


def _ensemble(
    op: OpBuilder,
    trees: Trees,
    x: ir.Value,
    targets: np.ndarray,
    weights: np.ndarray,
    count: int,
    aggregate: int = _SUM,
) -> ir.Value:
    """The weights of the reached leaves for each target, aggregated over the trees, in the type of `x`."""
    batch = x.shape[0] if x.shape is not None else None
    if x.dtype == ir.DataType.DOUBLE and op.ml_opset < 3:
        trees, x = _ranked(op, trees, x)
    dtype = np.dtype(x.dtype.numpy()) if x.dtype is not None else np.dtype(np.float64)
    if dtype == np.float32 and np.max(np.abs(weights), initial=0) >= _EXACT:
        x, dtype = op.cast(x, ir.DataType.DOUBLE), np.dtype(np.float64)
    levels = rounded_down(trees.threshold) if dtype == np.float32 else np.asarray(trees.threshold, np.float64)
    if op.ml_opset < 5:
        return op.typed(_older(op, trees, x, levels, targets, weights, count), ir.DataType.FLOAT, [batch, count])
    modes = np.full(len(trees.feature), _LEQ, np.uint8)
    modes[list(trees.members)] = _MEMBER
    asked = [np.append(trees.members[node], np.nan) for node in sorted(trees.members)]
    return op.ml.TreeEnsemble(
        x,
        n_targets=count,
        aggregate_function=aggregate,
        post_transform=0,
        nodes_featureids=trees.feature,
        nodes_splits=levels,
        nodes_modes=modes,
        nodes_truenodeids=trees.true,
        nodes_trueleafs=trees.true_leaf,
        nodes_falsenodeids=trees.false,
        nodes_falseleafs=trees.false_leaf,
        nodes_missing_value_tracks_true=trees.missing if trees.missing.any() else None,
        membership_values=np.concatenate(asked).astype(dtype) if asked else None,
        leaf_targetids=targets,
        leaf_weights=np.asarray(weights, dtype),
        tree_roots=trees.roots,
    )


def _ranked(op: OpBuilder, trees: Trees, x: ir.Value) -> tuple[Trees, ir.Value]:
    """The same trees on the number of thresholds below each value: x <= t is #{s < x} <= #{s < t}."""
    rows = Array(op, x)
    features, place = np.unique(trees.feature, return_inverse=True)
    threshold = np.zeros(len(trees.feature))
    columns = []
    for index, feature in enumerate(features):
        mine = place == index
        if any(mine[node] for node in trees.members):
            columns.append(rows[:, int(feature)].astype(np.float32))
            threshold[mine] = trees.threshold[mine]
            continue
        levels = np.unique(trees.threshold[mine])
        threshold[mine] = np.searchsorted(levels, trees.threshold[mine])
        value = rows[:, int(feature)]
        below = reduced((value[:, None] > levels[None]).astype(np.int32), "ReduceSum", 1).astype(np.float32)
        columns.append(np.where(np.isnan(value), np.float32(np.nan), below))
    return replace(trees, feature=place, threshold=threshold), one_value(np.stack(columns, axis=1))


def _older(
    op: OpBuilder, trees: Trees, x: ir.Value, levels: np.ndarray, targets: np.ndarray, weights: np.ndarray, count: int
) -> ir.Value:
    """TreeEnsembleRegressor, whose result is float32 always: the weights must be whole numbers."""
    if trees.members:
        raise UnsupportedOperator(
            "trees that ask for categories need ai.onnx.ml 5, which comes with opset 21: ask for target_opset=21"
        )
    tree_of_node = np.searchsorted(trees.roots, np.arange(len(trees.feature)), side="right") - 1
    first_leaf = np.searchsorted(trees.leaf_tree, np.arange(trees.count))
    node_in_tree = np.arange(len(trees.feature)) - trees.roots[tree_of_node]
    nodes_of_tree = np.bincount(tree_of_node, minlength=trees.count)
    leaf_in_tree = np.arange(len(trees.leaf_tree)) - first_leaf[trees.leaf_tree]
    leaf_id = leaf_in_tree + nodes_of_tree[trees.leaf_tree]

    def child(target: np.ndarray, is_leaf: np.ndarray) -> np.ndarray:
        inner = np.where(is_leaf, 0, target)
        outer = np.where(is_leaf, target, 0)
        return np.where(is_leaf, leaf_id[outer], inner - trees.roots[tree_of_node])

    blank = np.zeros(len(leaf_id), np.int64)
    splits = np.concatenate([levels, blank.astype(levels.dtype)])
    wide = levels.dtype == np.float64
    kind = "_as_tensor" if wide else ""
    given = {f"nodes_values{kind}": splits, f"target_weights{kind}": np.asarray(weights, np.float64)}
    missing = np.concatenate([trees.missing.astype(np.int64), blank]) if trees.missing.any() else None
    result: ir.Value = op.ml.TreeEnsembleRegressor(
        x,
        n_targets=count,
        nodes_treeids=np.concatenate([tree_of_node, trees.leaf_tree]),
        nodes_nodeids=np.concatenate([node_in_tree, leaf_id]),
        nodes_featureids=np.concatenate([trees.feature, blank]),
        nodes_modes=["BRANCH_LEQ"] * len(trees.feature) + ["LEAF"] * len(leaf_id),
        nodes_truenodeids=np.concatenate([child(trees.true, trees.true_leaf), blank]),
        nodes_falsenodeids=np.concatenate([child(trees.false, trees.false_leaf), blank]),
        nodes_missing_value_tracks_true=missing,
        target_treeids=trees.leaf_tree,
        target_nodeids=leaf_id,
        target_ids=targets,
        **given,
    )
    return result


def rounded_down(thresholds: np.ndarray) -> np.ndarray:
    """The greatest float32 not above each float64.

    >>> rounded_down(np.array([0.1, 0.5])) <= np.array([0.1, 0.5])
    array([ True,  True])
    """
    with np.errstate(over="ignore"):
        nearest = np.asarray(thresholds, np.float64).astype(np.float32)
        return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)
