"""From the columns that trees read back to the columns of the inputs, through what copies or scales them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.graph.external_data import weight_bytes
from onnxport.graph.runtime import Session
from onnxport.graph.segments import segment, segment_model
from onnxport.validation.input_sets.base import own_inputs

# Columns beyond these many are not distinguished; graphs with more weights are not run in parts.
_MOST_COLUMNS, _MOST_WEIGHTS = 1024, 1 << 28
_LINEAR = 1e-2  # how far, as a share, a column may be off a line: a wrong converter's may be rounded to float16
# Types that a copy of a column may be rounded to; the second by a wrong converter only.
_NARROW = (np.float32, np.float16)

# The features of rows: what trees read, computed from the leaves of a set of inputs.
Reader = Callable[[Sequence[Any]], np.ndarray]


@dataclass(frozen=True)
class TreeColumn:
    """Where a column that trees read comes from: ``slope * input[:, place] + shift``."""

    leaf: int  # which input
    place: int  # which column of it
    slope: float = 1.0  # of the line
    shift: float = 0.0  # of the line
    # Where the column is a copy, the type whose numbers come through as they are; None where it is computed.
    copied_as: np.dtype | None = None


def reader(graph: ir.Model, value: ir.Value, leaves: Sequence[Any]) -> Reader | None:
    """What computes a value of the graph from leaves like these; None where it is an input or can't be run by itself."""
    if value.producer() is None or weight_bytes(graph) > _MOST_WEIGHTS:
        return None
    nodes, inputs = segment(value, ())
    places = {item.name or "": place for place, item in enumerate(own_inputs(graph)) if item in inputs}
    like = {name: np.asarray(leaves[place]) for name, place in places.items()}
    try:
        session = Session(segment_model(graph, nodes, inputs, [value], like), optimize=False)
    except OnnxportError:  # the rows are a service
        return None
    return lambda rows: np.asarray(session.run({name: rows[place] for name, place in places.items()})[0])


def columns_of(
    graph: ir.Model, value: ir.Value, leaves: Sequence[Any], features: Reader | None
) -> dict[int, TreeColumn]:
    """For each column of a value the one column of an input that it copies or scales, as far as there is such a one."""
    inputs = own_inputs(graph)
    if value in inputs:
        leaf = inputs.index(value)
        width = leaves[leaf].shape[1] if np.ndim(leaves[leaf]) == 2 else 0
        return {place: TreeColumn(leaf, place, copied_as=leaves[leaf].dtype) for place in range(width)}
    tables = [i for i, leaf in enumerate(leaves) if _is_float(leaf) and leaf.ndim == 2]
    places = [(i, j) for i in tables for j in range(leaves[i].shape[1])]
    if features is None or not places or len(places) > _MOST_COLUMNS:
        return {}
    probes = _probes(leaves, places)
    try:
        read = features(probes)
    except OnnxportError:  # the rows are a service
        return {}
    if read.ndim != 2 or len(read) != 1 + 2 * len(places):
        return {}
    once, twice = read[1::2] - read[0], read[2::2] - read[0]
    columns = {}
    for column in range(read.shape[1]):
        drivers = np.flatnonzero((once[:, column] != 0) | (twice[:, column] != 0))
        if len(drivers) != 1:
            continue
        row = int(drivers[0])
        step = float(once[row, column])
        if np.isfinite(step) and step and np.isclose(twice[row, column], 2 * step, rtol=_LINEAR):
            columns[column] = _column(probes, read, column, row, places[row])
    return columns


def _probes(leaves: Sequence[Any], places: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """The first row, and for each column of an input two more in which it alone is larger by one step and by two."""
    rows = [np.nan_to_num(leaf[:1]) if _is_float(leaf) else leaf[:1] for leaf in leaves]
    probes = [np.repeat(row, 1 + 2 * len(places), axis=0) for row in rows]
    for row, (i, j) in enumerate(places):
        step = float(np.nanstd(leaves[i][:, j])) or 1.0
        probes[i][1 + 2 * row, j] += step
        probes[i][2 + 2 * row, j] += 2 * step
    return probes


def _column(
    probes: Sequence[np.ndarray], read: np.ndarray, column: int, row: int, place: tuple[int, int]
) -> TreeColumn:
    (i, j), rows = place, [0, 1 + 2 * row, 2 + 2 * row]
    exact, seen = probes[i][rows, j], read[rows, column].astype(np.float64)
    given = exact.astype(np.float64)
    if np.array_equal(given, seen):
        return TreeColumn(i, j, copied_as=exact.dtype)
    if any(np.array_equal(exact.astype(narrow).astype(np.float64), seen) for narrow in _NARROW):
        return TreeColumn(i, j, copied_as=np.dtype(np.float32))
    slope = float((seen[2] - seen[0]) / (given[2] - given[0]))
    return TreeColumn(i, j, slope, float(seen[0] - slope * given[0]))


def _is_float(leaf: object) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f"
