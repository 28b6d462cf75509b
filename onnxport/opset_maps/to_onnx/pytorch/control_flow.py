"""Control flow: torch's higher-order operators as If, Loop and Scan, and regions that only set a mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32
from onnxport.opset_maps.maps import aten

Results = tuple[ir.Value, ...]


def _value(op: OpBuilder, item: Any) -> ir.Value:
    return item if isinstance(item, ir.Value) else op.const(item)


def _all(result: Any) -> Results:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


class _Cond(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: (x * 2, x + 1), lambda x: (x - 3, x), (x,))


class _While(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops.while_loop import while_loop

        count = torch.tensor(0)
        return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 1.5 + i), (count, x))


class _Scan(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops.scan import scan

        return scan(lambda total, row: (total + row, total * row), torch.zeros(3), x)


class _Map(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        from torch._higher_order_ops.map import map as torch_map

        return torch_map(lambda row, y: row * y.sum(), x, y)


class _NoGrad(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        with torch.enable_grad():
            y = x * 2
        return y + 1


@aten.lower("higher_order::cond", cases=[built(_Cond, f32(2, 3)), built(_Cond, f32(2, 3, low=-3.0, high=0.0))])
def cond(op: OpBuilder, pred: ir.Value | bool, true: Any, false: Any, operands: Sequence[Any] = ()) -> Results:
    """If."""
    if isinstance(pred, bool):
        return tuple(_value(op, item) for item in op.call(true if pred else false, *operands))

    def branch(graph: Any) -> ir.Graph:
        return op.body(lambda b: [_value(b, item) for item in b.call(graph, *operands)])

    return _all(op.If(pred, then_branch=branch(true), else_branch=branch(false), outputs=len(op.results)))


@aten.lower("higher_order::while_loop", cases=[built(_While, f32(2, 3))])
def while_loop(
    op: OpBuilder, condition: Any, body: Any, carried: Sequence[Any], additional: Sequence[Any] = ()
) -> Results:
    """Loop until the condition on the carried values fails."""
    start = [_value(op, item) for item in carried]
    first = op.call(condition, *start, *additional)[0]

    def write(b: OpBuilder) -> list[ir.Value]:
        b.input("iteration", ir.DataType.INT64, [])
        b.input("go_on", ir.DataType.BOOL, [])
        states = [b.input("state", _dtype(item), _shape(item)) for item in start]
        result = [_value(b, item) for item in b.call(body, *states, *additional)]
        return [_value(b, b.call(condition, *result, *additional)[0]), *result]

    return _all(op.Loop(None, _value(op, first), *start, body=op.body(write), outputs=len(start)))


def _dtype(item: ir.Value) -> ir.DataType:
    if item.dtype is None:
        raise UnsupportedOperator("a loop carries a value of unknown type")
    return item.dtype


def _shape(item: ir.Value) -> list[Any] | None:
    return list(item.shape) if item.shape is not None else None


@aten.lower("higher_order::scan", cases=[built(_Scan, f32(4, 3))])
def scan(
    op: OpBuilder, combine: Any, init: Sequence[Any], xs: Sequence[ir.Value], additional: Sequence[Any] = ()
) -> Results:
    """Scan along the first axis."""
    return _scan(op, combine, [_value(op, item) for item in init], xs, additional, len(op.results))


def _scan(
    op: OpBuilder, combine: Any, init: Sequence[ir.Value], xs: Sequence[ir.Value], additional: Sequence[Any], count: int
) -> Results:
    def write(b: OpBuilder) -> list[ir.Value]:
        states = [b.input("state", _dtype(item), _shape(item)) for item in init]
        rows = [b.input("row", _dtype(item), (_shape(item) or [None])[1:]) for item in xs]
        return [_value(b, item) for item in b.call(combine, *states, *rows, *additional)]

    return _all(op.Scan(*init, *xs, body=op.body(write), num_scan_inputs=len(xs), outputs=count))


@aten.lower("higher_order::map_impl", "higher_order::map", cases=[built(_Map, f32(4, 3), f32(2))])
def map_(op: OpBuilder, function: Any, xs: Sequence[ir.Value], additional: Sequence[Any] = ()) -> Results:
    """Scan without a state."""
    return _scan(op, function, [], xs, additional, len(op.results))


@aten.lower("higher_order::associative_scan", cases=[built(_Scan, f32(4, 3))])
def associative_scan(op: OpBuilder, combine: Any, xs: Sequence[ir.Value], additional: Sequence[Any] = ()) -> Results:
    """Scan whose state is the result so far, begun with the first element."""
    heads = [op.Slice(item, [0], [1], [0]) for item in xs]
    tails = [op.Slice(item, [1], [2**63 - 1], [0]) for item in xs]

    def write(b: OpBuilder) -> list[ir.Value]:
        states = [b.input("state", _dtype(item), (_shape(item) or [None])[1:]) for item in heads]
        rows = [b.input("row", _dtype(item), (_shape(item) or [None])[1:]) for item in tails]
        result = [_value(b, item) for item in b.call(combine, *states, *rows, *additional)]
        return [*result, *(b.Identity(item) for item in result)]

    starts = [op.Squeeze(item, op.axes(0)) for item in heads]
    result = _all(op.Scan(*starts, *tails, body=op.body(write), num_scan_inputs=len(xs), outputs=2 * len(xs)))
    return tuple(op.Concat(head, rest, axis=0) for head, rest in zip(heads, result[len(xs) :], strict=True))


@aten.lower("higher_order::wrap_with_set_grad_enabled", cases=[built(_NoGrad, f32(2, 3))])
def set_grad_enabled(op: OpBuilder, enabled: bool, body: Any, *operands: Any) -> Results:
    """The region itself: gradients have no part in it."""
    return tuple(op.call(body, *operands))


@aten.lower("higher_order::wrap_with_autocast", cases=[built(_NoGrad, f32(2, 3))])
def autocast(op: OpBuilder, device: str, dtype: Any, enabled: bool, cache: bool, body: Any, *operands: Any) -> Results:
    """The region itself where autocast is off."""
    if enabled:
        raise UnsupportedOperator(
            "a region under torch.autocast: cast the model itself (model.half()) or leave autocast out"
        )
    return tuple(op.call(body, *operands))


@aten.lower("higher_order::invoke_subgraph", cases=[built(_NoGrad, f32(2, 3))])
def invoke_subgraph(op: OpBuilder, body: Any, identifier: str, *operands: Any) -> Results:
    """The region itself."""
    return tuple(op.call(body, *operands))
