"""Sets from a table's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onnxport.validation.input_sets.base import InputSet


def table_sets(leaves: Sequence[Any], *, missing: bool, seed: int) -> Iterator[InputSet]:
    """Cheap further sets for a table of rows.

    Rows in another order; one row; columns dealt anew; all zeros; missing values where the estimator allows them.
    """
    arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray) and leaf.ndim]
    rows = len(arrays[0]) if arrays else 0
    if not rows or any(len(array) != rows for array in arrays):
        return
    rng = np.random.default_rng(seed)
    order = rng.permutation(rows)
    yield InputSet("rows in another order", tuple(leaf[order] for leaf in leaves))
    if rows > 1:
        yield InputSet("one row", tuple(leaf[order[:1]] for leaf in leaves))
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
