"""How far two correct results may lie apart: the budget, derived from the source instead of guessed.

Two correct float32 matrix products differ by more than 1e-3 relative where a sum cancels, so a fixed tolerance is either
blind or wrong. A budget here has one of two origins:

1. `derived`: from the source alone. Its own error against its float64 run, and how far its results move when its inputs and
   weights move by one unit in the last place, say what rounding costs on this model and these inputs; the converted model may
   have a few times that error (after polygraphy's and onnx-diagnostic's practice), and a few units in the last place beside.
2. `from_user`: rtol and atol as given.

Both the error and the unit in the last place count at the scale of the element's own slices (`local_max`): a column of small
numbers beside one of large numbers has a small budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

# The converted model may have this many times the source's own error: both are draws of one noise, and the greatest of a
# few draws varies by a small factor.
NOISE_FACTOR = 8.0
ULPS = 4.0  # units in the last place of the element's scale: differently rounded exp, tanh, erf on both sides
_BLOCK = 1 << 15  # elements that a processor's cache holds with all that is computed of them
_LONGEST = 1024  # sums of more terms than this are added in blocks, whose errors do not grow with the length
# Nothing is wider than float64: what a result loses to larger numbers inside (a logarithm of a sum of probabilities, a
# squared distance) no other run of the source shows. Its last ten bits are not compared.
_DOUBLE_ULPS = 1024.0
LANES = 8  # of a vector register with float32
_HALF_LENGTH = 16  # 16-bit types accumulate in float32 nearly everywhere, so the length of a sum hardly matters
# A move that is larger than the square root of the type's epsilon is a jump, as across a threshold, unless the float64 run
# shows an error of this part of it.
_JUMP_FACTOR = 64.0
_ENOUGH_MOVES = 4  # so many that a step is not crossed in each by chance
_FLOAT64_RUN, _OWN_RUNS = "its float64 run", "its own runs under one unit in the last place"


@dataclass(frozen=True)
class Budget:
    """How far elements may lie apart."""

    absolute: Any = 0.0  # allowed error, a number or an array that broadcasts to the output
    relative: float = 0.0  # allowed error relative to the source's value
    origin: str = "exact"  # in words, where it came from
    truth: np.ndarray | None = None  # the values that errors are measured against; by default the source's result
    # The budget if the float64 run is right where none of the moved runs bears it out; None where they all do.
    believing: Budget | None = None
    doubtful: np.ndarray | None = None  # those elements
    # The truth is computed another, exact way: where it is infinite and the source finite, what the source gives is rounding.
    exact: bool = False

    def limit(self, magnitude: np.ndarray) -> np.ndarray:
        """The allowed error for elements of the given magnitude."""
        return np.asarray(self.absolute + self.relative * magnitude)

    def at_least(self, absolute: float) -> Budget:
        """The same, of no element smaller than `absolute`."""
        believing = self.believing and self.believing.at_least(absolute)
        return replace(self, absolute=np.maximum(self.absolute, absolute), believing=believing)

    def truth_like(self, source: np.ndarray) -> np.ndarray | None:
        """The truth in the source's shape; None where there is none, or none that fits."""
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


