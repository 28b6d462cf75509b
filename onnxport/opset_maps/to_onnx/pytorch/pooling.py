"""Pooling."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, case, f32, i64
from onnxport.opset_maps.lowerings import windows
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.reductions import first_extreme, reduced
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.convolution import on_batch, spread


def _spatial(op: OpBuilder) -> int:
    name = op.name
    return next((count for count in (1, 2, 3) if f"pool{count}d" in name), 2)


def _static_sizes(x: ir.Value, spatial: int) -> list[int] | None:
    """The sizes of the spatial axes; None where one is dynamic."""
    sizes = [size for size in list(x.shape or ())[rank(x) - spatial :] if isinstance(size, int)]
    return sizes if len(sizes) == spatial else None


@aten.lower(
    "aten::max_pool1d aten::max_pool2d aten::max_pool3d",
    cases=[
        built(lambda: nn.MaxPool2d(3, stride=2, padding=1), f32(2, 3, 9, 8), dynamic=True),
        built(lambda: nn.MaxPool2d((2, 3), ceil_mode=True), f32(3, 9, 8)),
        built(lambda: nn.MaxPool1d(2, dilation=2), f32(2, 3, 9)),
        built(lambda: nn.MaxPool3d(2, ceil_mode=True), f32(1, 2, 5, 5, 5)),
        built(lambda: nn.MaxPool1d(3, padding=1, ceil_mode=True), f32(2, 3, 5), dynamic=True),
        built(lambda: nn.MaxPool2d(3, (3, 2), 1, (1, 2), ceil_mode=True), f32(2, 3, 5, 8)),
    ],
)
def max_pool(op: OpBuilder, x: ir.Value, *window: Any, **options: Any) -> ir.Value:
    """MaxPool, NaN where a window holds one."""
    spatial = _spatial(op)
    attributes = _window(spatial, *window, **options)
    return on_batch(op, x, spatial, lambda batch: windows.max_pool(op, batch, **attributes))


@aten.lower(
    "aten::max_pool1d_with_indices aten::max_pool2d_with_indices aten::max_pool3d_with_indices",
    cases=[
        case(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), f32(2, 3, 9, 8), dynamic=True),
        case(lambda x: F.max_pool2d(x, (2, 3), ceil_mode=True, return_indices=True), f32(3, 9, 8)),
        case(lambda x: F.max_pool1d(x, 2, dilation=2, return_indices=True), f32(2, 3, 9)),
        case(lambda x: F.max_pool3d(x, 2, ceil_mode=True, return_indices=True), f32(1, 2, 5, 5, 5)),
        case(lambda x: F.max_pool2d(x, 3, (3, 2), 1, ceil_mode=True, return_indices=True), f32(2, 3, 5, 6)),
    ],
)
def max_pool_with_indices(op: OpBuilder, x: ir.Value, *window: Any, **options: Any) -> tuple[ir.Value, ...]:
    """MaxPool, and where in the flattened image each maximum stands; of several NaN the last."""
    spatial = _spatial(op)
    unbatched = rank(x) == spatial + 1
    batch = op.Unsqueeze(x, op.axes(0)) if unbatched else x
    result = windows.max_pool_with_places(op, batch, **_window(spatial, *window, **options))
    return tuple(op.Squeeze(item, op.axes(0)) if unbatched else item for item in result)


def _window(
    spatial: int,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> dict[str, Any]:
    """The attributes of ONNX's MaxPool, and but for the dilations of its AveragePool."""
    kernel = spread(kernel_size, spatial)
    return {
        "kernel_shape": kernel,
        "strides": spread(stride, spatial) if stride else kernel,
        "pads": spread(padding, spatial) * 2,
        "dilations": spread(dilation, spatial),
        "ceil_mode": int(ceil_mode),
    }


