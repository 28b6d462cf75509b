"""Rows that lie at the thresholds of a graph's trees, each where a path through its tree comes to that threshold.

A threshold that a converter moved lies elsewhere than the source's: a row at the moved one falls on different sides of the
two, and shows, provided that it gets there. What stands between the inputs and the trees is inverted where it scales columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.graph.external_data import weight_bytes
from onnxport.graph.protos import to_proto
from onnxport.graph.runtime import Session
from onnxport.validation.input_sets.base import own_inputs
from onnxport.validation.input_sets.domains import consumers

# Thresholds beyond these many are sampled; columns beyond these many are not told apart.
_MOST_SPLITS, _MOST_COLUMNS = 4000, 1024
# Graphs with more weights are not run in parts.
_MOST_WEIGHTS = 1 << 28
# How far beside a threshold a row lies where what is computed before the trees is rounded, in shares of the column's spread.
_BESIDE = 1e-3
_LEVELS = ("nodes_values", "nodes_values_as_tensor", "nodes_splits")


@dataclass(frozen=True)
class Ensemble:
    """The splits of one node's trees.

    Attributes:
        features: the value that the trees read.
        column: the column that each split compares.
        level: the threshold that it compares it with.
        upper: whether "true" means numbers up to the threshold (else from it on).
        parent: the split above each one; -1 at a root.
        taken: whether a split hangs on the true branch of the one above.
    """

    features: ir.Value
    column: np.ndarray
    level: np.ndarray
    upper: np.ndarray
    parent: np.ndarray
    taken: np.ndarray


def ensembles(graph: ir.Graph) -> list[Ensemble]:
    """Every tree ensemble of the main graph whose splits compare numbers with thresholds."""
    found = []
    for node in graph:
        if node.op_type.startswith("TreeEnsemble") and node.inputs and node.inputs[0] is not None:
            ensemble = _ensemble(node, node.inputs[0])
            if ensemble is not None and len(ensemble.column):
                found.append(ensemble)
    return found


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
        links = [
            ids if leaf is None else np.where(leaf != 0, -1, ids) for ids, leaf in zip((yes, no), leaves, strict=True)
        ]
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
    words = (
        modes.numpy().tolist()
        if hasattr(modes, "numpy")
        else [m.decode() if isinstance(m, bytes) else m for m in modes]
    )
    numbered = {0: "BRANCH_LEQ", 1: "BRANCH_LT", 2: "BRANCH_GTE", 3: "BRANCH_GT", 4: "BRANCH_EQ", 5: "BRANCH_NEQ"}
    words = [numbered[word] if isinstance(word, int) and word in numbered else str(word) for word in words] or [
        "BRANCH_LEQ"
    ] * count
    upper = np.asarray([word in ("BRANCH_LEQ", "BRANCH_LT") for word in words])
    splits = np.asarray([word in ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT") for word in words])
    return upper, splits


def _places(trees: np.ndarray, names: np.ndarray, children: np.ndarray) -> np.ndarray:
    """The place of each node's child, by the number of its tree and its own."""
    width = int(names.max(initial=0)) + 1
    index = {int(key): place for place, key in enumerate(trees.astype(np.int64) * width + names)}
    return np.asarray([index.get(int(key), -1) for key in trees.astype(np.int64) * width + children])


def thresholds(value: ir.Value) -> dict[int, np.ndarray] | None:
    """The thresholds at which trees split each column of the value; None where no tree reads it."""
    found: dict[int, list[float]] = {}
    for node, _ in consumers(value):
        if not node.op_type.startswith("TreeEnsemble"):
            continue
        columns, levels = _numbers(node, "nodes_featureids"), _numbers(node, *_LEVELS)
        if columns is None or levels is None:
            continue
        for feature, level in zip(columns, levels, strict=False):
            if np.isfinite(level):
                found.setdefault(int(feature), []).append(float(level))
    return {feature: np.asarray(levels) for feature, levels in found.items()} if found else None


# -- from the trees' columns back to the inputs ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """Where a column that trees read comes from: ``slope * input[:, place] + shift``; exactly, where that is a copy."""

    leaf: int
    place: int
    slope: float = 1.0
    shift: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether the column is the input's own."""
        return self.slope == 1.0 and self.shift == 0.0


def columns_of(graph: ir.Model, value: ir.Value, leaves: Sequence[Any]) -> dict[int, Column]:
    """For each column of a value the one column of an input that it scales, as far as there is such a one."""
    inputs = own_inputs(graph)
    if value in inputs:
        leaf = inputs.index(value)
        width = leaves[leaf].shape[1] if np.ndim(leaves[leaf]) == 2 else 0
        return {place: Column(leaf, place) for place in range(width)}
    places = [
        (i, j)
        for i, leaf in enumerate(leaves)
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" and leaf.ndim == 2
        for j in range(leaf.shape[1])
    ]
    if not places or len(places) > _MOST_COLUMNS or weight_bytes(graph) > _MOST_WEIGHTS:
        return {}
    steps = {(i, j): float(np.nanstd(leaves[i][:, j])) or 1.0 for i, j in places}
    probes = [
        np.repeat(np.nan_to_num(leaf[:1]) if _is_float(leaf) else leaf[:1], 1 + 2 * len(places), axis=0)
        for leaf in leaves
    ]
    for row, (i, j) in enumerate(places):
        probes[i][1 + 2 * row, j] += steps[i, j]
        probes[i][2 + 2 * row, j] += 2 * steps[i, j]
    try:
        read = _run_up_to(graph, value, probes)
    except OnnxportError:  # the rows are a service
        return {}
    if read.ndim != 2 or len(read) != 1 + 2 * len(places):
        return {}
    once, twice = read[1::2] - read[0], read[2::2] - read[0]
    found = {}
    for column in range(read.shape[1]):
        drivers = np.flatnonzero((once[:, column] != 0) | (twice[:, column] != 0))
        if len(drivers) != 1:
            continue
        row = int(drivers[0])
        step, (i, j) = float(once[row, column]), places[row]
        if np.isfinite(step) and step and np.isclose(twice[row, column], 2 * step, rtol=1e-3):
            found[column] = _column(probes, read, column, row, (i, j))
    return found


