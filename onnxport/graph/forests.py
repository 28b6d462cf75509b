"""The trees that a graph's TreeEnsemble nodes hold, each as arrays over its nodes in preorder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

_LEQ = 0


@dataclass(frozen=True)
class GrownTree:
    """One tree; its nodes stand in preorder, true branches first.

    Attributes:
        feature: column that a node compares; -2 at leaves.
        threshold: x <= threshold goes to `left`.
        missing: NaN goes to `left`.
        left: next node; -1 at leaves.
        right: next node; -1 at leaves.
        weight: what a leaf adds to `target`; 0 at inner nodes.
        target: the result's column that a leaf adds to.
    """

    feature: np.ndarray
    threshold: np.ndarray
    missing: np.ndarray
    left: np.ndarray
    right: np.ndarray
    weight: np.ndarray
    target: np.ndarray


def trees_of(model: ir.Model) -> dict[str, list[GrownTree]]:
    """The trees of each TreeEnsemble of the main graph by its output's name; other comparisons than <= are left out."""
    nodes = (node for node in model.graph if node.op_type == "TreeEnsemble" and node.domain == "ai.onnx.ml")
    grown = {node.outputs[0].name or "": _trees(node) for node in nodes}
    return {name: trees for name, trees in grown.items() if trees}


def _trees(node: ir.Node) -> list[GrownTree]:
    given = {name: _array(item) for name, item in node.attributes.items() if isinstance(item, ir.Attr)}
    modes = given.get("nodes_modes")
    if modes is None or (modes != _LEQ).any():
        return []
    try:
        return [_tree(given, int(root)) for root in given["tree_roots"]]
    except (IndexError, KeyError, RecursionError):  # arrays of a damaged file
        return []


def _array(attribute: ir.Attr) -> np.ndarray:
    value: Any = attribute.value
    return value.numpy() if attribute.type == ir.AttributeType.TENSOR else np.asarray(value)


def _tree(given: dict[str, np.ndarray], root: int) -> GrownTree:
    count = len(given["nodes_featureids"])
    tracks = given.get("nodes_missing_value_tracks_true", np.zeros(count, np.int64))
    rows: list[list[Any]] = []
    waiting: list[tuple[int, bool, int, int]] = [(root, False, -1, 0)]
    while waiting:
        place, is_leaf, parent, side = waiting.pop()
        number = len(rows)
        if number > 2 * count + 1:
            raise IndexError("a tree has a node twice")
        if parent >= 0:
            rows[parent][side] = number
        true_leaf, false_leaf = (
            (False, False) if is_leaf else (_leafs(given, "true", place), _leafs(given, "false", place))
        )
        true, false = (0, 0) if is_leaf else (_next(given, "true", place), _next(given, "false", place))
        if not is_leaf and true_leaf and false_leaf and true == false:  # a tree that is one leaf
            place, is_leaf = true, True
        if is_leaf:
            rows.append([-2, -2.0, False, -1, -1, given["leaf_weights"][place], given["leaf_targetids"][place]])
            continue
        rows.append(
            [given["nodes_featureids"][place], given["nodes_splits"][place], bool(tracks[place]), -1, -1, 0.0, 0]
        )
        waiting += [(false, false_leaf, number, 4), (true, true_leaf, number, 3)]
    feature, threshold, missing, left, right, weight, target = zip(*rows, strict=True)
    whole = [np.array(item, np.int64) for item in (feature, left, right, target)]
    return GrownTree(
        whole[0],
        np.array(threshold, np.float64),
        np.array(missing, bool),
        whole[1],
        whole[2],
        np.array(weight, np.float64),
        whole[3],
    )


def _leafs(given: dict[str, np.ndarray], side: str, place: int) -> bool:
    return bool(given[f"nodes_{side}leafs"][place])


def _next(given: dict[str, np.ndarray], side: str, place: int) -> int:
    number = int(given[f"nodes_{side}nodeids"][place])
    if number < 0:
        raise IndexError("a tree has a child before its first node")
    return number
