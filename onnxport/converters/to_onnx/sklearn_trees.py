"""Where the trees of an estimator stand in its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.tree._tree import Tree

from onnxport.graph.fitted import Constants
from onnxport.graph.forests import GrownTree, compares_alike, forests_of, trees_of


class Trees:
    """A graph's trees, to look for scikit-learn's among them.

    Args:
        model: the graph.
        constants: its constants.
    """

    def __init__(self, model: ir.Model, constants: Constants) -> None:
        self._model, self._constants = model, constants

    def all_of(self, trees: Sequence[Tree], leaves: Mapping[int, np.ndarray]) -> list[dict[str, Any]] | None:
        """What `find` gives for each of several trees, where nodes hold these alone, in their order; None where none do.

        One node holds all, or one of several every second, and so on (a node for each column of gradient boosting).
        """
        nodes = [(name, node, len(node.attributes["tree_roots"].value)) for name, node in self._nodes.items()]
        for name, node, count in nodes:
            if count == len(trees):
                places = self._all_of(name, node, trees, leaves)
                if places is not None:
                    return places
        step, rest = divmod(len(trees), nodes[0][2]) if nodes else (0, 0)
        if step < 2 or rest or len(nodes) != step:
            return None
        parts = [self._all_of(name, node, trees[place::step], leaves) for place, (name, node, _) in enumerate(nodes)]
        columns = [part for part in parts if part is not None]
        if len(columns) < step:
            return None
        return [place for row in zip(*columns, strict=True) for place in row]

    @cached_property
    def _nodes(self) -> dict[str, ir.Node]:
        return {name: node for name, node in forests_of(self._model).items() if compares_alike(node)}

    def _all_of(
        self, name: str, node: ir.Node, trees: Sequence[Tree], leaves: Mapping[int, np.ndarray]
    ) -> list[dict[str, Any]] | None:
        """The trees' numbers in a node whose arrays are theirs one after the other, as `trees/tree_ensemble.py` joins them."""
        given = node.attributes
        sizes = np.array([tree.node_count for tree in trees])
        if (
            len(given["tree_roots"].value) != len(trees) or sizes.min() < 2
        ):  # a tree that is one leaf is written as another
            return None
        starts = np.cumsum(sizes) - sizes
        left, right, feature, threshold = (
            np.concatenate([getattr(tree, column) for tree in trees])
            for column in ("children_left", "children_right", "feature", "threshold")
        )
        leaf = left < 0
        inner = np.flatnonzero(~leaf)
        first = np.repeat(starts, sizes)[inner]
        number = np.where(leaf, np.cumsum(leaf), np.cumsum(~leaf)) - 1
        true, false = left[inner] + first, right[inner] + first
        expected = {
            "tree_roots": number[starts],
            "nodes_featureids": feature[inner],
            "nodes_truenodeids": number[true],
            "nodes_trueleafs": leaf[true],
            "nodes_falsenodeids": number[false],
            "nodes_falseleafs": leaf[false],
        }
        if any(tuple(given[key].value) != tuple(item.tolist()) for key, item in expected.items()):
            return None
        weights = self._constants.named(f"{name}@leaf_weights")
        splits = self._constants.named(f"{name}@nodes_splits")
        if not _near(splits, threshold[inner]):
            return None
        known = [leaves.get(id(tree)) for tree in trees]
        if any(item is None for item in known):
            if len({tree.value.shape[1:] for tree in trees}) > 1:
                return None
            values = np.concatenate([tree.value for tree in trees])
            held = self._held(values.reshape(len(leaf), -1)[leaf], weights.astype(np.float64))
        else:
            wanted = np.concatenate([item for item in known if item is not None])[leaf]
            numbers = np.add.reduceat(leaf, starts, dtype=np.int64)  # of leaves, of which each tree has some
            held = _moved(wanted, weights, np.cumsum(numbers) - numbers)
        if held is None:
            return None
        return [_place(name, place, tree, held) for place, tree in enumerate(trees)]

    @cached_property
    def _by_shape(self) -> dict[bytes, list[tuple[str, int, GrownTree]]]:
        by_shape: dict[bytes, list[tuple[str, int, GrownTree]]] = {}
        for name, trees in trees_of(self._model).items():
            for place, tree in enumerate(trees):
                by_shape.setdefault(_shape(tree.feature, tree.left), []).append((name, place, tree))
        return by_shape

    def find(self, tree: Tree, leaves: np.ndarray | None = None) -> dict[str, Any] | None:
        """The node and number of the tree that is the same, and how its leaves hold the values; None where none is.

        Args:
            tree: scikit-learn's.
            leaves: by node what its leaves hold instead of the values, up to one number that all have more.
        """
        left, values = tree.children_left, tree.value.reshape(tree.node_count, -1)
        leaf = left < 0
        for name, place, grown in self._by_shape.get(_shape(tree.feature, left), ()):
            if not _same_splits(grown, left, tree.feature, tree.threshold, tree.children_right):
                continue
            weights = grown.weight[leaf]
            held = (
                self._held(values[leaf], weights) if leaves is None else _moved(leaves[leaf], weights, np.zeros(1, int))
            )
            if held is not None:
                return _place(name, place, tree, held)
        return None

    def _held(self, values: np.ndarray, weights: np.ndarray) -> dict[str, Any] | None:
        if values.shape[1] == 1 and _equal(values[:, 0], weights):
            return {"how": "weight"}
        if values.shape[1] == 2 and _equal(values[:, 1], weights) and _equal(values[:, 0], 1.0 - weights):
            return {"how": "share"}
        numbers = weights.astype(np.int64)
        for name, table in self._constants.tables:
            inside = (
                table.shape[1] == values.shape[1] and len(numbers) and numbers.max() < len(table) and numbers.min() >= 0
            )
            if inside and np.array_equal(table[numbers], values):
                return {"how": "table", "table": name}
        return None


