"""Rows that lie at the thresholds of a graph's trees, each where a path through its tree comes to that threshold.

A threshold that a converter moved lies elsewhere than the source's: a row at the moved one falls on different sides of the
two, and shows, provided that it gets there. So does what is rounded too coarsely before the trees. What stands between the
inputs and the trees is inverted where it scales columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.validation.input_sets.tree_columns import Reader, TreeColumn, columns_of, reader
from onnxport.validation.input_sets.trees import Ensemble, ensembles

# Thresholds beyond these many are sampled. Where there are fewer than the next number and the trees read copies of the inputs,
# up to so many rows come to each from different ones: both sides of a split may end in one class for a row and not for another.
_MOST_SPLITS, _FEW_SPLITS, _MOST_STARTS = 4000, 512, 8
# How far beside a threshold a row lies where what is computed before the trees can't be followed, in shares of the column's
# spread; between which numbers, as a share of them, a computed column is searched for the threshold, and in how many halvings.
_BESIDE, _AROUND, _HALVINGS = 1e-3, 2.0**-6, 18
# How far a row lies beside a threshold that bisection gave: these many roundings to float32, which trees read.
_ROUNDINGS = 16 * 2.0**-23


def rows_at_thresholds(graph: ir.Model, leaves: Sequence[Any], rng: np.random.Generator) -> tuple[Any, ...] | None:
    """Rows like the given ones that come to every split of every tree, on its threshold and to either side.

    None where there are no trees, or no rows come to their splits.
    """
    count = len(leaves[0]) if leaves and np.ndim(leaves[0]) else 0
    if not count or any(np.ndim(leaf) == 0 or len(leaf) != count for leaf in leaves):
        return None
    models = ensembles(graph.graph)
    share = max(_MOST_SPLITS // max(len(models), 1), 1)
    blocks = []
    for ensemble in models:
        features = reader(graph, ensemble.features, leaves)
        columns = columns_of(graph, ensemble.features, leaves, features)
        blocks += _blocks(ensemble, columns, leaves, rng, share, features)
    if not blocks:
        return None
    return tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))


def _blocks(
    ensemble: Ensemble,
    columns: Mapping[int, TreeColumn],
    leaves: Sequence[Any],
    rng: np.random.Generator,
    share: int,
    features: Reader | None,
) -> list[list[np.ndarray]]:
    """Rows below every threshold, as many on it, as many above it."""
    splits = np.arange(len(ensemble.column))
    if len(splits) > share:
        splits = np.sort(rng.choice(splits, share, replace=False))
    elif all(column.copied_as is not None for column in columns.values()):
        splits = np.repeat(splits, np.clip(_FEW_SPLITS // max(len(splits), 1), 1, _MOST_STARTS))
    seen = _features_of(leaves, features)
    routes = [r for split in splits if (r := _route(ensemble, int(split), columns, seen, rng)) is not None]
    if not routes:
        return []
    spread = {column: _spread(ensemble.level[ensemble.column == column]) for column in columns}
    blocks = []
    for move in (-1, 0, 1):
        start = [route.starts[move + 1] for route in routes]
        block = [leaf[start].copy() for leaf in leaves]
        for row, route in enumerate(routes):
            for feature, (low, high) in route.box.items():
                _place(block, row, columns[feature], _between(block, row, columns[feature], low, high))
            if route.target in columns:
                _place(block, row, columns[route.target], route.level, move, _BESIDE * spread[route.target])
        blocks.append(block)
    computed = {target for target, column in columns.items() if column.copied_as is None}
    goals = [Goal(i, r.target, r.level, columns[r.target]) for i, r in enumerate(routes) if r.target in computed]
    if goals and features is not None:
        _approach(blocks, goals, spread, features)
    return blocks


def _features_of(leaves: Sequence[Any], features: Reader | None) -> np.ndarray:
    """What trees read of the given rows; no columns where that is not known."""
    unknown = np.zeros((len(leaves[0]), 0))
    try:
        seen = features(leaves) if features is not None else unknown
    except OnnxportError:  # the rows are a service
        return unknown
    return seen if seen.ndim == 2 and len(seen) == len(unknown) else unknown


@dataclass(frozen=True)
class Route:
    """How rows come to a split."""

    target: int  # the column that it compares
    level: float  # the threshold that it compares it with
    # From which of the given rows the one below the threshold, the one on it and the one above it come.
    starts: tuple[int, int, int]
    box: dict[int, tuple[float, float]]  # between which numbers the columns lie that can be traced to inputs


def _route(
    ensemble: Ensemble, split: int, columns: Mapping[int, TreeColumn], seen: np.ndarray, rng: np.random.Generator
) -> Route | None:
    """How rows come to a split; None where no given row can come to it.

    Columns that can't be traced to inputs, as those of words are, stay what they are in the given rows; `seen` has them.
    """
    box = _box(ensemble, split)
    if box is None:
        return None
    target, level = int(ensemble.column[split]), float(ensemble.level[split])
    fixed = [column for column in box if column not in columns]
    if any(column >= seen.shape[1] for column in (*fixed, *([] if target in columns else [target]))):
        return None
    if not fixed and target in columns:
        start = int(rng.integers(len(seen)))
        return Route(target, level, (start, start, start), box)
    fits = np.ones(len(seen), bool)
    for column in fixed:
        low, high = box.pop(column)
        fits &= (seen[:, column] > low) & (seen[:, column] <= high)
    if not fits.any():
        return None
    if target in columns:
        start = int(rng.choice(np.flatnonzero(fits)))
        return Route(target, level, (start, start, start), box)
    sides = (fits & (seen[:, target] <= level), fits, fits & (seen[:, target] > level))
    below, on, above = (int(rng.choice(np.flatnonzero(side if side.any() else fits))) for side in sides)
    return Route(target, level, (below, on, above), box)


def _spread(levels: np.ndarray) -> float:
    wide = levels.astype(np.float64)
    return float(np.ptp(wide)) or max(float(np.abs(wide).max(initial=0.0)), 1.0) if len(wide) else 1.0


def _box(ensemble: Ensemble, split: int) -> dict[int, tuple[float, float]] | None:
    """Between which numbers columns must lie for a row to come to a split; None where its threshold is never met there."""
    box: dict[int, tuple[float, float]] = {}
    child, above = split, int(ensemble.parent[split])
    while above >= 0:
        column, level = int(ensemble.column[above]), float(ensemble.level[above])
        low, high = box.get(column, (-np.inf, np.inf))
        below = bool(ensemble.upper[above]) == bool(ensemble.taken[child])
        box[column] = (low, min(high, level)) if below else (max(low, level), high)
        child, above = above, int(ensemble.parent[above])
    own = box.pop(int(ensemble.column[split]), (-np.inf, np.inf))
    met = own[0] <= ensemble.level[split] <= own[1]
    return box if met and all(low < high for low, high in box.values()) else None


def _between(block: Sequence[np.ndarray], row: int, column: TreeColumn, low: float, high: float) -> float:
    """The row's own number if it lies between the two, else one that does."""
    own = column.slope * float(block[column.leaf][row, column.place]) + column.shift
    if low < own < high:
        return own
    if np.isfinite(low) and np.isfinite(high):
        return (low + high) / 2
    step = max(abs(low if np.isfinite(low) else high), 1.0) * 0.1
    return low + step if np.isfinite(low) else high - step


