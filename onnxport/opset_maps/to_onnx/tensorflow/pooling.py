"""Pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i32, i64
from onnxport.opset_maps.lowerings.axes import size
from onnxport.opset_maps.lowerings.reductions import without_nan
from onnxport.opset_maps.lowerings.windows import greatest_and_place, greatest_of_windows
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import (
    channels_as,
    channels_first,
    rank,
    spatial,
    static_ints,
)
from onnxport.opset_maps.to_onnx.tensorflow.windows import Layout, windows_of

# Whole numbers that ONNX MaxPool does not take.
_WHOLE = (ir.DataType.INT32, ir.DataType.INT64, ir.DataType.INT16, ir.DataType.UINT16)


def _pool(op: OpBuilder, operator: str, x: ir.Value, ksize: Sequence[int], layout: Layout) -> ir.Value:
    data_format, strides = layout.get("data_format", "NHWC"), layout["strides"]
    if data_format == "NCHW_VECT_C":
        raise UnsupportedOperator("data_format='NCHW_VECT_C' has no ONNX form")
    channels = 1 if data_format.startswith("NC") else -1
    if any(item != 1 for item in (ksize[0], strides[0], ksize[channels], strides[channels])):
        raise UnsupportedOperator(f"pooling over batch or channels (ksize={list(ksize)}) has no ONNX form")
    x = channels_first(op, x, data_format)
    windows = windows_of(spatial(ksize, data_format), layout)
    pads = windows.pads(x)
    if operator == "MaxPool" and x.dtype in _WHOLE:
        return channels_as(op, greatest_of_windows(op, x, windows.kernel, windows.strides, pads), data_format)
    # TensorFlow's kernels pass over NaN and begin with the type's least number; a window of one element is that element
    single = operator == "MaxPool" and all(size == 1 for size in windows.kernel)
    if operator == "MaxPool" and not single:
        x = without_nan(op, x)
    y = op.node(operator, x, kernel_shape=windows.kernel, strides=windows.strides, outputs=1, **pads)
    return channels_as(op, without_nan(op, y) if single else y, data_format)


def _max_pool_explicit(x: tf.Tensor) -> tf.Tensor:
    pads = [0, 0, 1, 1, 0, 1, 0, 0]
    return tf.raw_ops.MaxPool(
        input=x, ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=pads
    )


_IMAGES, _VOLUMES = f32(2, 7, 6, 3), f32(2, 5, 6, 7, 3)


@tensorflow.lower(
    "MaxPool",
    "MaxPool3D",
    cases=[
        case(lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), _IMAGES, dynamic=True),
        case(lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), _IMAGES),
        case(_max_pool_explicit, _IMAGES),
        case(lambda x: tf.nn.max_pool3d(x, 2, 2, "SAME"), _VOLUMES),
        case(lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), i32(2, 7, 6, 3)),
        case(lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), i64(2, 7, 6, 3)),
    ],
)
def max_pool(op: OpBuilder, value: ir.Value, *, ksize: Sequence[int], **layout: Unpack[Layout]) -> ir.Value:
    """ONNX MaxPool."""
    return _pool(op, "MaxPool", value, ksize, layout)


@tensorflow.lower(
    "AvgPool",
    "AvgPool3D",
    cases=[
        case(lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"), _IMAGES),
        case(lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"), _IMAGES, dynamic=True),
        case(lambda x: tf.nn.avg_pool3d(x, 2, 2, "SAME"), _VOLUMES),
    ],
)
def avg_pool(op: OpBuilder, value: ir.Value, *, ksize: Sequence[int], **layout: Unpack[Layout]) -> ir.Value:
    """ONNX AveragePool, which leaves padding out of the mean as TensorFlow does."""
    return _pool(op, "AveragePool", value, ksize, layout)


@tensorflow.lower(
    "MaxPoolV2",
    cases=[
        case(
            lambda x: tf.raw_ops.MaxPoolV2(input=x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"),
            f32(2, 7, 6, 3),
        )
    ],
)
def max_pool_v2(
    op: OpBuilder, input: ir.Value, ksize: ir.Value, strides: ir.Value, *, padding: str, data_format: str = "NHWC"
) -> ir.Value:
    """ONNX MaxPool; window and steps must be constant."""
    window, steps = static_ints(op, ksize, "ksize"), static_ints(op, strides, "strides")
    return _pool(op, "MaxPool", input, window, {"strides": steps, "padding": padding, "data_format": data_format})


def _with_argmax(padding: str, include_batch: bool) -> Callable[[Any], Any]:
    return lambda x: tf.raw_ops.MaxPoolWithArgmax(
        input=x, ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1], padding=padding, include_batch_in_index=include_batch
    )


@tensorflow.lower(
    "MaxPoolWithArgmax",
    cases=[
        *(case(_with_argmax(padding, flag), _IMAGES) for padding in ("VALID", "SAME") for flag in (False, True)),
        case(_with_argmax("SAME", True), i32(2, 7, 6, 3)),
        case(_with_argmax("VALID", False), i64(2, 7, 6, 3)),
    ],
)
def max_pool_with_argmax(
    op: OpBuilder,
    input: ir.Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    Targmax: ir.DataType = ir.DataType.INT64,
    padding: str,
    include_batch_in_index: bool = False,
) -> Sequence[ir.Value]:
    """ONNX MaxPool, its places counted with the channels last."""
    x = channels_first(op, input, "NHWC")
    windows = windows_of(spatial(ksize, "NHWC"), {"strides": strides, "padding": padding})
    if any(item != 1 for item in (ksize[0], strides[0], ksize[-1], strides[-1])):
        raise UnsupportedOperator(f"pooling over batch or channels (ksize={list(ksize)}) has no ONNX form")
    pads = windows.pads(x)
    if x.dtype in _WHOLE:
        y, places = greatest_and_place(op, x, windows.kernel, windows.strides, pads)
    else:
        y, places = op.MaxPool(
            without_nan(op, x), outputs=2, kernel_shape=windows.kernel, strides=windows.strides, **pads
        )
    image, channels = op.Mul(size(op, x, 2), size(op, x, 3)), size(op, x, 1)
    pixel, plane = op.Mod(places, image), op.Div(places, image)
    if include_batch_in_index:
        pixel = op.Add(pixel, op.Mul(op.Div(plane, channels), image))
    argmax = op.Add(op.Mul(pixel, channels), op.Mod(plane, channels))
    return [channels_as(op, y, "NHWC"), op.cast(channels_as(op, argmax, "NHWC"), Targmax)]


@tensorflow.lower(
    "LRN",
    cases=[case(lambda x: tf.nn.lrn(x, depth_radius=2, bias=1.5, alpha=0.3, beta=0.6), f32(2, 3, 4, 7))],
)
def lrn(
    op: OpBuilder, input: ir.Value, *, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
) -> ir.Value:
    """ONNX LRN, whose alpha is divided by the window's size."""
    size = 2 * depth_radius + 1
    n = rank(input)
    if n != 4:
        raise UnsupportedOperator(f"LRN: an operand of rank {n}")
    y = op.LRN(channels_first(op, input, "NHWC"), size=size, alpha=alpha * size, beta=beta, bias=bias)
    return channels_as(op, y, "NHWC")
