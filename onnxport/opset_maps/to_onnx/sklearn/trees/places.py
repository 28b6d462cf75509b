"""Where numbers stand among sorted fitted ones: by comparing with each where those are few, else by a balanced tree.

Piecewise linear functions follow from that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array, implements
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, reduced, take
from onnxport.opset_maps.to_onnx.sklearn.trees import tree_ensemble

# Up to so many numbers a table of comparisons is as fast as a tree.
FEW = 32


def passed(x: Array, values: np.ndarray, *, equal: bool) -> Array:
    """How many of ascending `values` are below x, or with `equal` not above it, int64 in the shape of x; 0 for NaN."""
    if len(values) <= FEW or x.op.ml_opset < 3 or x.dtype.kind != "f" or not np.isfinite(values).all():
        beside = x[..., None]
        below = beside >= values if equal else beside > values
        return reduced(below.astype(np.int64), "ReduceSum", -1)
    ordered = np.asarray(values, np.float64)
    # x < v just where x <= the number before v
    tree = _balanced(np.nextafter(ordered, -np.inf) if equal else ordered)
    leaf = tree_ensemble.leaves(x.op, tree_ensemble.join([tree]), x.reshape(-1, 1).value)
    result = x.op.Reshape(leaf.value, [-1] if x.ndim == 1 else x.op.shape(x.value))
    result.shape = x.value.shape
    return x.of(result)


def _balanced(levels: np.ndarray) -> tree_ensemble.Tree:
    """A tree whose leaf i, counted from the left, holds the x with just i levels below them; NaN goes to the first."""
    count = 2 * len(levels) + 1
    left, right, level = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count)
    leaf = np.zeros(count, bool)
    waiting = [(0, 0, len(levels))]  # a node, and the range of levels that it still has to tell apart
    while waiting:
        node, low, high = waiting.pop()
        if low == high:
            leaf[node] = True
            continue
        middle = (low + high) // 2
        level[node] = levels[middle]
        left[node], right[node] = node + 1, node + 2 * (middle - low + 1)  # below a node stand 2 k + 1 for k levels
        waiting += [(int(left[node]), low, middle), (int(right[node]), middle + 1, high)]
    return tree_ensemble.Tree(np.zeros(count, np.int64), level, ~leaf, left, right, leaf, np.zeros((count, 1)))


@implements(np.searchsorted)
def _searchsorted(sorted_values: Sequence[float], x: Array, side: str = "left") -> Array:
    """How many of the values lie below x (side="left"), or not above it."""
    return passed(x, np.asarray(sorted_values), equal=side == "right")


@implements(np.digitize)
def _digitize(x: Array, bins: Sequence[float], right: bool = False) -> Array:
    return _searchsorted(bins, x, side="left" if right else "right")


def interpolated(x: Array, points: ArrayLike, values: ArrayLike) -> Array:
    """The piecewise linear function through ascending `points`, constant beyond them."""
    points, values = np.asarray(points, np.float64), np.asarray(values, np.float64)
    wide = x.astype(np.float64)
    if len(points) == 1:
        return full(wide, wide.shape, values[0], np.float64)
    place = np.clip(passed(wide, points, equal=True) - 1, 0, len(points) - 2)
    gap = points[1:] - points[:-1]
    slope = np.where(gap > 0, np.diff(values) / np.where(gap > 0, gap, 1.0), 0.0)
    inside = take(slope, place) * (wide - take(points[:-1], place)) + take(values[:-1], place)
    return np.where(wide >= points[-1], values[-1], np.where(wide < points[0], values[0], inside))


@implements(np.interp)
def _interp(x: Array, xp: ArrayLike, fp: ArrayLike, left: float | None = None, right: float | None = None) -> Array:
    result, points = interpolated(x, xp, fp), np.asarray(xp, np.float64)
    if left is not None:
        result = np.where(x < points[0], float(left), result)
    return result if right is None else np.where(x > points[-1], float(right), result)
