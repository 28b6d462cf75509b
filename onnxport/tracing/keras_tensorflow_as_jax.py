"""Functions of Keras on TensorFlow that give what they give on JAX: for the process that stands in for a model on JAX.

Keras calls each backend's own function, and leaves the edges of its domain to it: shifts beyond the bits of a number, divisors of
zero, places outside of an axis, labels that are no class, NaN and infinity.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

_BACKEND = "keras.src.backend.tensorflow"
_USUAL: dict[str, Any] = {}


def install() -> None:
    """Puts the functions in the place of Keras' own, for good."""
    for room, functions in _FUNCTIONS.items():
        module = importlib.import_module(f"{_BACKEND}.{room}")
        for function in functions:
            name = function.__name__
            _USUAL[name] = getattr(module, name)
            setattr(module, name, function)


def _pair(x: Any, y: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Both as tensors of the type that Keras gives to what is computed from them."""
    kinds = [item.dtype if hasattr(item, "dtype") else type(item) for item in (x, y)]
    dtype = keras.backend.result_type(*kinds)
    return keras.ops.convert_to_tensor(x, dtype), keras.ops.convert_to_tensor(y, dtype)


def bitwise_left_shift(x: Any, y: Any) -> tf.Tensor:
    """Zero where `y` is no place among the bits."""
    x, y = _pair(x, y)
    inside = (y >= 0) & (y < 8 * x.dtype.size)
    return tf.where(inside, tf.bitwise.left_shift(x, tf.where(inside, y, tf.zeros_like(y))), tf.zeros_like(x))


def bitwise_right_shift(x: Any, y: Any) -> tf.Tensor:
    """The sign alone where `y` is no place among the bits."""
    x, y = _pair(x, y)
    last = 8 * x.dtype.size - 1
    inside = (y >= 0) & (y <= last)
    result = tf.bitwise.right_shift(x, tf.where(inside, y, tf.cast(last, y.dtype)))
    return tf.where(inside, result, tf.zeros_like(x)) if x.dtype.is_unsigned else result


def floor_divide(x1: Any, x2: Any) -> tf.Tensor:
    """Of floats from the remainder, as in Python; -2 for an integer divided by 0, and -1 for 0."""
    x, y = _pair(x1, x2)
    if x.dtype.is_floating:
        rest = tf.truncatemod(x, y)
        whole = tf.where(y == 0, x, x - rest) / y
        below = (rest != 0) & (tf.sign(y) != tf.sign(rest))
        return tf.round(tf.where(below, whole - 1, whole))
    if not x.dtype.is_integer:
        return _USUAL["floor_divide"](x1, x2)
    nothing, one = y == 0, tf.ones_like(y)
    if x.dtype.is_unsigned:
        return tf.where(nothing, tf.cast(x.dtype.max, x.dtype), tf.math.floordiv(x, tf.where(nothing, one, y)))
    result = tf.math.floordiv(x, tf.where(nothing | (y == -one), one, y))
    result = tf.where(y == -one, -x, result)  # the least number has no opposite, and stays
    return tf.where(nothing, tf.where(x == 0, -one, -2 * one), result)


def mod(x1: Any, x2: Any) -> tf.Tensor:
    """0 for an integer modulo 0."""
    return _remainder("mod", x1, x2)


def fmod(x1: Any, x2: Any) -> tf.Tensor:
    """0 for an integer modulo 0."""
    return _remainder("fmod", x1, x2)


def _remainder(name: str, x1: Any, x2: Any) -> tf.Tensor:
    x, y = _pair(x1, x2)
    if not x.dtype.is_integer:
        return _USUAL[name](x1, x2)
    result = _USUAL[name](x, tf.where(y == 0, tf.ones_like(y), y))
    return tf.where(y == 0, tf.zeros_like(result), result)


def heaviside(x1: Any, x2: Any) -> tf.Tensor:
    """NaN for NaN."""
    result = _USUAL["heaviside"](x1, x2)
    first = tf.cast(keras.ops.convert_to_tensor(x1), result.dtype)
    return tf.where(tf.math.is_nan(first), first, result)


def angle(x: Any) -> tf.Tensor:
    """Of a real number: pi for -0 too, and NaN for NaN."""
    result = _USUAL["angle"](x)
    x = keras.ops.convert_to_tensor(x)
    if not x.dtype.is_floating:
        return result
    left = (x < 0) | (tf.math.reciprocal(x) < 0)
    x, pi = tf.cast(x, result.dtype), tf.cast(math.pi, result.dtype)
    return tf.where(tf.math.is_nan(x), x, tf.where(left, pi, tf.zeros_like(x)))


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> tf.Tensor:
    """The first NaN where there is one."""
    return _extreme("argmax", x, axis, keepdims)


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> tf.Tensor:
    """The first NaN where there is one."""
    return _extreme("argmin", x, axis, keepdims)


def _extreme(name: str, x: Any, axis: int | None, keepdims: bool) -> tf.Tensor:
    result = _USUAL[name](x, axis=axis, keepdims=keepdims)
    x = keras.ops.convert_to_tensor(x)
    if not x.dtype.is_floating:
        return result
    unknown = tf.math.is_nan(x)
    first = _USUAL["argmax"](tf.cast(unknown, tf.int32), axis=axis, keepdims=keepdims)
    return tf.where(tf.reduce_any(unknown, axis=axis, keepdims=keepdims), first, result)


def isclose(x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> tf.Tensor:
    """Infinity is close to itself alone."""
    result = _USUAL["isclose"](x1, x2, rtol, atol, equal_nan)
    x, y = _pair(x1, x2)
    if not x.dtype.is_floating:
        return result
    infinite = tf.math.is_inf(x) | tf.math.is_inf(y)
    return tf.where(infinite, tf.equal(x, y), result)


def nancumsum(x: Any, axis: int | None = None, dtype: Any = None) -> tf.Tensor:
    """Infinity stays."""
    return keras.ops.cumsum(_without_nan(x, 0), axis=axis, dtype=dtype)


def nancumprod(x: Any, axis: int | None = None, dtype: Any = None) -> tf.Tensor:
    """Infinity stays."""
    return keras.ops.cumprod(_without_nan(x, 1), axis=axis, dtype=dtype)


def _without_nan(x: Any, number: int) -> tf.Tensor:
    x = keras.ops.convert_to_tensor(x)
    return tf.where(tf.math.is_nan(x), tf.cast(number, x.dtype), x) if x.dtype.is_floating else x


def take_along_axis(x: Any, indices: Any, axis: int | None = None) -> tf.Tensor:
    """NaN, the least or the greatest integer, or True at places outside of the axis."""
    x, indices = keras.ops.convert_to_tensor(x), keras.ops.convert_to_tensor(indices, "int64")
    if axis is None:
        x, axis = tf.reshape(x, [-1]), 0
    size = tf.shape(x, tf.int64)[axis]
    places = tf.where(indices < 0, indices + size, indices)
    inside = (places >= 0) & (places < size)
    result = _USUAL["take_along_axis"](x, tf.where(inside, places, tf.zeros_like(places)), axis)
    return tf.where(inside, result, _outside(x.dtype))


def _outside(dtype: tf.DType) -> tf.Tensor:
    if dtype.is_floating or dtype.is_complex:
        return tf.cast(math.nan, dtype)
    if dtype == tf.bool:
        return tf.constant(True)
    return tf.cast(dtype.max if dtype.is_unsigned else dtype.min, dtype)


def unravel_index(indices: Any, shape: Sequence[int]) -> tuple[tf.Tensor, ...]:
    """Places before the first or behind the last are these; with open sizes of `indices` too."""
    count = math.prod(shape)
    rest = keras.ops.convert_to_tensor(indices)
    rest = tf.clip_by_value(tf.where(rest < 0, rest + count, rest), 0, count - 1)
    coordinates = []
    for size in reversed(shape):
        coordinates.append(rest % size)
        rest = rest // size
    return tuple(reversed(coordinates))


def cholesky(a: Any, upper: bool = False) -> tf.Tensor:
    """Of the symmetric part."""
    a = keras.ops.convert_to_tensor(a)
    return _USUAL["cholesky"]((a + tf.linalg.adjoint(a)) / 2, upper=upper)


def logdet(x: Any) -> tf.Tensor:
    """Of the determinant's size."""
    return tf.linalg.slogdet(keras.ops.convert_to_tensor(x))[1]


def sparse_categorical_crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> tf.Tensor:
    """0 for labels that are no class."""
    target, output = keras.ops.convert_to_tensor(target, "int32"), keras.ops.convert_to_tensor(output)
    if target.shape.rank == output.shape.rank and target.shape[-1] == 1:
        target = tf.squeeze(target, axis=-1)
    if from_logits:
        logarithms = tf.nn.log_softmax(output, axis=axis)
    else:
        small = keras.backend.epsilon()
        output = output / tf.reduce_sum(output, axis, keepdims=True)
        logarithms = tf.math.log(tf.clip_by_value(output, small, 1 - small))
    chosen = tf.one_hot(target, output.shape[axis], axis=axis, dtype=logarithms.dtype)
    return -tf.reduce_sum(chosen * logarithms, axis=axis)


_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "numpy": (
        bitwise_left_shift,
        bitwise_right_shift,
        floor_divide,
        mod,
        fmod,
        heaviside,
        angle,
        argmax,
        argmin,
        isclose,
        nancumsum,
        nancumprod,
        take_along_axis,
        unravel_index,
    ),
    "linalg": (cholesky,),
    "math": (logdet,),
    "nn": (sparse_categorical_crossentropy,),
}
