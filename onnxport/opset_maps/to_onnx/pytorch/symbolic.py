"""Arithmetic on sizes: what Python computes with symbolic dimensions, as INT64 scalars in the graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, case, f32, i64
from onnxport.opset_maps.lowerings.axes import size as axis_size
from onnxport.opset_maps.lowerings.dtypes import Operand
from onnxport.opset_maps.lowerings.reductions import is_floating
from onnxport.opset_maps.maps import aten


@aten.lower("aten::sym_size.int", cases=[case(lambda x: x.reshape(x.shape[0] * 2, -1), f32(3, 4), dynamic=True)])
def sym_size(op: OpBuilder, x: ir.Value, dim: int) -> ir.Value | int:
    """The size of one axis."""
    size = x.shape[dim] if x.shape is not None else None
    if isinstance(size, int):
        return size
    return axis_size(op, x, dim)


@aten.lower("aten::sym_numel", cases=[case(lambda x: x.sum() / x.numel(), f32(3, 4), dynamic=True)])
def sym_numel(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The number of elements."""
    return op.Size(x)


@aten.lower(
    "aten::item aten::_local_scalar_dense",
    cases=[
        case(lambda x: x.sum().item(), f32(3)),
        case(lambda x, k: (x * k.item(), x[0].item() + x), f32(3), i64()),
        case(lambda x: x.all().item(), boolean(1)),
    ],
)
def item(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The number as Python has it: its floats are double."""
    kind = (
        ir.DataType.BOOL if x.dtype == ir.DataType.BOOL else ir.DataType.DOUBLE if is_floating(x) else ir.DataType.INT64
    )
    return op.cast(op.Reshape(x, op.const(np.zeros(0, np.int64))), kind)


def _float(op: OpBuilder, item: ir.Value) -> ir.Value:
    return op.cast(item, ir.DataType.DOUBLE)


def _plain(*items: Operand) -> bool:
    return not any(isinstance(item, ir.Value) for item in items)


def _same(op: OpBuilder, a: Operand, b: Operand) -> tuple[Any, Any]:
    """Both operands of one type: BOOL if both are conditions, DOUBLE where one of them is a float, else INT64."""
    kinds = [_KINDS.get(item.dtype, int) if isinstance(item, ir.Value) else type(item) for item in (a, b)]
    dtype = ir.DataType.BOOL if kinds == [bool, bool] else ir.DataType.DOUBLE if float in kinds else ir.DataType.INT64
    result = [op.cast(item, dtype) if isinstance(item, ir.Value) else op.const(item, dtype) for item in (a, b)]
    return result[0], result[1]


_KINDS: dict[ir.DataType | None, type] = {ir.DataType.BOOL: bool, ir.DataType.DOUBLE: float}


def _floor_div(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    if a.dtype == ir.DataType.DOUBLE:
        return op.Floor(op.Div(a, b))
    return op.Div(op.Sub(a, op.Mod(a, b)), b)


def _mod(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    if a.dtype == ir.DataType.DOUBLE:
        return op.Sub(a, op.Mul(op.Floor(op.Div(a, b)), b))
    return op.Mod(a, b)


# By the name of the function: what Python computes, and what is written for values of the graph.
_UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[OpBuilder, ir.Value], ir.Value]]] = {
    "operator::neg": (operator.neg, lambda op, a: op.Neg(a)),
    "operator::not_": (operator.not_, lambda op, a: op.Not(a)),
    "torch::sym_not": (operator.not_, lambda op, a: op.Not(a)),
    "torch::sym_float": (float, _float),
    "torch::sym_int": (int, lambda op, a: op.cast(a, ir.DataType.INT64)),
    "math::trunc": (int, lambda op, a: op.cast(a, ir.DataType.INT64)),
    "math::ceil": (math.ceil, lambda op, a: op.cast(op.Ceil(_float(op, a)), ir.DataType.INT64)),
    "math::floor": (math.floor, lambda op, a: op.cast(op.Floor(_float(op, a)), ir.DataType.INT64)),
    "math::sqrt": (math.sqrt, lambda op, a: op.Sqrt(_float(op, a))),
    "torch::_sym_sqrt": (math.sqrt, lambda op, a: op.Sqrt(_float(op, a))),
}
_BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[OpBuilder, Any, Any], ir.Value]]] = {
    "operator::add": (operator.add, lambda op, a, b: op.Add(a, b)),
    "operator::sub": (operator.sub, lambda op, a, b: op.Sub(a, b)),
    "operator::mul": (operator.mul, lambda op, a, b: op.Mul(a, b)),
    "operator::floordiv": (operator.floordiv, _floor_div),
    "operator::mod": (operator.mod, _mod),
    "operator::truediv": (operator.truediv, lambda op, a, b: op.Div(_float(op, a), _float(op, b))),
    "operator::pow": (operator.pow, lambda op, a, b: op.Pow(a, b)),
    "operator::lt": (operator.lt, lambda op, a, b: op.Less(a, b)),
    "operator::le": (operator.le, lambda op, a, b: op.LessOrEqual(a, b)),
    "operator::gt": (operator.gt, lambda op, a, b: op.Greater(a, b)),
    "operator::ge": (operator.ge, lambda op, a, b: op.GreaterOrEqual(a, b)),
    "operator::eq": (operator.eq, lambda op, a, b: op.Equal(a, b)),
    "operator::ne": (operator.ne, lambda op, a, b: op.Not(op.Equal(a, b))),
    "operator::and_": (operator.and_, lambda op, a, b: op.And(a, b)),
    "operator::or_": (operator.or_, lambda op, a, b: op.Or(a, b)),
    "torch::sym_max": (max, lambda op, a, b: op.Max(a, b)),
    "torch::sym_min": (min, lambda op, a, b: op.Min(a, b)),
}
_CASES: dict[str, Callable[[Any], Any]] = {
    "operator::add": lambda x: x.new_zeros(x.shape[0] + 1),
    "operator::sub": lambda x: x.new_zeros(x.shape[0] - 1),
    "operator::mul": lambda x: x.new_zeros(x.shape[0] * 2),
    "operator::floordiv": lambda x: x[: x.shape[0] // 2],
    "operator::mod": lambda x: x.new_zeros(x.shape[0] % 2 + 3),
    "operator::truediv": lambda x: x * (x.shape[0] / 2),
    "operator::pow": lambda x: x.new_zeros(x.shape[0] ** 2),
    "operator::neg": lambda x: x.sum() * -x.shape[0],
    "torch::sym_float": lambda x: x * torch.sym_float(x.shape[0]),
    "math::trunc": lambda x: x[: int(x.shape[0] * 0.5)],
    "math::ceil": lambda x: x[: math.ceil(x.shape[0] / 3)],
    "math::floor": lambda x: x[: math.floor(x.shape[0] / 3)],
    "math::sqrt": lambda x: x * torch._sym_sqrt(x.shape[0]),
}


def _register(name: str, python: Callable[..., Any], write: Callable[..., ir.Value]) -> None:
    call = _CASES.get(name, lambda x: x.new_zeros(torch.sym_max(x.shape[0], 3) + torch.sym_min(x.shape[0], 3)))

    @aten.lower(name, cases=[case(call, f32(4, 3), dynamic=True)])
    def lower(op: OpBuilder, *operands: Operand) -> Any:
        if _plain(*operands):
            return python(*operands)
        return write(op, *(_same(op, *operands) if len(operands) == 2 else operands))

    lower.__doc__ = f"{name.rpartition(':')[2].strip('_')} of sizes."


for _name, (_python, _write) in _UNARY.items():
    _register(_name, _python, _write)
for _name, (_of_two, _write_two) in _BINARY.items():
    _register(_name, _of_two, _write_two)


@aten.lower(
    "torch::sym_sum",
    cases=[case(lambda x: x.new_zeros(torch.sym_sum([x.shape[0], x.shape[1], 1])), f32(4, 3), dynamic=True)],
)
def sym_sum(op: OpBuilder, items: list[Operand]) -> Any:
    """The sum of several sizes."""
    total: Any = 0
    for item in items:
        total = total + item if _plain(total, item) else op.Add(*_same(op, total, item))
    return total


@aten.lower("torch::sym_ite", cases=[case(lambda x: x.any().item(), boolean(1))])
def sym_ite(op: OpBuilder, condition: Operand, a: Operand, b: Operand) -> Any:
    """One number or the other."""
    if _plain(condition):
        return a if condition else b
    return op.Where(condition, *_same(op, a, b))
