"""Pooling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import torch.nn.functional as F
from torch import nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, case, f32
from onnxport.opset_maps.lowerings import windows
from onnxport.opset_maps.lowerings.reductions import first_extreme, over, reduced
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.convolution import batched, spread
from onnxport.opset_maps.to_onnx.pytorch.linear import rank


def _spatial(op: OpBuilder) -> int:
    name = op.name
    return next((count for count in (1, 2, 3) if f"pool{count}d" in name), 2)


def _sizes(x: ir.Value, spatial: int) -> list[int | None]:
    if x.shape is None:
        raise UnsupportedOperator("pooling of an operand of unknown rank")
    return [size if isinstance(size, int) else None for size in list(x.shape)[-spatial:]]


@aten.lower(
    "aten::max_pool1d",
    "aten::max_pool2d",
    "aten::max_pool3d",
    cases=[
        built(lambda: nn.MaxPool2d(3, stride=2, padding=1), f32(2, 3, 9, 8), dynamic=True),
        built(lambda: nn.MaxPool2d((2, 3), ceil_mode=True), f32(3, 9, 8)),
        built(lambda: nn.MaxPool1d(2, dilation=2), f32(2, 3, 9)),
        built(lambda: nn.MaxPool3d(2, ceil_mode=True), f32(1, 2, 5, 5, 5)),
    ],
)
def max_pool(op: OpBuilder, x: ir.Value, *window: Any, **options: Any) -> ir.Value:
    """MaxPool, NaN where a window holds one."""
    spatial = _spatial(op)
    x, unbatched = batched(op, x, spatial)
    result = windows.max_pool(op, x, **_window(spatial, *window, **options))
    return op.Squeeze(result, op.axes(0)) if unbatched else result


@aten.lower(
    "aten::max_pool1d_with_indices",
    "aten::max_pool2d_with_indices",
    "aten::max_pool3d_with_indices",
    cases=[
        case(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), f32(2, 3, 9, 8), dynamic=True),
        case(lambda x: F.max_pool2d(x, (2, 3), ceil_mode=True, return_indices=True), f32(3, 9, 8)),
        case(lambda x: F.max_pool1d(x, 2, dilation=2, return_indices=True), f32(2, 3, 9)),
        case(lambda x: F.max_pool3d(x, 2, ceil_mode=True, return_indices=True), f32(1, 2, 5, 5, 5)),
    ],
)
def max_pool_with_indices(op: OpBuilder, x: ir.Value, *window: Any, **options: Any) -> tuple[ir.Value, ...]:
    """MaxPool, and where in the flattened image each maximum stands; of several NaN the last."""
    spatial = _spatial(op)
    x, unbatched = batched(op, x, spatial)
    result = windows.max_pool_with_places(op, x, **_window(spatial, *window, **options))
    return tuple(op.Squeeze(item, op.axes(0)) if unbatched else item for item in result)


def _window(
    spatial: int,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> dict[str, Any]:
    """The attributes of ONNX's MaxPool."""
    kernel = spread(kernel_size, spatial)
    return {
        "kernel_shape": kernel,
        "strides": spread(stride, spatial) if stride else kernel,
        "pads": spread(padding, spatial) * 2,
        "dilations": spread(dilation, spatial),
        "ceil_mode": int(ceil_mode),
    }


