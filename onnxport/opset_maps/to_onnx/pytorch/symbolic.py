"""Arithmetic on sizes: what Python computes with symbolic dimensions, as INT64 scalars in the graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.maps import aten

Number = ir.Value | int | float | bool


@aten.lower("aten::sym_size.int", cases=[case(lambda x: x.reshape(x.shape[0] * 2, -1), f32(3, 4), dynamic=True)])
def sym_size(op: OpBuilder, x: ir.Value, dim: int) -> ir.Value | int:
    """The size of one axis."""
    size = x.shape[dim] if x.shape is not None else None
    if isinstance(size, int):
        return size
    return op.Squeeze(op.dim(x, dim), op.axes(0))


@aten.lower("aten::sym_numel", cases=[case(lambda x: x.sum() / x.numel(), f32(3, 4), dynamic=True)])
def sym_numel(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The number of elements."""
    return op.Size(x)


def _float(op: OpBuilder, item: Number) -> Any:
    return op.cast(item, ir.DataType.DOUBLE) if isinstance(item, ir.Value) else float(item)


def _plain(*items: Number) -> bool:
    return not any(isinstance(item, ir.Value) for item in items)


def _same(op: OpBuilder, a: Number, b: Number) -> tuple[Any, Any]:
    """Both operands of one type: INT64, or DOUBLE where one of them is a float."""
    floats = [
        item.dtype == ir.DataType.DOUBLE if isinstance(item, ir.Value) else isinstance(item, float) for item in (a, b)
    ]
    dtype = ir.DataType.DOUBLE if any(floats) else ir.DataType.INT64
    result = [op.cast(item, dtype) if isinstance(item, ir.Value) else op.const(item, dtype) for item in (a, b)]
    return result[0], result[1]


def _binary(python: Callable[[Any, Any], Any], write: Callable[[OpBuilder, Any, Any], ir.Value]) -> Callable[..., Any]:
    def lower(op: OpBuilder, a: Number, b: Number) -> Any:
        return python(a, b) if _plain(a, b) else write(op, *_same(op, a, b))

    return lower


