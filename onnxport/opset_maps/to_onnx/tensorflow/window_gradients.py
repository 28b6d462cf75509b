"""Gradients of pooling, and of convolutions for their filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Required, Unpack

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, f32
from onnxport.opset_maps.lowerings.axes import permuted, rank
from onnxport.opset_maps.lowerings.scatter import scatter_elements
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.convolution import transposed_convolution
from onnxport.opset_maps.to_onnx.tensorflow.operands import (
    channels_as,
    channels_first,
    int64,
    spatial,
    static_ints,
    static_sizes,
)
from onnxport.opset_maps.to_onnx.tensorflow.windows import Layout, Windows, windows_of

_IMAGE, _VOLUME = f32(2, 7, 6, 3), f32(2, 4, 5, 6, 2)


def _tape(forward: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    """The gradients of the cubes of what `forward` gives, by its first `count` operands."""

    def run(*operands: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(operands)
            loss = tf.reduce_sum(forward(*operands) ** 3.0)
        return tape.gradient(loss, operands[:count])

    return run


def _pool_cases(pools: Sequence[tuple[Callable[..., Any], Any]], min_opset: int = 13) -> list[Case]:
    return [
        case(_tape(lambda x, pool=pool, row=row: pool(x, *row)), image, min_opset=min_opset, dynamic=image is _IMAGE)
        for pool, image in pools
        for row in ((2, 2, "VALID"), (3, 2, "SAME"), (3, 1, "SAME"), (2, 3, "VALID"))
    ]


class Pool(Layout, total=False):
    """Attributes of a pool: its windows' sizes beside their layout."""

    ksize: Required[Sequence[int]]


def _pool_windows(ksize: Sequence[int], layout: Layout) -> Windows:
    data_format = layout.get("data_format", "NHWC")
    channels = 1 if data_format.startswith("NC") else -1
    if any(item != 1 for item in (ksize[0], ksize[channels], layout["strides"][0], layout["strides"][channels])):
        raise UnsupportedOperator(f"pooling over batch or channels (ksize={list(ksize)}) has no ONNX form")
    return windows_of(spatial(ksize, data_format), layout)


def _channels(x: ir.Value) -> int:
    """The number of channels of `x`, channels first."""
    channels = x.shape[1] if x.shape is not None else None
    if not isinstance(channels, int):
        raise UnsupportedOperator("the number of channels is not known before the model runs")
    return channels


def _counts(windows: Windows, sizes: Sequence[int], counts: Sequence[int]) -> np.ndarray:
    """How many elements each window holds, padding left out."""
    result = np.ones((), np.int64)
    for n, m, k, s in zip(sizes, counts, windows.kernel, windows.strides, strict=True):
        begin = max((m - 1) * s + k - n, 0) // 2 if windows.padding == "SAME" else 0
        starts = np.arange(m) * s - begin
        result = np.multiply.outer(result, np.minimum(starts + k, n) - np.maximum(starts, 0))
    return result


@tensorflow.lower(
    "AvgPoolGrad",
    "AvgPool3DGrad",
    cases=_pool_cases([(tf.nn.avg_pool2d, _IMAGE), (tf.nn.avg_pool3d, _VOLUME)]),
)
def avg_pool_grad(
    op: OpBuilder, orig_input_shape: ir.Value, grad: ir.Value, *, ksize: Sequence[int], **layout: Unpack[Layout]
) -> ir.Value:
    """ONNX ConvTranspose with ones of each window's gradient, divided by the number of elements of the window."""
    windows = _pool_windows(ksize, layout)
    dy = channels_first(op, grad, windows.data_format)
    given = op.result.shape
    sizes = static_sizes(spatial(list(given), windows.data_format)) if given is not None else None  # type: ignore[arg-type]
    counts = static_sizes(list(dy.shape)[2:]) if dy.shape is not None else None
    if windows.padding == "VALID":
        share = op.Div(dy, float(np.prod(windows.kernel)))
    elif sizes is not None and counts is not None:
        share = op.Div(dy, op.const(_counts(windows, sizes, counts), dy.dtype))
    else:
        raise UnsupportedOperator(f"{op.name}: padding='SAME' needs an image of static size")
    channels = _channels(dy)
    ones = op.const(np.ones((channels, 1, *windows.kernel)), dy.dtype)
    return transposed_convolution(op, orig_input_shape, ones, share, windows, channels)


