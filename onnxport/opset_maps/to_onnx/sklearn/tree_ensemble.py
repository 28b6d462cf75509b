"""Trees as arrays, and their ONNX form: which leaf a row reaches, or the sum of what the leaves hold.

From ai.onnx.ml 5 on TreeEnsemble compares and adds in float64, so thresholds and leaf values stay what they are. Before,
thresholds are float32: for float32 rows each is rounded down, to the greatest float32 not above it, and x <= threshold then
says the same for every float32 x; float64 rows are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder


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
        leaf_value: what each leaf holds, float64 [leaves, K].
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
    leaf_value: np.ndarray


def join(trees: list[tuple[np.ndarray, ...]]) -> Trees:
    """One `Trees` of several trees given as arrays over their nodes, the root at 0.

    Args:
        trees: feature, threshold, missing goes left, left child, right child, is leaf, value [nodes, K] of each tree.
    """
    nodes: list[tuple[np.ndarray, ...]] = []
    roots, leaf_trees, values = [], [], []
    node_count = leaf_count = 0
    for index, (feature, threshold, missing, left, right, leaf, value) in enumerate(trees):
        if leaf[0]:  # a tree that is one leaf: a node whose branches both lead there
            feature, threshold, missing = np.zeros(2, int), np.zeros(2), np.zeros(2, bool)
            left, right, leaf, value = (
                np.array([1, 0]),
                np.array([1, 0]),
                np.array([False, True]),
                np.stack([value[0], value[0]]),
            )
        number = np.where(leaf, np.cumsum(leaf) - 1 + leaf_count, np.cumsum(~leaf) - 1 + node_count)
        inner = ~leaf
        to_left, to_right = left[inner], right[inner]
        nodes.append(
            (
                feature[inner],
                threshold[inner],
                missing[inner],
                number[to_left],
                leaf[to_left],
                number[to_right],
                leaf[to_right],
            )
        )
        roots.append(node_count)
        leaf_trees.append(np.full(int(leaf.sum()), index))
        values.append(value[leaf])
        node_count += int(inner.sum())
        leaf_count += int(leaf.sum())
    columns = [np.concatenate(parts) for parts in zip(*nodes, strict=True)]
    columns += [np.array(roots), np.concatenate(leaf_trees), np.concatenate(values)]
    return Trees(*columns)


def leaves(op: OpBuilder, trees: Trees, x: ir.Value) -> ir.Value:
    """The number of the leaf that each row reaches in each tree, INT64 [N, trees]."""
    numbers = np.arange(len(trees.leaf_tree), dtype=np.float64)
    reached = _ensemble(op, trees, x, trees.leaf_tree, numbers, len(trees.roots))
    return op.cast(reached, ir.DataType.INT64)


def values(op: OpBuilder, trees: Trees, x: ir.Value) -> ir.Value:
    """What the reached leaves hold, float64 [N, trees, K]."""
    return op.Gather(op.const(trees.leaf_value), leaves(op, trees, x), axis=0)


def sums(op: OpBuilder, trees: Trees, x: ir.Value, targets: np.ndarray, count: int) -> ir.Value:
    """The sum over trees of the reached leaves' single values, float64 [N, count]; `targets` is the column of each tree."""
    if op.ml_opset >= 5:
        return _ensemble(op, trees, x, targets[trees.leaf_tree], trees.leaf_value[:, 0], count)
    reached = op.Squeeze(values(op, trees, x), op.axes(2))
    membership = (targets[:, None] == np.arange(count)).astype(np.float64)
    return op.MatMul(reached, membership)


