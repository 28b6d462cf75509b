"""Elementwise primitives in `keras.ops`, where its numbers are the same; each function as those of `operations`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import keras
import numpy as np

from onnxport.opset_maps.elementwise import ROWS
from onnxport.opset_maps.from_onnx.keras.sizes import MOVED, quotient
from onnxport.opset_maps.from_onnx.values import TYPE_NAMES

REALS = ("float32", "float64")
WHOLE = ("int32", "int64")
HALVES = ("float16", "bfloat16")
SHORT = ("int8", "uint8", "int16")
NATIVE = {dtype: TYPE_NAMES[dtype] for dtype in TYPE_NAMES if TYPE_NAMES[dtype] in MOVED}
_COMPARED = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
# Rows that are the same for integers too: neither rounding nor division is in them.
_ON_INTEGERS = frozenset({"Add", "Sub", "Mul", "Neg", "Abs", "Max", "Min", *_COMPARED})
_ON_TRUTHS = frozenset({"And", "Or", "Xor"})
# Rows whose form in Keras is less exact than that of the frameworks, or another at the edges.
_OTHERWISE = frozenset("Erf Mish HardSwish floor_div floor_mod atan2 div_no_nan hypot logaddexp".split())
_ROWS = {row.onnx: row.keras for row in ROWS if row.keras and row.onnx not in _OTHERWISE}


def is_keras_tensor(x: object) -> TypeGuard[keras.KerasTensor]:
    """Whether it is a symbolic tensor of known rank."""
    return isinstance(x, keras.KerasTensor) and x.shape is not None


def has_type(x: object, *dtypes: str) -> bool:
    """Whether it is a symbolic tensor of one of these element types."""
    return is_keras_tensor(x) and x.dtype in dtypes


def shared_type(xs: Sequence[Any]) -> str | None:
    """The element type that operands share, of which Python numbers have every one."""
    dtypes = {
        x.dtype if is_keras_tensor(x) else x.dtype.name for x in xs if is_keras_tensor(x) or isinstance(x, np.ndarray)
    }
    plain = all(is_keras_tensor(x) or isinstance(x, (np.ndarray, bool, int, float)) for x in xs)
    return dtypes.pop() if plain and len(dtypes) == 1 else None


def _fitting(xs: Sequence[Any], dtype: str) -> list[Any]:
    """Operands with Python numbers as arrays of the element type."""
    return [np.asarray(x, dtype) if isinstance(x, (bool, int, float)) else x for x in xs]


def in_single(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operation in FLOAT where its first operand is of halves, which hold no sum of more than a few thousand."""

    def operation(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not has_type(x, *HALVES):
            return function(x, *args, **kwargs)
        args = tuple(_single(item, x.dtype) for item in args)
        result = function(keras.ops.cast(x, "float32"), *args, **kwargs)
        return None if result is None else keras.ops.cast(result, x.dtype)

    return operation


def _single(item: Any, half: str) -> Any:
    if has_type(item, half):
        return keras.ops.cast(item, "float32")
    return item.astype(np.float32) if isinstance(item, np.ndarray) and item.dtype.name == half else item


def _elementwise(name: str, *xs: Any) -> Any:
    dtype = shared_type(xs)
    if dtype is None:
        return None
    if dtype in HALVES and name not in _ON_INTEGERS:  # each of these rounds twice at most as near
        result = _elementwise(name, *(_single(x, dtype) for x in xs))
        return None if result is None else keras.ops.cast(result, dtype)
    if (
        name == "Erf"
    ):  # TensorFlow's kernel of float32 is off by four units in the last place, that of float64 gives NaN of infinity
        x = _clip(xs[0], -6.0, 6.0) if dtype == "float32" else None  # the nearest number is 1 from there on
        return None if x is None else keras.ops.cast(keras.ops.erf(keras.ops.cast(x, "float64")), "float32")
    suits = dtype in (*REALS, *HALVES) or (dtype == "bool" and name in _ON_TRUTHS)
    suits = suits or (dtype in WHOLE and name in _ON_INTEGERS) or (dtype in SHORT and name in _COMPARED)
    if name not in _ROWS or not suits:
        return None
    if dtype != "bool" and name in _ON_TRUTHS:
        return None
    if (
        name == "Reciprocal" and dtype == "float64"
    ):  # Keras calls its result float32, so that the next layer makes it that
        return _divide(1.0, *xs)
    if name == "Add" and not _added_plainly(*xs):
        xs = xs[::-1]
        if not _added_plainly(*xs):  # the difference with the negative rounds alike, zeros too
            x, y = _fitting(xs, dtype)
            return in_type(keras.ops.subtract(x, keras.ops.negative(y) if is_keras_tensor(y) else -y), dtype)
    if name == "Sign":  # which Keras on PyTorch has as 0 of what is no number
        return _sign(xs[0], dtype)
    if name in ("Max", "Min"):
        return _greatest(name, _fitting(xs, dtype), dtype)
    result = getattr(keras.ops, _ROWS[name])(*_fitting(xs, dtype))
    return _dense(result) if name in _COMPARED else in_type(result, dtype)


def _sign(x: Any, dtype: str) -> Any:
    zero, one = np.asarray(0, dtype), np.asarray(1, dtype)
    low = keras.ops.where(keras.ops.less(x, zero), -one, x)
    return in_type(keras.ops.where(keras.ops.greater(x, zero), one, low), dtype)


def in_type(x: keras.KerasTensor, dtype: str) -> Any:
    """A result in the type of its operands: of INT64 Keras on PyTorch holds it to be INT32 (Keras 3.15), which few are."""
    return _dense(x) if x.dtype == dtype else keras.ops.cast(_dense(x), dtype)


def _greatest(name: str, xs: Sequence[Any], dtype: str) -> Any:
    """The greatest or least; PyTorch's own of INT64 is cut to INT32 by Keras."""
    if dtype != "int64" or keras.backend.backend() != "torch":
        return in_type(getattr(keras.ops, _ROWS[name])(*xs), dtype)
    greater = keras.ops.greater(*xs)
    return in_type(keras.ops.where(greater, *(xs if name == "Max" else reversed(xs))), dtype)


def _dense(x: keras.KerasTensor) -> Any:
    """`x` where Keras holds it to be sparse, as it does of every product with a constant (Keras 3.15)."""
    return keras.ops.cast(x, x.dtype) if x.sparse else x


def _added_plainly(x: Any, y: Any) -> bool:
    """Whether Keras adds y as it broadcasts.

    On TensorFlow it takes what has one axis of more than one element for a bias of the last axis of x or else of axis 1,
    wherever that axis is (Keras 3.15).
    """
    a, b = (tuple(getattr(item, "shape", ())) for item in (x, y))
    if len(a) < 2:
        return True
    large = [i for i, n in enumerate(b) if n is not None and n > 1]
    if len(large) == 1 and None in b:  # which may be an axis of nothing
        return False
    vector = large if large else [i for i, n in enumerate(b) if n is None]
    if len(large) > 1 or not vector:
        return len(large) > 1 or len(b) <= len(a)
    fits = a[-1] is not None and a[-1] > 1
    return 0 not in b and len(b) <= len(a) and fits and all(i == len(b) - 1 for i in vector)


def _divide(a: Any, b: Any) -> Any:
    dtype = shared_type((a, b))
    if dtype in WHOLE and is_keras_tensor(a) and _never_negative(a) and _is_positive(b):
        return in_type(keras.ops.floor_divide(*_fitting((a, b), dtype)), dtype)
    if dtype in WHOLE and is_keras_tensor(a):  # toward zero
        a, b = _fitting((a, b), dtype)
        return in_type(quotient(a, b, dtype), dtype)
    return _dense(keras.ops.divide(*_fitting((a, b), dtype))) if dtype in (*REALS, *HALVES) else None


def _is_positive(b: Any) -> bool:
    return bool(np.all(np.asarray(b) > 0)) if isinstance(b, (int, np.ndarray)) else False


def _never_negative(x: Any) -> bool:
    """Whether an integer is surely not below 0: what UINT8 was cast to, its quotients and remainders."""
    operation, index, _ = x._keras_history
    operands = operation._inbound_nodes[index].input_tensors
    name = type(operation).__name__
    if name == "Cast" and operands[0].dtype in ("uint8", "bool"):
        return True
    return name in ("Cast", "Reshape", "FloorDivide", "Mod", "Stack") and all(map(_never_negative, operands))


def _floor_mod(a: Any, b: Any) -> Any:
    dtype = shared_type((a, b))
    if dtype not in WHOLE or not is_keras_tensor(a) or not _is_positive(b):
        return None
    return in_type(keras.ops.mod(*_fitting((a, b), dtype)), dtype)


@in_single
def _pow(a: Any, b: Any) -> Any:
    dtype = shared_type((a, b))
    return keras.ops.power(*_fitting((a, b), dtype)) if dtype in REALS and is_keras_tensor(a) else None


def _equal(a: Any, b: Any) -> Any:
    dtype = shared_type((a, b))
    return keras.ops.equal(*_fitting((a, b), dtype)) if dtype in MOVED else None


def _where(condition: Any, a: Any, b: Any) -> Any:
    dtype = shared_type((a, b))
    if dtype not in MOVED or shared_type((condition,)) != "bool":
        return None
    xs = _fitting((a, b), str(dtype))
    if all(
        isinstance(x, np.ndarray) and not x.ndim for x in xs
    ):  # of these Keras' files keep the numbers without their type
        if not getattr(condition, "shape", ()):
            return None
        xs = [x.reshape(1) for x in xs]
    return in_type(keras.ops.where(condition, *xs), str(dtype))


def _logical_not(x: Any) -> Any:
    return keras.ops.logical_not(x) if has_type(x, "bool") else None


def _asked(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x) if has_type(x, *REALS, *HALVES) else None


def _clip(x: Any, low: Any = None, high: Any = None) -> Any:
    given = [item for item in (low, high) if item is not None]
    dtype = shared_type((x, *given))
    if dtype not in (*REALS, *WHOLE, *HALVES) or not is_keras_tensor(x):
        return None
    x = x if low is None else _greatest("Max", [x, *_fitting([low], dtype)], dtype)
    return x if high is None else _greatest("Min", [x, *_fitting([high], dtype)], dtype)


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "elementwise": _elementwise,
    "divide": _divide,
    "floor_mod": _floor_mod,
    "pow": _pow,
    "equal": _equal,
    "where": _where,
    "logical_not": _logical_not,
    "isnan": _asked(keras.ops.isnan),
    "isinf": _asked(keras.ops.isinf),
    "clip": _clip,
}
