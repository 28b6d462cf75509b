"""Values at which models break: zeros, halves, magnitudes, signs, infinities and what is no number, the ends of integer types."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from onnxport.validation.input_sets.domains import Range, limits

# Named in words: `np.random` takes 0.1 s to import, and a conversion without a proof draws nothing.
Pattern = Callable[[tuple[int, ...], "np.random.Generator"], np.ndarray]


def _signs(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return rng.choice(np.asarray([-1.0, 1.0]), shape)


# Kinds of rows; each is a way in which a graph that is right on ordinary numbers goes wrong.
PATTERNS: dict[str, Pattern] = {
    "zeros": lambda shape, rng: np.zeros(shape),
    "halves": lambda shape, rng: rng.integers(-9, 9, shape) + 0.5,  # where ways of rounding differ
    "from 6 to 20": lambda shape, rng: _signs(shape, rng) * rng.uniform(6, 20, shape),  # clipped activations
    "to a thousand": lambda shape, rng: _signs(shape, rng) * 10 ** rng.uniform(1, 3, shape),
    "thousandths": lambda shape, rng: 1e-3 * rng.standard_normal(shape),
    "positive": lambda shape, rng: rng.uniform(0, 4, shape),
    "negative": lambda shape, rng: rng.uniform(-4, 0, shape),
    "whole numbers": lambda shape, rng: rng.integers(-9, 10, shape).astype(np.float64),
}
ROWS = len(PATTERNS)
_REPEATING = frozenset({"zeros", "halves", "whole numbers"})
# Numbers on which a sigmoid or softmax of float32 comes to 0 or 1.
_SATURATING = frozenset({"from 6 to 20", "to a thousand"})
# Patterns that make equal numbers of those that an operator orders, where ties leave its order open. TensorFlow sorts the boxes
# of all classes by their scores with std::sort of C++, which keeps no order among equal ones.
_OPEN_ON: dict[str, frozenset[str]] = {
    "TopK": _REPEATING,
    "Unique": _REPEATING,
    "NonMaxSuppression": _REPEATING | _SATURATING,
}
_FAR = frozenset({"to a thousand", "thousandths"})
_NARROW = 12.0
# Rows that are drawn each by itself; those beyond repeat them.
_DRAWN_ROWS = 512 * ROWS
NOT_FINITE = (np.nan, np.inf, -np.inf)
# The greatest integers among those that are computed with, and among those that only meet integers.
COMPUTED, WIDE = 1000, 2**40 + 3


def open_patterns(operators: Iterable[str]) -> frozenset[str]:
    """Patterns on which ties leave open what a graph of these operators gives."""
    return frozenset().union(*(_OPEN_ON.get(name, ()) for name in operators))


def numbers(
    shape: tuple[int, ...],
    dtype: np.dtype,
    rng: np.random.Generator,
    allowed: Range | None,
    *,
    left_out: frozenset[str] = frozenset(),
    narrow: bool = False,
) -> np.ndarray:
    """Floating-point numbers of every pattern: one a row where there are as many rows, else side by side.

    The patterns `left_out` are not used; `narrow` numbers are computed with in half precision.
    """
    one_a_row = len(shape) > 1 and shape[0] >= ROWS
    # Side by side only what is of one magnitude: beside large numbers the rounding of small ones is all that shows.
    unused = left_out | (frozenset() if one_a_row else _FAR)
    patterns = [pattern for name, pattern in PATTERNS.items() if name not in unused]
    if one_a_row:
        rows = [patterns[i % len(patterns)](shape[1:], rng) for i in range(min(shape[0], _DRAWN_ROWS))]
        drawn = np.resize(np.stack(rows), shape)
    else:
        drawn = np.empty(shape)
        flat, kinds = drawn.reshape(-1), rng.integers(0, len(patterns), drawn.size, np.int8)
        for kind, pattern in enumerate(patterns):
            places = np.flatnonzero(kinds == kind)
            flat[places] = pattern(places.shape, rng)
    if allowed is not None:
        drawn = np.clip(drawn, allowed.low, allowed.high)
    if narrow or dtype.itemsize <= 2:  # sums of their squares must not overflow
        drawn = np.clip(drawn, -_NARROW, _NARROW)
    return np.asarray(drawn).astype(dtype)


def whole_numbers(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator, low: int, high: int) -> np.ndarray:
    """Integers from `low` to `high`, both ends among them, small ones and large ones alike."""
    least, most = limits(dtype)
    low, high = max(low, least), min(high, most)
    spread = rng.integers(low, high, shape, np.int64 if low < 0 else np.uint64, endpoint=True)
    least, most = (low, high) if low > 9 or high < -9 else (max(low, -9), min(high, 9))
    small = rng.integers(least, most, shape, endpoint=True).astype(spread.dtype)
    drawn = np.where(rng.random(shape) < 0.5, spread, small)
    ends = np.asarray([low, high], spread.dtype)
    flat = drawn.reshape(-1)
    if flat.size >= 4:
        flat[rng.choice(flat.size, 2, replace=False)] = ends
    return flat.reshape(shape).astype(dtype)


def with_not_finite(leaf: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The numbers with NaN, an infinity and its negative in one place each, every one in a row of its own where rows allow."""
    changed = np.array(leaf)
    rows = changed.reshape(len(changed), -1) if changed.ndim > 1 and len(changed) >= 3 else changed.reshape(1, -1)
    if rows.size < 3:
        return leaf
    for place, number in enumerate(NOT_FINITE):
        row = rows[place % len(rows)]
        free = np.flatnonzero(np.isfinite(row.astype(np.float64)))
        if free.size:
            row[rng.choice(free)] = number
    return changed
