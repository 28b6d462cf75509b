"""Regions of images, each brought to one size (Girshick, "Fast R-CNN", 2015; Dai et al., "R-FCN"; He et al., "Mask R-CNN").

A region is a row [image, left, top, right, bottom] of `rois`, in coordinates that a scale turns into those of the features
[images, channels, height, width].
"""

from __future__ import annotations

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.kernels import REGIONS_BELOW
from onnxport.opset_maps.lowerings.arithmetic import trunc
from onnxport.opset_maps.lowerings.axes import positions

_INT64 = ir.DataType.INT64
Pooled = tuple[int, int]  # height and width that each region gets


def aligned(
    op: OpBuilder, x: ir.Value, rois: ir.Value, scale: float, pooled: Pooled, samples: int, *, centred: bool
) -> ir.Value:
    """Means of interpolated numbers; `samples` a bin along each axis, 0 for as many as it has pixels.

    Args:
        op: the builder.
        x: the features.
        rois: the regions, of the features' type.
        scale: of the coordinates.
        pooled: the size.
        samples: as above.
        centred: pixels have their coordinates in their middle; a region is not widened to a pixel then.
    """
    if op.opset >= REGIONS_BELOW or (centred and op.opset < 16):
        return _interpolated(op, x, rois, scale, pooled, samples, centred=centred)
    boxes = op.Slice(rois, op.const([1]), op.const([5]), op.const([1]))
    if x.dtype == ir.DataType.DOUBLE:  # the attribute holds a float32
        boxes, scale = op.Mul(boxes, op.const(scale, boxes.dtype)), 1.0
    mode = "half_pixel" if centred else "output_half_pixel"
    options = {"coordinate_transformation_mode": mode} if op.opset >= 16 else {}
    height, width = pooled
    return op.RoiAlign(
        *(x, boxes, _images(op, rois)),
        **{
            "spatial_scale": scale,
            "output_height": height,
            "output_width": width,
            "sampling_ratio": samples,
            **options,
        },
    )


def _interpolated(
    op: OpBuilder, x: ir.Value, rois: ir.Value, scale: float, pooled: Pooled, samples: int, *, centred: bool
) -> ir.Value:
    """The same by products: the mean of a bin is one of its rows and columns, each with its weight."""
    weights = []
    for axis, bins in ((2, pooled[0]), (1, pooled[1])):
        shift = op.const(0.5 if centred else 0.0, rois.dtype)
        first, last = (op.Sub(_scaled(op, rois, i, scale), shift) for i in (axis, axis + 2))
        length = op.Sub(last, first)
        length = length if centred else op.Max(length, op.const(1.0, rois.dtype))
        part = op.Div(length, op.const(bins, rois.dtype))
        weights.append(_weights(op, x, 4 - axis, first, part, bins, samples))
    in_rows, in_columns = (op.Unsqueeze(item, op.axes(1)) for item in weights)
    of_each = op.Gather(x, _images(op, rois), axis=0)
    return op.MatMul(op.MatMul(in_rows, of_each), op.Transpose(in_columns, perm=[0, 1, 3, 2]))


