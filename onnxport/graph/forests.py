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


def forests_of(model: ir.Model) -> dict[str, ir.Node]:
    """The main graph's TreeEnsemble nodes by their outputs' names."""
    nodes = (node for node in model.graph if node.op_type == "TreeEnsemble" and node.domain == "ai.onnx.ml")
    return {node.outputs[0].name or "": node for node in nodes}


def trees_of(model: ir.Model) -> dict[str, list[GrownTree]]:
    """The trees of each TreeEnsemble of the main graph by its output's name; other comparisons than <= are left out."""
    grown = {name: _trees(node) for name, node in forests_of(model).items()}
    return {name: trees for name, trees in grown.items() if trees}


def compares_alike(node: ir.Node) -> bool:
    """Whether every node of a TreeEnsemble asks for <=."""
    modes = node.attributes.get("nodes_modes")
    return isinstance(modes, ir.Attr) and bool((_array(modes) == _LEQ).all())


def _trees(node: ir.Node) -> list[GrownTree]:
    if not compares_alike(node):
        return []
    given = {name: _array(item) for name, item in node.attributes.items() if isinstance(item, ir.Attr)}
    try:
        return _grown(given)
    except (IndexError, KeyError):  # arrays of a damaged file
        return []


def _array(attribute: ir.Attr) -> np.ndarray:
    value: Any = attribute.value
    return value.numpy() if attribute.type == ir.AttributeType.TENSOR else np.asarray(value)


@dataclass(frozen=True)
class _Level:
    """The nodes of one depth in all trees; of two siblings the true one comes first.

    Attributes:
        place: number among the inner nodes, or among the leaves.
        is_leaf: which of the two.
        parent: number within the level above.
    """

    place: np.ndarray
    is_leaf: np.ndarray
    parent: np.ndarray


def _levels(given: dict[str, np.ndarray]) -> list[_Level]:
    place = np.asarray(given["tree_roots"], np.int64)
    most, total = 2 * len(given["nodes_featureids"]) + len(place), 0
    is_leaf, parent = np.zeros(len(place), bool), np.full(len(place), -1)
    levels = []
    while len(place):
        total += len(place)
        if total > most or (place < 0).any():
            raise IndexError("a node comes twice, or before the first one")
        inner = np.flatnonzero(~is_leaf)
        sides = [given[f"nodes_{side}nodeids"][place[inner]] for side in ("true", "false")]
        leafs = [given[f"nodes_{side}leafs"][place[inner]] != 0 for side in ("true", "false")]
        alone = leafs[0] & leafs[1] & (sides[0] == sides[1])  # a tree that is one leaf
        place, is_leaf = place.copy(), is_leaf.copy()
        place[inner[alone]], is_leaf[inner[alone]] = sides[0][alone], True
        levels.append(_Level(place, is_leaf, parent))
        place = np.stack(sides, axis=1)[~alone].astype(np.int64).ravel()
        is_leaf = np.stack(leafs, axis=1)[~alone].ravel()
        parent = np.repeat(inner[~alone], 2)
    return levels


def _grown(given: dict[str, np.ndarray]) -> list[GrownTree]:
    levels = _levels(given)
    if not levels:
        return []
    sizes = [np.ones(len(level.place), np.int64) for level in levels]  # of each node with all below it
    for depth in reversed(range(1, len(levels))):
        np.add.at(sizes[depth - 1], levels[depth].parent, sizes[depth])
    ends = np.cumsum(sizes[0])
    starts = ends - sizes[0]
    count = int(ends[-1])
    feature, left, right = np.full(count, -2), np.full(count, -1), np.full(count, -1)
    threshold, weight = np.full(count, -2.0), np.zeros(count)
    missing, target = np.zeros(count, bool), np.zeros(count, np.int64)
    tracks = given.get("nodes_missing_value_tracks_true", np.zeros(len(given["nodes_featureids"]), np.int64))
    number, tree = starts, np.arange(len(starts))  # in preorder over all trees
    for depth, level in enumerate(levels):
        if depth:
            above, tree = number[level.parent], tree[level.parent]
            number = above + 1
            number[1::2] += sizes[depth][::2]  # a false node follows all of its true sibling
            left[above[::2]], right[above[::2]] = (number - starts[tree])[::2], (number - starts[tree])[1::2]
        inner, leaf = number[~level.is_leaf], number[level.is_leaf]
        places, leaves = level.place[~level.is_leaf], level.place[level.is_leaf]
        feature[inner], threshold[inner] = given["nodes_featureids"][places], given["nodes_splits"][places]
        missing[inner] = tracks[places] != 0
        weight[leaf], target[leaf] = given["leaf_weights"][leaves], given["leaf_targetids"][leaves]
    parts = [slice(start, end) for start, end in zip(starts, ends, strict=True)]
    columns = (feature, threshold, missing, left, right, weight, target)
    return [GrownTree(*(column[part] for column in columns)) for part in parts]