def _column(probes: Sequence[np.ndarray], read: np.ndarray, column: int, row: int, place: tuple[int, int]) -> Column:
    (i, j), rows = place, [0, 1 + 2 * row, 2 + 2 * row]
    given, seen = probes[i][rows, j].astype(np.float64), read[rows, column].astype(np.float64)
    if np.array_equal(given, seen):
        return Column(i, j)
    slope = float((seen[2] - seen[0]) / (given[2] - given[0]))
    return Column(i, j, slope, float(seen[0] - slope * given[0]))


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f"


def _run_up_to(graph: ir.Model, value: ir.Value, leaves: Sequence[Any]) -> np.ndarray:
    proto = to_proto(graph)
    proto.graph.output.append(onnx.ValueInfoProto(name=value.name))
    feeds = {item.name or "": leaf for item, leaf in zip(own_inputs(graph), leaves, strict=True)}
    return np.asarray(Session(proto, optimize=False).run(feeds, [value.name or ""])[0])


# -- rows ------------------------------------------------------------------------------------------------------------------


def rows_at_thresholds(graph: ir.Model, leaves: Sequence[Any], rng: np.random.Generator) -> tuple[Any, ...] | None:
    """Rows like the given ones that come to every split of every tree, on its threshold and to either side.

    None where there are no trees, or none whose columns can be traced to inputs.
    """
    count = len(leaves[0]) if leaves and np.ndim(leaves[0]) else 0
    if not count or any(np.ndim(leaf) == 0 or len(leaf) != count for leaf in leaves):
        return None
    found = ensembles(graph.graph)
    share = max(_MOST_SPLITS // max(len(found), 1), 1)
    blocks = []
    for ensemble in found:
        columns = columns_of(graph, ensemble.features, leaves)
        blocks += list(_blocks(ensemble, columns, leaves, rng, share))
    if not blocks:
        return None
    return tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))


def _blocks(
    ensemble: Ensemble, columns: Mapping[int, Column], leaves: Sequence[Any], rng: np.random.Generator, share: int
) -> Iterator[tuple[np.ndarray, ...]]:
    splits = np.flatnonzero(np.isin(ensemble.column, list(columns)))
    if len(splits) > share:
        splits = np.sort(rng.choice(splits, share, replace=False))
    if not len(splits):
        return
    spread = {column: _spread(ensemble.level[ensemble.column == column]) for column in columns}
    reachable = [(split, box) for split in splits if (box := _box(ensemble, int(split), columns)) is not None]
    if not reachable:
        return
    start = rng.integers(0, len(leaves[0]), len(reachable))
    for move in (-1, 0, 1):
        made = [leaf[start].copy() for leaf in leaves]
        for row, (split, box) in enumerate(reachable):
            target = int(ensemble.column[split])
            for feature, (low, high) in box.items():
                _place(made, row, columns[feature], _between(made, row, columns[feature], low, high))
            _place(made, row, columns[target], float(ensemble.level[split]), move, _BESIDE * spread[target])
        yield tuple(made)


def _spread(levels: np.ndarray) -> float:
    wide = levels.astype(np.float64)
    return float(np.ptp(wide)) or max(float(np.abs(wide).max(initial=0.0)), 1.0) if len(wide) else 1.0


def _box(ensemble: Ensemble, split: int, columns: Mapping[int, Column]) -> dict[int, tuple[float, float]] | None:
    """Between which numbers columns must lie for a row to come to a split; None where its threshold is never met there."""
    box: dict[int, tuple[float, float]] = {}
    child, above = split, int(ensemble.parent[split])
    while above >= 0:
        column, level = int(ensemble.column[above]), float(ensemble.level[above])
        if column not in columns:
            return None
        low, high = box.get(column, (-np.inf, np.inf))
        below = bool(ensemble.upper[above]) == bool(ensemble.taken[child])
        box[column] = (low, min(high, level)) if below else (max(low, level), high)
        child, above = above, int(ensemble.parent[above])
    own = box.pop(int(ensemble.column[split]), (-np.inf, np.inf))
    met = own[0] <= ensemble.level[split] <= own[1]
    return box if met and all(low < high for low, high in box.values()) else None


def _between(made: Sequence[np.ndarray], row: int, column: Column, low: float, high: float) -> float:
    """The row's own number if it lies between the two, else one that does."""
    own = column.slope * float(made[column.leaf][row, column.place]) + column.shift
    if low < own < high:
        return own
    if np.isfinite(low) and np.isfinite(high):
        return (low + high) / 2
    step = max(abs(low if np.isfinite(low) else high), 1.0) * 0.1
    return low + step if np.isfinite(low) else high - step


def _place(
    made: Sequence[np.ndarray], row: int, column: Column, number: float, move: int = 0, beside: float = 0.0
) -> None:
    """Writes what becomes `number`, or the next one below or above; where it is computed, one well beside it."""
    leaf = made[column.leaf]
    if column.exact:
        on = leaf.dtype.type(number)
        leaf[row, column.place] = on if not move else np.nextafter(on, leaf.dtype.type(move * np.inf))
    else:
        leaf[row, column.place] = (number + move * beside - column.shift) / column.slope
