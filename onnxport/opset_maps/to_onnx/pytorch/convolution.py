"""Convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, case, f32, f64, i64
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.convolution import in_groups
from onnxport.opset_maps.maps import aten


def spread(value: int | Sequence[int], count: int) -> list[int]:
    """A parameter for each of `count` spatial axes: one number stands for all."""
    items = [value] if isinstance(value, int) else list(value)
    return items * count if len(items) == 1 else items


def _constant(what: str, value: Sequence[int] | Sequence[ir.Value | int]) -> list[int]:
    """A parameter that ONNX has as an attribute.

    Raises:
        UnsupportedOperator: the model computes it.
    """
    if any(isinstance(item, ir.Value) for item in value):
        raise UnsupportedOperator(f"a convolution's {what} is computed when the model runs")
    return [item for item in value if isinstance(item, int)]


def on_batch(op: OpBuilder, x: ir.Value, spatial: int, lower: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """`lower` of `x` with a batch axis, which goes again where `x` has none."""
    if rank(x) != spatial + 1:
        return lower(x)
    return op.Squeeze(lower(op.Unsqueeze(x, op.axes(0))), op.axes(0))


def _in_double(op: OpBuilder, lower: Callable[..., ir.Value], *operands: ir.Value | None) -> ir.Value:
    """`lower` of floating-point operands; of integers, which ONNX does not convolve, in double: exact below 2^53."""
    x = operands[0]
    if x is None or x.dtype is None or not x.dtype.is_integer():
        return lower(*operands)
    wide = [item if item is None else op.cast(item, ir.DataType.DOUBLE) for item in operands]
    return op.cast(op.Round(lower(*wide)), x.dtype)


def _filtered_by_row(convolve: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A convolution of each row with a kernel of its own: the rows' channels are groups of one image."""

    def filtered(x: Any, weight: Any, bias: Any) -> Any:
        image = x.flatten(0, 1)[None]
        y = convolve(image, weight.flatten(0, 1), bias.flatten(), groups=x.shape[0], **options)
        return y.unflatten(1, (x.shape[0], -1))[0]

    return filtered


