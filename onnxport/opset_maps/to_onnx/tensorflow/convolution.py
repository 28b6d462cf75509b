"""Convolutions and their transposes. ONNX puts channels first: the layout pass removes what transposes cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.lowerings.axes import permuted
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import (
    channels_as,
    channels_first,
    int64,
    rank,
    same_pads,
    spatial,
    static_sizes,
)


def padding_attributes(
    x: ir.Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit: Sequence[int] = (),
    data_format: str = "NHWC",
) -> dict[str, Any]:
    """ONNX's `pads`, or `auto_pad` where the size of `x` (channels first) is not known."""
    if padding == "VALID":
        return {}
    if padding == "EXPLICIT":
        pairs = spatial_pads(explicit, data_format)
        return {"pads": [*(begin for begin, _ in pairs), *(end for _, end in pairs)]}
    if padding != "SAME":
        raise UnsupportedOperator(f"padding={padding!r} has no ONNX form")
    sizes = static_sizes(list(x.shape)[2:]) if x.shape is not None else None
    if sizes is None:
        return {"auto_pad": "SAME_UPPER"}
    pads = same_pads(sizes, kernel, strides, dilations)
    return {"pads": pads} if any(pads) else {}


def _kernel(filter: ir.Value, what: str, *, axes: int | None = None) -> list[int]:
    """The first `axes` sizes of a filter, by default the spatial ones; its order is space, inputs, outputs."""
    sizes = static_sizes(list(filter.shape)[: -2 if axes is None else axes]) if filter.shape is not None else None
    if sizes is None:
        raise UnsupportedOperator(f"{what}: the filter's size is not known before the model runs")
    return sizes


def _convolution(
    op: OpBuilder,
    x: ir.Value,
    filter: ir.Value,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit: Sequence[int],
    data_format: str,
) -> ir.Value:
    kernel, n = _kernel(filter, "Conv"), rank(x)
    channels = x.shape[1 if data_format.startswith("NC") else -1] if x.shape is not None else None
    per_group = filter.shape[-2] if filter.shape is not None else None
    if not isinstance(per_group, int) or not isinstance(channels, int):
        raise UnsupportedOperator("the number of channels is not known before the model runs")
    weight = permuted(op, filter, [n - 1, n - 2, *range(n - 2)])
    groups = channels // per_group
    return _convolved(op, x, weight, kernel, groups, strides, dilations, padding, explicit, data_format)


def _convolved(
    op: OpBuilder,
    x: ir.Value,
    weight: ir.Value,
    kernel: Sequence[int],
    groups: int,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit: Sequence[int],
    data_format: str,
) -> ir.Value:
    """ONNX Conv with a weight in its own order."""
    x = channels_first(op, x, data_format)
    steps, spread = spatial(strides, data_format), spatial(dilations, data_format)
    pads = padding_attributes(x, kernel, steps, spread, padding, explicit, data_format)
    y = op.Conv(x, weight, strides=steps, dilations=spread, group=groups, kernel_shape=list(kernel), **pads)
    return channels_as(op, y, data_format)


@tensorflow.lower(
    "Conv2D",
    "Conv3D",
    cases=[
        case(lambda x, w: tf.nn.conv2d(x, w, 1, "VALID"), f32(2, 6, 7, 3), f32(3, 2, 3, 4), dynamic=True),
        case(lambda x, w: tf.nn.conv2d(x, w, 2, "SAME"), f32(2, 6, 7, 3), f32(3, 2, 3, 4)),
        case(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME", dilations=2), f32(2, 6, 7, 3), f32(3, 3, 3, 4)),
        case(lambda x, w: tf.nn.conv2d(x, w, 2, [[0, 0], [1, 2], [0, 3], [0, 0]]), f32(2, 6, 7, 3), f32(3, 2, 3, 4)),
        case(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), f32(2, 6, 7, 4), f32(3, 2, 2, 6), name="groups"),
        case(lambda x, w: tf.nn.conv3d(x, w, [1, 1, 2, 1, 1], "SAME"), f32(2, 4, 5, 6, 3), f32(2, 3, 2, 3, 4)),
        case(lambda x, w: tf.nn.conv3d(x, w, [1, 1, 1, 1, 1], "VALID"), f32(2, 4, 5, 6, 3), f32(2, 3, 2, 3, 4)),
    ],
)
def convolution(
    op: OpBuilder,
    input: ir.Value,
    filter: ir.Value,
    *,
    strides: Sequence[int],
    padding: str,
    data_format: str,
    dilations: Sequence[int],
    explicit_paddings: Sequence[int] = (),
) -> ir.Value:
    """ONNX Conv, grouped where the filter takes fewer channels than the input has."""
    return _convolution(op, input, filter, strides, dilations, padding, explicit_paddings, data_format)


