"""Tree ensembles of ai.onnx.ml: all trees of all rows descend at once, one gather a level.

The three operators describe the same thing in different words; `Forest` is what they have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from onnxport.errors import InvalidModelError, UnsupportedOperator
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics.ml_scores import add_second_class, as_rows, labels_of
from onnxport.opset_maps.from_onnx.semantics.ml_scores import post_transform as transformed
from onnxport.opset_maps.from_onnx.values import HostValue, Tensor
from onnxport.opset_maps.maps import onnx

ML = "ai.onnx.ml"
Array = np.ndarray[Any, Any]
Aggregate = Literal["SUM", "AVERAGE", "MIN", "MAX"]

_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER, _LEAF = range(8)
_MODES = {
    "BRANCH_LEQ": _LEQ,
    "BRANCH_LT": _LT,
    "BRANCH_GTE": _GTE,
    "BRANCH_GT": _GT,
    "BRANCH_EQ": _EQ,
    "BRANCH_NEQ": _NEQ,
    "BRANCH_MEMBER": _MEMBER,
    "LEAF": _LEAF,
}
# Elements of the dense table of leaf weights beyond which it would not fit; far above what ensembles in use have.
_MAX_TABLE = 1 << 28


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
            front = front[self.modes[front] != _LEAF]
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
        self.used = sorted(set(forest.modes.tolist()) - {_LEAF})
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
        match mode:
            case 0:
                return xp.less_equal(seen, limit)
            case 1:
                return xp.less(seen, limit)
            case 2:
                return xp.greater_equal(seen, limit)
            case 3:
                return xp.greater(seen, limit)
            case 4:
                return xp.equal(seen, limit)
            case 5:
                return xp.not_equal(seen, limit)
        return self._is_member(seen, at)

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
    return _aggregate(xp, forest, forest.leaves(xp, x), xp.dtype(x), how, base)


def _aggregate(xp: Namespace, forest: Forest, at: Tensor, dtype: ir.DataType, how: str, base: Array | None) -> Tensor:
    scores = xp.take(xp.astype(xp.constant(forest.weights), dtype), at, 0)  # rows, trees, targets
    if how in ("SUM", "AVERAGE"):
        total = xp.sum(scores, (1,))
        total = xp.divide(total, float(len(forest.roots))) if how == "AVERAGE" else total
    else:
        total = _extreme(xp, forest, scores, at, how)
    return total if base is None else xp.add(total, xp.astype(xp.constant(base), dtype))


def _scored(xp: Namespace, forest: Forest, at: Tensor) -> Tensor | None:
    """Bool [rows, targets]: whether a tree has a weight for the target; None where every leaf has one for all."""
    if forest.given[forest.modes == _LEAF].all():
        return None
    return xp.max(xp.take(xp.constant(forest.given), at, 0), (1,))


def _extreme(xp: Namespace, forest: Forest, scores: Tensor, at: Tensor, how: str) -> Tensor:
    """Greatest or least weight among the trees that have one for the target; 0 where none has."""
    reduce = xp.max if how == "MAX" else xp.min
    scored = _scored(xp, forest, at)
    if scored is None:
        return reduce(scores, (1,))
    given = xp.take(xp.constant(forest.given), at, 0)
    best = reduce(xp.where(given, scores, float("-inf") if how == "MAX" else float("inf")), (1,))
    return xp.where(scored, best, 0)


# -- the operators -------------------------------------------------------------------------------------------------------


def _base(base_values: Sequence[float], as_tensor: HostValue | None, dtype: np.dtype) -> Array | None:
    found = np.asarray(base_values, dtype) if as_tensor is None else as_tensor.array.astype(dtype)
    return found if found.size else None


def _numbers(values: Sequence[float], as_tensor: HostValue | None) -> Array:
    return np.asarray(values, np.float32) if as_tensor is None else as_tensor.array


def _is_double(*tensors: HostValue | None) -> bool:
    return any(item is not None and item.array.dtype == np.float64 for item in tensors)


def _computed_in(xp: Namespace, x: Tensor, double: bool) -> Tensor:
    """Rows in the type of the thresholds: double where they or the input are, else float (ai.onnx.ml, TreeEnsemble)."""
    rows = as_rows(xp, x)
    wide = double or xp.dtype(x) == ir.DataType.DOUBLE
    return xp.astype(rows, ir.DataType.DOUBLE if wide else ir.DataType.FLOAT)


def _forest_of_ids(
    tree_ids: Sequence[int],
    node_ids: Sequence[int],
    features: Sequence[int],
    values: Array,
    modes: Sequence[str],
    true_ids: Sequence[int],
    false_ids: Sequence[int],
    missing_true: Sequence[int],
    leaf_trees: Sequence[int],
    leaf_nodes: Sequence[int],
    leaf_targets: Sequence[int],
    leaf_weights: Array,
    targets: int,
) -> Forest:
    """The forest whose nodes are named by pairs of tree and node number (TreeEnsembleClassifier, TreeEnsembleRegressor)."""
    count = len(node_ids)
    if count * max(targets, 1) > _MAX_TABLE:
        raise UnsupportedOperator(f"{count} nodes with {targets} targets each")
    place = {pair: index for index, pair in enumerate(zip(tree_ids, node_ids, strict=True))}
    unknown = sorted(set(modes) - set(_MODES))
    if unknown:
        raise InvalidModelError(f"nodes_modes holds {', '.join(unknown)}")
    kinds = np.array([_MODES[mode] for mode in modes], np.int64)
    own = np.arange(count)
    true, false = own.copy(), own.copy()
    for index in np.flatnonzero(kinds != _LEAF).tolist():
        tree = tree_ids[index]
        try:
            true[index], false[index] = place[tree, true_ids[index]], place[tree, false_ids[index]]
        except KeyError as error:
            raise InvalidModelError(f"node {node_ids[index]} of tree {tree} has no child {error.args[0][1]}") from error
    trees = np.asarray(tree_ids)
    roots = own[np.r_[True, trees[1:] != trees[:-1]]] if count else own
    weights, given = np.zeros((count, targets), leaf_weights.dtype), np.zeros((count, targets), bool)
    for tree, node, target, weight in zip(leaf_trees, leaf_nodes, leaf_targets, leaf_weights, strict=True):
        leaf = place[tree, node]
        if kinds[leaf] == _LEAF:  # onnxruntime ignores weights on inner nodes, which old converters wrote
            weights[leaf, target] += weight
            given[leaf, target] = True
    missing = np.zeros(count, bool)
    missing[: len(missing_true)] = np.asarray(missing_true, bool)
    columns = np.where(kinds == _LEAF, 0, np.asarray(features, np.int64))
    return Forest(columns, values, kinds, missing, true, false, roots, weights, given, {})


@onnx.op("TreeEnsembleRegressor", versions=(1, 3, 5), domain=ML)
def tree_ensemble_regressor(
    xp: Namespace,
    x: Tensor,
    *,
    aggregate_function: str = "SUM",
    base_values: Sequence[float] = (),
    base_values_as_tensor: HostValue | None = None,
    n_targets: int = 1,
    nodes_falsenodeids: Sequence[int] = (),
    nodes_featureids: Sequence[int] = (),
    nodes_hitrates: Sequence[float] = (),
    nodes_hitrates_as_tensor: HostValue | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_modes: Sequence[str] = (),
    nodes_nodeids: Sequence[int] = (),
    nodes_treeids: Sequence[int] = (),
    nodes_truenodeids: Sequence[int] = (),
    nodes_values: Sequence[float] = (),
    nodes_values_as_tensor: HostValue | None = None,
    post_transform: str = "NONE",
    target_ids: Sequence[int] = (),
    target_nodeids: Sequence[int] = (),
    target_treeids: Sequence[int] = (),
    target_weights: Sequence[float] = (),
    target_weights_as_tensor: HostValue | None = None,
) -> Tensor:
    """Sum, average, least or greatest leaf weight of each target; the result is FLOAT."""
    weights = _numbers(target_weights, target_weights_as_tensor)
    forest = _forest_of_ids(
        nodes_treeids,
        nodes_nodeids,
        nodes_featureids,
        _numbers(nodes_values, nodes_values_as_tensor),
        nodes_modes,
        nodes_truenodeids,
        nodes_falsenodeids,
        nodes_missing_value_tracks_true,
        target_treeids,
        target_nodeids,
        target_ids,
        weights,
        n_targets,
    )
    rows = _computed_in(xp, x, _is_double(nodes_values_as_tensor, target_weights_as_tensor, base_values_as_tensor))
    base = _base(base_values, base_values_as_tensor, weights.dtype)
    scores = aggregated(xp, forest, rows, aggregate_function, base)
    return xp.astype(_transformed(xp, scores, post_transform), ir.DataType.FLOAT)


def _transformed(xp: Namespace, scores: Tensor, name: str) -> Tensor:
    """The post-transform of a regression: of one target onnxruntime applies only PROBIT, as there is no second class."""
    if xp.shape(scores)[1] == 1 and name != "PROBIT":
        return scores
    return transformed(xp, scores, name)


@onnx.op("TreeEnsembleClassifier", versions=(1, 3, 5), domain=ML)
def tree_ensemble_classifier(
    xp: Namespace,
    x: Tensor,
    *,
    base_values: Sequence[float] = (),
    base_values_as_tensor: HostValue | None = None,
    class_ids: Sequence[int] = (),
    class_nodeids: Sequence[int] = (),
    class_treeids: Sequence[int] = (),
    class_weights: Sequence[float] = (),
    class_weights_as_tensor: HostValue | None = None,
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    nodes_falsenodeids: Sequence[int] = (),
    nodes_featureids: Sequence[int] = (),
    nodes_hitrates: Sequence[float] = (),
    nodes_hitrates_as_tensor: HostValue | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_modes: Sequence[str] = (),
    nodes_nodeids: Sequence[int] = (),
    nodes_treeids: Sequence[int] = (),
    nodes_truenodeids: Sequence[int] = (),
    nodes_values: Sequence[float] = (),
    nodes_values_as_tensor: HostValue | None = None,
    post_transform: str = "NONE",
) -> tuple[Tensor, Tensor]:
    """Label and scores of each class; FLOAT.

    Two classes with weights for one of them only are the binary case, in which the other's score is what is left to 1 of
    positive weights, and the negative of any others.
    """
    labels = classlabels_strings or classlabels_int64s
    weights = _numbers(class_weights, class_weights_as_tensor)
    forest = _forest_of_ids(
        nodes_treeids,
        nodes_nodeids,
        nodes_featureids,
        _numbers(nodes_values, nodes_values_as_tensor),
        nodes_modes,
        nodes_truenodeids,
        nodes_falsenodeids,
        nodes_missing_value_tracks_true,
        class_treeids,
        class_nodeids,
        class_ids,
        weights,
        max(len(labels), 1),
    )
    rows = _computed_in(xp, x, _is_double(nodes_values_as_tensor, class_weights_as_tensor, base_values_as_tensor))
    base = _base(base_values, base_values_as_tensor, weights.dtype)
    at = forest.leaves(xp, rows)
    votes = _aggregate(xp, forest, at, xp.dtype(rows), "SUM", None)
    scored = _scored(xp, forest, at)
    if len(labels) == 2:
        binary, positive = len(set(class_ids)) == 1, bool((weights >= 0).all())
        label, scores = _two_classes(xp, votes, scored, base, binary, positive, labels, post_transform)
    elif len(labels) == 1:
        label, scores = _one_class(xp, votes, base, labels, post_transform)
    else:
        label, scores = _many_classes(xp, votes, scored, base, labels, post_transform)
    return label, xp.astype(scores, ir.DataType.FLOAT)


def _many_classes(
    xp: Namespace,
    votes: Tensor,
    scored: Tensor | None,
    base: Array | None,
    labels: Sequence[Any],
    transform: str,
) -> tuple[Tensor, Tensor]:
    """The greatest score wins, among those classes that got a vote or a base value."""
    if base is not None:
        filled = np.zeros(len(labels), base.dtype)
        filled[: len(base)] = base[: len(labels)]
        votes = xp.add(votes, xp.astype(xp.constant(filled), xp.dtype(votes)))
    candidates = votes
    if scored is not None and (base is None or len(base) < len(labels)):
        given = np.arange(len(labels)) < (0 if base is None else len(base))
        candidates = xp.where(xp.logical_or(scored, xp.constant(given[None])), votes, float("-inf"))
    return labels_of(xp, xp.argmax(candidates, 1), labels), transformed(xp, votes, transform)


def _one_class(
    xp: Namespace, votes: Tensor, base: Array | None, labels: Sequence[Any], transform: str
) -> tuple[Tensor, Tensor]:
    """A single class: the sign of its score decides between the labels 1 and 0 (onnxruntime; the specification is silent)."""
    if isinstance(labels[0], str):
        raise UnsupportedOperator("a single class with a string label")
    scores = votes if base is None else xp.add(votes, xp.astype(xp.constant(base[-1:]), xp.dtype(votes)))
    label = xp.squeeze(xp.astype(xp.greater(scores, 0), ir.DataType.INT64), (1,))
    return label, transformed(xp, scores, transform) if transform == "PROBIT" else scores


def _two_classes(
    xp: Namespace,
    votes: Tensor,
    scored: Tensor | None,
    base: Array | None,
    binary: bool,
    positive_weights: bool,
    labels: Sequence[Any],
    transform: str,
) -> tuple[Tensor, Tensor]:
    """onnxruntime's reading of two classes, where the specification leaves all open.

    A score of class 1 decides, by being above 0, or above 0.5 where all weights are positive and for one class only. Where
    class 1 has no votes, class 0's score decides in its stead, and the scores are made of it (`add_second_class`).
    """
    first, second = (xp.slice(votes, 1, i, i + 1) for i in (0, 1))
    threshold = 0.5 if binary and positive_weights else 0.0
    names = labels if binary or isinstance(labels[0], str) else (0, 1)
    voted = [None, None] if scored is None else [xp.slice(scored, 1, i, i + 1) for i in (0, 1)]

    def seen(score: Tensor, given: Tensor | None) -> Tensor:
        return score if given is None else xp.where(given, score, 0)

    two = base is not None and len(base) == 2
    if two and base is not None:
        both_second = xp.add(first, float(base[1]))
        both = xp.concat([seen(xp.negative(both_second), voted[0]), both_second], 1)
    else:
        both_second = second
        moved = first if base is None else xp.add(first, float(base[0]))
        both = xp.concat([seen(moved, voted[0]), second], 1)
    both = transformed(xp, both, transform)
    if voted[1] is None:
        decisive, scores = both_second, both
    else:
        alone = first if base is None else xp.add(first, float(base[0]))
        if two:
            lone = transformed(xp, xp.concat([seen(alone, voted[0]), xp.multiply(alone, 0.0)], 1), transform)
        else:
            lone = add_second_class(xp, alone, transform, complement=binary and positive_weights)
        decisive = xp.where(voted[1], both_second, alone)
        scores = xp.where(voted[1], both, lone)
    winner = xp.squeeze(xp.astype(xp.greater(decisive, threshold), ir.DataType.INT64), (1,))
    return labels_of(xp, winner, names), scores


# Numbers of the enumerations in ai.onnx.ml-5's TreeEnsemble.
_MODES_5 = (_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER)
_AGGREGATES_5 = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS_5 = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@onnx.op("TreeEnsemble", versions=(5,), domain=ML)
def tree_ensemble(
    xp: Namespace,
    x: Tensor,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Sequence[int] = (),
    leaf_weights: HostValue,
    membership_values: HostValue | None = None,
    n_targets: int = 1,
    nodes_falseleafs: Sequence[int] = (),
    nodes_falsenodeids: Sequence[int] = (),
    nodes_featureids: Sequence[int] = (),
    nodes_hitrates: HostValue | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_modes: HostValue,
    nodes_splits: HostValue,
    nodes_truenodeids: Sequence[int] = (),
    nodes_trueleafs: Sequence[int] = (),
    post_transform: int = 0,
    tree_roots: Sequence[int] = (),
) -> Tensor:
    """Sum, average, least or greatest leaf weight of each target, in the type of x.

    The post-transform is the specification's; onnxruntime 1.31 takes SOFTMAX for LOGISTIC, LOGISTIC for SOFTMAX, and applies
    neither to a single target.
    """
    inner, leaves = len(nodes_featureids), len(leaf_targetids)
    modes = np.array([_MODES_5[int(mode)] for mode in nodes_modes.array], np.int64)
    count = inner + leaves
    own = np.arange(count)
    true, false = own.copy(), own.copy()
    true[:inner] = np.asarray(nodes_truenodeids) + inner * np.asarray(nodes_trueleafs)
    false[:inner] = np.asarray(nodes_falsenodeids) + inner * np.asarray(nodes_falseleafs)
    weights = np.zeros((count, n_targets), leaf_weights.array.dtype)
    given = np.zeros((count, n_targets), bool)
    weights[inner + np.arange(leaves), leaf_targetids] = leaf_weights.array
    given[inner + np.arange(leaves), leaf_targetids] = True
    missing = np.zeros(count, bool)
    missing[: len(nodes_missing_value_tracks_true)] = np.asarray(nodes_missing_value_tracks_true, bool)
    forest = Forest(
        features=np.r_[np.asarray(nodes_featureids, np.int64), np.zeros(leaves, np.int64)],
        values=np.r_[nodes_splits.array, np.zeros(leaves, nodes_splits.array.dtype)],
        modes=np.r_[modes, np.full(leaves, _LEAF)],
        missing_true=missing,
        true=true,
        false=false,
        roots=np.asarray(tree_roots, np.int64),
        weights=weights,
        given=given,
        members=_members(modes, membership_values),
    )
    scores = aggregated(xp, forest, as_rows(xp, x), _AGGREGATES_5[aggregate_function], None)
    return transformed(xp, scores, _TRANSFORMS_5[post_transform])


def _members(modes: Array, values: HostValue | None) -> dict[int, Array]:
    """The sets of the MEMBER nodes, in the order of the nodes: between them in `values` stands a NaN."""
    nodes = np.flatnonzero(modes == _MEMBER)
    if not nodes.size:
        return {}
    if values is None:
        raise InvalidModelError("BRANCH_MEMBER without membership_values")
    array = values.array
    ends = np.flatnonzero(np.isnan(array.astype(np.float64)))
    starts = np.r_[0, ends[:-1] + 1] if ends.size else np.array([0])
    ends = ends if ends.size and len(ends) >= len(nodes) else np.r_[ends, len(array)]
    starts = np.r_[0, ends[:-1] + 1]
    return {int(node): array[start:end] for node, start, end in zip(nodes, starts, ends, strict=False)}
