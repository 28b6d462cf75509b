"""Elementwise operators: the rows of the shared table, arithmetic, the variadic ones, and activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.elementwise import BY_ONNX
from onnxport.opset_maps.from_onnx.axes import product, resolved
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Number, Tensor
from onnxport.opset_maps.maps import onnx

# Primitives that are called otherwise than the row's `keras`, which is the array API's name where the standard has the function.
_NAMES = {"Div": "divide", "Pow": "pow", "Xor": "not_equal", "Sum": "add"}
# Operators that are a primitive of the namespace and no row of the elementwise table.
_PRIMITIVES: dict[str, tuple[tuple[int, ...], str]] = {
    "Det": ((11, 22), "det"),
    "MatMul": ((1, 9, 13), "matmul"),
    "NonZero": ((9, 13), "nonzero"),
    "StringConcat": ((20,), "string_concat"),
    "Where": ((9, 16), "where"),
}
_FLOAT_MAX = float(np.finfo(np.float32).max)
_VARIADIC: dict[str, tuple[int, ...]] = {"Max": (1, 6, 8, 12, 13), "Min": (1, 6, 8, 12, 13), "Sum": (1, 6, 8, 13)}


def _computed(xp: Namespace, name: str, *xs: Tensor) -> Tensor:
    """An operator by its primitive, which may be more than a row of the table; by the row where there is none."""
    primitive = _NAMES.get(name) or BY_ONNX[name].keras
    return getattr(xp, primitive)(*xs) if hasattr(xp, primitive) else xp.elementwise(name, *xs)


def _unary(name: str) -> Callable[..., Any]:
    def operator(xp: Namespace, x: Tensor) -> Tensor:
        return _computed(xp, name, x)

    operator.__doc__ = f"ONNX {name}."
    return operator


def _primitive(name: str) -> Callable[..., Any]:
    def operator(xp: Namespace, *xs: Tensor) -> Tensor:
        return getattr(xp, name)(*xs)

    operator.__doc__ = getattr(Namespace, name).__doc__
    return operator


def aligned(xp: Namespace, a: Tensor, b: Tensor, axis: int | None, broadcast: int | None) -> Tensor:
    """b as opsets before 7 broadcast it: its axes stand at `axis` of a, not at the end."""
    if not broadcast or axis is None:
        return b
    rank = xp.ndim(a)
    missing = rank - resolved(axis, rank) - xp.ndim(b)
    return xp.expand_dims(b, [xp.ndim(b) + i for i in range(missing)]) if missing > 0 else b


def _binary(name: str) -> Callable[..., Any]:
    def operator(
        xp: Namespace, a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int | None = None
    ) -> Tensor:
        return _computed(xp, name, a, aligned(xp, a, b, axis, broadcast))

    operator.__doc__ = f"{name} of two operands."
    return operator


def _variadic(name: str) -> Callable[..., Any]:
    def operator(xp: Namespace, *xs: Tensor) -> Tensor:
        return reduce(partial(_computed, xp, name), xs)

    operator.__doc__ = f"{name} of any number of operands."
    return operator


for _row in BY_ONNX.values():
    if _row.onnx not in _VARIADIC:
        onnx.op(_row.onnx, versions=_row.versions)((_unary if _row.arity == 1 else _binary)(_row.onnx))
for _op, _versions in _VARIADIC.items():
    onnx.op(_op, versions=_versions)(_variadic(_op))
onnx.op("Div", versions=(1, 6, 7, 13, 14))(_binary("Div"))
for _op, (_versions, _name) in _PRIMITIVES.items():
    onnx.op(_op, versions=_versions)(_primitive(_name))


@onnx.op("Mean", versions=(1, 6, 8, 13))
def mean(xp: Namespace, *xs: Tensor) -> Tensor:
    """The mean of any number of operands."""
    return xp.divide(reduce(xp.add, xs), float(len(xs)))


@onnx.op("Mod", versions=(10, 13, 28))
def mod(xp: Namespace, a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """Remainder with the divisor's sign, or with `fmod` the dividend's."""
    return xp.trunc_mod(a, b) if fmod else xp.floor_mod(a, b)


@onnx.op("BitShift", versions=(11, 28))
def bit_shift(xp: Namespace, a: Tensor, b: Tensor, *, direction: str) -> Tensor:
    """a << b or a >> b."""
    return xp.bitwise_left_shift(a, b) if direction == "LEFT" else xp.bitwise_right_shift(a, b)


@onnx.op("IsInf", versions=(10, 20))
def is_inf(xp: Namespace, x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Infinite, of the signs asked for."""
    if not xp.dtype(x).is_floating_point() or xp.dtype(x).bitwidth < 16:
        x = xp.astype(x, ir.DataType.FLOAT)
    if detect_negative and detect_positive:
        return xp.isinf(x)
    if not detect_negative and not detect_positive:
        return xp.logical_and(xp.isinf(x), xp.isnan(x))
    return xp.logical_and(xp.isinf(x), xp.greater(x, 0) if detect_positive else xp.less(x, 0))


@onnx.op("Clip", versions=(1, 6, 11, 12, 13))
def clip(xp: Namespace, x: Tensor, low: Number | None = None, high: Number | None = None, **early: float) -> Tensor:
    """x between bounds: attributes before opset 11, by default float32's ends, operands from then on."""
    narrow = xp.dtype(x).bitwidth == 16  # whose numbers all lie within those ends
    ends = {name: bound for name, bound in early.items() if not (narrow and abs(bound) >= _FLOAT_MAX)}
    return xp.clip(x, ends.get("min") if low is None else low, ends.get("max") if high is None else high)