@tensorflow.lower(
    "Conv",
    cases=[
        case(
            lambda x, w: tf.raw_ops.Conv(input=x, filter=w, strides=[1, 2, 1, 1], padding="SAME"),
            f32(2, 6, 7, 3),
            f32(3, 2, 3, 4),
        )
    ],
)
def conv(
    op: OpBuilder,
    input: ir.Value,
    filter: ir.Value,
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "CHANNELS_LAST",
    dilations: Sequence[int] = (),
    groups: int = 1,
) -> ir.Value:
    """ONNX Conv over any number of axes."""
    layout = "NC" if data_format == "CHANNELS_FIRST" else "N_C"
    return _convolution(op, input, filter, strides, dilations or [1] * len(strides), padding, explicit_paddings, layout)


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
            lambda x, w: tf.raw_ops.DepthwiseConv2dNative(
                input=x, filter=w, strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 1, 0, 2, 0, 0]
            ),
            f32(2, 6, 7, 3),
            f32(3, 2, 3, 2),
        ),
    ],
)
def depthwise_conv2d(
    op: OpBuilder,
    input: ir.Value,
    filter: ir.Value,
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
) -> ir.Value:
    """ONNX Conv with a group a channel; output channels are ordered by input channel, then multiplier."""
    sizes = _kernel(filter, "DepthwiseConv2dNative", axes=4)
    return _convolved(
        op,
        input,
        _depthwise(op, filter, sizes),
        sizes[:2],
        sizes[2],
        strides,
        dilations,
        padding,
        explicit_paddings,
        data_format,
    )


