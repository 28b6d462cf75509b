"""Sizes, shapes, reductions and conversions in TensorFlow."""

# The primitives are described once, in from_onnx/primitives/.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.tensorflow.elements import (
    HALVES,
    OF_TF,
    converted,
    held_in,
    power_of_two,
    tensor_of,
    widened,
)
from onnxport.opset_maps.from_onnx.values import Axes, Host, Int, IntOp, UnknownUntilRun, all_known, host_array, known

_REDUCTIONS: dict[str, Callable[..., tf.Tensor]] = {
    "sum": tf.reduce_sum,
    "prod": tf.reduce_prod,
    "mean": tf.reduce_mean,
    "max": tf.reduce_max,
    "min": tf.reduce_min,
}


def size(n: Int | tf.Tensor) -> tf.Tensor:
    """A size as an INT64 scalar; a dynamic truth value as it is."""
    if not isinstance(n, tf.Tensor):
        return tf.constant(n, tf.int64)
    return n if n.dtype in (tf.bool, tf.int64) else tf.cast(n, tf.int64)


def size_vector(shape: Sequence[Int]) -> tf.Tensor:
    """Sizes as an INT64 vector: a constant where all are known."""
    if all_known(shape):
        return tf.constant([int(n) for n in shape], tf.int64, shape=[len(shape)])
    return tf.stack([size(n) for n in shape])


def _joint(a: Int, b: Int) -> int | None:
    """The size that two axes broadcast to, as far as it is known: one of 1 follows the other."""
    if known(a) and known(b):
        return int(b if a == 1 else a)
    if known(a) and a != 1:
        return int(a)
    return int(b) if known(b) and b != 1 else None


def with_shape(x: tf.Tensor, shape: Sequence[Int | None]) -> tf.Tensor:
    """`x` with the sizes that are known declared; -1 is none."""
    if not tf.executing_eagerly():
        x.set_shape([int(n) if n is not None and known(n) and n >= 0 else None for n in shape])
    return x


_INT_OPS: dict[str, Callable[..., tf.Tensor]] = {
    "add": tf.add,
    "sub": tf.subtract,
    "mul": tf.multiply,
    "div": lambda a, b: tf.raw_ops.TruncateDiv(x=a, y=b),
    "floor_div": tf.math.floordiv,
    "ceil_div": lambda a, b: -tf.math.floordiv(-a, b),
    "mod": tf.math.floormod,
    "min": tf.minimum,
    "max": tf.maximum,
    "neg": tf.negative,
    "abs": tf.abs,
    "eq": tf.equal,
    "lt": tf.less,
    "le": tf.less_equal,
    "and": tf.logical_and,
    "or": tf.logical_or,
    "not": tf.logical_not,
    "where": tf.where,
}