def _floor_div(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    if a.dtype == ir.DataType.DOUBLE:
        return op.Floor(op.Div(a, b))
    return op.Div(op.Sub(a, op.Mod(a, b)), b)


def _mod(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    if a.dtype == ir.DataType.DOUBLE:
        return op.Sub(a, op.Mul(op.Floor(op.Div(a, b)), b))
    return op.Mod(a, b)


def _true_div(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return op.Div(op.cast(a, ir.DataType.DOUBLE), op.cast(b, ir.DataType.DOUBLE))


_BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[OpBuilder, Any, Any], ir.Value]]] = {
    "operator::add": (operator.add, lambda op, a, b: op.Add(a, b)),
    "operator::sub": (operator.sub, lambda op, a, b: op.Sub(a, b)),
    "operator::mul": (operator.mul, lambda op, a, b: op.Mul(a, b)),
    "operator::floordiv": (operator.floordiv, _floor_div),
    "operator::mod": (operator.mod, _mod),
    "operator::truediv": (operator.truediv, _true_div),
    "operator::pow": (operator.pow, lambda op, a, b: op.Pow(a, b)),
    "operator::lt": (operator.lt, lambda op, a, b: op.Less(a, b)),
    "operator::le": (operator.le, lambda op, a, b: op.LessOrEqual(a, b)),
    "operator::gt": (operator.gt, lambda op, a, b: op.Greater(a, b)),
    "operator::ge": (operator.ge, lambda op, a, b: op.GreaterOrEqual(a, b)),
    "operator::eq": (operator.eq, lambda op, a, b: op.Equal(a, b)),
    "operator::ne": (operator.ne, lambda op, a, b: op.Not(op.Equal(a, b))),
    "torch::sym_max": (max, lambda op, a, b: op.Max(a, b)),
    "torch::sym_min": (min, lambda op, a, b: op.Min(a, b)),
}
_CASES: dict[str, Any] = {
    "operator::add": lambda x: x.new_zeros(x.shape[0] + 1),
    "operator::sub": lambda x: x.new_zeros(x.shape[0] - 1),
    "operator::mul": lambda x: x.new_zeros(x.shape[0] * 2),
    "operator::floordiv": lambda x: x[: x.shape[0] // 2],
    "operator::mod": lambda x: x.new_zeros(x.shape[0] % 2 + 3),
    "operator::truediv": lambda x: x * (x.shape[0] / 2),
    "operator::pow": lambda x: x.new_zeros(x.shape[0] ** 2),
}
for _name, (_python, _write) in _BINARY.items():
    _function = _binary(_python, _write)
    _function.__doc__ = f"{_name.rpartition(':')[2]} of sizes."
    _call = _CASES.get(_name, lambda x: x.new_zeros(torch.sym_max(x.shape[0], 3) + torch.sym_min(x.shape[0], 3)))
    aten.lower(_name, cases=[case(_call, f32(4, 3), dynamic=True)])(_function)


@aten.lower("operator::neg", cases=[case(lambda x: x.sum() * -x.shape[0], f32(4, 3), dynamic=True)])
def neg(op: OpBuilder, a: Number) -> Any:
    """The size with the other sign."""
    return op.Neg(a) if isinstance(a, ir.Value) else -a


@aten.lower(
    "torch::sym_sum",
    cases=[case(lambda x: x.new_zeros(torch.sym_sum([x.shape[0], x.shape[1], 1])), f32(4, 3), dynamic=True)],
)
def sym_sum(op: OpBuilder, items: list[Number]) -> Any:
    """The sum of several sizes."""
    total: Any = 0
    for item in items:
        total = total + item if _plain(total, item) else op.Add(*_same(op, total, item))
    return total


@aten.lower(
    "torch::sym_not", "operator::not_", cases=[case(lambda x: x * torch.sym_float(x.shape[0]), f32(4, 3), dynamic=True)]
)
def sym_not(op: OpBuilder, a: Number) -> Any:
    """The negation of a condition on sizes."""
    return op.Not(a) if isinstance(a, ir.Value) else not a


@aten.lower(
    "operator::and_", "operator::or_", cases=[case(lambda x: x * torch.sym_float(x.shape[0]), f32(4, 3), dynamic=True)]
)
def sym_and(op: OpBuilder, a: Number, b: Number) -> Any:
    """Both conditions on sizes."""
    return (a and b) if _plain(a, b) else op.And(*(op.const(i) if not isinstance(i, ir.Value) else i for i in (a, b)))


@aten.lower("torch::sym_float", cases=[case(lambda x: x * torch.sym_float(x.shape[0]), f32(4, 3), dynamic=True)])
def sym_float(op: OpBuilder, a: Number) -> Any:
    """A size as a floating-point number."""
    return _float(op, a)


@aten.lower(
    "torch::sym_int", "math::trunc", cases=[case(lambda x: x[: int(x.shape[0] * 0.5)], f32(4, 3), dynamic=True)]
)
def sym_int(op: OpBuilder, a: Number) -> Any:
    """A number rounded toward zero."""
    return op.cast(a, ir.DataType.INT64) if isinstance(a, ir.Value) else int(a)


@aten.lower("math::ceil", cases=[case(lambda x: x[: math.ceil(x.shape[0] / 3)], f32(4, 3), dynamic=True)])
def ceil(op: OpBuilder, a: Number) -> Any:
    """A number rounded up."""
    return op.cast(op.Ceil(_float(op, a)), ir.DataType.INT64) if isinstance(a, ir.Value) else math.ceil(a)


@aten.lower("math::floor", cases=[case(lambda x: x[: math.floor(x.shape[0] / 3)], f32(4, 3), dynamic=True)])
def floor(op: OpBuilder, a: Number) -> Any:
    """A number rounded down."""
    return op.cast(op.Floor(_float(op, a)), ir.DataType.INT64) if isinstance(a, ir.Value) else math.floor(a)


@aten.lower(
    "torch::_sym_sqrt", "math::sqrt", cases=[case(lambda x: x * torch._sym_sqrt(x.shape[0]), f32(4, 3), dynamic=True)]
)
def sym_sqrt(op: OpBuilder, a: Number) -> Any:
    """The root of a size."""
    return op.Sqrt(_float(op, a)) if isinstance(a, ir.Value) else math.sqrt(a)
