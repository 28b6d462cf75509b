"""Rows of a table at the boundaries of what an estimator decides: where labels are all that it gives, a moved one shows there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_ROWS = 128  # among which pairs are formed: of all rows that a user gives they can be millions
_PAIRS = 24  # pairs of rows with unlike labels between which a boundary is looked for
_HALVINGS = 12  # the two rows of a pair come to lie 1/4096 of their distance apart: far more than float32 rounds

Labels = Sequence[np.ndarray]  # by output, one for each row


def rows_at_boundaries(
    labels_of: Callable[[Sequence[Any]], Labels], leaves: Sequence[Any], rng: np.random.Generator
) -> tuple[np.ndarray, ...] | None:
    """Rows to both sides of boundaries, by bisection between rows of unlike labels; None where there are none.

    Numbers lie between those of the two rows, words and whole numbers are those of the first.
    """
    if not any(leaf.dtype.kind == "f" for leaf in leaves):
        return None
    near = rng.permutation(len(leaves[0]))[:_ROWS]
    leaves = [leaf[near] for leaf in leaves]
    labels = labels_of(leaves)
    first, second = np.triu_indices(len(leaves[0]), 1)
    unlike = ~_alike([item[first] for item in labels], [item[second] for item in labels])
    chosen = rng.permutation(np.flatnonzero(unlike))[:_PAIRS]
    low = [leaf[first[chosen]] for leaf in leaves]
    high = [leaf[second[chosen]] if leaf.dtype.kind == "f" else kept for leaf, kept in zip(leaves, low, strict=True)]
    if not len(chosen):
        return None
    held = labels_of(low)
    apart = ~_alike(held, labels_of(high))
    if not apart.any():
        return None
    low, high = [leaf[apart] for leaf in low], [leaf[apart] for leaf in high]
    held = [item[apart] for item in held]
    for _ in range(_HALVINGS):
        middle = [_between(a, b) for a, b in zip(low, high, strict=True)]
        below = _alike(held, labels_of(middle))
        low = [_where(below, new, old) for new, old in zip(middle, low, strict=True)]
        high = [_where(below, old, new) for new, old in zip(middle, high, strict=True)]
    return tuple(np.concatenate([a, b]) for a, b in zip(low, high, strict=True))


def _alike(ours: Labels, others: Labels) -> np.ndarray:
    """Whether rows have the same labels in all outputs."""
    same = [np.asarray(a == b).reshape(len(a), -1).all(axis=1) for a, b in zip(ours, others, strict=True)]
    return np.asarray(np.logical_and.reduce(same))


def _between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low + (high - low) / 2 if low.dtype.kind == "f" else low


def _where(rows: np.ndarray, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    return np.where(rows.reshape(-1, *[1] * (yes.ndim - 1)), yes, no).astype(yes.dtype)