def _ensemble(
    op: OpBuilder, trees: Trees, x: ir.Value, targets: np.ndarray, weights: np.ndarray, count: int
) -> ir.Value:
    batch = batch_of(x)
    if op.ml_opset >= 5:
        result = op.ml.TreeEnsemble(
            op.cast(x, ir.DataType.DOUBLE),
            n_targets=count,
            aggregate_function=1,
            post_transform=0,
            nodes_featureids=trees.feature,
            nodes_splits=np.asarray(trees.threshold, np.float64),
            nodes_modes=np.zeros(len(trees.feature), np.uint8),
            nodes_truenodeids=trees.true,
            nodes_trueleafs=trees.true_leaf,
            nodes_falsenodeids=trees.false,
            nodes_falseleafs=trees.false_leaf,
            nodes_missing_value_tracks_true=trees.missing if trees.missing.any() else None,
            leaf_targetids=targets,
            leaf_weights=np.asarray(weights, np.float64),
            tree_roots=trees.roots,
        )
        return op.typed(result, ir.DataType.DOUBLE, [batch, count])
    if x.dtype != ir.DataType.FLOAT:
        raise UnsupportedOperator(
            "trees on float64 rows need ai.onnx.ml 5, which comes with opset 21: ask for target_opset=21 or give float32 inputs"
        )
    # The older operator can't add in float64: it says which leaf of each tree is reached, an exact small number.
    return op.cast(_older(op, trees, x, batch), ir.DataType.DOUBLE) if targets is trees.leaf_tree else _refuse_sums()


def batch_of(x: ir.Value) -> int | ir.SymbolicDim | None:
    """The number of rows as the graph names it."""
    size = x.shape[0] if x.shape is not None else None
    return size if isinstance(size, (int, ir.SymbolicDim)) else None


def _refuse_sums() -> ir.Value:
    raise UnsupportedOperator("sums of leaves need ai.onnx.ml 5")


def _older(op: OpBuilder, trees: Trees, x: ir.Value, batch: int | ir.SymbolicDim | None) -> ir.Value:
    """TreeEnsembleRegressor with a target a tree, whose weights are the leaves' numbers within their tree."""
    count = len(trees.roots)
    tree_of_node = np.searchsorted(trees.roots, np.arange(len(trees.feature)), side="right") - 1
    first_leaf = np.searchsorted(trees.leaf_tree, np.arange(count))
    node_in_tree = np.arange(len(trees.feature)) - trees.roots[tree_of_node]
    nodes_of_tree = np.bincount(tree_of_node, minlength=count)
    leaf_in_tree = np.arange(len(trees.leaf_tree)) - first_leaf[trees.leaf_tree]
    leaf_id = leaf_in_tree + nodes_of_tree[trees.leaf_tree]

    def child(target: np.ndarray, is_leaf: np.ndarray) -> np.ndarray:
        inner = np.where(is_leaf, 0, target)
        outer = np.where(is_leaf, target, 0)
        return np.where(is_leaf, leaf_id[outer], inner - trees.roots[tree_of_node])

    blank = np.zeros(len(leaf_id), np.int64)
    result = op.ml.TreeEnsembleRegressor(
        x,
        n_targets=count,
        nodes_treeids=np.concatenate([tree_of_node, trees.leaf_tree]),
        nodes_nodeids=np.concatenate([node_in_tree, leaf_id]),
        nodes_featureids=np.concatenate([trees.feature, blank]),
        nodes_values=np.concatenate([rounded_down(trees.threshold), blank.astype(np.float32)]),
        nodes_modes=["BRANCH_LEQ"] * len(trees.feature) + ["LEAF"] * len(leaf_id),
        nodes_truenodeids=np.concatenate([child(trees.true, trees.true_leaf), blank]),
        nodes_falsenodeids=np.concatenate([child(trees.false, trees.false_leaf), blank]),
        nodes_missing_value_tracks_true=np.concatenate([trees.missing.astype(np.int64), blank])
        if trees.missing.any()
        else None,
        target_treeids=trees.leaf_tree,
        target_nodeids=leaf_id,
        target_ids=trees.leaf_tree,
        target_weights=leaf_in_tree,
    )
    result = op.typed(result, ir.DataType.FLOAT, [batch, count])
    return op.Add(op.cast(result, ir.DataType.DOUBLE), first_leaf.astype(np.float64))


def rounded_down(thresholds: np.ndarray) -> np.ndarray:
    """The greatest float32 not above each float64.

    >>> rounded_down(np.array([0.1, 0.5])) <= np.array([0.1, 0.5])
    array([ True,  True])
    """
    nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)
