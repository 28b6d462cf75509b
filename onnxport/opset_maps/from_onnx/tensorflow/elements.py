"""Element types of TensorFlow, and computing in a wider one where a kernel for the operands' own is absent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.element_types import element_types
from onnxport.opset_maps.from_onnx.values import TYPE_NAMES, Array, Ints, carrier

_EXPERIMENTAL = tf.dtypes.experimental

HALVES = (tf.float16, tf.bfloat16)
# Element types that TensorFlow has kernels for.
OF_TF: dict[tf.DType, ir.DataType] = {tf.as_dtype(name): dtype for dtype, name in TYPE_NAMES.items()}


_SHARED = "_onnxport_constants"  # the attribute of a graph that holds them


def held_in(dtype: ir.DataType) -> tf.DType:
    """The TensorFlow element type in which an ONNX one is held.

    >>> held_in(ir.DataType.FLOAT), held_in(ir.DataType.INT4)
    (tf.float32, tf.int8)
    """
    return tf.as_dtype(carrier(dtype))


def shared_constant(array: Array) -> tf.Tensor:
    """A small constant, one for all who ask for it in a graph: each operator that is built takes its share of an import."""
    if tf.executing_eagerly():
        return tf.constant(array)
    graph = tf.compat.v1.get_default_graph()
    held: dict[tuple[str, tuple[int, ...], bytes], tf.Tensor] | None = getattr(graph, _SHARED, None)
    if held is None:
        setattr(graph, _SHARED, held := {})
    key = array.dtype.name, array.shape, array.tobytes()
    if key not in held:
        held[key] = tf.constant(array)
    return held[key]


def permuted(x: tf.Tensor, axes: Ints) -> tf.Tensor:
    """`x` with its axes in this order."""
    return tf.transpose(x, shared_constant(np.asarray(list(axes), np.int32)))


def tensor_of(array: Array, dtype: ir.DataType | None = None) -> tf.Tensor:
    """A constant of a NumPy array: strings as objects, 4-bit and small float types in the type that carries them."""
    if array.dtype.kind in "OUS":
        flat = [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel()]
        return tf.constant(np.asarray(flat, object).reshape(array.shape), tf.string, array.shape)
    return tf.constant(held_array(array, dtype))


def as_held(x: tf.Tensor | complex, held: tf.DType) -> tf.Tensor:
    """A tensor or Python number in an element type; of the latter `tf.cast` alone would make a float32 first."""
    if isinstance(x, (bool, int, float, complex)):
        return shared_constant(np.asarray(x).astype(held.as_numpy_dtype))
    return tf.cast(x, held)


def held_array(array: Array, dtype: ir.DataType | None = None) -> Array:
    """`array` in an element type that TensorFlow has, its numbers unchanged."""
    if array.dtype.kind in "OUS":
        return array
    wanted = held_in(dtype or ir.DataType.from_numpy(array.dtype)).as_numpy_dtype
    return array if array.dtype == wanted else array.astype(wanted)


# Formats that TensorFlow has no kernels for.
_MINIFLOAT = element_types("FLOAT8E4M3FNUZ FLOAT8E5M2FNUZ FLOAT4E2M1 FLOAT6E2M3 FLOAT6E3M2")
_FLOAT8 = {_EXPERIMENTAL.float8_e4m3fn: 448.0, _EXPERIMENTAL.float8_e5m2: 57344.0}
_NARROW = element_types("INT4 INT2 UINT4 UINT2")


def converted(x: tf.Tensor, dtype: ir.DataType, saturate: bool = True) -> tf.Tensor:
    """ONNX's Cast between numbers."""
    held = held_in(dtype)
    if tf.string in (x.dtype, held):
        return x if x.dtype == held else _written(x) if held == tf.string else _read(x, held)
    if dtype in _MINIFLOAT:
        return _minifloat(tf.cast(x, tf.float32), dtype, saturate)
    if held in _FLOAT8 and x.dtype != held:
        return _to_float8(tf.cast(x, tf.float32), held, saturate)
    if dtype in _NARROW and x.dtype != tf.bool:
        return _narrowed(x, dtype, held)
    if x.dtype == held:
        return x
    if held == tf.bool and x.dtype in _FLOAT8:
        x = tf.cast(x, tf.float32)
    return tf.cast(x, held)


def power_of_two(x: tf.Tensor) -> tf.Tensor:
    """The FLOAT of a float8e8m0, whose UINT8 bits are an exponent, 255 is NaN."""
    bits = tf.bitwise.left_shift(tf.cast(x, tf.int32), 23)
    bits = tf.where(x == 0, 0x00400000, tf.where(x == 255, 0x7FC00000, bits))
    return tf.bitcast(bits, tf.float32)


def _written(x: tf.Tensor) -> tf.Tensor:
    """Numbers as onnxruntime writes them: 8 significant digits of a float, 17 of a double; NaN and INF."""
    if x.dtype == tf.bool:
        return tf.strings.as_string(tf.cast(x, tf.int32))
    if not x.dtype.is_floating:
        return tf.strings.as_string(x)
    double = x.dtype == tf.float64
    text = tf.strings.as_string(x if double else tf.cast(x, tf.float32), precision=17 if double else 8, shortest=True)
    text = tf.where(tf.math.is_nan(x), "NaN", text)
    return tf.where(tf.math.is_inf(x), tf.where(x > 0, "INF", "-INF"), text)


