"""Running results along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
import torch

from onnxport.graph import schema
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, case, f32, i64
from onnxport.opset_maps.lowerings import cumulative
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.loops import running, slice_like
from onnxport.opset_maps.maps import aten


@aten.lower(
    "aten::cumsum",
    cases=[
        case(lambda x: x.cumsum(1), f32(2, 5), dynamic=True),
        case(lambda x: x.cumsum(-1), boolean(2, 5)),
        case(lambda x: x.cumsum(0, dtype=torch.float64), i64(4)),
        case(lambda x: x.sum().cumsum(0), f32(4)),
    ],
)
def cumsum(op: OpBuilder, x: ir.Value, dim: int, *, dtype: ir.DataType | None = None) -> ir.Value:
    """CumSum."""
    expected = op.result.dtype
    value = op.cast(x, expected)
    if not rank(x):
        return value
    if expected not in schema.allowed_dtypes("", "CumSum", op.opset):
        wide = ir.DataType.FLOAT if expected.is_floating_point() else ir.DataType.INT32
        return op.cast(op.CumSum(op.cast(value, wide), op.const(dim)), expected)
    return op.CumSum(value, op.const(dim))


@aten.lower(
    "aten::cumprod",
    cases=[
        case(lambda x: x.cumprod(1), f32(2, 5), dynamic=True),
        case(lambda x: x.cumprod(0), i64(2, 5)),
        case(lambda x: x.cumprod(0), f32(4)),
    ],
)
def cumprod(op: OpBuilder, x: ir.Value, dim: int, *, dtype: ir.DataType | None = None) -> ir.Value:
    """CumProd from opset 26; before, a Scan."""
    value = op.cast(x, op.result.dtype)
    if not rank(x):
        return value
    return cumulative.cumprod(op, value, dim)


@aten.lower(
    "aten::logcumsumexp",
    cases=[
        case(lambda x: x.logcumsumexp(1), f32(2, 5), dynamic=True),
        case(lambda x: x.logcumsumexp(0), f32(3, low=80, high=100)),
    ],
)
def logcumsumexp(op: OpBuilder, x: ir.Value, dim: int) -> ir.Value:
    """A Scan of logaddexp."""
    if not rank(x):
        return x
    return cumulative.logcumsumexp(op, x, dim)


def _running_extreme(better: str, summary: str) -> Callable[..., tuple[ir.Value, ir.Value]]:
    """The entry of the extreme so far and where it last stood; a NaN stays."""

    def lower(op: OpBuilder, x: ir.Value, dim: int) -> tuple[ir.Value, ir.Value]:
        if not rank(x):
            return x, op.const(0)
        axis, dtype = dim % rank(x), x.dtype or ir.DataType.FLOAT
        narrow = (ir.DataType.BOOL, ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.INT16)
        work = ir.DataType.INT32 if dtype in narrow else dtype
        limits = np.iinfo(work.numpy()) if not work.is_floating_point() else None
        low, high = (-math.inf, math.inf) if limits is None else (int(limits.min), int(limits.max))
        start = slice_like(op, x, axis, low if better == "GreaterOrEqual" else high, work)
        where = slice_like(op, x, axis, 0, ir.DataType.INT64)

        def step(b: OpBuilder, states: Sequence[ir.Value], part: ir.Value) -> list[ir.Value]:
            best, at, index = states
            taken = b.node(better, part, best)
            if work.is_floating_point():
                taken = b.Or(b.IsNaN(part), b.And(taken, b.Not(b.IsNaN(best))))
            return [b.Where(taken, part, best), b.Where(taken, index, at), b.Add(index, 1)]

        values, places = running(op, op.cast(x, work), axis, [start, where, op.const(0)], step, outputs=2)
        return op.cast(values, dtype), places

    lower.__doc__ = summary
    return lower


_MAXIMA = [
    case(lambda x: torch.cummax(x, 1), f32(2, 6), dynamic=True),
    case(lambda x: torch.cummax(x, 0), i64(7)),
    case(lambda x: torch.cummax(x, 0), np.array([1, np.nan, 3, 3], np.float32)),
]
_MINIMA = [case(lambda x: torch.cummin(x, 1), f32(2, 6), dynamic=True), case(lambda x: torch.cummin(x, 0), boolean(7))]
aten.lower("aten::cummax", cases=_MAXIMA)(_running_extreme("GreaterOrEqual", "A Scan of the maximum and its index."))
aten.lower("aten::cummin", cases=_MINIMA)(_running_extreme("LessOrEqual", "A Scan of the minimum and its index."))