@aten.lower(
    "aten::conv1d aten::conv2d aten::conv3d",
    cases=[
        built(lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), f32(2, 4, 9, 8), dynamic=True),
        built(lambda: nn.Conv2d(4, 6, 4, padding="same", dilation=2, bias=False), f32(2, 4, 9, 8)),
        built(lambda: nn.Conv1d(4, 6, 3, padding="valid"), f32(4, 9)),
        built(lambda: nn.Conv3d(2, 4, (1, 2, 3)), f32(1, 2, 4, 5, 6)),
        built(lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), f32(1, 3, 6, 6)),
        case(lambda x, w: F.conv1d(x, w), i64(2, 3, 7), i64(4, 3, 2)),
        case(lambda x, w: F.conv2d(x.bfloat16(), w.bfloat16()).float(), i64(2, 3, 7, 6), i64(4, 3, 2, 2)),
        case(_filtered_by_row(F.conv2d, padding=1), f32(2, 4, 6, 7), f32(2, 6, 4, 3, 3), f32(2, 6), dynamic=True),
        case(lambda x, w: F.conv1d(x, w, padding=w.shape[2] // 2), f32(2, 3, 9), f32(4, 3, 3), dynamic=True),
    ],
)
def conv(
    op: OpBuilder,
    x: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int | ir.Value = 1,
) -> ir.Value:
    """Conv."""
    spatial = rank(weight) - 2
    kernel = [size for size in list(weight.shape or ())[2:] if isinstance(size, int)]
    dilations = _constant("dilation", spread(dilation, spatial))
    pads: list[int] | list[ir.Value | int]
    if padding == "same":
        if len(kernel) != spatial:
            raise UnsupportedOperator("padding='same' of a convolution whose kernel has a dynamic size")
        total = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
        pads = [*(t // 2 for t in total), *(t - t // 2 for t in total)]
    elif padding == "valid":
        pads = [0] * (2 * spatial)
    elif isinstance(padding, str):
        raise UnsupportedOperator(f"padding={padding!r}")
    else:
        pads = spread(padding, spatial) * 2
    window: dict[str, list[int]] = {"strides": _constant("stride", spread(stride, spatial)), "dilations": dilations}
    if len(kernel) == spatial:  # else runtimes have it of the weight
        window["kernel_shape"] = kernel
    padded_before = any(isinstance(item, ir.Value) for item in pads)
    if not padded_before:
        window["pads"] = _constant("padding", pads)

    def at_once(b: OpBuilder, x: ir.Value, weight: ir.Value, bias: ir.Value | None, groups: int) -> ir.Value:
        return b.Conv(x, weight, bias, **window, group=groups)

    def convolved(x: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
        def of_batch(batch: ir.Value) -> ir.Value:
            if padded_before:
                borders = op.shape_vector([0, 0, *pads[:spatial], 0, 0, *pads[spatial:]])
                batch = op.Pad(batch, borders, op.const(0, batch.dtype))
            return in_groups(op, batch, weight, bias, groups, at_once)

        return on_batch(op, x, spatial, of_batch)

    return _in_double(op, convolved, x, weight, bias)


@aten.lower(
    "aten::conv_transpose1d aten::conv_transpose2d aten::conv_transpose3d",
    cases=[
        built(
            lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
            f32(2, 4, 5, 6),
            dynamic=True,
        ),
        built(lambda: nn.ConvTranspose1d(4, 6, 3, dilation=2, bias=False), f32(2, 4, 5)),
        built(lambda: nn.ConvTranspose2d(4, 6, (2, 3), stride=(2, 1)), f32(4, 5, 6)),
        built(lambda: nn.ConvTranspose2d(2, 4, 3, 2, 1, (2, 3), dilation=4), f32(2, 2, 4, 5)),
        case(lambda x, w: F.conv_transpose1d(x, w), i64(2, 3, 7), i64(3, 4, 2)),
        case(_filtered_by_row(F.conv_transpose1d, stride=2), f32(2, 4, 5), f32(2, 4, 6, 3), f32(2, 6), dynamic=True),
    ],
)
def conv_transpose(
    op: OpBuilder,
    x: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int | ir.Value = 1,
    dilation: int | Sequence[int] = 1,
) -> ir.Value:
    """ConvTranspose."""
    if x.dtype is not None and x.dtype.is_integer():

        def convolved(x: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
            return conv_transpose(op, x, weight, bias, stride, padding, output_padding, groups, dilation)

        return _in_double(op, convolved, x, weight, bias)
    spatial = rank(weight) - 2
    strides, pads = _constant("stride", spread(stride, spatial)), _constant("padding", spread(padding, spatial))
    extra = _constant("output_padding", spread(output_padding, spatial))
    dilations = _constant("dilation", spread(dilation, spatial))
    if all(more < step for more, step in zip(extra, strides, strict=True)):
        given = {"strides": strides, "pads": pads * 2, "output_padding": extra, "dilations": dilations}

        def exact(b: OpBuilder, x: ir.Value, weight: ir.Value, bias: ir.Value | None, groups: int) -> ir.Value:
            return b.ConvTranspose(x, weight, bias, **given, group=groups)

        return on_batch(op, x, spatial, lambda batch: in_groups(op, batch, weight, bias, groups, exact))

    def whole(b: OpBuilder, x: ir.Value, weight: ir.Value, _: ir.Value | None, groups: int) -> ir.Value:
        return b.ConvTranspose(x, weight, strides=strides, dilations=dilations, group=groups)

    def padded(batch: ir.Value) -> ir.Value:
        """Of more output padding than runtimes take: all that the kernel reaches and zeros behind it, cut."""
        result = in_groups(op, batch, weight, None, groups, whole)
        result = op.Pad(result, op.const([0] * (spatial + 4) + extra), op.const(0, result.dtype))
        ends = [-amount if amount else np.iinfo(np.int64).max for amount in pads]
        result = op.Slice(result, pads, ends, list(range(2, spatial + 2)))
        return result if bias is None else op.Add(result, op.Reshape(bias, [1, -1] + [1] * spatial))

    return on_batch(op, x, spatial, padded)


@aten.lower(
    "aten::convolution",
    "aten::_convolution",
    cases=[case(lambda x, w: F.conv2d(x, w), f32(1, 2, 5, 5), f32(3, 2, 3, 3))],
)
def convolution(
    op: OpBuilder,
    x: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int | ir.Value,
    *_: bool,
) -> ir.Value:
    """Conv or ConvTranspose."""
    if transposed:
        return conv_transpose(op, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(op, x, weight, bias, stride, padding, dilation, groups)


@aten.lower(
    "aten::conv_tbc",
    cases=[
        case(lambda x, w, b: torch.conv_tbc(x, w, b, pad=1), f32(7, 2, 4), f32(3, 4, 5), f32(5), holds=("Conv",)),
        case(lambda x, w, b: torch.conv_tbc(x, w, b), f64(7, 1, 4), f64(2, 4, 5), f64(5)),
    ],
)
def conv_tbc(op: OpBuilder, x: ir.Value, weight: ir.Value, bias: ir.Value, pad: int = 0) -> ir.Value:
    """Conv of [time, batch, channels], its weight [kernel, in, out]."""
    moved = op.Transpose(x, perm=[1, 2, 0]), op.Transpose(weight, perm=[2, 1, 0])
    return op.Transpose(conv(op, *moved, bias, padding=[pad]), perm=[2, 0, 1])