def _greatest_places(op: OpBuilder, x: ir.Value, windows: Windows) -> ir.Value:
    """Where in `x`, channels first and flattened, the first greatest element of each window stands."""
    _, places = op.MaxPool(x, outputs=2, kernel_shape=windows.kernel, strides=windows.strides, **windows.pads(x))
    return op.Reshape(places, [-1])


def _added_at(op: OpBuilder, shape: ir.Value, places: ir.Value, updates: ir.Value) -> ir.Value:
    """Zeros of `shape` with each update added at its place in the flattened result."""
    zeros = op.Expand(op.const(0, updates.dtype), op.reduce("ReduceProd", shape, [0], keepdims=True))
    return op.Reshape(scatter_elements(op, zeros, places, op.Reshape(updates, [-1]), 0, "add"), shape)


@tensorflow.lower("MaxPoolGrad", min_opset=16, cases=_pool_cases([(tf.nn.max_pool2d, _IMAGE)], 16))
def max_pool_grad(
    op: OpBuilder, orig_input: ir.Value, orig_output: ir.Value, grad: ir.Value, **pool: Unpack[Pool]
) -> ir.Value:
    """Each gradient added where the first maximum of its window stands, which ONNX MaxPool gives."""
    windows = _pool_windows(pool["ksize"], pool)
    x, dy = (channels_first(op, item, windows.data_format) for item in (orig_input, grad))
    dx = _added_at(op, op.shape(x), _greatest_places(op, x, windows), dy)
    return channels_as(op, dx, windows.data_format)


def _max_pool_call(name: str, size: int, padding: str) -> Callable[..., Any]:
    def call(x: Any, dy: Any) -> Any:
        steps = {"ksize": [1, size, size, 1], "strides": [1, 2, 2, 1], "padding": padding}
        y = tf.raw_ops.MaxPool(input=x, **steps)
        return getattr(tf.raw_ops, name)(orig_input=x, orig_output=y, grad=dy, **steps)

    return call


@tensorflow.lower("MaxPoolGradGrad", cases=[case(_max_pool_call("MaxPoolGradGrad", 3, "SAME"), _IMAGE, _IMAGE)])
def max_pool_grad_grad(
    op: OpBuilder, orig_input: ir.Value, orig_output: ir.Value, grad: ir.Value, **pool: Unpack[Pool]
) -> ir.Value:
    """The elements of `grad` where the first maximum of each window stands."""
    windows = _pool_windows(pool["ksize"], pool)
    x, dy = (channels_first(op, item, windows.data_format) for item in (orig_input, grad))
    taken = op.Gather(op.Reshape(dy, [-1]), _greatest_places(op, x, windows), axis=0)
    y = channels_first(op, orig_output, windows.data_format)
    return channels_as(op, op.Reshape(taken, op.shape(y)), windows.data_format)


