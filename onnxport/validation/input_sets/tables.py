"""Sets made of a table's rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.validation.input_sets.base import InputSet, own_inputs
from onnxport.validation.input_sets.trees import thresholds


def table_sets(leaves: Sequence[Any], graph: ir.Model | None, *, missing: bool, seed: int) -> Iterator[InputSet]:
    """Cheap further sets for a table of rows.

    Rows in another order; columns dealt anew; all zeros; missing values where the estimator allows them; and for trees
    rows that lie on their thresholds and one step beside them, where a threshold that was rounded wrongly shows.
    """
    arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray) and leaf.ndim]
    rows = len(arrays[0]) if arrays else 0
    if not rows or any(len(array) != rows for array in arrays):
        return
    rng = np.random.default_rng(seed)
    order = rng.permutation(rows)
    yield InputSet("rows in another order", tuple(leaf[order] for leaf in leaves))
    floats = [i for i, leaf in enumerate(leaves) if leaf.dtype.kind == "f"]
    if not floats:
        return
    # Each column's values dealt out anew: combinations that no given row has.
    dealt = tuple(rng.permuted(leaf, axis=0) if i in floats else leaf for i, leaf in enumerate(leaves))
    yield InputSet("columns dealt anew", dealt)
    yield InputSet("zeros", tuple(np.zeros_like(leaf) if i in floats else leaf for i, leaf in enumerate(leaves)))
    if missing:
        holes = tuple(
            np.where(rng.random(leaf.shape) < 0.2, np.nan, leaf).astype(leaf.dtype) if i in floats else leaf
            for i, leaf in enumerate(leaves)
        )
        yield InputSet("missing values", holes)
    if graph is not None and len(leaves) == 1 and leaves[0].ndim == 2:
        levels = thresholds(own_inputs(graph)[0])
        if levels is not None:
            yield InputSet("at thresholds", (_at_thresholds(leaves[0], levels, rng),))


def _at_thresholds(leaf: np.ndarray, levels: Mapping[int, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    rows = max(len(leaf), 64)
    made = leaf[np.arange(rows) % len(leaf)].copy()
    for column, found in levels.items():
        if column >= made.shape[1]:
            continue
        on = rng.choice(found, rows).astype(made.dtype)
        step = rng.integers(-1, 2, rows)
        beside = np.nextafter(on, np.where(step < 0, -np.inf, np.inf).astype(made.dtype))
        made[:, column] = np.where(rng.random(rows) < 0.5, np.where(step == 0, on, beside), made[:, column])
    return made
