"""ONNX operators that TensorFlow has whole."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from onnxport.opset_maps.from_onnx.tensorflow.namespace import TensorFlowNamespace
from onnxport.opset_maps.maps import tensorflow_native


@tensorflow_native.op("BatchNormalization", versions=(9, 14, 15))
def batch_normalization(
    xp: TensorFlowNamespace,
    x: tf.Tensor,
    scale: tf.Tensor,
    bias: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    *,
    epsilon: float = 1e-5,
    training_mode: int = 0,
    **_: object,
) -> Any:
    """FusedBatchNormV3 for images of single precision; inference with statistics as they are."""
    statistics = (scale, bias, mean, variance)
    if training_mode or xp.output_count > 1 or xp.ndim(x) != 4 or any(t.dtype != tf.float32 for t in (x, *statistics)):
        return NotImplemented
    y = tf.raw_ops.FusedBatchNormV3(
        x=xp.as_last(x), scale=scale, offset=bias, mean=mean, variance=variance, epsilon=epsilon, is_training=False
    )[0]
    return xp.as_first(y)
