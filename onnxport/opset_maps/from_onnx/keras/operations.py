"""Primitives that `keras.ops` has with the same numbers: a model of these and of Keras' own layers loads without onnxport.

Each function takes a primitive's arguments (symbolic tensors, NumPy arrays and Python numbers) and gives the result, or None
where `keras.ops` has no operation that is surely the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeGuard

import keras
import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.elementwise import ROWS
from onnxport.opset_maps.from_onnx.values import Axes, Int, Ints, Pads, all_known, known

_REALS = ("float32", "float64")
_WHOLE = ("int32", "int64")
_HELD = {ir.DataType.FLOAT: "float32", ir.DataType.DOUBLE: "float64", ir.DataType.INT64: "int64"}
_COMPARED = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
# Rows that are the same for integers too: neither rounding nor division is in them.
_ON_INTEGERS = frozenset({"Add", "Sub", "Mul", "Neg", "Abs", "Max", "Min", *_COMPARED})
_ON_TRUTHS = frozenset({"And", "Or", "Xor"})
# Rows whose form in Keras is less exact than that of the frameworks, or another at the edges.
_OTHERWISE = frozenset(
    "Erf Mish HardSwish Sign trunc log2 log10 exp2 expm1 log1p floor_div floor_mod atan2 div_no_nan hypot logaddexp".split()
)
_ROWS = {row.onnx: row.keras for row in ROWS if row.keras and row.onnx not in _OTHERWISE}


def _symbolic(x: object) -> TypeGuard[keras.KerasTensor]:
    return isinstance(x, keras.KerasTensor) and x.shape is not None


def _of(x: object, *dtypes: str) -> bool:
    return _symbolic(x) and x.dtype in dtypes


def _kind(xs: Sequence[Any]) -> str | None:
    """The element type that operands share, of which Python numbers have every one."""
    dtypes = {x.dtype if _symbolic(x) else x.dtype.name for x in xs if _symbolic(x) or isinstance(x, np.ndarray)}
    plain = all(_symbolic(x) or isinstance(x, (np.ndarray, bool, int, float)) for x in xs)
    return dtypes.pop() if plain and len(dtypes) == 1 else None


def _fitting(xs: Sequence[Any], dtype: str) -> list[Any]:
    """Operands with Python numbers as arrays of the element type."""
    return [np.asarray(x, dtype) if isinstance(x, (bool, int, float)) else x for x in xs]


def _elementwise(name: str, *xs: Any) -> Any:
    dtype = _kind(xs)
    if dtype is None:
        return None
    if (
        name == "Erf"
    ):  # TensorFlow's kernel of float32 is off by four units in the last place, that of float64 gives NaN of infinity
        x = _clip(xs[0], -6.0, 6.0) if dtype == "float32" else None  # the nearest number is 1 from there on
        return None if x is None else keras.ops.cast(keras.ops.erf(keras.ops.cast(x, "float64")), "float32")
    suits = dtype in _REALS or (dtype in _WHOLE and name in _ON_INTEGERS) or (dtype == "bool" and name in _ON_TRUTHS)
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
        if not _added_plainly(*xs):
            return None
    return _dense(getattr(keras.ops, _ROWS[name])(*_fitting(xs, dtype)))


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
    vector = large if large else [i for i, n in enumerate(b) if n is None]
    if len(large) > 1 or not vector:
        return len(large) > 1 or len(b) <= len(a)
    fits = a[-1] is not None and a[-1] > 1
    return 0 not in b and len(b) <= len(a) and fits and all(i == len(b) - 1 for i in vector)


def _divide(a: Any, b: Any) -> Any:
    dtype = _kind((a, b))
    return _dense(keras.ops.divide(*_fitting((a, b), dtype))) if dtype in _REALS else None


def _pow(a: Any, b: Any) -> Any:
    dtype = _kind((a, b))
    return keras.ops.power(*_fitting((a, b), dtype)) if dtype in _REALS and _symbolic(a) else None


def _equal(a: Any, b: Any) -> Any:
    dtype = _kind((a, b))
    return keras.ops.equal(*_fitting((a, b), dtype)) if dtype in (*_REALS, *_WHOLE, "bool") else None


def _where(condition: Any, a: Any, b: Any) -> Any:
    dtype = _kind((a, b))
    if dtype not in (*_REALS, *_WHOLE, "bool") or _kind((condition,)) != "bool":
        return None
    return keras.ops.where(condition, *_fitting((a, b), dtype))


def _logical_not(x: Any) -> Any:
    return keras.ops.logical_not(x) if _of(x, "bool") else None


def _on_reals(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x) if _of(x, *_REALS) else None


def _clip(x: Any, low: Any = None, high: Any = None) -> Any:
    given = [item for item in (low, high) if item is not None]
    dtype = _kind((x, *given))
    if dtype not in (*_REALS, *_WHOLE) or not _symbolic(x):
        return None
    x = x if low is None else keras.ops.maximum(x, *_fitting([low], dtype))
    return x if high is None else keras.ops.minimum(x, *_fitting([high], dtype))


def _moving(x: object) -> TypeGuard[keras.KerasTensor]:
    """Whether an operation that only moves elements takes it."""
    return _of(x, *_REALS, *_WHOLE, "bool", "float16", "bfloat16")


def _permute_dims(x: Any, axes: Ints) -> Any:
    return keras.ops.transpose(x, [int(axis) for axis in axes]) if _moving(x) else None


def _reshape(x: Any, shape: Sequence[Int]) -> Any:
    """One size that is known only when the model runs is what is left of the elements."""
    sizes = [int(n) if known(n) else -1 for n in shape]
    if not _moving(x) or 0 in sizes or sizes.count(-1) > 1:
        return None
    return keras.ops.reshape(x, tuple(sizes))


def _expand_dims(x: Any, axis: Ints) -> Any:
    if not _moving(x):
        return None
    for place in sorted(int(item) for item in axis):
        x = keras.ops.expand_dims(x, place)
    return x


def _squeeze(x: Any, axis: Ints) -> Any:
    if not _moving(x) or any(x.shape[place] != 1 for place in axis):
        return None
    return keras.ops.squeeze(x, tuple(sorted(int(item) for item in axis)))


def _joined(function: Callable[..., Any]) -> Callable[..., Any]:
    def operation(xs: Sequence[Any], axis: int) -> Any:
        return function(list(xs), int(axis)) if _kind(xs) is not None and any(map(_moving, xs)) else None

    return operation


def _astype(x: Any, dtype: ir.DataType, saturate: bool = True) -> Any:
    """Casts that round nothing but to the nearest: of whole numbers and truths, and between real ones."""
    held = _HELD.get(dtype)
    widening = _of(x, "bool", *_WHOLE) and held is not None
    return keras.ops.cast(x, held) if widening or (_of(x, *_REALS) and held in _REALS) else None


# Keras' own max and min raise for a batch of 0.
def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    def operation(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
        if not _of(x, *_REALS) or (axis is not None and not len(axis)):
            return None
        return function(x, axis=None if axis is None else [int(item) for item in axis], keepdims=bool(keepdims))

    return operation


def _place_of(function: Callable[..., Any]) -> Callable[..., Any]:
    def operation(x: Any, axis: int, keepdims: bool = False) -> Any:
        if not _of(x, *_REALS, *_WHOLE):
            return None
        if x.dtype in _REALS:  # on TensorFlow Keras holds 0 to be greater than -0
            zero = np.asarray(0, x.dtype)
            x = keras.ops.where(keras.ops.equal(x, zero), zero, x)
        return keras.ops.cast(function(x, axis=int(axis), keepdims=bool(keepdims)), "int64")

    return operation


def _matmul(a: Any, b: Any) -> Any:
    if _kind((a, b)) not in _REALS or len(a.shape) < 2 or len(a.shape) != len(b.shape):
        return None
    return keras.ops.matmul(a, b)


def _slice(x: Any, axis: int, start: Int | None, stop: Int | None, step: int = 1) -> Any:
    limit = (1 << 31) - 1  # no axis is longer
    bounds = [int(bound) for bound in (start, stop) if bound is not None and known(bound)]
    if not _moving(x) or len(bounds) < sum(bound is not None for bound in (start, stop)) or step < 1:
        return None
    if any(bound <= -limit for bound in bounds):
        return None
    low = None if start is None else bounds[0]
    high = None if stop is None or bounds[-1] >= limit else bounds[-1]
    return x[(*[slice(None)] * axis, slice(low, high, None if step == 1 else int(step)))]


def _split(x: Any, sizes: Sequence[Int], axis: int) -> Any:
    if not _moving(x) or not all_known(sizes) or x.shape[axis] != sum(int(n) for n in sizes):
        return None
    if len(sizes) < 2:
        return None
    bounds = list(accumulate(int(n) for n in sizes))
    return [x[(*[slice(None)] * axis, slice(low, high))] for low, high in zip([0, *bounds[:-1]], bounds, strict=True)]


def _take(x: Any, indices: Any, axis: int) -> Any:
    if not _of(x, *_REALS, *_WHOLE) or not isinstance(indices, np.ndarray) or indices.dtype.name not in _WHOLE:
        return None
    size = x.shape[axis]
    if size is None or (indices.size and (indices.min() < 0 or indices.max() >= size)):
        return None
    return keras.ops.take(x, indices, int(axis))


def _expand(x: Any, shape: Sequence[Int]) -> Any:
    # On PyTorch Keras takes a size that is known only when the model runs for 1.
    if keras.backend.backend() == "torch" or not _moving(x) or not all_known(shape) or None in x.shape:
        return None
    return keras.ops.broadcast_to(x, np.broadcast_shapes(tuple(x.shape), tuple(int(n) for n in shape)))


def _pad(x: Any, pads: Pads, mode: str = "constant", value: object = 0) -> Any:
    amounts = [[int(n) for n in pair if known(n) and n >= 0] for pair in pads]
    if mode != "constant" or not _of(x, *_REALS) or any(len(pair) < 2 for pair in amounts):
        return None
    if not isinstance(value, (int, float, np.ndarray)) or np.size(value) != 1:
        return None
    return keras.ops.pad(x, amounts, "constant", constant_values=float(np.reshape(value, ())))


def _log_softmax(x: Any, axis: int) -> Any:
    return keras.ops.log_softmax(x, int(axis)) if _of(x, *_REALS) else None


def _identity(x: Any) -> Any:
    return keras.ops.copy(x) if _moving(x) else None


OPERATIONS: dict[str, Callable[..., Any]] = {
    "elementwise": _elementwise,
    "divide": _divide,
    "pow": _pow,
    "equal": _equal,
    "where": _where,
    "logical_not": _logical_not,
    "isnan": _on_reals(keras.ops.isnan),
    "isinf": _on_reals(keras.ops.isinf),
    "clip": _clip,
    "permute_dims": _permute_dims,
    "reshape": _reshape,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "concat": _joined(keras.ops.concatenate),
    "stack": _joined(keras.ops.stack),
    "astype": _astype,
    "sum": _reduced(keras.ops.sum),
    "mean": _reduced(keras.ops.mean),
    "prod": _reduced(keras.ops.prod),
    "argmax": _place_of(keras.ops.argmax),
    "argmin": _place_of(keras.ops.argmin),
    "matmul": _matmul,
    "slice": _slice,
    "split": _split,
    "take": _take,
    "expand": _expand,
    "broadcast_to": _expand,
    "pad": _pad,
    "log_softmax": _log_softmax,
    "identity": _identity,
}
