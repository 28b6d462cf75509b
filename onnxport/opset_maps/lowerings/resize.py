"""Resampling of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import rank

Placement = Literal["asymmetric", "half_pixel", "align_corners"]


def resized(op: OpBuilder, x: ir.Value, sizes: Sequence[int | ir.Value], **attributes: object) -> ir.Value:
    """Resize of the spatial axes, channels on axis 1, to `sizes`; below opset 18 the sizes of all axes are written."""
    if op.opset >= 18:
        return op.Resize(x, None, None, op.shape_vector(sizes), axes=list(range(2, rank(x))), **attributes)
    return op.Resize(x, None, None, op.shape_vector([op.dim(x, 0), op.dim(x, 1), *sizes]), **attributes)


def nearest(
    op: OpBuilder, x: ir.Value, axis: int, wanted: ir.Value, placement: Placement, step: ir.Value | None = None
) -> ir.Value:
    """The elements along one axis that PyTorch and TensorFlow take for the nearest, gathered.

    They multiply a place by the step in float32 and cut it off. Resize divides by a factor instead: where a place comes to lie
    on a whole number, the one or the other is a unit in the last place below it and gives the element before.

    Args:
        wanted: the new size, an INT64 vector of one number.
        step: old elements for a new one, in float32; by default from the sizes.
    """
    size = op.dim(x, axis)
    numbers = op.cast(op.Range(0, op.Squeeze(wanted, op.axes(0)), 1), ir.DataType.FLOAT)
    corners = placement == "align_corners"
    if step is None:
        pair = (op.Sub(size, 1), op.Max(op.Sub(wanted, 1), [1])) if corners else (size, wanted)
        step = op.Div(*(op.cast(item, ir.DataType.FLOAT) for item in pair))
    places = op.Mul(op.Add(numbers, 0.5) if placement == "half_pixel" else numbers, step)
    index = op.Floor(places)
    if corners:  # the nearer of the two; of equally near ones the later
        index = op.Add(index, op.cast(op.GreaterOrEqual(op.Sub(places, index), 0.5), ir.DataType.FLOAT))
    last = op.Sub(size, 1)
    return op.Gather(x, op.Min(op.cast(index, ir.DataType.INT64), last), axis=axis)