def _place(
    block: Sequence[np.ndarray], row: int, column: TreeColumn, number: float, move: int = 0, beside: float = 0.0
) -> None:
    """Writes what becomes `number`, or the next one below or above; where it is computed, one well beside it."""
    leaf = block[column.leaf]
    if column.copied_as is not None and column.copied_as.kind != "f":
        leaf[row, column.place] = np.floor(number) + move
    elif column.copied_as is not None:
        kind = column.copied_as.type
        leaf[row, column.place] = kind(number) if not move else np.nextafter(kind(number), kind(move * np.inf))
    else:
        leaf[row, column.place] = (number + move * beside - column.shift) / column.slope


@dataclass(frozen=True)
class Goal:
    """A row whose computed column `feature` shall come to a threshold."""

    row: int
    feature: int
    level: float
    column: TreeColumn


def _approach(
    blocks: Sequence[list[np.ndarray]], goals: Sequence[Goal], spread: Mapping[int, float], features: Reader
) -> None:
    """Moves rows of computed columns to just beside where the column itself passes the threshold, by bisection.

    The line that a column was taken for is as good as the roundings on the way: the search does not depend on it.
    """
    below, on, above = blocks
    lines = zip(*((goal.level, goal.column.slope, goal.column.shift) for goal in goals), strict=True)
    level, slope, shift = (np.asarray(numbers) for numbers in lines)
    around = _AROUND * (np.asarray([spread[goal.feature] for goal in goals]) + np.abs(level))
    low, high = (level - around - shift) / slope, (level + around - shift) / slope
    places = _places(goals)
    kept = _numbers_at(on, places)
    rows, columns = [goal.row for goal in goals], [goal.feature for goal in goals]

    def is_up_to(numbers: np.ndarray) -> np.ndarray:
        """Whether the columns are up to their thresholds where the inputs behind them are these numbers."""
        _write(on, places, numbers)
        return features(on)[rows, columns] <= level

    try:
        at_low, at_high = is_up_to(low), is_up_to(high)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            same = is_up_to(middle) == at_low
            low, high = np.where(same, middle, low), np.where(same, high, middle)
    except OnnxportError:  # the rows are a service
        at_high = at_low = np.zeros(len(goals), bool)
    passed = at_low != at_high
    middle = (low + high) / 2
    beside = np.sign(slope) * np.maximum(np.abs(middle), (np.abs(level) + np.abs(shift)) / np.abs(slope)) * _ROUNDINGS
    for block, near, otherwise in (
        (below, low - beside, _numbers_at(below, places)),
        (on, middle, kept),
        (above, high + beside, _numbers_at(above, places)),
    ):
        _write(block, places, np.where(passed, near, otherwise))


# By input where goals' numbers stand in it: which goals', their rows and their places in a row.
Places = Mapping[int, tuple[np.ndarray, list[int], list[int]]]


def _places(goals: Sequence[Goal]) -> Places:
    inputs = np.asarray([goal.column.leaf for goal in goals])
    groups = {int(leaf): np.flatnonzero(inputs == leaf) for leaf in np.unique(inputs)}
    return {
        leaf: (mine, [goals[i].row for i in mine.tolist()], [goals[i].column.place for i in mine.tolist()])
        for leaf, mine in groups.items()
    }


def _numbers_at(block: list[np.ndarray], places: Places) -> np.ndarray:
    numbers = np.empty(sum(len(mine) for mine, _, _ in places.values()))
    for leaf, (mine, rows, columns) in places.items():
        numbers[mine] = block[leaf][rows, columns]
    return numbers


def _write(block: list[np.ndarray], places: Places, numbers: np.ndarray) -> None:
    for leaf, (mine, rows, columns) in places.items():
        block[leaf][rows, columns] = numbers[mine]
