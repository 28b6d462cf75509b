"""The tree ensembles of a graph: their splits, and where each hangs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.validation.input_sets.domains import consumers

# Splits at thresholds, as TreeEnsemble numbers them; the nodes of other modes test for equality or are leaves.
_MODES = {"BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3}
_LEVELS = ("nodes_values", "nodes_values_as_tensor", "nodes_splits")


@dataclass(frozen=True)
class Ensemble:
    """The splits of one node's trees."""

    features: ir.Value  # the value that the trees read
    column: np.ndarray  # the column that each split compares
    level: np.ndarray  # the threshold that it compares it with
    upper: np.ndarray  # whether "true" means numbers up to the threshold (else from it on)
    parent: np.ndarray  # the split above each one; -1 at a root
    taken: np.ndarray  # whether a split hangs on the true branch of the one above


def ensembles(graph: ir.Graph) -> list[Ensemble]:
    """Every tree ensemble of the main graph whose splits compare numbers with thresholds."""
    models = []
    for node in graph:
        if node.op_type.startswith("TreeEnsemble") and node.inputs and node.inputs[0] is not None:
            ensemble = _ensemble(node, node.inputs[0])
            if ensemble is not None and len(ensemble.column):
                models.append(ensemble)
    return models


def _numbers(node: ir.Node, *names: str) -> np.ndarray | None:
    for name in names:
        if name in node.attributes:
            value = node.attributes[name].value
            return np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    return None


def _ensemble(node: ir.Node, features: ir.Value) -> Ensemble | None:
    columns, levels = _numbers(node, "nodes_featureids"), _numbers(node, *_LEVELS)
    yes, no = _numbers(node, "nodes_truenodeids"), _numbers(node, "nodes_falsenodeids")
    if columns is None or levels is None or yes is None or no is None or len(levels) != len(columns):
        return None
    modes = node.attributes["nodes_modes"].value if "nodes_modes" in node.attributes else ()
    upper, splits = _modes(modes, len(columns))
    if "tree_roots" in node.attributes:
        leaves = [_numbers(node, "nodes_trueleafs"), _numbers(node, "nodes_falseleafs")]
        pairs = zip((yes, no), leaves, strict=True)
        links = [ids if leaf is None else np.where(leaf != 0, -1, ids) for ids, leaf in pairs]
    else:
        trees, names = _numbers(node, "nodes_treeids"), _numbers(node, "nodes_nodeids")
        if trees is None or names is None:
            return None
        links = [_places(trees, names, ids) for ids in (yes, no)]
    parent, taken = np.full(len(columns), -1), np.zeros(len(columns), bool)
    for branch, link in zip((True, False), links, strict=True):
        above = np.flatnonzero(splits & (link >= 0))
        below = link[above]
        parent[below], taken[below] = above, branch
    kept = splits & np.isfinite(levels.astype(np.float64))
    place = np.cumsum(kept) - 1
    parent = np.where((parent >= 0) & kept[parent], place[parent], -1)
    return Ensemble(features, columns[kept], levels[kept], upper[kept], parent[kept], taken[kept])


def _modes(modes: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """For each node whether true means numbers up to the threshold, and whether it splits at all."""
    words = modes.numpy().tolist() if hasattr(modes, "numpy") else list(modes)
    texts = [word.decode() if isinstance(word, bytes) else word for word in words]
    numbers = [word if isinstance(word, int) else _MODES.get(word, -1) for word in texts] or [0] * count
    return np.isin(numbers, (0, 1)), np.isin(numbers, (0, 1, 2, 3))


def _places(trees: np.ndarray, names: np.ndarray, children: np.ndarray) -> np.ndarray:
    """The place of each node's child, by the number of its tree and its own."""
    width = int(names.max(initial=0)) + 1
    index = {int(key): place for place, key in enumerate(trees.astype(np.int64) * width + names)}
    return np.asarray([index.get(int(key), -1) for key in trees.astype(np.int64) * width + children])


def thresholds(value: ir.Value) -> dict[int, np.ndarray] | None:
    """The thresholds at which trees split each column of the value; None where no tree reads it."""
    levels_by_column: dict[int, list[float]] = {}
    for node, _ in consumers(value):
        if not node.op_type.startswith("TreeEnsemble"):
            continue
        columns, levels = _numbers(node, "nodes_featureids"), _numbers(node, *_LEVELS)
        if columns is None or levels is None:
            continue
        for feature, level in zip(columns, levels, strict=False):
            if np.isfinite(level):
                levels_by_column.setdefault(int(feature), []).append(float(level))
    return {feature: np.asarray(levels) for feature, levels in levels_by_column.items()} if levels_by_column else None
