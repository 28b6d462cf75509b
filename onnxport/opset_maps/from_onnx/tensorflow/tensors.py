"""Tensors of TensorFlow: what is known of one, how one is created, its element type; sizes as tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard, cast

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.tensorflow.elements import (
    OF_TF,
    as_held,
    converted,
    held_in,
    power_of_two,
    shared_constant,
    tensor_of,
)
from onnxport.opset_maps.from_onnx.values import (
    Array,
    Host,
    Int,
    IntOp,
    Law,
    UnknownUntilRun,
    all_known,
    host_array,
    known,
)


def size(n: Int | tf.Tensor) -> tf.Tensor:
    """A size as an INT64 scalar; a dynamic truth value as it is."""
    if known(n):
        return shared_constant(np.asarray(int(n)))
    x = cast(tf.Tensor, n)  # TensorFlow's dynamic ints are tensors
    return x if x.dtype in (tf.bool, tf.int64) else tf.cast(x, tf.int64)


def _element(vector: tf.Tensor, i: int) -> tf.Tensor:
    start, stop, step = (shared_constant(np.asarray([n])) for n in (i, i + 1, 1))
    return tf.strided_slice(vector, start, stop, step, shrink_axis_mask=1)


def size_vector(shape: Sequence[Int]) -> tf.Tensor:
    """Sizes as an INT64 vector: a constant where all are known."""
    if all_known(shape):
        return shared_constant(np.asarray([int(n) for n in shape], np.int64))
    return tf.stack([size(n) for n in shape])


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


class TensorFlowTensorFamily(Namespace):
    """Tensors, and what is known of them."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[int, tf.Tensor] = {}  # by id; held, so that no other tensor gets it

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
        result = tuple(_element(dynamic, i) if n is None else n for i, n in enumerate(static))
        self._sizes.update((id(n), n) for n in result if not known(n))
        return result

    def is_size(self, n: Int) -> bool:
        return id(n) in self._sizes

    def is_whole(self, n: object) -> bool:
        return isinstance(n, tf.Tensor) and n.dtype.is_integer

    def static_shape(self, x: tf.Tensor) -> tuple[int | None, ...] | None:
        return None if x.shape.rank is None else tuple(x.shape.as_list())

    def dtype(self, x: tf.Tensor) -> ir.DataType:
        return OF_TF[x.dtype]

    def constant(self, array: Array, dtype: ir.DataType | None = None) -> tf.Tensor:
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
            return host_array(x if x.dtype.is_floating else tf.cast(x, tf.int64))
        if x.shape[0] is None:
            raise UnknownUntilRun("the length of a vector of sizes is not known before the model runs")
        return host_array(list(tf.unstack(tf.cast(x, tf.int64))))

    def int_op(self, name: IntOp, *operands: Int) -> Int:
        return _INT_OPS[name](*(item if isinstance(item, bool) else size(item) for item in operands))

    def full(self, shape: Sequence[Int], fill_value: object, dtype: ir.DataType) -> tf.Tensor:
        held = held_in(dtype)
        value = tf.reshape(as_held(fill_value, held), []) if held != tf.string else tf.convert_to_tensor(fill_value)
        return with_shape(tf.fill(size_vector(shape), value), shape)

    def arange(
        self, start: object, stop: object = None, step: object = 1, dtype: ir.DataType = ir.DataType.INT64
    ) -> tf.Tensor:
        if stop is None:
            start, stop = 0, start
        held = held_in(dtype)
        wide = held
        if held not in (tf.int32, tf.int64, tf.float32, tf.float64):
            wide = tf.float32 if held.is_floating else tf.int64
        return tf.cast(tf.range(*(as_held(bound, wide) for bound in (start, stop, step))), held)

    def random(
        self, law: Law, shape: Sequence[Int], a: float, b: float, dtype: ir.DataType, seed: float | None
    ) -> tf.Tensor:
        number = None if seed is None else int(np.float32(seed).view(np.int32))
        draw = tf.random.uniform if law == "uniform" else tf.random.normal
        return with_shape(draw(size_vector(shape), a, b, held_in(dtype), seed=number), shape)

    astype = staticmethod(converted)

    def bitcast(self, x: tf.Tensor, dtype: ir.DataType) -> tf.Tensor:
        if dtype.name == "FLOAT8E8M0":
            return power_of_two(x)
        bits = tf.cast(x, tf.uint8) if x.dtype == tf.bool else x
        return tf.cast(bits, tf.bool) if dtype == ir.DataType.BOOL else tf.bitcast(bits, held_in(dtype))

    complex = staticmethod(tf.complex)
    real = staticmethod(tf.math.real)
    imag = staticmethod(tf.math.imag)
