"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, f32
from onnxport.opset_maps.lowerings.reductions import without_nan
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.convolution import padding_attributes
from onnxport.opset_maps.to_onnx.tensorflow.operands import channels_as, channels_first, rank, spatial, static_ints


def _pool(
    op: OpBuilder,
    operator: str,
    x: ir.Value,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit: Sequence[int],
    data_format: str,
) -> ir.Value:
    if data_format == "NCHW_VECT_C":
        raise UnsupportedOperator("data_format='NCHW_VECT_C' has no ONNX form")
    outer = [
        ksize[0],
        strides[0],
        *((ksize[1], strides[1]) if data_format.startswith("NC") else (ksize[-1], strides[-1])),
    ]
    if any(item != 1 for item in outer):
        raise UnsupportedOperator(f"pooling over batch or channels (ksize={list(ksize)}) has no ONNX form")
    x = channels_first(op, x, data_format)
    kernel, steps = spatial(ksize, data_format), spatial(strides, data_format)
    pads = padding_attributes(x, kernel, steps, [1] * len(kernel), padding, explicit, data_format)
    if operator == "MaxPool":  # TensorFlow's kernels pass over NaN and begin with the type's least number
        x = without_nan(op, x)
    y = op.node(operator, x, kernel_shape=kernel, strides=steps, outputs=1, **pads)
    return channels_as(op, y, data_format)


def _max_pool_explicit(x: tf.Tensor) -> tf.Tensor:
    pads = [0, 0, 1, 1, 0, 1, 0, 0]
    return tf.raw_ops.MaxPool(
        input=x, ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=pads
    )


_IMAGES, _VOLUMES = f32(2, 7, 6, 3), f32(2, 5, 6, 7, 3)
# By TensorFlow's name: ONNX's operator and the cases.
_POOLS = {
    "MaxPool": (
        "MaxPool",
        [
            case(lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), _IMAGES, dynamic=True),
            case(lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), _IMAGES),
            case(_max_pool_explicit, _IMAGES),
        ],
    ),
    "AvgPool": (
        "AveragePool",
        [
            case(lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"), _IMAGES),
            case(lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"), _IMAGES, dynamic=True),
        ],
    ),
    "MaxPool3D": ("MaxPool", [case(lambda x: tf.nn.max_pool3d(x, 2, 2, "SAME"), _VOLUMES)]),
    "AvgPool3D": ("AveragePool", [case(lambda x: tf.nn.avg_pool3d(x, 2, 2, "SAME"), _VOLUMES)]),
}


def _register(name: str, operator: str, cases: Sequence[Case]) -> None:
    @tensorflow.lower(name, cases=cases)
    def lower(
        op: OpBuilder,
        value: ir.Value,
        *,
        ksize: Sequence[int],
        strides: Sequence[int],
        padding: str,
        data_format: str,
        explicit_paddings: Sequence[int] = (),
    ) -> ir.Value:
        return _pool(op, operator, value, ksize, strides, padding, explicit_paddings, data_format)

    lower.__doc__ = (
        f"ONNX {operator}{', which leaves padding out of the mean as TensorFlow does' * (operator != 'MaxPool')}."
    )


for _name, (_operator, _cases) in _POOLS.items():
    _register(_name, _operator, _cases)


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
    return _pool(op, "MaxPool", input, window, steps, padding, (), data_format)


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