class Shapes(Namespace):
    """What is known of a tensor, making, conversion, shape and reduction."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: list[tf.Tensor] = []

    # -- what is known -------------------------------------------------------------------------------------------------

    def is_tensor(self, x: object) -> TypeGuard[tf.Tensor]:
        return isinstance(x, (tf.Tensor, tf.Variable))

    def ndim(self, x: tf.Tensor) -> int:
        rank = x.shape.rank
        if rank is None:
            raise UnknownUntilRun("a rank is not known before the model runs")
        return int(rank)

    def shape(self, x: tf.Tensor) -> tuple[Int, ...]:
        self.ndim(x)
        static = x.shape.as_list()
        if None not in static:
            return tuple(static)
        dynamic = tf.shape(x, out_type=tf.int64)
        result = tuple(dynamic[i] if n is None else n for i, n in enumerate(static))
        self._sizes.extend(n for n in result if not known(n))
        return result

    def is_size(self, n: Int) -> bool:
        return any(n is size for size in self._sizes)

    def static_shape(self, x: tf.Tensor) -> tuple[int | None, ...] | None:
        return None if x.shape.rank is None else tuple(x.shape.as_list())

    def dtype(self, x: tf.Tensor) -> ir.DataType:
        return OF_TF[x.dtype]

    # -- between Python and tensors ------------------------------------------------------------------------------------

    def constant(self, array: np.ndarray[Any, Any], dtype: ir.DataType | None = None) -> tf.Tensor:
        return tensor_of(np.asarray(array), dtype)

    def from_host(self, array: Host, dtype: ir.DataType) -> tf.Tensor:
        held = held_in(dtype)
        if array.dtype != object or dtype == ir.DataType.STRING:
            return tensor_of(array, dtype)
        return tf.reshape(tf.stack([tf.cast(item, held) for item in array.ravel()]), array.shape)

    def to_host(self, x: tf.Tensor) -> Host:
        static = tf.get_static_value(x)
        if static is not None:
            return np.asarray(static)
        if self.ndim(x) == 0:
            return host_array(tf.cast(x, tf.int64))
        if x.shape[0] is None:
            raise UnknownUntilRun("the length of a vector of sizes is not known before the model runs")
        return host_array(list(tf.unstack(tf.cast(x, tf.int64))))

    def int_op(self, name: IntOp, *operands: Int) -> Int:
        return _INT_OPS[name](*(item if isinstance(item, bool) else size(item) for item in operands))

    # -- making --------------------------------------------------------------------------------------------------------

    def full(self, shape: Sequence[Int], fill_value: object, dtype: ir.DataType) -> tf.Tensor:
        held = held_in(dtype)
        value = tf.reshape(tf.cast(fill_value, held), []) if held != tf.string else tf.convert_to_tensor(fill_value)
        return with_shape(tf.fill(size_vector(shape), value), shape)

    def arange(
        self, start: object, stop: object = None, step: object = 1, dtype: ir.DataType = ir.DataType.INT64
    ) -> tf.Tensor:
        if stop is None:
            start, stop = 0, start
        held = held_in(dtype)
        if held in (tf.int32, tf.int64, tf.float32, tf.float64):
            return tf.range(tf.cast(start, held), tf.cast(stop, held), tf.cast(step, held))
        wide = tf.float32 if held.is_floating else tf.int64
        return tf.cast(tf.range(tf.cast(start, wide), tf.cast(stop, wide), tf.cast(step, wide)), held)

    def random_uniform(
        self, shape: Sequence[Int], low: float, high: float, dtype: ir.DataType, seed: float | None
    ) -> tf.Tensor:
        number = None if seed is None else int(np.float32(seed).view(np.int32))
        return with_shape(tf.random.uniform(size_vector(shape), low, high, held_in(dtype), seed=number), shape)

    def random_normal(
        self, shape: Sequence[Int], mean: float, scale: float, dtype: ir.DataType, seed: float | None
    ) -> tf.Tensor:
        number = None if seed is None else int(np.float32(seed).view(np.int32))
        return with_shape(tf.random.normal(size_vector(shape), mean, scale, held_in(dtype), seed=number), shape)

    # -- element types -------------------------------------------------------------------------------------------------

    def astype(self, x: tf.Tensor, dtype: ir.DataType, saturate: bool = True) -> tf.Tensor:
        return converted(x, dtype, saturate)

    def bitcast(self, x: tf.Tensor, dtype: ir.DataType) -> tf.Tensor:
        if dtype == ir.DataType.FLOAT8E8M0:
            return power_of_two(x)
        bits = tf.cast(x, tf.uint8) if x.dtype == tf.bool else x
        return tf.cast(bits, tf.bool) if dtype == ir.DataType.BOOL else tf.bitcast(bits, held_in(dtype))

    def complex(self, real: tf.Tensor, imag: tf.Tensor) -> tf.Tensor:
        return tf.complex(real, imag)

    def real(self, x: tf.Tensor) -> tf.Tensor:
        return tf.math.real(x)

    def imag(self, x: tf.Tensor) -> tf.Tensor:
        return tf.math.imag(x)

    # -- shape ---------------------------------------------------------------------------------------------------------

    def permute_dims(self, x: tf.Tensor, axes: Sequence[int]) -> tf.Tensor:
        return tf.transpose(x, list(axes))

    def reshape(self, x: tf.Tensor, shape: Sequence[Int]) -> tf.Tensor:
        return with_shape(tf.reshape(x, size_vector(shape)), shape)

    def expand_dims(self, x: tf.Tensor, axis: Sequence[int]) -> tf.Tensor:
        for place in sorted(axis):
            x = tf.expand_dims(x, place)
        return x

    def squeeze(self, x: tf.Tensor, axis: Sequence[int]) -> tf.Tensor:
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

    def flip(self, x: tf.Tensor, axis: Sequence[int]) -> tf.Tensor:
        return tf.reverse(x, list(axis))

    def tile(self, x: tf.Tensor, repeats: Sequence[Int]) -> tf.Tensor:
        return tf.tile(x, size_vector(repeats))

    def split(self, x: tf.Tensor, sizes: Sequence[Int], axis: int) -> list[tf.Tensor]:
        return list(tf.split(x, size_vector(sizes), axis, num=len(sizes)))

    def slice(self, x: tf.Tensor, axis: int, start: Int | None, stop: Int | None, step: int = 1) -> tf.Tensor:
        return _sliced(x, axis, start, stop, step)

    # -- reductions ----------------------------------------------------------------------------------------------------

    def sum(self, x: tf.Tensor, axis: Axes = None, keepdims: bool = False) -> tf.Tensor:
        return _reduce("sum", x, axis, keepdims)

    def prod(self, x: tf.Tensor, axis: Axes = None, keepdims: bool = False) -> tf.Tensor:
        return _reduce("prod", x, axis, keepdims)

    def mean(self, x: tf.Tensor, axis: Axes = None, keepdims: bool = False) -> tf.Tensor:
        return _reduce("mean", x, axis, keepdims)

    def max(self, x: tf.Tensor, axis: Axes = None, keepdims: bool = False) -> tf.Tensor:
        return _reduce("max", x, axis, keepdims)

    def min(self, x: tf.Tensor, axis: Axes = None, keepdims: bool = False) -> tf.Tensor:
        return _reduce("min", x, axis, keepdims)

    def argmax(self, x: tf.Tensor, axis: int, keepdims: bool = False) -> tf.Tensor:
        return _arg_extreme("argmax", tf.argmax, x, axis, keepdims)

    def argmin(self, x: tf.Tensor, axis: int, keepdims: bool = False) -> tf.Tensor:
        return _arg_extreme("argmin", tf.argmin, x, axis, keepdims)

    def cumulative_sum(self, x: tf.Tensor, axis: int) -> tf.Tensor:
        return widened("cumulative sum", lambda y: tf.cumsum(y, axis), [[1] * self.ndim(x)], [x])

    def cumulative_prod(self, x: tf.Tensor, axis: int) -> tf.Tensor:
        return widened("cumulative product", lambda y: tf.math.cumprod(y, axis), [[1] * self.ndim(x)], [x])

    def softmax(self, x: tf.Tensor, axis: int) -> tf.Tensor:
        return tf.nn.softmax(x, axis)

    def log_softmax(self, x: tf.Tensor, axis: int) -> tf.Tensor:
        return tf.nn.log_softmax(x, axis)


def _sliced(x: tf.Tensor, axis: int, start: Int | None, stop: Int | None, step: int) -> tf.Tensor:
    limit = (1 << 31) - 1  # no axis is longer; ONNX's "to the end" is a 64-bit number
    low, high = (
        size(0) if bound is None else size(min(max(int(bound), -limit), limit) if known(bound) else bound)
        for bound in (start, stop)
    )
    ahead = [tf.constant(0, tf.int64)] * axis
    mask = (1 << axis) - 1
    return tf.strided_slice(
        x,
        tf.stack([*ahead, low]),
        tf.stack([*ahead, high]),
        tf.constant([1] * axis + [step], tf.int64),
        begin_mask=mask | (1 << axis if start is None else 0),
        end_mask=mask | (1 << axis if stop is None else 0),
    )


def _reduce(name: str, x: tf.Tensor, axis: Axes, keepdims: bool) -> tf.Tensor:
    places = None if axis is None else list(axis)
    if x.dtype == tf.bool and name in ("max", "min"):
        return (tf.reduce_any if name == "max" else tf.reduce_all)(x, places, keepdims)
    if name == "mean" and x.dtype.is_integer:
        total = tf.reduce_sum(tf.cast(x, tf.int64), places, keepdims)
        count = tf.reduce_sum(tf.ones_like(x, tf.int64), places, keepdims)
        return tf.cast(tf.raw_ops.TruncateDiv(x=total, y=count), x.dtype)
    function = _REDUCTIONS[name]
    if x.dtype in HALVES and name in ("sum", "prod", "mean"):  # a half holds no sum of more than a few thousand
        return tf.cast(function(tf.cast(x, tf.float32), places, keepdims), x.dtype)
    return widened(f"reduce_{name}", lambda y: function(y, places, keepdims), [[1] * x.shape.rank], [x])


def _arg_extreme(name: str, function: Callable[..., tf.Tensor], x: tf.Tensor, axis: int, keepdims: bool) -> tf.Tensor:
    if x.dtype == tf.bool:
        x = tf.cast(x, tf.uint8)
    result = widened(name, lambda y: function(y, axis, output_type=tf.int64), [[1] * x.shape.rank], [x], back=False)
    return tf.expand_dims(result, axis) if keepdims else result
