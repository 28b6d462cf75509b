"""Normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.lowerings.axes import rank, size
from onnxport.opset_maps.lowerings.normalization import batch_normalized
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import channels_as, channels_first


def _run(results: int, **attributes: Any) -> Callable[..., Any]:
    """The first `results` of the operator's results."""

    def run(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> Any:
        return tf.raw_ops.FusedBatchNormV3(
            x=x, scale=scale, offset=offset, mean=mean, variance=variance, epsilon=1e-2, **attributes
        )[:results]

    return run


_STATISTICS = (f32(3), f32(3), f32(3), f32(3, low=0.1))


@tensorflow.lower(
    "FusedBatchNormV3 FusedBatchNormV2 FusedBatchNorm",
    cases=[
        case(_run(3, is_training=False), f32(2, 4, 5, 3), *_STATISTICS),
        case(_run(5), f32(2, 4, 5, 3), *_STATISTICS, name="training"),
        case(
            lambda x: tf.raw_ops.FusedBatchNormV3(
                x=tf.cast(x, tf.float16), scale=[1.0, 2.0], offset=[0.0, 1.0], mean=[], variance=[]
            )[:2],
            f32(2, 3, 3, 2),
            name="training in float16",
        ),
        case(_run(5, exponential_avg_factor=0.3), f32(2, 4, 5, 3), *_STATISTICS, name="running"),
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
    """ONNX BatchNormalization; in training mode by the batch's own statistics, which are results for the gradient too."""
    centre, spread = (None, None) if is_training else (mean, variance)
    features = channels_first(op, x, data_format)
    wide = features if centre is not None else op.cast_like(features, scale)
    y = channels_as(op, batch_normalized(op, wide, scale, offset, (centre, spread), epsilon), data_format)
    y = op.cast_like(y, x)
    unused = [op.const(0.0, scale.dtype)] * (len(op.results) - 5)  # what CuDNN alone uses
    if not is_training:  # TensorFlow leaves the reserved results as memory happens to be
        return [y, mean, variance, None, None, *unused]
    own_mean, own_variance, unbiased = _statistics_of(op, wide)
    moved = (own_mean, unbiased)
    if exponential_avg_factor != 1.0:
        old, new = 1.0 - exponential_avg_factor, exponential_avg_factor
        pairs = zip((mean, variance), moved, strict=True)
        moved = tuple(op.Add(op.Mul(before, old), op.Mul(after, new)) for before, after in pairs)
    return [y, *moved, own_mean, own_variance, *unused]


def _statistics_of(op: OpBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Mean, variance and unbiased variance of each channel of a batch, channels first."""
    axes = [0, *range(2, rank(x))]
    mean = op.reduce("ReduceMean", x, axes, keepdims=True)
    gaps = op.Sub(x, mean)
    variance = op.reduce("ReduceMean", op.Mul(gaps, gaps), axes, keepdims=False)
    count = op.cast_like(op.Div(op.Size(x), size(op, x, 1)), x)
    unbiased = op.Mul(variance, op.Div(count, op.Max(op.Sub(count, 1.0), 1.0)))
    return op.Reshape(mean, [-1]), variance, unbiased


@tensorflow.lower("L2Loss", cases=[case(lambda x: tf.nn.l2_loss(x), f32(2, 3))])
def l2_loss(op: OpBuilder, t: ir.Value) -> ir.Value:
    """Half the sum of squares."""
    return op.Mul(op.reduce("ReduceSum", op.Mul(t, t), None, keepdims=False), 0.5)