@aten.lower(
    "aten::avg_pool1d",
    "aten::avg_pool2d",
    "aten::avg_pool3d",
    cases=[
        built(lambda: nn.AvgPool2d(3, stride=2, padding=1), f32(2, 3, 9, 8), dynamic=True),
        built(lambda: nn.AvgPool2d(2, count_include_pad=False, padding=1), f32(2, 3, 7, 8)),
        built(lambda: nn.AvgPool1d(3, stride=2), f32(3, 9)),
        case(lambda x: F.avg_pool2d(x, 3, divisor_override=2), f32(1, 2, 7, 7)),
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
    """AveragePool."""
    spatial = _spatial(op)
    kernel = spread(kernel_size, spatial)
    pads = spread(padding, spatial)
    if ceil_mode and any(pads) and count_include_pad:
        raise UnsupportedOperator(
            "ceil_mode with counted padding: ONNX divides windows that reach beyond the padding differently"
        )
    x, unbatched = batched(op, x, spatial)
    result = op.AveragePool(
        x,
        kernel_shape=kernel,
        strides=spread(stride, spatial) if stride else kernel,
        pads=pads * 2,
        ceil_mode=int(ceil_mode),
        count_include_pad=int(count_include_pad and any(pads)),
    )
    if divisor_override is not None:
        if (any(pads) and not count_include_pad) or ceil_mode:
            raise UnsupportedOperator("divisor_override with uncounted padding or ceil_mode")
        elements = 1
        for size in kernel:
            elements *= size
        result = op.Mul(result, elements / divisor_override)
    return op.Squeeze(result, op.axes(0)) if unbatched else result


@aten.lower(
    "aten::adaptive_avg_pool1d",
    "aten::adaptive_avg_pool2d",
    "aten::adaptive_avg_pool3d",
    "aten::_adaptive_avg_pool2d",
    "aten::_adaptive_avg_pool3d",
    cases=[
        built(lambda: nn.AdaptiveAvgPool2d(1), f32(2, 3, 7, 8), dynamic=True),
        built(lambda: nn.AdaptiveAvgPool2d((2, 4)), f32(2, 3, 6, 8), dynamic=True),
        built(lambda: nn.AdaptiveAvgPool2d((3, 5)), f32(2, 3, 7, 8)),
        built(lambda: nn.AdaptiveAvgPool1d(3), f32(2, 7)),
    ],
)
def adaptive_avg_pool(op: OpBuilder, x: ir.Value, output_size: Sequence[int]) -> ir.Value:
    """The mean of each of the bins that the output size cuts the axes into."""
    return _adaptive(op, x, output_size, _MEAN)


@aten.lower(
    "aten::adaptive_max_pool1d",
    "aten::adaptive_max_pool2d",
    "aten::adaptive_max_pool3d",
    cases=[
        case(lambda x: F.adaptive_max_pool2d(x, (2, 4)), f32(2, 3, 6, 8), dynamic=True),
        case(lambda x: F.adaptive_max_pool2d(x, (3, 5)), f32(2, 3, 7, 8)),
        case(lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True), f32(2, 3, 7, 6), dynamic=True),
        case(lambda x: F.adaptive_max_pool1d(x, 1, return_indices=True), f32(3, 7)),
    ],
)
def adaptive_max_pool(op: OpBuilder, x: ir.Value, output_size: Sequence[int]) -> tuple[ir.Value | None, ...]:
    """The maximum of each bin, and its place in the image."""
    values = _adaptive(op, x, output_size, _MAXIMUM)
    return values, _adaptive_places(op, x, output_size)


def _adaptive_places(op: OpBuilder, x: ir.Value, output_size: Sequence[int]) -> ir.Value | None:
    """Where the maximum of each bin lies in the flattened image; None where the image's size is dynamic."""
    spatial = _spatial(op)
    wanted = spread(output_size, spatial)
    lead = rank(x) - spatial
    sizes = [size for size in list(x.shape or ())[lead:] if isinstance(size, int)]
    if len(sizes) < spatial:
        return None
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    axes = list(range(lead, rank(x)))
    flat = op.Concat(*[op.dim(x, i) for i in range(lead)], op.const([-1]), axis=0)
    places = []
    for bin_ in itertools.product(*map(range, wanted)):
        starts = [i * size // want for i, size, want in zip(bin_, sizes, wanted, strict=True)]
        ends = [-(-(i + 1) * size // want) for i, size, want in zip(bin_, sizes, wanted, strict=True)]
        piece = op.Reshape(op.Slice(x, starts, ends, axes), flat)
        table = numbers[tuple(slice(start, end) for start, end in zip(starts, ends, strict=True))].ravel()
        index = first_extreme(op, "ArgMax", piece, -1, keepdims=True, last_nan=True)
        places.append(op.Gather(op.const(table), index, axis=0))
    result = places[0] if len(places) == 1 else op.Concat(*places, axis=-1)
    return op.Reshape(result, op.Concat(*[op.dim(x, i) for i in range(lead)], op.const(wanted), axis=0))


@dataclass(frozen=True)
class _Bins:
    """How bins are reduced: the whole image, windows of one size, or an axis."""

    whole: Callable[[OpBuilder, ir.Value], ir.Value]
    equal: Callable[[OpBuilder, ir.Value, list[int]], ir.Value]
    operator: str


_MEAN = _Bins(
    lambda op, x: op.GlobalAveragePool(x),
    lambda op, x, kernel: op.AveragePool(x, kernel_shape=kernel, strides=kernel),
    "ReduceMean",
)
_MAXIMUM = _Bins(
    windows.global_max_pool,
    lambda op, x, kernel: windows.max_pool(op, x, kernel_shape=kernel, strides=kernel),
    "ReduceMax",
)


def _adaptive(op: OpBuilder, x: ir.Value, output_size: Sequence[int], bins: _Bins) -> ir.Value:
    spatial = _spatial(op)
    wanted = spread(output_size, spatial)
    x, unbatched = batched(op, x, spatial)
    sizes = _sizes(x, spatial)
    if all(size == 1 for size in wanted):
        result = bins.whole(op, x)
    elif any(size is None for size in sizes):
        raise UnsupportedOperator("adaptive pooling of a dynamic size")
    elif all(size % want == 0 for size, want in zip(sizes, wanted, strict=True) if size is not None):
        kernel = [size // want for size, want in zip(sizes, wanted, strict=True) if size is not None]
        result = bins.equal(op, x, kernel)
    else:
        result = x
        for i, (size, want) in enumerate(zip(sizes, wanted, strict=True)):
            result = _binned(op, result, 2 + i, size or 0, want, bins.operator)
    return op.Squeeze(result, op.axes(0)) if unbatched else result


def _binned(op: OpBuilder, x: ir.Value, axis: int, size: int, want: int, reduction: str) -> ir.Value:
    """One axis cut into `want` bins, the i-th from floor(i size / want) to ceil((i + 1) size / want), each reduced."""
    bins = []
    for i in range(want):
        start, end = i * size // want, -(-(i + 1) * size // want)
        piece = op.Slice(x, [start], [end], [axis])
        bins.append(reduced(op, reduction, piece, keepdims=True, reduce=over(op, [axis])))
    return bins[0] if want == 1 else op.Concat(*bins, axis=axis)