def _depthwise(op: OpBuilder, filter: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """A filter [height, width, channels, multiplier] as ONNX's weight of a group a channel."""
    weight = op.Transpose(filter, perm=[2, 3, 0, 1])
    return op.Reshape(weight, [sizes[2] * sizes[3], 1, *sizes[:2]]) if sizes[3] > 1 else weight


def _transposed(
    op: OpBuilder,
    input_sizes: ir.Value,
    filter: ir.Value,
    out_backprop: ir.Value,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit: Sequence[int],
    data_format: str,
) -> ir.Value:
    """The full transposed convolution, cut to `input_sizes` where the forward convolution's padding was.

    A forward convolution of total padding P over n elements gives its gradient (m - 1) s + k - P elements and an uncovered
    rest that is zero (tf.nn.conv_transpose; Dumoulin & Visin, "A guide to convolution arithmetic", chapter 4).
    """
    kernel = _kernel(filter, "Conv2DBackpropInput")
    y = channels_first(op, out_backprop, data_format)
    n = rank(y)
    steps, spread = spatial(strides, data_format), spatial(dilations, data_format)
    weight = permuted(op, filter, [n - 1, n - 2, *range(n - 2)])
    channels, given = filter.shape[-2] if filter.shape is not None else None, op.result.shape
    if given is not None:
        target = given[1] if data_format.startswith("NC") else given[-1]
        if isinstance(target, int) and isinstance(channels, int) and target != channels:
            raise UnsupportedOperator("a grouped transposed convolution has no entry")
    wanted = spatial(list(given), data_format) if given is not None else [None] * (n - 2)  # type: ignore[arg-type]
    out_sizes, in_sizes = static_sizes(list(y.shape)[2:]) if y.shape is not None else None, static_sizes(wanted)
    common = {"strides": steps, "dilations": spread, "kernel_shape": kernel}
    if in_sizes is not None and out_sizes is not None:
        pads, extra = _transposed_pads(
            in_sizes, out_sizes, kernel, steps, spread, padding, spatial_pads(explicit, data_format)
        )
        if all(e < max(s, d) for e, s, d in zip(extra, steps, spread, strict=True)):
            x = op.ConvTranspose(y, weight, pads=pads, output_padding=extra, **common)
            return channels_as(op, x, data_format)
    if padding == "EXPLICIT":
        raise UnsupportedOperator("explicit padding of a transposed convolution needs static sizes")
    full = op.ConvTranspose(y, weight, **common)
    return channels_as(op, _cut(op, full, y, input_sizes, kernel, steps, spread, padding, data_format), data_format)


def spatial_pads(explicit: Sequence[int], data_format: str) -> list[tuple[int, int]]:
    """Pairs of padding before and after, of the spatial axes."""
    pairs = list(zip(explicit[::2], explicit[1::2], strict=True))
    return pairs[2:] if data_format.startswith("NC") else pairs[1:-1]


def _transposed_pads(
    in_sizes: Sequence[int],
    out_sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit: Sequence[tuple[int, int]],
) -> tuple[list[int], list[int]]:
    begins, ends, extras = [], [], []
    for i, (n, m, k, s, d) in enumerate(zip(in_sizes, out_sizes, kernel, strides, dilations, strict=True)):
        full = (m - 1) * s + (k - 1) * d + 1
        total = max(full - n, 0) if padding == "SAME" else 0
        begin, end = explicit[i] if padding == "EXPLICIT" else (total // 2, total - total // 2)
        extra = n - (full - begin - end)
        if extra < 0:  # a forward VALID convolution that did not reach the end
            end, extra = end - extra, 0
        begins.append(begin)
        ends.append(end)
        extras.append(extra)
    return [*begins, *ends], extras


def _cut(
    op: OpBuilder,
    full: ir.Value,
    y: ir.Value,
    input_sizes: ir.Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    data_format: str,
) -> ir.Value:
    """`full` cut to sizes that are only known when the model runs."""
    sizes, axes = int64(op, input_sizes), len(kernel)
    length = op.constant(sizes)
    if length is None and sizes.shape is not None and sizes.shape[0] == axes:
        wanted = sizes
    else:
        wanted = op.Slice(
            sizes,
            [2] if data_format.startswith("NC") else [1],
            [2 + axes] if data_format.startswith("NC") else [1 + axes],
        )
    slack = [max(s - (k - 1) * d - 1, 0) for k, s, d in zip(kernel, strides, dilations, strict=True)]
    if any(slack):
        full = op.Pad(full, [0] * (axes + 2) + [0, 0, *slack])
    begin: ir.Value = op.const([0] * axes)
    if padding == "SAME":
        covered = op.Add(
            op.Mul(op.Sub(op.Slice(op.shape(y), [2], [2 + axes]), 1), list(strides)),
            [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)],
        )
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
    op: OpBuilder,
    input_sizes: ir.Value,
    filter: ir.Value,
    out_backprop: ir.Value,
    *,
    strides: Sequence[int],
    padding: str,
    data_format: str,
    dilations: Sequence[int],
    explicit_paddings: Sequence[int] = (),
) -> ir.Value:
    """ONNX ConvTranspose, cut to the size asked for."""
    return _transposed(
        op, input_sizes, filter, out_backprop, strides, dilations, padding, explicit_paddings, data_format
    )


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
    op: OpBuilder,
    input_sizes: ir.Value,
    filter: ir.Value,
    out_backprop: ir.Value,
    *,
    strides: Sequence[int],
    padding: str,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
) -> ir.Value:
    """ONNX ConvTranspose with a group a channel; needs static sizes."""
    sizes = _kernel(filter, "DepthwiseConv2dNativeBackpropInput", axes=4)
    kernel = sizes[:2]
    y = channels_first(op, out_backprop, data_format)
    steps, spread = spatial(strides, data_format), spatial(dilations, data_format)
    given = spatial(list(op.result.shape), data_format) if op.result.shape is not None else [None]  # type: ignore[arg-type]
    out_sizes, in_sizes = static_sizes(list(y.shape)[2:]) if y.shape is not None else None, static_sizes(given)
    if out_sizes is None or in_sizes is None:
        raise UnsupportedOperator("DepthwiseConv2dNativeBackpropInput: needs static sizes")
    weight = _depthwise(op, filter, sizes)
    pads, extra = _transposed_pads(in_sizes, out_sizes, kernel, steps, spread, padding, ())
    x = op.ConvTranspose(
        y, weight, pads=pads, output_padding=extra, strides=steps, dilations=spread, kernel_shape=kernel, group=sizes[2]
    )
    return channels_as(op, x, data_format)