@aten.lower(
    "aten::avg_pool1d aten::avg_pool2d aten::avg_pool3d",
    cases=[
        built(lambda: nn.AvgPool2d(3, stride=2, padding=1), f32(2, 3, 9, 8), dynamic=True),
        built(lambda: nn.AvgPool2d(2, count_include_pad=False, padding=1), f32(2, 3, 7, 8)),
        built(lambda: nn.AvgPool1d(3, stride=2), f32(3, 9)),
        case(lambda x: F.avg_pool2d(x, 3, divisor_override=2), f32(1, 2, 7, 7)),
        case(lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), f32(2, 3, 8, 6), dynamic=True),
        case(lambda x: F.avg_pool2d(x, (3, 2), (2, 4), 1, True, False, 5), f32(2, 3, 8, 7)),
        case(lambda x: F.avg_pool1d(x, 3, 5, 1, ceil_mode=True), f32(2, 3, 9)),
        case(lambda x: F.avg_pool2d(x, 2, (4, 3), ceil_mode=True), f32(2, 3, 4, 6)),
        case(lambda x: F.avg_pool1d(x, 3, 3, 1, ceil_mode=True, count_include_pad=False), f32(2, 3, 5)),
        case(lambda x: F.avg_pool2d(x, 2, 1, 1), i64(2, 3, 5, 4, low=-50, high=50)),
    ],
)
def avg_pool(
    op: OpBuilder,
    x: ir.Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> ir.Value:
    """AveragePool, or sums over what a window counts."""
    spatial = _spatial(op)
    kernel, pads = spread(kernel_size, spatial), spread(padding, spatial)
    strides = spread(stride, spatial) if stride else kernel

    def pool(batch: ir.Value) -> ir.Value:
        return windows.average_pool(
            op, batch, kernel, strides, pads, ceil=ceil_mode, counts_padding=count_include_pad, divisor=divisor_override
        )

    return on_batch(op, x, spatial, pool)


@aten.lower(
    "aten::adaptive_avg_pool1d aten::adaptive_avg_pool2d aten::adaptive_avg_pool3d aten::_adaptive_avg_pool2d",
    "aten::_adaptive_avg_pool3d",
    cases=[
        built(lambda: nn.AdaptiveAvgPool2d(1), f32(2, 3, 7, 8), dynamic=True),
        built(lambda: nn.AdaptiveAvgPool2d((2, 4)), f32(2, 3, 6, 8), dynamic=True),
        built(lambda: nn.AdaptiveAvgPool2d((3, 5)), f32(2, 3, 7, 8)),
        built(lambda: nn.AdaptiveAvgPool1d(3), f32(2, 7)),
        case(lambda x: F.adaptive_avg_pool2d(x.permute(1, 2, 0), (2, 3)), f32(7, 3, 5), dynamic=True),
        case(lambda x, y: F.adaptive_avg_pool2d(x, y.shape), f32(2, 3, 7, 8), f32(3, 5), dynamic=True),
        case(lambda x, y: F.adaptive_avg_pool1d(x, y.shape[0]), f32(2, 3, 4), f32(6), dynamic=True),
    ],
)
def adaptive_avg_pool(op: OpBuilder, x: ir.Value, output_size: Sequence[int]) -> ir.Value:
    """The mean of each of the bins that the output size cuts the axes into."""
    return _adaptive(op, x, output_size, "ReduceMean")


@aten.lower(
    "aten::adaptive_max_pool1d aten::adaptive_max_pool2d aten::adaptive_max_pool3d",
    cases=[
        case(lambda x: F.adaptive_max_pool2d(x, (2, 4)), f32(2, 3, 6, 8), dynamic=True),
        case(lambda x: F.adaptive_max_pool2d(x, (3, 5)), f32(2, 3, 7, 8)),
        case(lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True), f32(2, 3, 7, 6), dynamic=True),
        case(lambda x: F.adaptive_max_pool1d(x, 1, return_indices=True), f32(3, 7)),
        case(lambda x: F.adaptive_max_pool2d(x.permute(1, 2, 0), (5, 2)), f32(7, 3, 5), dynamic=True),
    ],
)
def adaptive_max_pool(op: OpBuilder, x: ir.Value, output_size: Sequence[int]) -> tuple[ir.Value | None, ...]:
    """The maximum of each bin, and its place in the image."""
    return _adaptive(op, x, output_size, "ReduceMax"), _adaptive_places(op, x, output_size)


def _bounds(i: int, size: int, want: int) -> tuple[int, int]:
    """Where the i-th of `want` bins of an axis begins and ends."""
    return i * size // want, -(-(i + 1) * size // want)


