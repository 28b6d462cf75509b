"""Normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.lowerings.normalization import batch_normalized
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import channels_as, channels_first


def _run(is_training: bool) -> Callable[..., tf.Tensor]:
    def run(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.FusedBatchNormV3(
            x=x, scale=scale, offset=offset, mean=mean, variance=variance, epsilon=1e-2, is_training=is_training
        )[0]

    return run


_STATISTICS = (f32(3), f32(3), f32(3), f32(3, low=0.1))


@tensorflow.lower(
    "FusedBatchNormV3 FusedBatchNormV2 FusedBatchNorm",
    cases=[
        case(_run(is_training=False), f32(2, 4, 5, 3), *_STATISTICS),
        case(_run(is_training=True), f32(2, 4, 5, 3), *_STATISTICS, name="training"),
    ],
)
def fused_batch_norm(
    op: OpBuilder,
    x: ir.Value,
    scale: ir.Value,
    offset: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    *,
    epsilon: float = 1e-4,
    exponential_avg_factor: float = 1.0,
    data_format: str = "NHWC",
    is_training: bool = True,
) -> Sequence[ir.Value | None]:
    """ONNX BatchNormalization; in training mode with the batch's own statistics."""
    if is_training and exponential_avg_factor != 1.0:
        raise UnsupportedOperator("FusedBatchNormV3: running statistics in training mode have no ONNX form")
    centre, spread = (None, None) if is_training else (mean, variance)
    y = batch_normalized(op, channels_first(op, x, data_format), scale, offset, centre, spread, epsilon)
    return [channels_as(op, y, data_format), centre, spread, *([None] * (len(op.results) - 3))]


@tensorflow.lower("L2Loss", cases=[case(lambda x: tf.nn.l2_loss(x), f32(2, 3))])
def l2_loss(op: OpBuilder, t: ir.Value) -> ir.Value:
    """Half the sum of squares."""
    return op.Mul(op.reduce("ReduceSum", op.Mul(t, t), None, keepdims=False), 0.5)