def _place(name: str, place: int, tree: Tree, held: Mapping[str, Any]) -> dict[str, Any]:
    return {"of": name, "place": place, "shape": [tree.n_features, tree.n_outputs, int(tree.max_n_classes)], **held}


def _same_splits(
    grown: GrownTree, left: np.ndarray, feature: np.ndarray, threshold: np.ndarray, right: np.ndarray
) -> bool:
    """Whether the inner nodes of trees that branch alike to the left ask the same."""
    inner = left >= 0
    same = np.array_equal(grown.feature[inner], feature[inner]) and np.array_equal(grown.right[inner], right[inner])
    return same and _near(grown.threshold[inner], threshold[inner])


def _near(held: np.ndarray, thresholds: np.ndarray) -> bool:
    """Whether a graph's thresholds are the given ones, or these rounded to float32."""
    # infinite ones, of splits by missing values alone, are equal or not
    near = (np.abs(held - thresholds) <= 2.0**-23 * np.abs(thresholds)) | (held == thresholds)
    return bool(near.all())


def _shape(feature: np.ndarray, left: np.ndarray) -> bytes:
    return np.where(left >= 0, feature, -2).astype(np.int64).tobytes() + np.asarray(left, np.int64).tobytes()


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return np.allclose(b, a, rtol=1e-7, atol=0.0, equal_nan=True)


def _moved(expected: np.ndarray, weights: np.ndarray, starts: np.ndarray) -> dict[str, Any] | None:
    """Whether the weights of each tree's leaves, which begin at `starts`, are what is expected, and one number more."""
    apart = weights - expected
    spread = np.maximum.reduceat(apart, starts) - np.minimum.reduceat(apart, starts)
    size = np.maximum.reduceat(np.maximum(np.abs(expected), np.abs(weights)), starts)
    return {"how": "weight"} if (spread <= 1e-6 * size).all() else None


def leaves_of(model: Any) -> dict[int, np.ndarray]:
    """By a tree's id what the leaves of an ensemble's graph hold instead of its values, from which these follow."""
    match type(model).__name__:
        case "GradientBoostingClassifier" | "GradientBoostingRegressor" if hasattr(model, "estimators_"):
            trees = [item.tree_ for item in model.estimators_.ravel()]
            return {id(tree): tree.value.ravel() * model.learning_rate for tree in trees}
        case "IsolationForest" if hasattr(model, "estimators_"):
            lengths = zip(model._decision_path_lengths, model._average_path_length_per_tree, strict=True)
            depths = [np.asarray(path + average - 1.0, np.float64) for path, average in lengths]
            return {id(item.tree_): depth for item, depth in zip(model.estimators_, depths, strict=True)}
    return {}