def _adaptive_places(op: OpBuilder, x: ir.Value, output_size: Sequence[int]) -> ir.Value | None:
    """Where the maximum of each bin lies in the flattened image; None where the image's size is dynamic."""
    spatial = _spatial(op)
    wanted, sizes = spread(output_size, spatial), _static_sizes(x, spatial)
    if sizes is None:
        return None
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    axes = list(range(rank(x) - spatial, rank(x)))
    lead = [op.dim(x, i) for i in range(axes[0])]
    flat = op.Concat(*lead, op.const([-1]), axis=0)
    places = []
    for bin_ in itertools.product(*map(range, wanted)):
        bounds = [_bounds(*item) for item in zip(bin_, sizes, wanted, strict=True)]
        starts, ends = zip(*bounds, strict=True)
        piece = op.Reshape(op.Slice(x, list(starts), list(ends), axes), flat)
        table = numbers[tuple(slice(*item) for item in bounds)].ravel()
        index = first_extreme(op, "ArgMax", piece, -1, keepdims=True, last_nan=True)
        places.append(op.Gather(op.const(table), index, axis=0))
    result = places[0] if len(places) == 1 else op.Concat(*places, axis=-1)
    return op.Reshape(result, op.Concat(*lead, op.const(wanted), axis=0))


def _adaptive(op: OpBuilder, x: ir.Value, output_size: Sequence[int], reduction: str) -> ir.Value:
    """Bins reduced by ReduceMean or ReduceMax: the whole image, windows of one size, or an axis after the other."""
    spatial, largest = _spatial(op), reduction == "ReduceMax"
    wanted, sizes = spread(output_size, spatial), _static_sizes(x, spatial)
    results = list(op.result.shape or [None] * rank(x))[rank(x) - spatial :]

    def pool(batch: ir.Value) -> ir.Value:
        if all(isinstance(size, int) and size == 1 for size in wanted):
            return windows.global_max_pool(op, batch) if largest else op.GlobalAveragePool(batch)
        counts = [want for want in wanted if isinstance(want, int)]
        if sizes is not None and len(counts) == spatial and not any(map(operator.mod, sizes, counts)):
            kernel = [size // want for size, want in zip(sizes, counts, strict=True)]
            if largest:
                return windows.max_pool(op, batch, kernel_shape=kernel, strides=kernel)
            return op.AveragePool(batch, kernel_shape=kernel, strides=kernel)
        for axis, (want, result) in enumerate(zip(wanted, results, strict=True), 2):
            size = batch.shape[axis] if batch.shape is not None else None
            if size is None or str(size) != str(result):  # a size that is the axis's own leaves it as it is
                batch = _bins(op, batch, axis, want, reduction)
        return batch

    return on_batch(op, x, spatial, pool)


def _bins(op: OpBuilder, x: ir.Value, axis: int, want: int | ir.Value, reduction: str) -> ir.Value:
    """One axis cut into `want` bins, each reduced."""
    if not isinstance(want, int):
        return _counted_bins(op, x, axis, op.shape_vector([want]), reduction)
    length, bins = op.dim(x, axis), []
    for i in range(want):
        start, end = op.Div(op.Mul(length, i), want), op.Div(op.Add(op.Mul(length, i + 1), want - 1), want)
        bins.append(reduced(op, reduction, op.Slice(x, start, end, [axis]), [axis], keepdims=True))
    return bins[0] if want == 1 else op.Concat(*bins, axis=axis)


def _counted_bins(op: OpBuilder, x: ir.Value, axis: int, want: ir.Value, reduction: str) -> ir.Value:
    """One axis cut into as many bins as a run wants, each reduced: all are gathered at the length of the longest."""
    length = op.dim(x, axis)
    bins = op.Range(0, op.Squeeze(want, op.axes(0)), 1)
    starts = op.Div(op.Mul(bins, length), want)
    counts = op.Sub(op.Div(op.Add(op.Mul(op.Add(bins, 1), length), op.Sub(want, 1)), want), starts)
    within = op.Range(0, op.ReduceMax(counts, keepdims=0), 1)
    starts, counts = op.Unsqueeze(starts, op.axes(1)), op.Unsqueeze(counts, op.axes(1))
    # What lies beyond a bin's end is its first element again, which changes no maximum; a mean leaves it out.
    inside = op.Less(within, counts)
    gathered = op.Gather(x, op.Add(starts, op.Where(inside, within, 0)), axis=axis)
    if reduction == "ReduceMax":
        return reduced(op, reduction, gathered, [axis + 1], keepdims=False)
    behind = list(range(2, rank(x) - axis + 1))
    inside, counts = (op.Unsqueeze(item, op.axes(*behind)) if behind else item for item in (inside, counts))
    total = op.reduce("ReduceSum", op.Where(inside, gathered, op.const(0, x.dtype)), [axis + 1], keepdims=False)
    return op.Div(total, op.cast_like(op.Squeeze(counts, op.axes(1)), x))


def _starts(op: OpBuilder, sample: ir.Value, size: int, want: int, kernel: int) -> ir.Value:
    """Where the windows along an axis begin, [batch, channels, want], by a random number for each image."""
    last = op.Expand(op.const([size - kernel]), op.shape(sample))
    if want == 1:
        return last
    alpha = op.const((size - kernel) / (want - 1), sample.dtype)
    numbers = op.const(np.arange(want - 1), sample.dtype)
    moved = op.cast(op.Mul(op.Add(numbers, sample), alpha), ir.DataType.INT64)
    return op.Concat(op.Sub(moved, op.cast(op.Mul(sample, alpha), ir.DataType.INT64)), last, axis=-1)


@aten.lower(
    "aten::fractional_max_pool2d",
    "aten::fractional_max_pool3d",
    cases=[
        case(
            lambda x, r: torch.ops.aten.fractional_max_pool2d(x, [2, 3], [4, 3], r),
            f32(2, 3, 9, 8),
            f32(2, 3, 2, low=0),
        ),
        case(
            lambda x, r: torch.ops.aten.fractional_max_pool2d(x, [3, 3], [1, 2], r), f32(3, 9, 8), f32(1, 3, 2, low=0)
        ),
        case(
            lambda x, r: torch.ops.aten.fractional_max_pool3d(x, [2, 1, 2], [2, 3, 4], r),
            f32(2, 2, 5, 6, 7),
            f32(2, 2, 3, low=0),
        ),
        case(
            lambda x, r: torch.ops.aten.fractional_max_pool3d(x, [2, 1, 2], [2, 3, 4], r),
            f32(2, 5, 6, 7),
            f32(3, 2, 3, low=0),
        ),
    ],
)
def fractional_max_pool(
    op: OpBuilder, x: ir.Value, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: ir.Value
) -> tuple[ir.Value, ...]:
    """The maximum of each window that the random numbers choose, and where it stands in the flattened image."""
    spatial = len(kernel_size)
    sizes = _static_sizes(x, spatial)
    if sizes is None:
        raise UnsupportedOperator("images of a dynamic size")
    unbatched = rank(x) == spatial + 1
    images = op.Unsqueeze(x, op.axes(0)) if unbatched else x
    if unbatched:
        random_samples = op.Slice(random_samples, [0], [1], [0])  # there may be more rows: PyTorch takes the first one
    flat = op.const(0)
    for axis, (size, want, kernel) in enumerate(zip(sizes, output_size, kernel_size, strict=True)):
        # Of the numbers for two axes the first is that of the width.
        at = spatial - 1 - axis if spatial == 2 else axis
        starts = _starts(op, op.Slice(random_samples, [at], [at + 1], [-1]), size, want, kernel)
        places = op.Add(op.Unsqueeze(starts, op.axes(-1)), np.arange(kernel))
        others = [2 + 2 * i + j for i in range(spatial) if i != axis for j in range(2)]
        flat = op.Add(op.Mul(flat, size), op.Unsqueeze(places, op.axes(*others)))
    order = [0, 1, *range(2, 2 + 2 * spatial, 2), *range(3, 2 + 2 * spatial, 2)]
    flat = op.Transpose(flat, perm=order)
    wanted = [op.dim(flat, 0), op.dim(flat, 1)]
    rows = op.Reshape(flat, op.shape_vector([*wanted, -1]))
    values = op.GatherElements(op.Reshape(images, [0, 0, -1]), rows, axis=-1)
    windowed = op.shape_vector([*wanted, *output_size, math.prod(kernel_size)])
    values, flat = op.Reshape(values, windowed), op.Reshape(flat, windowed)
    first = first_extreme(op, "ArgMax", values, -1, keepdims=True, last_nan=True)
    result = [op.Squeeze(op.GatherElements(item, first, axis=-1), op.axes(-1)) for item in (values, flat)]
    return tuple(op.Squeeze(item, op.axes(0)) if unbatched else item for item in result)