def _of_operands(lower: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    """The second version of an operator, whose window and steps are operands, which must be constant."""

    def second(
        op: OpBuilder,
        orig_input: ir.Value,
        orig_output: ir.Value,
        grad: ir.Value,
        ksize: ir.Value,
        strides: ir.Value,
        *,
        padding: str,
        data_format: str = "NHWC",
    ) -> ir.Value:
        steps = static_ints(op, strides, "strides")
        layout: Layout = {"strides": steps, "padding": padding, "data_format": data_format}
        return lower(op, orig_input, orig_output, grad, ksize=static_ints(op, ksize, "ksize"), **layout)

    second.__doc__ = lower.__doc__
    return second


tensorflow.lower(
    "MaxPoolGradV2",
    min_opset=16,
    cases=[case(_max_pool_call("MaxPoolGradV2", 3, "SAME"), _IMAGE, f32(2, 4, 3, 3), min_opset=16)],
)(_of_operands(max_pool_grad))
tensorflow.lower("MaxPoolGradGradV2", cases=[case(_max_pool_call("MaxPoolGradGradV2", 2, "VALID"), _IMAGE, _IMAGE)])(
    _of_operands(max_pool_grad_grad)
)


def _with_argmax(include_batch: bool) -> Callable[..., Any]:
    steps = {
        "ksize": [1, 2, 2, 1],
        "strides": [1, 2, 2, 1],
        "padding": "VALID",
        "include_batch_in_index": include_batch,
    }

    def run(x: Any, dy: Any) -> Any:
        argmax = tf.raw_ops.MaxPoolWithArgmax(input=x, **steps)[1]
        return tf.raw_ops.MaxPoolGradWithArgmax(input=x, grad=dy, argmax=argmax, **steps)

    return run


def _argmax_places(op: OpBuilder, x: ir.Value, argmax: ir.Value, include_batch: bool) -> ir.Value:
    """`argmax` in the whole flattened batch `x`."""
    places = int64(op, argmax)
    if not include_batch:
        shape = op.shape(x)
        image = op.reduce("ReduceProd", op.Slice(shape, [1], [rank(x)]), [0], keepdims=True)
        samples = op.Range(0, op.Squeeze(op.Slice(shape, [0], [1]), [0]), 1)
        places = op.Add(places, op.Reshape(op.Mul(samples, image), [-1, *[1] * (rank(argmax) - 1)]))
    return op.Reshape(places, [-1])


@tensorflow.lower(
    "MaxPoolGradWithArgmax",
    min_opset=16,
    cases=[case(_with_argmax(flag), f32(2, 4, 6, 3), f32(2, 2, 3, 3), min_opset=16) for flag in (False, True)],
)
def max_pool_grad_with_argmax(
    op: OpBuilder,
    input: ir.Value,
    grad: ir.Value,
    argmax: ir.Value,
    *,
    include_batch_in_index: bool = False,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
) -> ir.Value:
    """Each gradient added at the place that `argmax` gives."""
    return _added_at(op, op.shape(input), _argmax_places(op, input, argmax, include_batch_in_index), grad)


@tensorflow.lower(
    "MaxPool3DGrad",
    cases=[
        *_pool_cases([(tf.nn.max_pool3d, _VOLUME)]),
        case(_tape(lambda x: tf.nn.max_pool3d(tf.nn.relu(x - 1.0) + 1.0, 3, 2, "SAME")), _VOLUME, name="ties"),
    ],
)
def max_pool3d_grad(
    op: OpBuilder, orig_input: ir.Value, orig_output: ir.Value, grad: ir.Value, **pool: Unpack[Pool]
) -> ir.Value:
    """The sum of the gradients of the windows whose maximum an element is: of all equal ones, unlike MaxPoolGrad.

    A convolution with an identity matrix gives the elements of each window as channels, the transposed one puts them back.
    """
    windows = _pool_windows(pool["ksize"], pool)
    x, y, dy = (channels_first(op, item, windows.data_format) for item in (orig_input, orig_output, grad))
    count, first = int(np.prod(windows.kernel)), [-1, 1]
    identity = op.const(np.eye(count).reshape(count, 1, *windows.kernel), x.dtype)
    spread = op.Reshape(x, op.Concat(first, op.Slice(op.shape(x), [2], [5]), axis=0))
    elements = op.Conv(spread, identity, kernel_shape=windows.kernel, strides=windows.strides, **windows.pads(x))
    sizes = op.Concat(first, op.Slice(op.shape(y), [2], [5]), axis=0)
    y, dy = op.Reshape(y, sizes), op.Reshape(dy, sizes)
    share = op.Where(op.Equal(elements, y), dy, op.const(0, dy.dtype))
    back = _summed_back(op, share, identity, windows, x)
    return channels_as(op, op.Reshape(back, op.shape(x)), windows.data_format)


def _summed_back(op: OpBuilder, share: ir.Value, identity: ir.Value, windows: Windows, x: ir.Value) -> ir.Value:
    """The elements of windows, as channels, added where they come from."""
    sizes = static_sizes(list(x.shape)[2:]) if x.shape is not None else None
    counts = static_sizes(list(share.shape)[2:]) if share.shape is not None else None
    if sizes is None or counts is None:
        raise UnsupportedOperator("MaxPool3DGrad: needs a volume of static size")
    pads, extra = windows.transposed_pads(sizes, counts)
    full = op.ConvTranspose(share, identity, strides=windows.strides, kernel_shape=windows.kernel, pads=pads)
    return op.Pad(full, [0] * 7 + extra) if any(extra) else full


@tensorflow.lower(
    "Conv2DBackpropFilter Conv2DBackpropFilterV2 Conv3DBackpropFilterV2 DepthwiseConv2dNativeBackpropFilter",
    cases=[
        case(_tape(lambda w, x: tf.nn.conv2d(x, w, 2, "SAME")), f32(3, 2, 3, 4), f32(2, 6, 7, 3), dynamic=False),
        case(_tape(lambda w, x: tf.nn.conv2d(x, w, 2, "VALID")), f32(3, 2, 3, 4), f32(2, 6, 7, 3)),
        case(
            _tape(lambda w, x: tf.nn.conv2d(x, w, 2, [[0, 0], [1, 2], [0, 3], [0, 0]])),
            f32(3, 2, 3, 4),
            f32(2, 6, 7, 3),
        ),
        case(_tape(lambda w, x: tf.nn.conv3d(x, w, [1, 2, 2, 2, 1], "SAME")), f32(2, 3, 2, 3, 4), f32(2, 4, 5, 6, 3)),
        case(_tape(lambda w, x: tf.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME")), f32(3, 2, 3, 2), f32(2, 6, 7, 3)),
    ],
)
def backprop_filter(
    op: OpBuilder, input: ir.Value, filter_sizes: ir.Value, out_backprop: ir.Value, **layout: Unpack[Layout]
) -> ir.Value:
    """A convolution of the input with the gradient, steps and dilations exchanged, the batch in the place of the channels."""
    known = static_sizes(list(op.result.shape)) if op.result.shape is not None else None
    sizes = known or static_ints(op, filter_sizes, "filter_sizes")
    windows = windows_of(sizes[:-2], layout)
    x, dy = (channels_first(op, item, windows.data_format) for item in (input, out_backprop))
    depthwise, n = op.name.startswith("Depthwise"), rank(x)
    groups = _channels(x) if depthwise else _channels(x) // sizes[-2]
    pads = windows.pads(x)
    if "auto_pad" in pads:
        raise UnsupportedOperator(f"{op.name}: padding='SAME' needs an image of static size")
    per_group, space = _channels(x) // groups, op.Slice(op.shape(x), [2], [n])
    if groups > 1:  # batch and group together as channels, the channels within a group as the batch
        split = op.Reshape(x, op.Concat([-1, groups, per_group], space, axis=0))
        x = op.Reshape(permuted(op, split, [2, 1, 0, *range(3, n + 1)]), op.Concat([per_group, -1], space, axis=0))
    else:
        x = permuted(op, x, [1, 0, *range(2, n)])
    dw = op.Conv(
        x,
        permuted(op, dy, [1, 0, *range(2, n)]),
        strides=windows.dilations,
        dilations=windows.strides,
        group=groups,
        **pads,
    )
    dw = op.Slice(dw, [0] * (n - 2), windows.kernel, list(range(2, n)))
    return op.Reshape(permuted(op, dw, [*range(2, n), 0, 1]), sizes)
