"""Sets from a table's rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.input_sets.domains import UNKNOWN, known_numbers, vocabulary

# How far other rows go beyond the given ones, the boldest first: any numbers and every word that the graph knows; numbers of
# the sign that a column has; numbers between its ends; numbers near those of one row. All but the first keep whole numbers and
# words as they are given.
Reach = Literal["any", "sign", "between", "near"]
_REACHES: tuple[Reach, ...] = ("any", "sign", "between", "near")
# By how many spreads of its column a number moves: one of these for a row; and how often it changes its sign.
_MOVES, _TURNED, _NEAR = (0.3, 1.0, 3.0), 0.25, 0.05
# How many rows: where a graph has branches more than the 64 from which on our files of neighbours take another one, so that
# both are taken; else no more than onnxruntime's trees compute in one thread (others go on waiting for work, at a cost).
_OTHER_ROWS, _ROWS_OF_BRANCHES = 48, 96
_MOST_ROWS = 1024  # where there are so many categories
_WORDS = 6  # a text holds up to so many
# Words that stand for a missing cell in a file; to the source they are words.
_MISSING = frozenset((UNKNOWN, "", "nan", "NaN", "None", "none", "<NA>", "NaT"))


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


def other_rows(
    leaves: Sequence[Any],
    values: Sequence[ir.Value] | None,
    known: Mapping[tuple[int, int], np.ndarray],
    *,
    count: int | None,
    seed: int,
) -> Iterator[InputSet]:
    """Candidates for a table of rows that nobody gave, the boldest first: of three given rows many parts of a model see nothing.

    Args:
        leaves: the given columns, or arrays of them.
        values: the graph's inputs that take them; None without a graph.
        known: categories that the source knows, by leaf and column in it.
        count: how many rows there have to be; None where they may be any number.
        seed: of what is drawn.
    """
    if not leaves or not all(isinstance(leaf, np.ndarray) and leaf.ndim and len(leaf) for leaf in leaves):
        return
    if len({len(leaf) for leaf in leaves}) > 1:
        return
    inputs = values if values is not None and len(values) == len(leaves) else [None] * len(leaves)
    graph = inputs[0].graph if inputs[0] is not None else None
    branches = graph is not None and any(node.op_type == "If" for node in graph)
    usual = _ROWS_OF_BRANCHES if branches else _OTHER_ROWS
    number = count or min(max([usual, *map(len, known.values())]), _MOST_ROWS)
    for reach in _REACHES:
        rng = np.random.default_rng(seed)
        start = rng.integers(len(leaves[0]), size=number)
        rows = tuple(_rows(leaf, value, start, reach, rng) for leaf, value in zip(leaves, inputs, strict=True))
        yield InputSet("other rows", _with_categories(rows, known, rng) if reach != "near" else rows, cheap=True)


def _rows(
    leaf: np.ndarray, value: ir.Value | None, start: np.ndarray, reach: Reach, rng: np.random.Generator
) -> np.ndarray:
    rows = leaf[start] if reach == "near" else rng.permuted(leaf[start], axis=0)
    if leaf.dtype.kind == "f":
        return _moved(leaf, rows, reach, rng)
    known: list[Any] = []
    if value is not None and reach == "any" and leaf[:1].size == 1:
        words = leaf.dtype.kind in "OU"
        known = [word for word in vocabulary(value) if word not in _MISSING] if words else known_numbers(value)
    if not known:
        return rows
    drawn = rng.choice(np.asarray(known, dtype=object), (len(start), _WORDS))
    texts = leaf.dtype.kind in "OU" and any(" " in str(text) for text in leaf.reshape(-1)[:_OTHER_ROWS])
    chosen = [" ".join(row[: 1 + i % _WORDS]) if texts else row[0] for i, row in enumerate(drawn)]
    return _of_type(np.asarray(chosen, dtype=object), leaf.dtype).reshape(rows.shape)


def _of_type(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Objects as elements of a type; words as long as they are."""
    return values.astype(str if dtype.kind == "U" else dtype)


def _moved(leaf: np.ndarray, rows: np.ndarray, reach: Reach, rng: np.random.Generator) -> np.ndarray:
    """Rows of numbers whose columns are spread as the given ones are, or as far as the numbers are large."""
    wide = leaf.astype(np.float64)
    finite = np.isfinite(wide)
    if not finite.all():  # a cell without a number counts as the column's mean, a column without any as 0
        count = np.maximum(finite.sum(axis=0), 1)
        wide = np.where(finite, wide, np.where(finite, wide, 0.0).sum(axis=0) / count)
    low, high, spread = wide.min(axis=0), wide.max(axis=0), wide.std(axis=0)
    size = np.maximum(np.abs(low), np.abs(high))
    spread = np.where(spread > 0, spread, np.where(size > 0, size, 1.0))
    whole = np.all((wide == np.round(wide)) | ~finite, axis=0)
    far = _NEAR if reach == "near" else rng.choice(_MOVES, (len(rows), *[1] * (rows.ndim - 1)))
    moved = rows.astype(np.float64) + rng.standard_normal(rows.shape) * far * spread
    if reach == "any":
        moved = moved * np.where(rng.random(moved.shape) < _TURNED, -1, 1)
        flags = whole & (low >= 0) & (high <= 1)  # yes and no stay what they are
        return np.where(flags, rows, np.where(whole, np.round(moved), moved)).astype(leaf.dtype)
    if reach == "sign":
        moved = np.where(low >= 0, np.abs(moved), np.where(high <= 0, -np.abs(moved), moved))
    elif reach == "between":
        moved = low + (high - low) * rng.random(moved.shape)
    return np.where(whole, rows, moved).astype(leaf.dtype)


def _with_categories(
    leaves: Sequence[np.ndarray], known: Mapping[tuple[int, int], np.ndarray], rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """The leaves with every category of each such column, as far as there are rows; what stands for none is left out."""
    changed = list(leaves)
    for (place, column), values in known.items():
        usual = [value for value in values.tolist() if value is not None and value == value]
        if usual and place < len(changed):
            leaf = changed[place].astype(object)
            leaf.reshape(len(leaf), -1)[:, column] = np.resize(
                rng.permutation(np.asarray(usual, dtype=object)), len(leaf)
            )
            changed[place] = _of_type(leaf, changed[place].dtype)
    return tuple(changed)