def _read(x: tf.Tensor, held: tf.DType) -> tf.Tensor:
    if held.is_floating:
        return tf.cast(tf.strings.to_number(x, tf.float64 if held == tf.float64 else tf.float32), held)
    return tf.cast(tf.strings.to_number(x, tf.int64), held)


def _narrowed(x: tf.Tensor, dtype: ir.DataType, held: tf.DType) -> tf.Tensor:
    """Integers of 2 and 4 bits: of the value modulo their width, as wider integers wrap."""
    bits = dtype.bitwidth
    wide = tf.cast(x, tf.int32)
    low = tf.bitwise.bitwise_and(wide, (1 << bits) - 1)
    if dtype.is_signed():
        low = tf.where(low >= 1 << (bits - 1), low - (1 << bits), low)
    return tf.cast(low, held)


def _to_float8(x: tf.Tensor, held: tf.DType, saturate: bool) -> tf.Tensor:
    top = _FLOAT8[held]
    if saturate:
        return tf.cast(tf.where(tf.math.is_nan(x), x, tf.clip_by_value(x, -top, top)), held)
    if held == tf.dtypes.experimental.float8_e4m3fn:  # it has no infinity: what rounds beyond the greatest value is NaN
        x = tf.where(tf.abs(x) > 464.0, tf.constant(math.nan), x)
    return tf.cast(x, held)


def _minifloat(x: tf.Tensor, dtype: ir.DataType, saturate: bool) -> tf.Tensor:
    """The nearest number of a small format, halves to even, held as FLOAT.

    Sources: ONNX operator specification, Cast; OCP Microscaling formats specification 1.0, section 5.3.
    """
    form = ml_dtypes.finfo(dtype.numpy())
    top = float(form.max)
    near = tf.clip_by_value(x, -4 * top, 4 * top)
    magnitude = tf.bitwise.bitwise_and(tf.bitcast(near, tf.int32), 0x7FFFFFFF)
    exponent = tf.cast(tf.bitwise.right_shift(magnitude, 23) - 127, tf.float32)
    quantum = tf.pow(2.0, tf.maximum(exponent, float(form.minexp)) - float(form.nmant))
    rounded = tf.math.rint(near / quantum) * quantum
    result = tf.clip_by_value(rounded, -top, top)
    if dtype in (ir.DataType.FLOAT8E4M3FNUZ, ir.DataType.FLOAT8E5M2FNUZ):  # they have one zero, and no infinity
        result = tf.where(result == 0.0, 0.0, result)
        if not saturate:
            result = tf.where(tf.abs(rounded) > top, tf.constant(math.nan), result)
        return tf.where(tf.math.is_nan(x), x, result)
    return tf.where(tf.math.is_nan(x), tf.constant(-0.0), result)  # these have no NaN; onnx's reference makes it -0


# Where to go when an operator has no kernel for a type: into these, in order, each holding all of its values.
_WIDER: dict[tf.DType, tuple[tf.DType, ...]] = {
    tf.bool: (tf.uint8, tf.int32),
    **dict.fromkeys((tf.uint8, tf.int8, tf.uint16, tf.int16), (tf.int32, tf.int64, tf.float32)),
    **dict.fromkeys((tf.int32, tf.uint32), (tf.int64, tf.float64)),
    tf.uint64: (tf.int64,),
    **dict.fromkeys((*HALVES, *_FLOAT8), (tf.float32,)),
    tf.float32: (tf.float64,),
}
_SUPPORTED: dict[tuple[str, tf.DType], bool] = {}


def widened(
    key: str,
    function: Callable[..., Any],
    trial: Sequence[Ints],
    xs: Sequence[tf.Tensor],
    *,
    exact: bool = False,
    back: bool = True,
) -> Any:
    """``function(*xs)``, in the operands' element type or the next wider one that TensorFlow computes it in.

    Args:
        key: name of the computation, under which is remembered what TensorFlow can do.
        function: the computation; its results of the wider type are cast back.
        trial: shapes on which it is tried.
        xs: operands of one element type.
        exact: UINT64 may not be computed in INT64, which is the same only modulo 2^64.
        back: results of the wider type are cast back to the operands'.
    """
    dtype = xs[0].dtype
    for candidate in (dtype, *_WIDER.get(dtype, ())):
        if exact and dtype == tf.uint64 and candidate != dtype:
            break
        if _supported(key, function, candidate, trial):
            if candidate == dtype:
                return function(*xs)
            result = function(*(tf.cast(x, candidate) for x in xs))
            if not back:
                return result
            return tf.nest.map_structure(lambda y, wide=candidate: tf.cast(y, dtype) if y.dtype == wide else y, result)
    raise UnsupportedOperator(f"TensorFlow computes no {key} of {dtype.name}")


_NO_KERNEL = tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError


def _supported(key: str, function: Callable[..., Any], dtype: tf.DType, trial: Sequence[Ints]) -> bool:
    known = _SUPPORTED.get((key, dtype))
    if known is None:
        with tf.init_scope():  # kernels are tried on real values, whatever graph is being traced
            try:
                function(*(tf.constant(np.ones(shape, dtype.as_numpy_dtype)) for shape in trial))
                known = True
            except (*_NO_KERNEL, TypeError, ValueError):
                known = False
        _SUPPORTED[key, dtype] = known
    return known
