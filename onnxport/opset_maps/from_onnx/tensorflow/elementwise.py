"""Elementwise functions of TensorFlow."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.elementwise import ROWS
from onnxport.opset_maps.from_onnx.tensorflow.elements import as_held, widened
from onnxport.opset_maps.from_onnx.tensorflow.tensors import TensorFlowTensorFamily


@cache
def raw_op(name: str) -> Callable[..., Any]:
    """An operator of ``tf.raw_ops`` that takes its operands by position."""
    function = getattr(tf.raw_ops, name)
    names = [item for item in inspect.signature(function).parameters if item != "name"]
    return lambda *xs: function(**dict(zip(names, xs, strict=False)))


def _hard_swish(x: tf.Tensor) -> tf.Tensor:
    return x * tf.clip_by_value(x / 6 + tf.cast(0.5, x.dtype), tf.cast(0, x.dtype), tf.cast(1, x.dtype))


def _erf(x: tf.Tensor) -> tf.Tensor:
    """1 - erfc away from 0: TensorFlow's own kernel of float32 is off by four units in the last place (TensorFlow 2.21)."""
    if x.dtype != tf.float32:
        return tf.math.erf(x)
    size = tf.abs(x)
    return tf.where(size < 0.5, tf.math.erf(x), tf.sign(x) * (1 - tf.math.erfc(size)))


# Rows that TensorFlow has under no name of tf.raw_ops, or less exactly.
_COMPOSED: dict[str, Callable[..., tf.Tensor]] = {
    "Erf": _erf,
    "Mish": lambda x: x * tf.tanh(tf.math.softplus(x)),
    "HardSwish": _hard_swish,
    "Xor": tf.math.logical_xor,
    "exp2": lambda x: tf.pow(tf.cast(2, x.dtype), x),
    "log2": lambda x: tf.math.log(x) / tf.math.log(tf.cast(2, x.dtype)),
    "log10": lambda x: tf.math.log(x) / tf.math.log(tf.cast(10, x.dtype)),
    "trunc": lambda x: tf.sign(x) * tf.floor(tf.abs(x)),
    "silu": lambda x: x * tf.sigmoid(x),
    "log_sigmoid": tf.math.log_sigmoid,
}
# Operators that are the same modulo 2^64 in signed arithmetic.
_RING = frozenset(
    {"Add", "Sub", "Mul", "Neg", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Equal", "not_equal"}
)
_ROWS = {row.onnx: row for row in ROWS}


def _on_numbers(key: str, function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """A primitive of two operands that is one function."""

    def primitive(self: TensorFlowElementwiseFamily, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return widened(key, function, [[1], [1]], _tensors([a, b]), exact=True)

    return primitive


def _on_floats(key: str, function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """A question that every number of another type denies."""

    def primitive(self: TensorFlowElementwiseFamily, x: tf.Tensor) -> tf.Tensor:
        if not x.dtype.is_floating:
            return tf.zeros_like(x, tf.bool)
        return widened(key, function, [[1]], [x], exact=True)

    return primitive


class TensorFlowElementwiseFamily(TensorFlowTensorFamily):
    """One result an element."""

    def elementwise(self, name: str, *xs: tf.Tensor) -> tf.Tensor:
        tensors = _tensors(xs)
        if tensors[0].dtype.is_unsigned and name in ("Abs", "Relu"):
            return tensors[0]
        row = _ROWS[name]
        function = _COMPOSED.get(name) or (raw_op(row.tf) if row.tf else None)
        if function is None:
            raise UnsupportedOperator(f"TensorFlow has no {name}")
        return widened(name, function, [[1]] * row.arity, tensors, exact=name not in _RING)

    def add(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return self.elementwise("Add", _as_bias(a, b), _as_bias(b, a))

    divide = _on_numbers("divide", raw_op("Div"))
    floor_mod = _on_numbers("floor_mod", raw_op("FloorMod"))
    trunc_mod = _on_numbers("trunc_mod", raw_op("TruncateMod"))

    def pow(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return _power(a, b)

    def where(self, condition: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.where(condition, *_tensors([a, b]))

    def bitwise_left_shift(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return _shifted(tf.bitwise.left_shift, a, b)

    def bitwise_right_shift(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return _shifted(tf.bitwise.right_shift, a, b)

    bitwise_invert = staticmethod(tf.bitwise.invert)
    logical_not = staticmethod(tf.logical_not)

    isnan = _on_floats("isnan", tf.math.is_nan)
    isinf = _on_floats("isinf", tf.math.is_inf)

    def equal(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        tensors = _tensors([a, b])
        if tensors[0].dtype == tf.string:
            return tf.equal(*tensors)
        return widened("equal", raw_op("Equal"), [[1], [1]], tensors)


def _tensors(xs: Sequence[tf.Tensor | complex]) -> list[tf.Tensor]:
    """Operands of one element type: Python numbers take that of the first tensor."""
    dtype = next(x.dtype for x in xs if isinstance(x, (tf.Tensor, tf.Variable)))
    return [x if isinstance(x, (tf.Tensor, tf.Variable)) else as_held(x, dtype) for x in xs]


def _as_bias(x: object, other: object) -> Any:
    """A row [1, n] added to a matrix as a vector: TensorFlow 2.21 fuses a product and the row, and then refuses the row."""
    if not isinstance(x, tf.Tensor) or not isinstance(other, tf.Tensor):
        return x
    row = x.shape.rank == other.shape.rank == 2 and x.shape[0] == 1 and other.shape[0] != 1
    return tf.reshape(x, [x.shape[1]]) if row and x.shape[1] else x


def _power(a: tf.Tensor | complex, b: tf.Tensor | complex) -> tf.Tensor:
    """a to the b in the type of a; integers to a floating-point power go through double precision, as C's pow does."""
    if not isinstance(a, (tf.Tensor, tf.Variable)):
        a, b = _tensors([a, b])
    elif not isinstance(b, (tf.Tensor, tf.Variable)):
        b = tf.constant(b, tf.float64 if isinstance(b, float) and not a.dtype.is_floating else a.dtype)
    if a.dtype.is_floating:
        return widened("pow", raw_op("Pow"), [[1], [1]], [a, tf.cast(b, a.dtype)])
    if b.dtype.is_floating:
        return tf.cast(tf.pow(tf.cast(a, tf.float64), tf.cast(b, tf.float64)), a.dtype)
    base, exponent = tf.cast(a, tf.int64), tf.cast(b, tf.int64)
    power = tf.pow(base, tf.maximum(exponent, 0))
    odd = tf.math.floormod(exponent, 2)
    inverse = tf.where(base == 1, tf.ones_like(base), tf.where(base == -1, 1 - 2 * odd, tf.zeros_like(base)))
    return tf.cast(tf.where(exponent < 0, inverse, power), a.dtype)


def _shifted(shift: Callable[..., tf.Tensor], a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """A shift; by the width or more, or by a negative number, nothing is left but the sign of a number shifted right."""
    width = tf.cast(8 * a.dtype.size, b.dtype)
    beyond = b >= width
    if not b.dtype.is_unsigned:
        beyond = tf.logical_or(beyond, b < tf.zeros_like(b))
    rest = tf.zeros_like(a)
    if shift is tf.bitwise.right_shift and not a.dtype.is_unsigned:
        rest = tf.where(a < rest, -tf.ones_like(a), rest)
    return tf.where(beyond, rest, shift(a, tf.where(beyond, tf.zeros_like(b), b)))