def wide(array: np.ndarray) -> np.ndarray:
    """Numbers as float64 or complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def smallest_normal(dtype: np.dtype) -> float:
    """The smallest normal number of a type whose subnormal ones processors may take for zero, else 0.

    Whether they do depends on the processor and on the library's own choice (FTZ and DAZ of x86), so that two right runs may
    differ by as much. float16 is computed in float32, where its subnormal numbers are normal.

    >>> smallest_normal(np.dtype("float32")), smallest_normal(np.dtype("float16"))
    (1.1754943508222875e-38, 0.0)
    """
    if dtype.kind == "c":
        return smallest_normal(np.dtype(f"f{dtype.itemsize // 2}"))
    if dtype.kind != "f" or dtype.itemsize not in (4, 8):
        return 0.0
    return float(np.finfo(dtype).smallest_normal)


def from_user(rtol: float | None, atol: float | None, source: np.ndarray) -> Budget:
    """The user's tolerances; a missing `atol` is a few units in the last place of the output's scale, a missing `rtol` 0."""
    if atol is None:
        atol = ULPS * epsilon(source.dtype) * float(np.max(_magnitude(source), initial=0.0))
    words = [f"rtol={rtol:g}" if rtol is not None else "", f"atol={atol:.3g}"]
    return Budget(atol, rtol or 0.0, " ".join(word for word in words if word))


def by_rounding(source: np.ndarray, *, eps: float, length: int = 1, axes: Sequence[int] | None = None) -> Budget:
    """A few units in the last place of each element's scale, more for a long sum: what needs no further run of the source.

    `eps` is that of the declared element type, `length` K, the longest sum that the source is known to have: the rounding
    error of a sum of K products grows like ``eps * sqrt(K)`` (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
    ed., section 2.6). `axes` as in `local_max`.
    """
    scale = local_max(_magnitude(source), axes)
    absolute = np.maximum(_units(length, eps) * eps * scale, smallest_normal(source.dtype))
    return Budget(absolute, 0.0, f"{_units(length, eps):.3g} units in the last place")


def derived(
    source: np.ndarray,
    *,
    eps: float,
    length: int = 1,
    truth: np.ndarray | None = None,
    moved: Sequence[np.ndarray] = (),
    axes: Sequence[int] | None = None,
    largest_read: float = 0.0,
) -> Budget:
    """A few times the source's own error, and a few units in the last place of each element's scale.

    `source` is its result in its own precision, `truth` that in float64, `moved` those with inputs and weights off by one unit in
    the last place; `eps` is that of the coarsest type that it computes in, `largest_read` the largest number that it reads, the
    others are as in `by_rounding`.
    """
    moves = [_error(item, source) for item in moved if item.shape == source.shape]
    if truth is None or truth.shape != source.shape:
        return _from_error(source, source, np.zeros(source.shape), moves, eps, length, axes, _OWN_RUNS, largest_read)
    error = _error(source, truth)
    jump, doubtful = _unexplained(error, source, moves, eps, axes)
    # Least numbers of float64 that masks add up to are infinite, and what follows NaN: such a run shows nothing of the element.
    silent = np.isfinite(wide(source)) & np.isnan(wide(truth))

    def measured(but: np.ndarray) -> Budget:
        reference, known = np.where(but | silent, source, truth), np.where(but, 0.0, error)
        return _from_error(source, reference, known, moves, eps, length, axes, _FLOAT64_RUN, largest_read)

    believing = measured(jump)
    return replace(measured(jump | doubtful), believing=believing, doubtful=doubtful) if doubtful.any() else believing


def _from_error(
    source: np.ndarray,
    reference: np.ndarray,
    error: np.ndarray,
    moves: Sequence[np.ndarray],
    eps: float,
    length: int,
    axes: Sequence[int] | None,
    against: str,
    largest_read: float,
) -> Budget:
    """The budget where the source's own `error`, measured against `reference`, is known."""
    scale = local_max(_magnitude(reference), axes)
    own = local_max(error, axes)
    # Beside a slice of zeros alone, as distances to oneself, or of what is left where sums cancel, every move would count as
    # a jump: a move within rounding of the largest slice is none.
    largest = np.max(scale, initial=0.0)
    shown = np.where(scale > 0, scale, largest)
    # Nor is one within rounding of what the source reads, of a slice that is smaller than that: far from 0 the product of x and
    # a sigmoid is what 1 + exp(-x) leaves of it.
    rounding = NOISE_FACTOR * eps * np.where(scale <= NOISE_FACTOR * eps * largest_read, largest_read, largest)
    limit = np.maximum(np.maximum(np.sqrt(eps) * shown, _JUMP_FACTOR * own), rounding)
    if len(moves) >= _ENOUGH_MOVES:
        # A jump shows in some moves, or by one step in each; what has lost half of its digits moves in each, and by other steps.
        least, most = np.min(moves, axis=0), np.max(moves, axis=0)
        limit = np.maximum(limit, _JUMP_FACTOR * np.minimum(least, most - least))
    for move in moves:
        error = np.maximum(error, np.where(move <= limit, move, 0.0))
    noise = np.maximum(local_max(error, axes), _usual(error, scale) * scale)
    absolute = np.maximum(NOISE_FACTOR * noise + _units(length, eps) * eps * scale, smallest_normal(source.dtype))
    worst = float(np.max(noise, initial=0.0))
    origin = f"{NOISE_FACTOR:g} x the source's error {worst:.2g} against {against}, per slice"
    return Budget(absolute, 0.0, origin, reference if against == _FLOAT64_RUN else None)


