"""Primitives that `keras.ops` has with the same numbers: a model of these and of Keras' own layers loads without onnxport.

Elementwise ones stand in `arithmetic`.
Each function takes a primitive's arguments (symbolic tensors, NumPy arrays and Python numbers) and gives the result, or None
where `keras.ops` has no operation that is surely the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import accumulate, product
from typing import Any, TypeGuard

import keras
import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.keras.arithmetic import (
    ARITHMETIC,
    HALVES,
    NATIVE,
    REALS,
    SHORT,
    WHOLE,
    has_type,
    in_single,
    in_type,
    is_keras_tensor,
    shared_type,
)
from onnxport.opset_maps.from_onnx.keras.sizes import MOVED
from onnxport.opset_maps.from_onnx.values import Axes, Int, Ints, Pads, all_known, known


def _moving(x: object) -> TypeGuard[keras.KerasTensor]:
    """Whether an operation that only moves elements takes it."""
    return has_type(x, *MOVED)


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
    if _moving(x) and len(axis) == 1 and x.shape[axis[0]] is None:
        return _picked(x, int(axis[0]))
    if not _moving(x) or any(x.shape[place] != 1 for place in axis):
        return None
    return keras.ops.squeeze(x, tuple(sorted(int(item) for item in axis)))


def _picked(x: Any, axis: int) -> Any:
    """What a slice of one place of an axis of unknown size was cut from, at that place."""
    operation, index, _ = x._keras_history
    node = operation._inbound_nodes[index]
    if type(operation).__name__ != "GetItem":
        return None
    whole, key = node.arguments.args[0], node.arguments.args[1:] or (node.arguments.kwargs.get("key"),)
    cut = key[0] if isinstance(key[0], tuple) else ()
    if len(cut) <= axis or any(part != slice(None) for i, part in enumerate(cut) if i != axis):
        return None
    place = cut[axis].start or 0
    if cut[axis] not in (slice(cut[axis].start, place + 1), slice(-1, None)):
        return None
    return whole[(*[slice(None)] * axis, place)]


def _joined(function: Callable[..., Any]) -> Callable[..., Any]:
    def operation(xs: Sequence[Any], axis: int) -> Any:
        return function(list(xs), int(axis)) if shared_type(xs) is not None and any(map(_moving, xs)) else None

    return operation


def _astype(x: Any, dtype: ir.DataType, saturate: bool = True) -> Any:
    held = NATIVE.get(dtype)
    if held is None or not _moving(x):
        return None
    if keras.backend.backend() == "torch" and held in SHORT and "float" in x.dtype:
        x = keras.ops.cast(x, "int64")  # so that what is out of range wraps
    return keras.ops.cast(x, held)


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    @in_single
    def operation(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
        if not has_type(x, *REALS) or (axis is not None and not len(axis)):
            return None
        return function(x, axis=None if axis is None else [int(item) for item in axis], keepdims=bool(keepdims))

    return operation


def _extreme(function: Callable[..., Any], beside: Callable[..., Any], sign: int) -> Callable[..., Any]:
    """Keras' own raises where there are no elements, unless it is given what is there then."""

    def operation(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
        if not has_type(x, *REALS, *WHOLE) or (axis is not None and not len(axis)):
            return None
        first = (
            -sign * np.inf if x.dtype in REALS else int(np.iinfo(x.dtype).min if sign > 0 else np.iinfo(x.dtype).max)
        )
        if axis is None and not keepdims:
            return in_type(function(x, initial=first), x.dtype)
        places = list(range(len(x.shape))) if axis is None else [int(item) for item in axis]
        if keras.backend.backend() == "torch":  # where that has another shape
            return beside(x, axis=places, keepdims=bool(keepdims)) if all(x.shape[i] for i in places) else None
        return function(x, axis=places, keepdims=bool(keepdims), initial=first)

    return operation


def _place_of(function: Callable[..., Any]) -> Callable[..., Any]:
    def operation(x: Any, axis: int, keepdims: bool = False) -> Any:
        if not has_type(x, *REALS, *WHOLE):
            return None
        if x.dtype in REALS:  # on TensorFlow Keras holds 0 to be greater than -0
            zero = np.asarray(0, x.dtype)
            x = keras.ops.where(keras.ops.equal(x, zero), zero, x)
        return keras.ops.cast(function(x, axis=int(axis), keepdims=bool(keepdims)), "int64")

    return operation


@in_single
def _matmul(a: Any, b: Any) -> Any:
    if shared_type((a, b)) not in REALS or not all(len(item.shape) for item in (a, b)):
        return None
    return keras.ops.matmul(a, b)


def _slice(x: Any, axis: int, start: Int | None, stop: Int | None, step: int = 1) -> Any:
    if step == -1 and stop is None and start in (None, -1) and _moving(x):
        return _flip(x, (axis,))
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
    if shared_type((x,)) not in MOVED or shared_type((indices,)) not in WHOLE:
        return None
    size = x.shape[axis]
    if isinstance(indices, np.ndarray) and indices.size:
        if size is None or indices.min() < 0 or indices.max() >= size:
            return None
    return keras.ops.take(x, indices, int(axis))


def _expand(x: Any, shape: Sequence[Int]) -> Any:
    # On PyTorch Keras takes a size that is known only when the model runs for 1.
    if keras.backend.backend() == "torch" or not _moving(x) or not all_known(shape) or None in x.shape:
        return None
    return keras.ops.broadcast_to(x, np.broadcast_shapes(tuple(x.shape), tuple(int(n) for n in shape)))


def _pad(x: Any, pads: Pads, mode: str = "constant", value: object = 0) -> Any:
    amounts = [[int(n) for n in pair if known(n) and n >= 0] for pair in pads]
    if not has_type(x, *REALS, *HALVES, "int8", "uint8") or any(len(pair) < 2 for pair in amounts):
        return None
    if mode == "reflect" and has_type(x, *REALS) and amounts[:2] == [[0, 0]] * 2 and len(amounts) in (3, 4):
        return keras.ops.pad(x, amounts, "reflect")
    if mode != "constant" or not isinstance(value, (int, float, np.ndarray)) or np.size(value) != 1:
        return None
    number = float(np.reshape(value, ()))
    return keras.ops.pad(x, amounts, "constant", constant_values=number if "float" in x.dtype else int(number))


def _softmax(x: Any, axis: int) -> Any:
    return keras.ops.softmax(x, int(axis)) if has_type(x, *REALS) else None


def _log_softmax(x: Any, axis: int) -> Any:
    return keras.ops.log_softmax(x, int(axis)) if has_type(x, *REALS) else None


def _cumulative_sum(x: Any, axis: int) -> Any:
    cut = keras.backend.backend() == "torch" and has_type(x, "int64")  # as of the greatest
    return in_type(keras.ops.cumsum(x, axis=int(axis)), x.dtype) if has_type(x, *REALS, *WHOLE) and not cut else None


def _flip(x: Any, axis: Ints) -> Any:
    return keras.ops.flip(x, axis=[int(item) for item in axis]) if _moving(x) and len(axis) else None


def _tile(x: Any, repeats: Sequence[Int]) -> Any:
    if not _moving(x) or not x.shape or not all_known(repeats) or len(repeats) != len(x.shape) or 0 in repeats:
        return None
    return keras.ops.tile(x, [int(n) for n in repeats])


# Keras' own convolution of groups is compiled anew in each call (Keras 3.15 on TensorFlow).
_GROUPS = 8


def _grouped(x: Any, w: Any, bias: Any, form: dict[str, Any]) -> Any:
    groups = form["groups"]
    channels, filters = x.shape[-1] // groups, w.shape[0] // groups
    pieces = [
        _conv_last(
            x[..., i * channels : (i + 1) * channels],
            w[(slice(i * filters, (i + 1) * filters),)],
            **{**form, "groups": 1},
        )
        for i in range(groups)
    ]
    if any(piece is None for piece in pieces):
        return None
    result = keras.ops.concatenate(pieces, axis=-1)
    return result if bias is None else keras.ops.add(result, bias)


@in_single
def _conv_last(x: Any, w: Any, bias: Any = None, **form: Any) -> Any:
    """A convolution whose kernel is computed; of the layers that hold one `recognised` knows."""
    if not has_type(x, *REALS) or shared_type((x, w)) != x.dtype or (bias is not None and not has_type(bias, x.dtype)):
        return None
    strides, dilations, pads = (tuple(form[name]) for name in ("strides", "dilations", "pads"))
    groups, spatial = form.get("groups", 1), len(x.shape) - 2
    if spatial not in (1, 2, 3) or x.shape[-1] is None or None in w.shape or not all(map(all_known, pads)):
        return None
    depthwise = groups == x.shape[-1] and w.shape[1] == 1 and groups > 1 and spatial == 2 and len(set(strides)) == 1
    if any(s > 1 for s in strides) and any(d > 1 for d in dilations):
        return None
    if spatial == 2 and w.shape[1] == 1 and strides[1] > 1:
        columns = None if x.shape[2] is None else x.shape[2] + sum(pads[1])
        if columns is None or columns - (w.shape[3] - 1) * dilations[1] - 1 < strides[1]:
            return None  # TensorFlow (2.21) computes a single column of one channel wrong; the primitive knows
    if groups > 1 and not depthwise:
        return _grouped(x, w, bias, form) if groups <= _GROUPS else None
    if any(amount for pair in pads for amount in pair):
        x = keras.ops.pad(x, [(0, 0), *((a, b) for a, b in pads), (0, 0)])
    how: dict[str, Any] = {
        "strides": strides,
        "padding": "valid",
        "data_format": "channels_last",
        "dilation_rate": dilations,
    }
    if depthwise:
        kernel = _ordered(w, (2, 3, 0, 1))
        shape = (*w.shape[2:], groups, w.shape[0] // groups)
        kernel = keras.ops.reshape(kernel, shape) if is_keras_tensor(kernel) else kernel.reshape(shape)
        if len(set(dilations)) > 1:
            return None
        how |= {"strides": int(strides[0]), "dilation_rate": int(dilations[0])}  # of a pair Keras' files make a list
        result = keras.ops.depthwise_conv(x, kernel, **how)
    else:
        result = keras.ops.conv(x, _ordered(w, (*range(2, spatial + 2), 1, 0)), **how)
    return result if bias is None else keras.ops.add(result, bias)


# A sum over more places of a window is left to the primitive.
_PLACES = 16


def _sum_pool_last(x: Any, kernel: Ints, **form: Any) -> Any:
    """The images of each place of the windows, added one to the other."""
    sizes, how = x.shape[1:-1], list(zip(kernel, form["strides"], form["dilations"], strict=True))
    if not has_type(x, *REALS) or None in sizes or math.prod(kernel) > _PLACES:
        return None
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, (k, s, d) in zip(sizes, how, strict=True)]
    if min(counts) < 1:
        return None
    total: Any = None
    for place in product(*map(range, kernel)):
        starts = [i * d for i, (_, _, d) in zip(place, how, strict=True)]
        cuts = [slice(a, a + (n - 1) * s + 1, s) for a, n, (_, s, _) in zip(starts, counts, how, strict=True)]
        part = x[(slice(None), *cuts, slice(None))]
        total = part if total is None else keras.ops.add(total, part)
    return total


def _ordered(w: Any, axes: Ints) -> Any:
    return keras.ops.transpose(w, axes) if is_keras_tensor(w) else np.transpose(w, axes)


def _einsum(equation: str, *xs: Any) -> Any:
    fits = shared_type(xs) in REALS and all(part.isalpha() for part in re.split(",|->", equation))
    return keras.ops.einsum(equation, *xs) if fits else None


def _identity(x: Any) -> Any:
    return keras.ops.copy(x) if _moving(x) else None


OPERATIONS: dict[str, Callable[..., Any]] = {
    **ARITHMETIC,
    "permute_dims": _permute_dims,
    "reshape": _reshape,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "concat": _joined(keras.ops.concatenate),
    "stack": _joined(keras.ops.stack),
    "astype": _astype,
    "sum": _reduced(keras.ops.sum),
    "mean": _reduced(keras.ops.mean),
    "max": _extreme(keras.ops.max, keras.ops.amax, 1),
    "min": _extreme(keras.ops.min, keras.ops.amin, -1),
    "cumulative_sum": _cumulative_sum,
    "flip": _flip,
    "tile": _tile,
    "conv_last": _conv_last,
    "einsum": _einsum,
    "sum_pool_last": _sum_pool_last,
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
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "identity": _identity,
}
