"""How far two correct results may lie apart: the budget, derived instead of guessed.

Two correct float32 matrix products differ by more than 1e-3 relative where a sum cancels, so a fixed tolerance is either
blind or wrong. A budget here has one of three origins:

1. `from_float64`: one side also runs in float64. Its own error against that run says what float32 costs on this model and
   these inputs; the other side may have a few times that error (after polygraphy's and onnx-diagnostic's practice).
2. `from_length`: the rounding error of a sum of K products grows like ``eps * sqrt(K)`` relative to the result's scale
   (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 2.6 on the statistical bound).
3. `from_user`: rtol and atol as given.

`nudged` inputs refine the first two: a backward stable computation gives the exact result of inputs that are off by a unit
in the last place, so what the source does under such a nudge is error that float arithmetic itself brings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# The converted model may have this many times the source's own error: both are draws of one noise, and the greatest of a
# few draws varies by a small factor.
NOISE_FACTOR = 8.0
# Units in the last place of the output's scale: differently rounded exp, tanh, erf on both sides.
ULPS = 4.0
# Factor on eps * sqrt(K) where no float64 run says more.
LENGTH_FACTOR = 2.0
# 16-bit types accumulate in float32 nearly everywhere, so the length of a sum hardly matters.
_HALF_LENGTH = 16


@dataclass(frozen=True)
class Budget:
    """How far elements may lie apart.

    Attributes:
        absolute: allowed error, a number or an array that broadcasts to the output (one number a column).
        relative: allowed error relative to the source's value.
        origin: in words, where it came from.
        truth: the float64 result that errors are measured against; by default the source's result.
    """

    absolute: Any = 0.0
    relative: float = 0.0
    origin: str = "exact"
    truth: np.ndarray | None = None

    def limit(self, magnitude: np.ndarray) -> np.ndarray:
        """The allowed error for elements of the given magnitude."""
        return np.asarray(self.absolute + self.relative * magnitude)

    def truth_like(self, source: np.ndarray) -> np.ndarray | None:
        """The float64 result in the source's shape; None where there is none, or none that fits."""
        if self.truth is None or self.truth.shape != source.shape:
            return None
        return self.truth


EXACT = Budget()


def epsilon(dtype: np.dtype) -> float:
    """Distance from 1 to the next number of a floating-point type.

    >>> epsilon(np.dtype("float32")) == 2.0**-23, epsilon(np.dtype("float16")) == 2.0**-10
    (True, True)
    """
    if dtype.kind == "c":
        return epsilon(np.dtype(f"f{dtype.itemsize // 2}"))
    if dtype.kind == "f" and 2 <= dtype.itemsize <= 8:
        return float(np.finfo(dtype).eps)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


def from_user(rtol: float | None, atol: float | None, source: np.ndarray) -> Budget:
    """The user's tolerances; a missing `atol` is a few units in the last place of the output's scale, a missing `rtol` 0."""
    if atol is None:
        atol = ULPS * epsilon(source.dtype) * float(np.max(_scale(source, None), initial=0.0))
    words = [f"rtol={rtol:g}" if rtol is not None else "", f"atol={atol:.3g}"]
    return Budget(atol, rtol or 0.0, " ".join(word for word in words if word))


def from_float64(
    source: np.ndarray, truth: np.ndarray, length: int, *, eps: float, nudged: Sequence[np.ndarray] = ()
) -> Budget:
    """A few times the error that the side which also runs in float64 has against that run.

    Args:
        source: that side's result in its own precision.
        truth: its result in float64.
        length: K, the longest sum in the model.
        eps: epsilon of the coarsest type that the model computes in.
        nudged: its results on nudged inputs; elements that jump, as across a decision threshold, are not counted.
    """
    scale = float(np.max(_scale(truth, None), initial=0.0))
    error = float(np.max(_error(source, truth), initial=0.0))
    limit = np.sqrt(eps) * scale
    error = max([error, *(float(np.max(_smooth(_error(item, truth), limit), initial=0.0)) for item in nudged)])
    floor = eps * np.sqrt(_effective(length, eps)) * scale
    absolute = max(NOISE_FACTOR * error, floor) + ULPS * eps * scale
    return Budget(absolute, 0.0, f"{NOISE_FACTOR:g} x the float64-derived error {error:.2g}", truth)


def from_length(
    source: np.ndarray,
    length: int,
    *,
    eps: float,
    columns: bool = False,
    nudged: Sequence[np.ndarray] = (),
    truth: np.ndarray | None = None,
) -> Budget:
    """A multiple of ``eps * sqrt(K) * max|y|``.

    Args:
        source: the source's result.
        length: K, the longest sum in the model.
        eps: epsilon of the coarsest type that the model computes in.
        columns: columns of a table mean different things; each has its own scale.
        nudged: the source's results on nudged inputs; elements that jump are not counted.
        truth: the source's result in more precision, which errors are measured against.
    """
    axis = -1 if columns and source.ndim > 1 else None
    reference = source if truth is None else truth
    scale = _scale(reference, axis)
    absolute: Any = (LENGTH_FACTOR * np.sqrt(_effective(length, eps)) + ULPS) * eps * scale
    origin = f"{LENGTH_FACTOR:g} x eps x sqrt(K={length}) x scale{' of the column' if axis is not None else ''}"
    if truth is not None and source.shape == truth.shape:
        own = _column_max(_error(source, truth), axis)
        if np.max(own, initial=0.0) > 0.0:  # a source that computes in float32 and gives float64, say
            absolute = absolute + NOISE_FACTOR * own
            origin += f" + {NOISE_FACTOR:g} x the source's own error against float64"
    if nudged:
        limit = np.sqrt(eps) * np.max(scale, initial=0.0)
        moves = [_column_max(_smooth(_error(item, reference), limit), axis) for item in nudged]
        absolute = absolute + NOISE_FACTOR * np.max(moves, axis=0)
        origin += " + the source's own move under one unit in the last place of its inputs"
    return Budget(absolute if axis is not None else float(absolute), 0.0, origin, truth)


def nudge(array: Any, eps: float, rng: np.random.Generator) -> Any:
    """`array` with each floating-point element moved up or down by one unit in the last place; others as they are."""
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        return array
    signs = rng.choice(np.asarray([-1.0, 1.0]), array.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        return (array.astype(np.float64) * (1.0 + eps * signs)).astype(array.dtype)


def _effective(length: int, eps: float) -> int:
    return min(length, _HALF_LENGTH) if eps > 1e-4 else length


def _error(result: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Absolute error where both are finite, 0 elsewhere; nothing where the shapes differ."""
    if result.shape != truth.shape:
        return np.zeros(0)
    wide = np.complex128 if result.dtype.kind == "c" else np.float64
    a, b = result.astype(wide), truth.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), 0.0)


def _smooth(error: np.ndarray, limit: float) -> np.ndarray:
    """The errors, 0 where they are jumps."""
    return np.where(error <= limit, error, 0.0)


def _scale(array: np.ndarray, axis: int | None) -> Any:
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    magnitude = np.abs(array.astype(wide))
    return _column_max(np.where(np.isfinite(magnitude), magnitude, 0.0), axis)


def _column_max(values: np.ndarray, axis: int | None) -> Any:
    if axis is None or values.ndim < 2:
        return np.max(values, initial=0.0)
    return np.max(values, axis=tuple(range(values.ndim - 1)), initial=0.0)