def _weights(
    op: OpBuilder, x: ir.Value, axis: int, first: ir.Value, part: ir.Value, bins: int, samples: int
) -> ir.Value:
    """The share of each pixel along an axis in each bin, [regions, bins, pixels]."""
    dtype = first.dtype
    one, none = op.const(1.0, dtype), op.const(0.0, dtype)
    count = op.const(float(samples), dtype) if samples else op.Ceil(part)
    most = op.const(samples)
    if not samples:  # as many as the longest region has; none where there are no regions
        longest = op.reduce("ReduceMax", op.Pad(count, op.const([0, 0, 1, 0])), None, keepdims=False)
        most = op.cast(op.Max(longest, none), _INT64)
    numbers = op.cast_like(op.Range(0, most, 1), first)  # [samples]
    step = op.Div(op.Add(numbers, op.const(0.5, dtype)), op.Max(count, one))  # [regions, samples]
    step = op.Unsqueeze(
        op.Expand(step, op.Concat(op.dim(first, 0), op.Reshape(most, op.const([1])), axis=0)), op.axes(1)
    )
    bin_numbers = op.const([[float(i)] for i in range(bins)], dtype)
    start, width = (op.Unsqueeze(item, op.axes(2)) for item in (first, part))
    at = op.Add(start, op.Mul(width, op.Add(bin_numbers, step)))  # [regions, bins, samples]
    greatest = op.cast_like(op.Sub(op.dim(x, axis), 1), first)
    inside = op.And(op.GreaterOrEqual(at, op.const(-1.0, dtype)), op.LessOrEqual(at, op.Add(greatest, one)))
    taken = op.Less(numbers, count) if samples else op.Unsqueeze(op.Less(numbers, count), op.axes(1))
    at = op.Unsqueeze(op.Min(op.Max(at, none), greatest), op.axes(3))
    pixels = op.cast_like(positions(op, x, axis), first)
    share = op.Max(op.Sub(one, op.Abs(op.Sub(at, pixels))), none)
    share = op.Where(op.Unsqueeze(op.And(inside, taken), op.axes(3)), share, none)
    total = op.reduce("ReduceSum", share, [2], keepdims=False)
    return op.Div(total, op.Max(count, one) if samples else op.Unsqueeze(op.Max(count, one), op.axes(2)))


def without_samples(op: OpBuilder, rois: ir.Value, scale: float, pooled: Pooled) -> ir.Value:
    """Where a bin has no pixel along an axis, [regions, 1, 1, 1]."""
    empty = []
    for axis, count in ((1, pooled[1]), (2, pooled[0])):
        first, last = (_scaled(op, rois, i, scale) for i in (axis, axis + 2))
        half = op.const(0.5, rois.dtype)
        length = op.Sub(op.Sub(last, half), op.Sub(first, half))
        pixels = op.Ceil(op.Div(length, op.const(count, rois.dtype)))
        empty.append(op.Equal(pixels, op.const(0.0, rois.dtype)))
    return op.Unsqueeze(op.Or(*empty), op.axes(2, 3))


def own_channels(op: OpBuilder, every: ir.Value, pooled: Pooled) -> ir.Value:
    """Of [regions, channels * places, height, width] the channels of each place: [regions, channels, height, width]."""
    height, width = pooled
    places = height * width
    apart = op.Reshape(
        every, op.Concat(op.dim(every, 0), _channels(op, every, places), op.const([places, places]), axis=0)
    )
    by_place = op.Transpose(apart, perm=[2, 3, 0, 1])
    own = op.GatherND(by_place, op.const([[i, i] for i in range(places)]))  # [places, regions, channels]
    together = op.Transpose(own, perm=[1, 2, 0])
    return op.Reshape(
        together, op.Concat(op.dim(every, 0), _channels(op, every, places), op.const([height, width]), axis=0)
    )


def max_pooled(op: OpBuilder, x: ir.Value, rois: ir.Value, scale: float, pooled: Pooled) -> ir.Value:
    """The greatest number of each bin, 0 of an empty one."""
    (in_rows, in_columns), of_each = (
        _bins(op, rois, scale, pooled, x, inclusive=1),
        op.Gather(x, _images(op, rois), axis=0),
    )
    least = op.const(-float("inf"), x.dtype)
    # [regions, channels, rows, 1, columns], then [regions, channels, 1, columns of bins, rows]
    wide = op.Where(op.Unsqueeze(in_columns, op.axes(1, 2)), op.Unsqueeze(of_each, op.axes(3)), least)
    wide = op.Transpose(op.reduce("ReduceMax", wide, [4], keepdims=False), perm=[0, 1, 3, 2])
    high = op.Where(op.Unsqueeze(in_rows, op.axes(1, 3)), op.Unsqueeze(wide, op.axes(2)), least)
    result = op.reduce("ReduceMax", high, [4], keepdims=False)
    return op.Where(_filled(op, in_rows, in_columns), result, op.const(0.0, x.dtype))