def _unexplained(
    error: np.ndarray, source: np.ndarray, moves: Sequence[np.ndarray], eps: float, axes: Sequence[int] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Where a large error against the float64 run is no rounding: where the source jumps, and where that run is in doubt.

    An error that some of the source's moved runs show and most do not is another side of a threshold. One that none of them
    shows comes of a source that computes something else in float64.
    """
    if not moves:
        return np.zeros(source.shape, bool), np.zeros(source.shape, bool)
    steady = local_max(np.median(moves, axis=0), axes)
    large = (error > np.sqrt(eps) * local_max(_magnitude(source), axes)) & (error > _JUMP_FACTOR * steady)
    shown = NOISE_FACTOR * np.max(moves, axis=0) >= error
    return large & shown, large & ~shown


def _usual(error: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The error relative to the scale that most samples show, column by column: a slice of few elements has less by luck."""
    relative = np.divide(error, scale, out=np.zeros(error.shape), where=scale > 0)
    if relative.ndim < 2:
        return np.full(relative.shape, _most(relative))
    least = np.full(relative.shape, np.inf)
    for axis in range(1, relative.ndim):
        slices = np.moveaxis(relative, axis, 0)
        level = np.asarray([_most(item) for item in slices])
        least = np.minimum(least, level.reshape([-1 if i == axis else 1 for i in range(relative.ndim)]))
    return least


def _most(values: np.ndarray) -> float:
    """What nine in ten of the values other than 0 do not exceed."""
    shown = values[values > 0]
    return float(np.quantile(shown, 0.9)) if shown.size else 0.0


def local_max(values: np.ndarray, axes: Sequence[int] | None = None) -> np.ndarray:
    """For each element the least of the maxima of its slices: its sample, its row, its column, its channel.

    >>> local_max(np.asarray([[1.0, 1e9], [2.0, 2e9]]))
    array([[2.e+00, 1.e+09],
           [2.e+00, 2.e+09]])

    The values are not negative. Slices are along `axes`; by default along all whose slices hold at least two elements.
    """
    if values.ndim == 0 or not values.size:
        return values
    wanted = [axis for axis in range(values.ndim) if values.size >= 2 * values.shape[axis]]
    if axes is not None:
        wanted = [axis % values.ndim for axis in axes if -values.ndim <= axis < values.ndim]
    scale = np.broadcast_to(np.max(values), values.shape)
    for axis in wanted:
        others = tuple(i for i in range(values.ndim) if i != axis)
        most = np.max(values, axis=others, keepdims=True)
        scale = np.minimum(scale, most, out=scale if scale.flags.writeable else None)
    return scale


def nudge(array: object, units: int, rng: np.random.Generator, coarse: float = 0.0) -> Any:
    """An array with each floating-point element moved up or down by some units in the last place; anything else as it is.

    A number of few digits, a whole number or a half, say, stays: it is exact, and what counts or rounds it gives one answer.
    `coarse` is the epsilon of the type whose last place counts, where that is coarser than the array's.
    """
    if not isinstance(array, np.ndarray) or not (array.dtype.kind == "f" or array.dtype.name == "bfloat16"):
        return array
    flat, eps = array.reshape(-1), epsilon(array.dtype)
    moved = np.empty_like(flat)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, flat.size, _BLOCK):
            part = flat[start : start + _BLOCK]
            values = part if part.dtype in (np.float32, np.float64) else wide(part)
            signs = 1 - 2 * coins(rng, part.shape).view(np.int8)
            beside = values + values * values.dtype.type(units * max(eps, coarse)) * signs
            np.copyto(beside, values, where=_is_short(values, eps))
            moved[start : start + _BLOCK] = beside
    return moved.reshape(array.shape)


