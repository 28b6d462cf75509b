"""Elementwise operators: the rows of the shared table, arithmetic and the variadic ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import onnx_ir as ir

from onnxport.opset_maps.elementwise import BY_ONNX
from onnxport.opset_maps.from_onnx.axes import resolved
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
    """x between bounds: attributes before opset 11, operands from then on."""
    return xp.clip(x, early.get("min") if low is None else low, early.get("max") if high is None else high)
