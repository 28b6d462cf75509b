"""Whole numbers that look up every row of the tables of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.validation.input_sets.base import own_inputs
from onnxport.validation.input_sets.domains import index_limit
from onnxport.validation.input_sets.given import in_order_of

_LONGEST = 1 << 18  # rows; the largest vocabularies in use. The ledger knows whether there is time for a table.


def tables(graph: ir.Model) -> dict[int, int]:
    """For each input that looks up rows of a table, by its place: how many rows there are."""
    whole = [
        (i, value) for i, value in enumerate(own_inputs(graph)) if value.dtype is not None and value.dtype.is_integer()
    ]
    limits = ((place, index_limit(value)) for place, value in whole)
    return {place: limit for place, limit in limits if limit is not None and limit <= _LONGEST}


def rows_for(
    rows_by_leaf: Mapping[int, int], leaves: Sequence[Any], sizes: Mapping[str, int], batch: set[str]
) -> dict[str, int]:
    """The sizes at which every input of tables has as many elements as its table has rows; the leaves are of sizes `sizes`."""
    count = next((size for name, size in sizes.items() if name in batch), 0)
    elements = {place: int(np.size(leaves[place])) for place in rows_by_leaf}
    if not count or not all(elements.values()):
        return dict(sizes)
    times = max((ceil(rows / elements[place]) for place, rows in rows_by_leaf.items()), default=1)
    return {name: size * times if name in batch else size for name, size in sizes.items()}


def all_asked(rows_by_leaf: Mapping[int, int], leaves: Sequence[Any], times: int) -> bool:
    """Whether so many times the leaves have an element for each row of their tables."""
    return all(int(np.size(leaves[place])) * times >= rows for place, rows in rows_by_leaf.items())


def with_every_row(rows_by_leaf: Mapping[int, int], leaves: Sequence[Any], rng: np.random.Generator) -> tuple[Any, ...]:
    """The leaves with every row of every table asked for, as far as there are elements for them."""
    changed = list(leaves)
    for place, rows in rows_by_leaf.items():
        leaf = leaves[place]
        if isinstance(leaf, np.ndarray) and leaf.ndim:
            asked = np.resize(rng.permutation(rows), leaf.shape).astype(leaf.dtype)
            changed[place] = in_order_of(leaf, asked)
    return tuple(changed)
