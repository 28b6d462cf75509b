"""Piecewise linear functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.trees.places import passed

if TYPE_CHECKING:
    pass


_HERE = "preprocessing"


def interpolated(x: Array, points: np.ndarray, values: np.ndarray) -> Array:
    """numpy.interp: the piecewise linear function through ascending `points`, constant beyond them."""
    points, values = np.asarray(points, np.float64), np.asarray(values, np.float64)
    wide = x.astype(np.float64)
    if len(points) == 1:
        return full(wide, wide.shape, values[0], np.float64)
    place = np.clip(passed(wide, points, equal=True) - 1, 0, len(points) - 2)
    gap = points[1:] - points[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(gap > 0, (values[1:] - values[:-1]) / np.where(gap > 0, gap, 1.0), 0.0)
    inside = take(slope, place) * (wide - take(points[:-1], place)) + take(values[:-1], place)
    return np.where(wide >= points[-1], values[-1], np.where(wide < points[0], values[0], inside))
