"""Sampling and rearranging images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np
import onnx_ir as ir
import torch.nn.functional as F

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, f32
from onnxport.opset_maps.lowerings.axes import rank, windowed
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.convolution import on_batch

Size = int | ir.Value
_MODES = (("bilinear", "linear"), ("nearest", "nearest"), ("bicubic", "cubic"))
_PADDING = ("zeros", "border", "reflection")
_BEYOND = 1e4  # far outside of an image, whose sides are at -1 and 1
_NOWHERE = np.array(
    [[[[np.nan, 0.1], [0.2, np.nan], [np.nan, np.nan], [0.3, -0.4], [np.inf, 0.1], [0.2, -np.inf]]]], "f"
)


def _sampling_cases() -> Iterator[Case]:
    for (mode, _), padding, corners in product(_MODES, _PADDING, (True, False)):
        options = {"mode": mode, "padding_mode": padding, "align_corners": corners}
        yield case(
            lambda x, g, o=options: F.grid_sample(x, g, **o),
            f32(2, 3, 5, 6),
            f32(2, 4, 3, 2, low=-1.4, high=1.4),
            min_opset=16,
            name=f"{mode}-{padding}-{corners}",
        )
        yield case(
            lambda x, g, o=options: F.grid_sample(x, g, **o),
            f32(1, 3, 5, 6),
            _NOWHERE,
            min_opset=16,
            name=f"{mode}-{padding}-{corners}-nowhere",
        )
    volume = f32(2, 3, 4, 5, 6), f32(2, 2, 4, 3, 3)
    yield case(lambda x, g: F.grid_sample(x, g, align_corners=False), *volume, min_opset=20)
    places = np.concatenate([_NOWHERE, _NOWHERE[..., :1]], -1)[None]
    for mode in ("bilinear", "nearest"):
        yield case(
            lambda x, g, m=mode: F.grid_sample(x, g, mode=m, align_corners=False),
            f32(1, 3, 4, 5, 6),
            places,
            min_opset=20,
            name=f"volume-{mode}-nowhere",
        )


@aten.lower(
    "aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d", cases=[*_sampling_cases()], min_opset=16
)
def grid_sampler(
    op: OpBuilder, x: ir.Value, grid: ir.Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> ir.Value:
    """GridSample; of volumes from opset 20."""
    if rank(x) == 5 and op.opset < 20:
        raise UnsupportedOperator("aten::grid_sampler of volumes needs opset 20")
    mode = _MODES[interpolation_mode][op.opset >= 20]
    kind, padding = _MODES[interpolation_mode][0], _PADDING[padding_mode]
    lost = None
    if padding == "zeros" and (kind == "nearest" or rank(x) == 5):
        grid = op.Where(op.IsNaN(grid), op.const(_BEYOND, grid.dtype), grid)
    elif padding == "zeros" or kind == "bicubic":
        # PyTorch weighs pixels there by the distance, NaN where a coordinate is NaN or infinite; ONNX defines nothing there
        lost = op.Unsqueeze(op.reduce("ReduceSum", op.Mul(grid, 0.0), [-1], keepdims=False), op.axes(1))
    if padding != "reflection":
        # infinite coordinates have no number of a pixel; all that lies beyond the image is alike
        grid = op.Clip(grid, op.const(-_BEYOND, grid.dtype), op.const(_BEYOND, grid.dtype))
    result = op.GridSample(x, grid, mode=mode, padding_mode=padding, align_corners=int(align_corners))
    return result if lost is None else op.Add(result, lost)


@aten.lower("aten::pixel_shuffle", cases=[case(lambda x: F.pixel_shuffle(x, 2), f32(2, 8, 3, 4), dynamic=True)])
def pixel_shuffle(op: OpBuilder, x: ir.Value, upscale_factor: int) -> ir.Value:
    """DepthToSpace, of batches of images."""
    if rank(x) != 4 or x.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        raise UnsupportedOperator("aten::pixel_shuffle of other than batches of floating-point images")
    return op.DepthToSpace(x, blocksize=upscale_factor, mode="CRD")


@aten.lower(
    "aten::max_unpool2d",
    "aten::max_unpool3d",
    cases=[
        case(lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), f32(2, 3, 4, 6), dynamic=True),
        case(lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2), f32(2, 3, 6)),
        case(lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2), f32(2, 3, 4, 4, 6)),
    ],
)
def max_unpool(op: OpBuilder, x: ir.Value, indices: ir.Value, output_size: Sequence[Size], *_: object) -> ir.Value:
    """ScatterElements into zeros, each image's pixels in one row."""
    lead = [op.dim(x, i) for i in range(rank(x) - len(output_size))]
    total = op.ReduceProd(op.shape_vector(output_size), keepdims=1)
    flat = op.Concat(*lead, op.const([-1]), axis=0)
    zeros = op.Expand(op.const(0, x.dtype), op.Concat(*lead, total, axis=0))
    result = op.ScatterElements(zeros, op.Reshape(indices, flat), op.Reshape(x, flat), axis=-1)
    return op.Reshape(result, op.Concat(*lead, op.shape_vector(output_size), axis=0))


@aten.lower(
    "aten::col2im",
    cases=[
        case(lambda x: F.fold(x, (4, 5), (2, 2)), f32(2, 12, 12), min_opset=18),
        case(
            lambda x: F.fold(x, (6, 7), (3, 2), dilation=(1, 2), padding=(1, 0), stride=2),
            f32(1, 12, 9),
            min_opset=18,
        ),
    ],
    min_opset=18,
)
def col2im(
    op: OpBuilder,
    x: ir.Value,
    output_size: Sequence[Size],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> ir.Value:
    """Col2Im."""
    window = {"dilations": list(dilation), "pads": [*padding, *padding], "strides": list(stride)}
    sizes, kernel = op.shape_vector(output_size), op.const(list(kernel_size))
    return on_batch(op, x, 1, lambda batch: op.Col2Im(batch, sizes, kernel, **window))


@aten.lower(
    "aten::im2col",
    cases=[
        case(
            lambda x: F.unfold(x, (2, 3), dilation=(1, 2), padding=(2, 1), stride=(2, 1)), f32(2, 3, 7, 8), dynamic=True
        ),
        case(lambda x: F.unfold(x, 3), f32(2, 5, 6)),
    ],
)
def im2col(
    op: OpBuilder,
    x: ir.Value,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> ir.Value:
    """Gather of windows along rows and columns; the elements of each become channels."""
    lead = rank(x) - 2
    if any(padding):
        x = op.Pad(x, [*[0] * lead, *padding] * 2, op.const(0, x.dtype))
    for axis, length, step, apart in zip((lead, lead + 2), kernel_size, stride, dilation, strict=True):
        x = windowed(op, x, axis, length, step, apart)
    x = op.Transpose(x, perm=[*range(lead), lead + 1, lead + 3, lead, lead + 2])
    channels, places = op.Mul(op.dim(x, lead - 1), prod(kernel_size)), op.Mul(op.dim(x, lead + 2), op.dim(x, lead + 3))
    return op.Reshape(x, op.shape_vector([*(op.dim(x, axis) for axis in range(lead - 1)), channels, places]))
