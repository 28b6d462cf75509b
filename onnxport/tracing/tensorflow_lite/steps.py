"""Whole numbers that stand for real ones: to real numbers and back, as calls that the map knows by name.

Each is a function whose definition names what it implements (``_implements``), so that the lowering writes ONNX's operator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import tensorflow as tf

from onnxport.tracing.tensorflow_lite.file import Steps


def dequantised(x: Any, steps: Steps) -> Any:
    """The real numbers that x stands for, float32."""
    scale, zero_point = _operands(steps, x.dtype)
    function = _dequantise(x.dtype, x.shape.rank if steps.per_channel else None, steps.axis)
    return _shaped(function(x, scale, zero_point, tf.constant(steps.axis)), x)


def quantised(x: Any, steps: Steps, dtype: tf.DType) -> Any:
    """The whole numbers of a type that stand for x, halves to even, within the type's range."""
    scale, zero_point = _operands(steps, dtype)
    function = _quantise(dtype, x.shape.rank if steps.per_channel else None, steps.axis)
    return _shaped(function(x, scale, zero_point, tf.constant(steps.axis)), x)


def dynamic_steps(x: Any, *, symmetric: bool, axes: list[int]) -> tuple[Any, Any]:
    """x as steps of 8 bits from zero, float32, and their size, one for each slice over `axes`: the input of hybrid kernels.

    As XNNPACK, the interpreter's default, has it (xnn_f32_qd8_asymmetric_quantization_params), halves to even; the symmetric one,
    which XNNPACK leaves to TFLite's own kernels, as PortableSymmetricQuantizeFloats of portable_tensor_utils.cc.
    """
    low = tf.reduce_min(x, axes, keepdims=True)
    high = tf.reduce_max(x, axes, keepdims=True)
    if symmetric:
        most = tf.maximum(tf.abs(low), tf.abs(high))
        most = tf.where(most > 0, most, 127.0)
        return tf.clip_by_value(_away_from_zero(x * (127.0 / most)), -127.0, 127.0), most / 127.0
    low, high = tf.minimum(low, 0.0), tf.maximum(high, 0.0)
    factor = tf.where(high > low, 255.0 / (high - low), 1.0)
    by_low = (low * factor - 128.0) + (high * factor + 127.0) > 0.0
    zero = tf.where(by_low, -128.0 - low * factor, 127.0 - high * factor)
    zero = tf.round(tf.clip_by_value(zero, -128.0, 127.0))
    steps = tf.clip_by_value(tf.round(x * factor) + zero, -128.0, 127.0) - zero
    return steps, 1.0 / factor


def _away_from_zero(x: Any) -> Any:
    """x rounded, halves away from zero."""
    size = tf.abs(x)
    whole = tf.floor(size)
    return tf.sign(x) * (whole + tf.cast(size - whole >= 0.5, x.dtype))


def _operands(steps: Steps, dtype: tf.DType) -> tuple[Any, Any]:
    scale, zero_point = steps.scale, steps.zero_point.astype(dtype.as_numpy_dtype)
    return (
        (tf.constant(scale), tf.constant(zero_point))
        if steps.per_channel
        else (
            tf.constant(scale[0]),
            tf.constant(zero_point[0]),
        )
    )


def _shaped(result: Any, x: Any) -> Any:
    result.set_shape(x.shape)
    return result


@cache
def _dequantise(dtype: tf.DType, rank: int | None, axis: int) -> Callable[..., Any]:
    def body(x: Any, scale: Any, zero_point: Any, axis: Any) -> Any:
        return (tf.cast(x, tf.float32) - lift(tf.cast(zero_point, tf.float32))) * lift(scale)

    lift = _lift(rank, axis)
    return _composite("onnxport::DequantizeLinear", body, dtype, dtype, rank)


@cache
def _quantise(dtype: tf.DType, rank: int | None, axis: int) -> Callable[..., Any]:
    def body(x: Any, scale: Any, zero_point: Any, axis: Any) -> Any:
        steps = tf.round(x / lift(scale)) + lift(tf.cast(zero_point, tf.float32))
        return tf.cast(tf.clip_by_value(steps, float(dtype.min), float(dtype.max)), dtype)

    lift = _lift(rank, axis)
    return _composite("onnxport::QuantizeLinear", body, tf.float32, dtype, rank)


def _lift(rank: int | None, axis: int) -> Callable[[Any], Any]:
    """Puts a number a channel along the channels' axis."""
    return (lambda x: x) if rank is None else (lambda x: tf.reshape(x, [-1 if i == axis else 1 for i in range(rank)]))


def _composite(name: str, body: Callable[..., Any], taken: tf.DType, stored: tf.DType, rank: int | None) -> Any:
    one = [] if rank is None else [None]
    specs = [tf.TensorSpec(None, taken), tf.TensorSpec(one), tf.TensorSpec(one, stored), tf.TensorSpec([], tf.int32)]
    return tf.function(body, input_signature=specs, autograph=False, experimental_implements=name)