@onnx.op("LeakyRelu", versions=(1, 6, 16))
def leaky_relu(xp: Namespace, x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """x, below zero times alpha."""
    return xp.where(xp.less(x, 0), xp.multiply(x, alpha), x)


@onnx.op("PRelu", versions=(1, 6, 7, 9, 16))
def prelu(xp: Namespace, x: Tensor, slope: Tensor) -> Tensor:
    """x, below zero times slope; before opset 7 a slope per channel."""
    if xp.version < 7:
        slope = aligned(xp, x, slope, 1, int(xp.ndim(slope) == 1))
    return xp.where(xp.less(x, 0), xp.multiply(x, slope), x)


@onnx.op("Elu", versions=(1, 6, 22))
def elu(xp: Namespace, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x, below zero alpha (exp(x) - 1)."""
    return xp.where(xp.less(x, 0), xp.multiply(xp.elementwise("expm1", xp.minimum(x, 0)), alpha), x)


@onnx.op("Selu", versions=(1, 6, 22))
def selu(xp: Namespace, x: Tensor, *, alpha: float = 1.6732, gamma: float = 1.0507) -> Tensor:
    """gamma times elu."""
    return xp.multiply(elu(xp, x, alpha=alpha), gamma)


@onnx.op("Celu", versions=(12, 28))
def celu(xp: Namespace, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x, below zero alpha (exp(x / alpha) - 1)."""
    low = xp.multiply(xp.elementwise("expm1", xp.divide(xp.minimum(x, 0), alpha)), alpha)
    return xp.where(xp.less(x, 0), low, x)


@onnx.op("ThresholdedRelu", versions=(10, 22))
def thresholded_relu(xp: Namespace, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x above alpha, else 0."""
    return xp.where(xp.greater(x, alpha), x, xp.zeros((), xp.dtype(x)))


@onnx.op("HardSigmoid", versions=(1, 6, 22))
def hard_sigmoid(xp: Namespace, x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """alpha x + beta between 0 and 1; the sum of 16-bit numbers in 32 bits, since most of it may cancel."""
    dtype = xp.dtype(x)
    wide = xp.astype(x, ir.DataType.FLOAT) if dtype.bitwidth == 16 else x
    return xp.astype(xp.clip(xp.add(xp.multiply(wide, alpha), beta), 0, 1), dtype)


@onnx.op("Gelu", versions=(20,))
def gelu(xp: Namespace, x: Tensor, *, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x, or its tanh approximation."""
    if approximate == "tanh":
        cubed = xp.multiply(xp.multiply(x, x), x)
        inner = xp.multiply(xp.add(x, xp.multiply(cubed, 0.044715)), math.sqrt(2 / math.pi))
        return xp.multiply(xp.multiply(x, 0.5), xp.add(xp.tanh(inner), 1))
    return xp.multiply(xp.multiply(x, 0.5), xp.add(xp.erf(xp.divide(x, math.sqrt(2))), 1))


@onnx.op("Swish", versions=(24,))
def swish(xp: Namespace, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x sigmoid(alpha x)."""
    return xp.multiply(x, xp.sigmoid(x if alpha == 1 else xp.multiply(x, alpha)))


@onnx.op("Shrink", versions=(9,))
def shrink(xp: Namespace, x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """x moved by bias toward zero outside [-lambd, lambd], else 0; integers are computed as floats and truncated."""
    dtype = xp.dtype(x)
    wide = x if dtype.is_floating_point() else xp.astype(x, ir.DataType.DOUBLE)
    zero = xp.zeros((), xp.dtype(wide))
    low = xp.where(xp.less(wide, -lambd), xp.add(wide, bias), zero)
    result = xp.where(xp.greater(wide, lambd), xp.subtract(wide, bias), low)
    return result if dtype.is_floating_point() else xp.astype(result, dtype)


def _along_axis(meaning: str, compute: Callable[[Namespace, Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """An operator along one axis; before opset 13 over all axes from it on, as if they were one."""

    def operator(xp: Namespace, x: Tensor, *, axis: int) -> Tensor:
        rank = xp.ndim(x)
        axis = resolved(axis, rank)
        if xp.version >= 13 or axis == rank - 1:
            return compute(xp, x, axis)
        shape = xp.shape(x)
        return xp.reshape(compute(xp, xp.reshape(x, (*shape[:axis], product(xp, shape[axis:]))), axis), shape)

    operator.__doc__ = f"{meaning} along an axis; before opset 13 over all axes from it on."
    return operator


def _hardmax(xp: Namespace, x: Tensor, axis: int) -> Tensor:
    return xp.astype(xp.one_hot(xp.argmax(x, axis), xp.shape(x)[axis], axis), xp.dtype(x))


for _op, _meaning, _compute in (
    ("Softmax", "exp(x) / sum(exp(x))", lambda xp, x, axis: xp.softmax(x, axis)),
    ("LogSoftmax", "log(softmax(x))", lambda xp, x, axis: xp.log_softmax(x, axis)),
    ("Hardmax", "1 at the first greatest element, else 0,", _hardmax),
):
    onnx.op(_op, versions=(1, 11, 13))(_along_axis(_meaning, _compute))