def own_means(op: OpBuilder, x: ir.Value, rois: ir.Value, scale: float, pooled: Pooled) -> ir.Value:
    """The mean of each bin over the channels of its place, 0 of an empty one."""
    height, width = pooled
    in_rows, in_columns = _bins(op, rois, scale, pooled, x, inclusive=0)
    of_each = op.Gather(x, _images(op, rois), axis=0)
    shape = op.Concat(
        op.dim(rois, 0), _channels(op, x, height * width), op.const([height, width]), op.dim(x, 2), op.dim(x, 3), axis=0
    )
    apart, none = op.Reshape(of_each, shape), op.const(0.0, x.dtype)
    inside = op.Unsqueeze(in_columns, op.axes(1, 2, 4))
    wide = op.reduce("ReduceSum", op.Where(inside, apart, none), [5], keepdims=False)
    total = op.reduce("ReduceSum", op.Where(op.Unsqueeze(in_rows, op.axes(1, 3)), wide, none), [4], keepdims=False)
    rows, columns = (
        op.reduce("ReduceSum", op.cast(item, _INT64), [2], keepdims=False) for item in (in_rows, in_columns)
    )
    area = op.Mul(op.Unsqueeze(rows, op.axes(1, 3)), op.Unsqueeze(columns, op.axes(1, 2)))
    mean = op.Div(total, op.cast_like(op.Max(area, 1), x))
    return op.Where(_filled(op, in_rows, in_columns), mean, none)


def _bins(
    op: OpBuilder, rois: ir.Value, scale: float, pooled: Pooled, x: ir.Value, *, inclusive: int
) -> tuple[ir.Value, ir.Value]:
    """Which rows and columns are in which bin: [regions, bins, rows] and [regions, bins, columns].

    The last pixel of a region belongs to it where `inclusive` is 1.
    """
    masks = []
    for axis, bins in ((2, pooled[0]), (1, pooled[1])):
        first, last = (_rounded(op, _scaled(op, rois, i, scale)) for i in (axis, axis + 2))
        length = op.Max(op.Add(op.Sub(last, first), inclusive), 1)
        part = op.Div(op.cast_like(length, rois), op.const(bins, rois.dtype))
        edges = [op.Mul(op.const(list(range(i, bins + i)), rois.dtype), part) for i in (0, 1)]
        start, end = op.Floor(edges[0]), op.Ceil(edges[1])
        # R-FCN's pooling leaves out the last row and column of the features.
        limit = op.Sub(op.dim(x, 4 - axis), 1 - inclusive)
        start, end = (op.Min(op.Max(op.Add(op.cast(item, _INT64), first), 0), limit) for item in (start, end))
        pixels = positions(op, x, 4 - axis)
        start, end = (op.Unsqueeze(item, op.axes(2)) for item in (start, end))
        masks.append(op.And(op.GreaterOrEqual(pixels, start), op.Less(pixels, end)))
    return masks[0], masks[1]


def _filled(op: OpBuilder, in_rows: ir.Value, in_columns: ir.Value) -> ir.Value:
    """Which bins have pixels, [regions, 1, height, width]."""
    rows, columns = (
        op.cast(op.reduce("ReduceMax", op.cast(item, ir.DataType.INT32), [2], keepdims=False), ir.DataType.BOOL)
        for item in (in_rows, in_columns)
    )
    return op.And(op.Unsqueeze(rows, op.axes(1, 3)), op.Unsqueeze(columns, op.axes(1, 2)))


def _rounded(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The nearest whole number, of two the one farther from 0, INT64."""
    whole = trunc(op, x)
    away = op.GreaterOrEqual(op.Abs(op.Sub(x, whole)), op.const(0.5, x.dtype))
    return op.cast(op.Add(whole, op.Where(away, op.Sign(x), op.const(0.0, x.dtype))), _INT64)


def _scaled(op: OpBuilder, rois: ir.Value, index: int, scale: float) -> ir.Value:
    return op.Mul(_column(op, rois, index), op.const(scale, rois.dtype))


def _column(op: OpBuilder, rois: ir.Value, index: int) -> ir.Value:
    return op.Slice(rois, op.const([index]), op.const([index + 1]), op.const([1]))


def _channels(op: OpBuilder, x: ir.Value, places: int) -> ir.Value:
    """How many channels each place has, a vector of one element; of no regions Reshape can't infer it."""
    return op.Div(op.dim(x, 1), op.const([places]))


def _images(op: OpBuilder, rois: ir.Value) -> ir.Value:
    return op.cast(op.Squeeze(_column(op, rois, 0), op.axes(1)), _INT64)
