"""Elementwise operators: the rows of the shared table, arithmetic and the variadic ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import onnx_ir as ir

from onnxport.opset_maps.from_onnx.axes import resolved
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Number, Tensor
from onnxport.opset_maps.maps import onnx

_UNARY: dict[str, tuple[int, ...]] = {
    "Abs": (1, 6, 13),
    "Acos": (7, 22),
    "Acosh": (9, 22),
    "Asin": (7, 22),
    "Asinh": (9, 22),
    "Atan": (7, 22),
    "Atanh": (9, 22),
    "BitwiseNot": (18,),
    "Ceil": (1, 6, 13),
    "Cos": (7, 22),
    "Cosh": (9, 22),
    "Erf": (9, 13),
    "Exp": (1, 6, 13),
    "Floor": (1, 6, 13),
    "HardSwish": (14, 22),
    "Log": (1, 6, 13),
    "Mish": (18, 22),
    "Neg": (1, 6, 13),
    "Not": (1,),
    "Reciprocal": (1, 6, 13),
    "Relu": (1, 6, 13, 14),
    "Round": (11, 22),
    "Sigmoid": (1, 6, 13),
    "Sign": (9, 13),
    "Sin": (7, 22),
    "Sinh": (9, 22),
    "Softplus": (1, 22),
    "Softsign": (1, 22),
    "Sqrt": (1, 6, 13),
    "Tan": (7, 22),
    "Tanh": (1, 6, 13),
}
# Methods of the namespace that are more than a row.
_METHOD = {"Not": "logical_not", "BitwiseNot": "bitwise_invert", "Softplus": "softplus"}

_BINARY: dict[str, tuple[tuple[int, ...], str]] = {
    "Add": ((1, 6, 7, 13, 14), "add"),
    "Sub": ((1, 6, 7, 13, 14), "subtract"),
    "Mul": ((1, 6, 7, 13, 14), "multiply"),
    "Div": ((1, 6, 7, 13, 14), "divide"),
    "Pow": ((1, 7, 12, 13, 15), "pow"),
    "And": ((1, 7), "logical_and"),
    "Or": ((1, 7), "logical_or"),
    "Xor": ((1, 7), "not_equal"),
    "Equal": ((1, 7, 11, 13, 19), "equal"),
    "Greater": ((1, 7, 9, 13), "greater"),
    "Less": ((1, 7, 9, 13), "less"),
    "GreaterOrEqual": ((12, 16), "greater_equal"),
    "LessOrEqual": ((12, 16), "less_equal"),
    "BitwiseAnd": ((18,), "BitwiseAnd"),
    "BitwiseOr": ((18,), "BitwiseOr"),
    "BitwiseXor": ((18,), "BitwiseXor"),
}

_VARIADIC: dict[str, tuple[tuple[int, ...], str]] = {
    "Max": ((1, 6, 8, 12, 13), "maximum"),
    "Min": ((1, 6, 8, 12, 13), "minimum"),
    "Sum": ((1, 6, 8, 13), "add"),
}


def _computed(xp: Namespace, name: str, *xs: Tensor) -> Tensor:
    return getattr(xp, name)(*xs) if hasattr(xp, name) else xp.elementwise(name, *xs)


def _unary(name: str) -> Callable[..., Any]:
    def operator(xp: Namespace, x: Tensor) -> Tensor:
        return _computed(xp, _METHOD.get(name, name), x)

    operator.__doc__ = f"ONNX {name}."
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
        return reduce(lambda a, b: _computed(xp, name, a, b), xs)

    operator.__doc__ = f"{name} of any number of operands."
    return operator


for _op, _versions in _UNARY.items():
    onnx.op(_op, versions=_versions)(_unary(_op))
for _op, (_versions, _name) in _BINARY.items():
    onnx.op(_op, versions=_versions)(_binary(_name))
for _op, (_versions, _name) in _VARIADIC.items():
    onnx.op(_op, versions=_versions)(_variadic(_name))


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


@onnx.op("Where", versions=(9, 16))
def where(xp: Namespace, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where the condition holds, else b."""
    return xp.where(condition, a, b)


@onnx.op("IsNaN", versions=(9, 13, 20))
def is_nan(xp: Namespace, x: Tensor) -> Tensor:
    """Not a number."""
    return xp.isnan(x)


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
def clip(
    xp: Namespace,
    x: Tensor,
    low: Number | None = None,
    high: Number | None = None,
    *,
    min: float | None = None,
    max: float | None = None,
) -> Tensor:
    """x between bounds: attributes before opset 11, operands from then on."""
    return xp.clip(x, min if low is None else low, max if high is None else high)