def coins(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """True or False for each element, from as many random bits.

    >>> coins(np.random.default_rng(0), (2, 3)).shape
    (2, 3)
    """
    count = prod(shape)
    drawn = np.frombuffer(rng.bytes(count // 8 + 1), np.uint8)
    return np.unpackbits(drawn, count=count).view(bool).reshape(shape)


def summed_in_lanes(array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """The sums along some axes as runtimes add them: every eighth term in one lane, each lane one term after the other.

    What is added in pairs loses next to nothing; a long row of equal numbers is rounded to the same side again and again here.

    >>> long = np.full(1 << 16, 0.7, np.float32)
    >>> bool(summed_in_lanes(long, [0]) == long.sum()), bool(np.isclose(summed_in_lanes(long, [0]), long.sum(), rtol=1e-3))
    (False, True)
    """
    places = sorted(axis % array.ndim for axis in axes)
    last = np.moveaxis(array, places, range(-len(places), 0))
    rows = last.reshape(*last.shape[: array.ndim - len(places)], -1)
    padded = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, -rows.shape[-1] % LANES)])
    lanes = np.add.accumulate(padded.reshape(*rows.shape[:-1], -1, LANES), axis=-2)[..., -1, :]
    return np.asarray(lanes.sum(axis=-1, dtype=array.dtype))


def _is_short(values: np.ndarray, eps: float) -> np.ndarray:
    """Whether float32 or float64 numbers have no more than a third of the digits of a type of this epsilon: the others are 0.

    >>> _is_short(np.array([0.75, 0.1, np.inf], np.float32), 2.0**-23)
    array([ True, False,  True])
    """
    others = np.finfo(values.dtype).nmant + 1 - round(-np.log2(eps) / 3)
    bits = values.view(f"u{values.dtype.itemsize}")
    return np.asarray(bits & bits.dtype.type((1 << others) - 1) == 0)


def _units(length: int, eps: float) -> float:
    longest = min(length, _HALF_LENGTH if eps > 1e-4 else _LONGEST)
    return (_DOUBLE_ULPS if eps < 1e-12 else ULPS) + float(np.sqrt(longest))


def _error(result: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Absolute error where both are finite, 0 elsewhere."""
    a, b = wide(result), wide(truth)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), 0.0)


def _magnitude(array: np.ndarray) -> np.ndarray:
    magnitude = np.asarray(np.abs(wide(array)))
    magnitude[~np.isfinite(magnitude)] = 0.0
    return magnitude


def tied(scores: np.ndarray, slack: float) -> np.ndarray:
    """Rows whose scores, [rows] against 0 or [rows, classes] against each other, lie within `slack` times the scale of all.

    >>> tied(np.array([[0.5, 0.5], [0.2, 0.8]]), 1e-6)
    array([ True, False])
    """
    values = wide(scores)
    allowed = slack * max(float(np.max(np.abs(values), initial=0.0)), np.finfo(np.float64).tiny)
    if values.ndim == 1:
        return np.asarray(np.abs(values) <= allowed)
    best = np.sort(values, axis=1)
    return np.asarray(best[:, -1] - best[:, -2] <= allowed)
