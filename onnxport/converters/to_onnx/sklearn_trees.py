"""Where the trees of an estimator stand in its graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.tree._tree import Tree

from onnxport.graph.fitted import constants_of
from onnxport.graph.forests import GrownTree, trees_of


class Trees:
    """A graph's trees, to look for scikit-learn's among them."""

    def __init__(self, model: ir.Model) -> None:
        self._by_shape: dict[bytes, list[tuple[str, int, GrownTree]]] = {}
        grown = trees_of(model)
        for name, trees in grown.items():
            for place, tree in enumerate(trees):
                self._by_shape.setdefault(_shape(tree.feature, tree.left), []).append((name, place, tree))
        tables = constants_of(model).items() if grown else ()
        self._tables = [(name, item) for name, item in tables if item.ndim == 2 and item.dtype == np.float64]

    def find(self, tree: Tree, leaves: np.ndarray | None = None) -> dict[str, Any] | None:
        """The node and number of the tree that is the same, and how its leaves hold the values; None where none is.

        Args:
            tree: scikit-learn's.
            leaves: by node what its leaves hold instead of the values, up to one number that all have more.
        """
        for name, place, grown in self._by_shape.get(_shape(tree.feature, tree.children_left), ()):
            inner = tree.children_left >= 0
            # infinite ones, of splits by missing values alone, are equal or not
            apart = np.abs(grown.threshold - tree.threshold)
            near = (apart <= 2.0**-23 * np.abs(tree.threshold)) | (grown.threshold == tree.threshold)
            if not near[inner].all() or not np.array_equal(grown.right[inner], tree.children_right[inner]):
                continue
            held = self._held(tree, grown, ~inner) if leaves is None else _moved(leaves[~inner], grown.weight[~inner])
            if held is not None:
                shape = [tree.n_features, tree.n_outputs, tree.value.shape[2]]
                return {"of": name, "place": place, "shape": shape, **held}
        return None

    def _held(self, tree: Tree, grown: GrownTree, leaf: np.ndarray) -> dict[str, Any] | None:
        values, weights = tree.value.reshape(len(leaf), -1)[leaf], grown.weight[leaf]
        if values.shape[1] == 1 and _equal(values[:, 0], weights):
            return {"how": "weight"}
        if values.shape[1] == 2 and _equal(values[:, 1], weights) and _equal(values[:, 0], 1.0 - weights):
            return {"how": "share"}
        numbers = weights.astype(np.int64)
        for name, table in self._tables:
            inside = (
                table.shape[1] == values.shape[1] and len(numbers) and numbers.max() < len(table) and numbers.min() >= 0
            )
            if inside and np.array_equal(table[numbers], values):
                return {"how": "table", "table": name}
        return None


def _shape(feature: np.ndarray, left: np.ndarray) -> bytes:
    return np.where(left >= 0, feature, -2).astype(np.int64).tobytes() + np.asarray(left, np.int64).tobytes()


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return np.allclose(b, a, rtol=1e-7, atol=0.0, equal_nan=True)


def _moved(expected: np.ndarray, weights: np.ndarray) -> dict[str, Any] | None:
    apart = weights - expected
    size = max(np.max(np.abs(expected)), np.max(np.abs(weights)))
    return {"how": "weight"} if np.ptp(apart) <= 1e-6 * size else None


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
