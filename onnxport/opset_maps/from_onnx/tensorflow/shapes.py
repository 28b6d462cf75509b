"""Shapes and reductions in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from onnxport.opset_maps.from_onnx.tensorflow.elements import HALVES, as_held, permuted, shared_constant, widened
from onnxport.opset_maps.from_onnx.tensorflow.tensors import TensorFlowTensorFamily, size, size_vector, with_shape
from onnxport.opset_maps.from_onnx.values import Axes, Int, Ints, PadMode, Pads, all_known, known


def _joint(a: Int, b: Int) -> int | None:
    """The size that two axes broadcast to, as far as it is known: one of 1 follows the other."""
    if known(a) and known(b):
        return int(b if a == 1 else a)
    if known(a) and a != 1:
        return int(a)
    return int(b) if known(b) and b != 1 else None


def _scalar(x: tf.Tensor) -> tf.Tensor:
    return x if x.shape.rank == 0 else tf.reshape(x, [])


def _reduction(name: str) -> Callable[..., tf.Tensor]:
    function = getattr(tf, f"reduce_{name}")

    def primitive(self: TensorFlowShapeFamily, x: tf.Tensor, axis: Axes = None, keepdims: bool = False) -> tf.Tensor:
        places = None if axis is None else list(axis)
        if x.dtype == tf.bool and name in ("max", "min"):
            return (tf.reduce_any if name == "max" else tf.reduce_all)(x, places, keepdims)
        if name == "mean" and x.dtype.is_integer:
            total = tf.reduce_sum(tf.cast(x, tf.int64), places, keepdims)
            count = tf.reduce_sum(tf.ones_like(x, tf.int64), places, keepdims)
            return tf.cast(tf.raw_ops.TruncateDiv(x=total, y=count), x.dtype)
        if x.dtype in HALVES and name in ("sum", "prod", "mean"):  # a half holds no sum of more than a few thousand
            return tf.cast(function(tf.cast(x, tf.float32), places, keepdims), x.dtype)
        return widened(f"reduce_{name}", lambda y: function(y, places, keepdims), [[1] * x.shape.rank], [x])

    return primitive


def _arg_extreme(name: str, function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    def primitive(self: TensorFlowShapeFamily, x: tf.Tensor, axis: int, keepdims: bool = False) -> tf.Tensor:
        x = tf.cast(x, tf.uint8) if x.dtype == tf.bool else x
        result = widened(name, lambda y: function(y, axis, output_type=tf.int64), [[1] * x.shape.rank], [x], back=False)
        return tf.expand_dims(result, axis) if keepdims else result

    return primitive


class TensorFlowShapeFamily(TensorFlowTensorFamily):
    """Elements in another order or number, and what is computed along axes."""

    def permute_dims(self, x: tf.Tensor, axes: Ints) -> tf.Tensor:
        return permuted(x, axes)

    def reshape(self, x: tf.Tensor, shape: Sequence[Int]) -> tf.Tensor:
        return with_shape(tf.reshape(x, size_vector(shape)), shape)

    def expand_dims(self, x: tf.Tensor, axis: Ints) -> tf.Tensor:
        for place in sorted(axis):
            x = tf.expand_dims(x, place)
        return x

    def squeeze(self, x: tf.Tensor, axis: Ints) -> tf.Tensor:
        return tf.squeeze(x, sorted(axis)) if len(axis) else x

    def concat(self, xs: Sequence[tf.Tensor], axis: int) -> tf.Tensor:
        return tf.concat(list(xs), axis)

    def stack(self, xs: Sequence[tf.Tensor], axis: int) -> tf.Tensor:
        return tf.stack(list(xs), axis)

    def broadcast_to(self, x: tf.Tensor, shape: Sequence[Int]) -> tf.Tensor:
        return with_shape(tf.broadcast_to(x, size_vector(shape)), shape)

    def expand(self, x: tf.Tensor, shape: Sequence[Int]) -> tf.Tensor:
        own = self.shape(x)
        if all_known(own) and all_known(shape):
            return tf.broadcast_to(x, np.broadcast_shapes(tuple(map(int, own)), tuple(map(int, shape))))
        target = tf.broadcast_dynamic_shape(size_vector(own), size_vector(shape))
        rank = max(len(own), len(shape))
        pairs = zip([1] * (rank - len(own)) + list(own), [1] * (rank - len(shape)) + list(shape), strict=True)
        return with_shape(tf.broadcast_to(x, target), [_joint(a, b) for a, b in pairs])

    def flip(self, x: tf.Tensor, axis: Ints) -> tf.Tensor:
        return tf.reverse(x, list(axis))

    def tile(self, x: tf.Tensor, repeats: Sequence[Int]) -> tf.Tensor:
        wide = tf.cast(x, tf.int32) if x.dtype == tf.uint16 else x  # the one type that the CPU does not repeat
        return tf.cast(tf.tile(wide, size_vector(repeats)), x.dtype)

    def split(self, x: tf.Tensor, sizes: Sequence[Int], axis: int) -> list[tf.Tensor]:
        return list(tf.split(x, size_vector(sizes), axis, num=len(sizes)))

    def slice(self, x: tf.Tensor, axis: int, start: Int | None, stop: Int | None, step: int = 1) -> tf.Tensor:
        limit = (1 << 31) - 1  # no axis is longer; ONNX's "to the end" is a 64-bit number
        low, high = (
            0 if bound is None else min(max(int(bound), -limit), limit) if known(bound) else bound
            for bound in (start, stop)
        )
        mask = (1 << axis) - 1
        return tf.strided_slice(
            x,
            size_vector([*[0] * axis, low]),
            size_vector([*[0] * axis, high]),
            size_vector([*[1] * axis, step]),
            begin_mask=mask | (1 << axis if start is None else 0),
            end_mask=mask | (1 << axis if stop is None else 0),
        )

    def pad(self, x: tf.Tensor, pads: Pads, mode: PadMode = "constant", value: object = 0) -> tf.Tensor:
        if all(known(n) and n == 0 for pair in pads for n in pair):
            return x
        if mode == "constant":
            numbers = [n for pair in pads for n in pair]
            if all_known(numbers):
                amounts = shared_constant(np.asarray(numbers, np.int64).reshape(-1, 2))
            else:
                amounts = tf.reshape(size_vector(numbers), [-1, 2])
            fill = tf.constant(value) if x.dtype == tf.string else _scalar(as_held(value, x.dtype))
            sized = zip(x.shape.as_list(), pads, strict=True)
            ends = [n + a + b if n is not None and known(a) and known(b) else None for n, (a, b) in sized]
            return with_shape(tf.raw_ops.PadV2(input=x, paddings=amounts, constant_values=fill), ends)
        for axis, (before, after) in enumerate(pads):
            if known(before) and known(after) and before == after == 0:
                continue
            n = size(self.shape(x)[axis])
            places = tf.range(-size(before), n + size(after))
            if mode == "edge":
                places = tf.clip_by_value(places, tf.constant(0, tf.int64), n - 1)
            elif mode == "wrap":
                places = tf.math.floormod(places, n)
            else:  # reflected at the first and last element, as often as needed
                turned = tf.math.floormod(places, tf.maximum(2 * (n - 1), 1))
                places = n - 1 - tf.abs(n - 1 - turned)
            length = self.shape(x)[axis]
            x = tf.gather(x, places, axis=axis)
            if known(length) and known(before) and known(after):
                shape = x.shape.as_list()
                shape[axis] = length + before + after
                with_shape(x, shape)
        return x

    sum = _reduction("sum")
    prod = _reduction("prod")
    mean = _reduction("mean")
    max = _reduction("max")
    min = _reduction("min")
    argmax = _arg_extreme("argmax", tf.argmax)
    argmin = _arg_extreme("argmin", tf.argmin)

    def cumulative_sum(self, x: tf.Tensor, axis: int) -> tf.Tensor:
        return widened("cumulative sum", lambda y: tf.cumsum(y, axis), [[1] * self.ndim(x)], [x])

    def cumulative_prod(self, x: tf.Tensor, axis: int) -> tf.Tensor:
        return widened("cumulative product", lambda y: tf.math.cumprod(y, axis), [[1] * self.ndim(x)], [x])

    softmax = staticmethod(tf.nn.softmax)
    log_softmax = staticmethod(tf.nn.log_softmax)
