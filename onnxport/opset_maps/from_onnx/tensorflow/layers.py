"""ONNX operators that TensorFlow has whole."""

from __future__ import annotations

from typing import Any, Unpack

import tensorflow as tf

from onnxport.opset_maps.from_onnx.semantics.normalization import BatchNormAttributes, batch_trains
from onnxport.opset_maps.from_onnx.tensorflow.namespace import TensorFlowNamespace
from onnxport.opset_maps.maps import tensorflow_native


@tensorflow_native.op("BatchNormalization", versions=(9, 14, 15))
def batch_normalization(
    xp: TensorFlowNamespace, x: tf.Tensor, *statistics: tf.Tensor, **form: Unpack[BatchNormAttributes]
) -> Any:
    """FusedBatchNormV3 for images of single precision; inference with statistics as they are."""
    if (
        batch_trains(xp, form)
        or xp.output_count > 1
        or xp.ndim(x) != 4
        or any(t.dtype != tf.float32 for t in (x, *statistics))
    ):
        return NotImplemented
    scale, bias, mean, variance = statistics
    epsilon = form.get("epsilon", 1e-5)
    y = tf.raw_ops.FusedBatchNormV3(
        x=xp.as_last(x), scale=scale, offset=bias, mean=mean, variance=variance, epsilon=epsilon, is_training=False
    )[0]
    return xp.as_first(y)
