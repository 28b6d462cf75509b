"""Convolutions and their transposes. ONNX puts channels first: the layout pass removes what transposes cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i32
from onnxport.opset_maps.lowerings.axes import permuted
from onnxport.opset_maps.lowerings.convolution import in_groups
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import (
    channels_as,
    channels_first,
    int64,
    rank,
    spatial,
    static_sizes,
)
from onnxport.opset_maps.to_onnx.tensorflow.windows import Layout, Windows, windows_of


def _kernel(op: OpBuilder, filter: ir.Value, axes: int = -2) -> list[int]:
    """The first `axes` sizes of a filter, by default the spatial ones; its order is space, inputs, outputs."""
    sizes = static_sizes(list(filter.shape)[:axes]) if filter.shape is not None else None
    if sizes is None:
        raise UnsupportedOperator(f"{op.name}: the filter's size is not known before the model runs")
    return sizes


def _weight(op: OpBuilder, filter: ir.Value) -> ir.Value:
    """A filter in ONNX's order: outputs, inputs, space."""
    n = rank(filter)
    return permuted(op, filter, [n - 1, n - 2, *range(n - 2)])


def _depthwise_weight(op: OpBuilder, filter: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """A filter [height, width, channels, multiplier] as ONNX's weight of a group a channel."""
    weight = op.Transpose(filter, perm=[2, 3, 0, 1])
    multiplier = filter.shape[3] if filter.shape is not None else None
    return weight if multiplier == 1 else op.Reshape(weight, [-1, 1, *sizes[:2]])


def _convolved(op: OpBuilder, x: ir.Value, weight: ir.Value, windows: Windows, groups: int | ir.Value) -> ir.Value:
    """ONNX Conv with a weight in its own order."""
    x = channels_first(op, x, windows.data_format)
    if x.dtype is not None and x.dtype.is_integer():
        if not isinstance(groups, int):
            raise UnsupportedOperator("a convolution of whole numbers in groups that are counted when the model runs")
        return channels_as(op, _whole_numbers(op, x, weight, windows, groups), windows.data_format)
    window = {"strides": windows.strides, "dilations": windows.dilations, "kernel_shape": windows.kernel}
    window |= windows.pads(x)

    def convolve(b: OpBuilder, x: ir.Value, weight: ir.Value, _: ir.Value | None, groups: int) -> ir.Value:
        return b.Conv(x, weight, group=groups, **window)

    return channels_as(op, in_groups(op, x, weight, None, groups, convolve), windows.data_format)


def _whole_numbers(op: OpBuilder, x: ir.Value, weight: ir.Value, windows: Windows, groups: int) -> ir.Value:
    """The convolution of whole numbers, which ONNX has none of: for each place of the kernel a product of matrices.

    Raises:
        UnsupportedOperator: the images' size is dynamic.
    """
    count = len(windows.kernel)
    pads = windows.pads(x)
    sizes = static_sizes(list(x.shape)[2:]) if x.shape is not None else None
    channels = weight.shape[0] if weight.shape is not None else None
    if sizes is None or not isinstance(channels, int):
        raise UnsupportedOperator("a convolution of whole numbers over images of a dynamic size")
    borders = pads.get("pads", [0] * 2 * count)
    padded = op.Pad(x, op.const([0, 0, *borders[:count], 0, 0, *borders[count:]])) if any(borders) else x
    spans = [(k - 1) * d + 1 for k, d in zip(windows.kernel, windows.dilations, strict=True)]
    counts = [(n + borders[i] + borders[count + i] - spans[i]) // windows.strides[i] + 1 for i, n in enumerate(sizes)]
    # [batch, space, groups, 1, channels of a group] by [groups, channels of a group, results of a group].
    kernel = op.Transpose(weight, perm=[*range(2, count + 2), 1, 0])
    total: ir.Value | None = None
    for place in np.ndindex(*windows.kernel):
        first = [i * d for i, d in zip(place, windows.dilations, strict=True)]
        last = [f + (n - 1) * s + 1 for f, n, s in zip(first, counts, windows.strides, strict=True)]
        seen = op.Slice(padded, first, last, list(range(2, count + 2)), windows.strides)
        seen = op.Transpose(seen, perm=[0, *range(2, count + 2), 1])
        factor = kernel
        for i in place:
            factor = op.Gather(factor, i, axis=0)
        factor = op.Transpose(op.Reshape(factor, [0, groups, channels // groups]), perm=[1, 0, 2])
        product = op.MatMul(op.Reshape(seen, [*[0] * (count + 1), groups, 1, -1]), factor)
        total = product if total is None else op.Add(total, product)
    result = op.Reshape(total, [*[0] * (count + 1), channels])
    return op.Transpose(result, perm=[0, count + 1, *range(1, count + 1)])


def _rows_as_channels(x: Any, height: int, width: int) -> Any:
    return tf.reshape(tf.transpose(x, [1, 2, 0, 3]), [1, height, width, -1])


@tensorflow.lower(
    "Conv Conv2D Conv3D",
    cases=[
        case(lambda x, w: tf.nn.conv2d(x, w, 1, "VALID"), f32(2, 6, 7, 3), f32(3, 2, 3, 4), dynamic=True),
        case(lambda x, w: tf.nn.conv2d(x, w, 2, "SAME"), f32(2, 6, 7, 3), f32(3, 2, 3, 4)),
        case(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME", dilations=2), f32(2, 6, 7, 3), f32(3, 3, 3, 4)),
        case(lambda x, w: tf.nn.conv2d(x, w, 2, [[0, 0], [1, 2], [0, 3], [0, 0]]), f32(2, 6, 7, 3), f32(3, 2, 3, 4)),
        case(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), f32(2, 6, 7, 4), f32(3, 2, 2, 6), name="groups"),
        case(
            lambda x, w: tf.nn.conv2d(_rows_as_channels(x, 6, 7), tf.transpose(w, [1, 2, 3, 0]), 1, "SAME"),
            f32(2, 6, 7, 4),
            f32(2, 3, 2, 4),
            dynamic=True,
            name="a group a row",
        ),
        case(
            lambda x, w: tf.raw_ops.Conv2D(input=x, filter=w, strides=[1, 2, 1, 1], padding="SAME"),
            i32(2, 6, 7, 3),
            i32(3, 2, 3, 4),
        ),
        case(
            lambda x, w: tf.raw_ops.Conv2D(input=x, filter=w, strides=[1, 1, 1, 1], padding="VALID"),
            i32(2, 5, 4, 4, low=-(2**30), high=2**30),
            i32(3, 2, 4, 6),
        ),
        case(lambda x, w: tf.nn.conv3d(x, w, [1, 1, 2, 1, 1], "SAME"), f32(2, 4, 5, 6, 3), f32(2, 3, 2, 3, 4)),
        case(lambda x, w: tf.nn.conv3d(x, w, [1, 1, 1, 1, 1], "VALID"), f32(2, 4, 5, 6, 3), f32(2, 3, 2, 3, 4)),
        case(
            lambda x, w: tf.raw_ops.Conv(input=x, filter=w, strides=[1, 2, 1, 1], padding="SAME"),
            f32(2, 6, 7, 3),
            f32(3, 2, 3, 4),
        ),
    ],
)
def convolution(
    op: OpBuilder, input: ir.Value, filter: ir.Value, *, groups: int = 1, **layout: Unpack[Layout]
) -> ir.Value:
    """ONNX Conv over any number of axes, grouped where the filter takes fewer channels than the input has."""
    windows = windows_of(_kernel(op, filter), layout)
    axis = 1 if windows.data_format.startswith("NC") else rank(input) - 1
    channels = input.shape[axis] if input.shape is not None else None
    per_group = filter.shape[-2] if filter.shape is not None else None
    ways: int | ir.Value
    if isinstance(per_group, int) and isinstance(channels, int):
        ways = channels // per_group
    else:
        ways = op.Div(op.dim(input, axis), op.dim(filter, rank(filter) - 2))
    return _convolved(op, input, _weight(op, filter), windows, ways)


@tensorflow.lower(
    "DepthwiseConv2dNative",
    cases=[
        case(
            lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"),
            f32(2, 6, 7, 3),
            f32(3, 2, 3, 1),
            dynamic=True,
        ),
        case(lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "VALID"), f32(2, 6, 7, 3), f32(3, 2, 3, 2)),
        case(
            lambda x, w: tf.nn.depthwise_conv2d(
                _rows_as_channels(x, 6, 7), tf.transpose(w, [1, 2, 0, 3]), [1, 1, 1, 1], "VALID"
            ),
            f32(2, 6, 7, 1),
            f32(2, 3, 2, 3),
            dynamic=True,
            name="a group a row",
        ),
        case(
            lambda x, w: tf.raw_ops.DepthwiseConv2dNative(
                input=x, filter=w, strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 1, 0, 2, 0, 0]
            ),
            f32(2, 6, 7, 3),
            f32(3, 2, 3, 2),
        ),
    ],
)
def depthwise_conv2d(op: OpBuilder, input: ir.Value, filter: ir.Value, **layout: Unpack[Layout]) -> ir.Value:
    """ONNX Conv with a group a channel; output channels are ordered by input channel, then multiplier."""
    sizes = _kernel(op, filter)
    channels = filter.shape[2] if filter.shape is not None else None
    groups = channels if isinstance(channels, int) else op.dim(filter, 2)
    return _convolved(op, input, _depthwise_weight(op, filter, sizes), windows_of(sizes, layout), groups)


def transposed_convolution(
    op: OpBuilder, input_sizes: ir.Value, weight: ir.Value, y: ir.Value, windows: Windows, groups: int | None = None
) -> ir.Value:
    """The full transposed convolution, cut to `input_sizes` where the forward convolution's padding was.

    A forward convolution of total padding P over n elements gives its gradient (m - 1) s + k - P elements and an uncovered
    rest that is zero (tf.nn.conv_transpose; Dumoulin & Visin, "A guide to convolution arithmetic", chapter 4).
    """
    given = op.result.shape
    in_sizes = static_sizes(spatial(list(given), windows.data_format)) if given is not None else None  # type: ignore[arg-type]
    out_sizes = static_sizes(list(y.shape)[2:]) if y.shape is not None else None
    common = {
        "strides": windows.strides,
        "dilations": windows.dilations,
        "kernel_shape": windows.kernel,
        "group": groups,
    }
    if in_sizes is not None and out_sizes is not None:
        pads, extra = windows.transposed_pads(in_sizes, out_sizes)
        if all(e < max(s, d) for e, s, d in zip(extra, windows.strides, windows.dilations, strict=True)):
            x = op.ConvTranspose(y, weight, pads=pads, output_padding=extra, **common)
            return channels_as(op, x, windows.data_format)
    if windows.padding == "EXPLICIT":
        raise UnsupportedOperator("explicit padding of a transposed convolution needs static sizes")
    full = op.ConvTranspose(y, weight, **common)
    return channels_as(op, _cut(op, full, y, input_sizes, windows), windows.data_format)


def _cut(op: OpBuilder, full: ir.Value, y: ir.Value, input_sizes: ir.Value, windows: Windows) -> ir.Value:
    """`full` cut to sizes that are only known when the model runs."""
    wanted, axes = int64(op, input_sizes), len(windows.kernel)
    if op.constant(wanted) is not None or wanted.shape is None or wanted.shape[0] != axes:
        first = 2 if windows.data_format.startswith("NC") else 1
        wanted = op.Slice(wanted, [first], [first + axes])
    spans = [(k - 1) * d + 1 for k, d in zip(windows.kernel, windows.dilations, strict=True)]
    slack = [max(step - span, 0) for step, span in zip(windows.strides, spans, strict=True)]
    if any(slack):
        full = op.Pad(full, [0] * (axes + 2) + [0, 0, *slack])
    begin: ir.Value = op.const([0] * axes)
    if windows.padding == "SAME":
        covered = op.Add(op.Mul(op.Sub(op.Slice(op.shape(y), [2], [2 + axes]), 1), windows.strides), spans)
        begin = op.Div(op.Max(op.Sub(covered, wanted), 0), 2)
    return op.Slice(full, begin, op.Add(begin, wanted), list(range(2, 2 + axes)))


def _back(x: Any, w: Any, shape: list[int], stride: int, padding: str) -> Any:
    return tf.nn.conv2d_transpose(x, w, shape, stride, padding)


@tensorflow.lower(
    "Conv2DBackpropInput",
    "Conv3DBackpropInputV2",
    cases=[
        case(lambda x, w: _back(x, w, [2, 8, 10, 3], 2, "SAME"), f32(2, 4, 5, 4), f32(3, 3, 3, 4)),
        case(lambda x, w: _back(x, w, [2, 7, 9, 3], 2, "SAME"), f32(2, 4, 5, 4), f32(3, 2, 3, 4)),
        case(lambda x, w: _back(x, w, [2, 9, 11, 3], 2, "VALID"), f32(2, 4, 5, 4), f32(3, 3, 3, 4)),
        case(lambda x, w: _back(x, w, [2, 10, 12, 3], 2, "VALID"), f32(2, 4, 5, 4), f32(3, 3, 3, 4)),
        case(lambda x, w: _back(x, w, [2, 12, 15, 3], 3, "SAME"), f32(2, 4, 5, 4), f32(2, 2, 3, 4)),
        case(
            lambda x, w: tf.nn.conv2d_transpose(x, w, [2, 2 * tf.shape(x)[1], 2 * tf.shape(x)[2], 3], 2, "SAME"),
            f32(2, 4, 5, 4),
            f32(3, 3, 3, 4),
        ),
        case(
            lambda x, w: tf.nn.conv3d_transpose(x, w, [2, 4, 6, 8, 3], 2, "SAME"),
            f32(2, 2, 3, 4, 4),
            f32(3, 3, 3, 3, 4),
        ),
    ],
)
def backprop_input(
    op: OpBuilder, input_sizes: ir.Value, filter: ir.Value, out_backprop: ir.Value, **layout: Unpack[Layout]
) -> ir.Value:
    """ONNX ConvTranspose, cut to the size asked for."""
    windows = windows_of(_kernel(op, filter), layout)
    y = channels_first(op, out_backprop, windows.data_format)
    channels, given = filter.shape[-2] if filter.shape is not None else None, op.result.shape
    if given is not None:
        target = given[1] if windows.data_format.startswith("NC") else given[-1]
        if isinstance(target, int) and isinstance(channels, int) and target != channels:
            raise UnsupportedOperator("a grouped transposed convolution has no entry")
    return transposed_convolution(op, input_sizes, _weight(op, filter), y, windows)


@tensorflow.lower(
    "DepthwiseConv2dNativeBackpropInput",
    cases=[
        case(
            lambda x, w: tf.raw_ops.DepthwiseConv2dNativeBackpropInput(
                input_sizes=[2, 8, 10, 3], filter=w, out_backprop=x, strides=[1, 2, 2, 1], padding="SAME"
            ),
            f32(2, 4, 5, 6),
            f32(3, 3, 3, 2),
        )
    ],
)
def depthwise_backprop_input(
    op: OpBuilder, input_sizes: ir.Value, filter: ir.Value, out_backprop: ir.Value, **layout: Unpack[Layout]
) -> ir.Value:
    """ONNX ConvTranspose with a group a channel, cut to the size asked for."""
    sizes = _kernel(op, filter, axes=4)
    windows = windows_of(sizes[:2], layout)
    y = channels_first(op, out_backprop, windows.data_format)
    return transposed_convolution(op, input_sizes, _depthwise_weight(op, filter, sizes), y, windows, sizes[2])
