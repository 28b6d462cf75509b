"""Histograms of one and of several dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, f64
from onnxport.opset_maps.lowerings.scatter import scatter_elements
from onnxport.opset_maps.maps import aten

_INT64 = ir.DataType.INT64


def _edges(op: OpBuilder, column: ir.Value, bins: int, limits: Sequence[float] | None) -> ir.Value:
    """The ends of bins of equal width, counted from the nearer limit as torch.linspace does."""
    if limits is not None:
        low, high = (op.const(float(item), column.dtype) for item in limits)
    elif column.shape is not None and 0 in column.shape:
        low, high = op.const(0.0, column.dtype), op.const(1.0, column.dtype)
    else:
        low, high = op.ReduceMin(column, keepdims=0), op.ReduceMax(column, keepdims=0)
    half = op.cast_like(op.Mul(op.cast(op.Equal(low, high), ir.DataType.FLOAT), 0.5), column)
    low, high = op.Sub(low, half), op.Add(high, half)
    step = op.Div(op.Sub(high, low), float(bins))
    numbers = np.arange(bins + 1)
    first = op.Add(low, op.Mul(step, op.const(numbers, column.dtype)))
    last = op.Sub(high, op.Mul(step, op.const(bins - numbers, column.dtype)))
    return op.Where(op.const(numbers < (bins + 1) // 2), first, last)


def _counts(
    op: OpBuilder,
    columns: Sequence[ir.Value],
    edges: Sequence[ir.Value],
    sizes: Sequence[int],
    weight: ir.Value | None,
    density: bool,
) -> ir.Value:
    """The weight in each bin; a bin holds its lower end, the last one both."""
    place, counted = op.const(0), op.const(True)
    for column, ends, size in zip(columns, edges, sizes, strict=True):
        values = op.Unsqueeze(column, op.axes(1))
        reached = op.reduce("ReduceSum", op.cast(op.GreaterOrEqual(values, ends), _INT64), [1], keepdims=False)
        low, high = (op.Slice(ends, [at], [at + 1 or 2**31], [0]) for at in (0, -1))
        inside = op.And(op.GreaterOrEqual(column, low), op.LessOrEqual(column, high))
        counted = op.And(counted, inside)
        own = op.Min(op.Max(op.Sub(reached, 1), op.const(0)), op.const(size - 1))
        place = op.Add(op.Mul(place, size), own)
    amounts = op.cast_like(counted, columns[0])
    if weight is not None:
        amounts = op.Where(counted, op.Reshape(weight, [-1]), op.const(0.0, columns[0].dtype))
    total = op.const(np.zeros(math.prod(sizes)), columns[0].dtype)
    result = op.Reshape(scatter_elements(op, total, place, amounts, 0, "add"), list(sizes))
    if not density:
        return result
    result = op.Div(result, op.reduce("ReduceSum", result, list(range(len(sizes))), keepdims=True))
    for axis, ends in enumerate(edges):
        widths = op.Sub(op.Slice(ends, [1], [2**31], [0]), op.Slice(ends, [0], [-1], [0]))
        shape = [-1 if i == axis else 1 for i in range(len(sizes))]
        result = op.Div(result, op.Reshape(widths, shape))
    return result


def _pairs(limits: Sequence[float] | None, count: int) -> list[Sequence[float] | None]:
    return [None] * count if limits is None else [limits[2 * i : 2 * i + 2] for i in range(count)]


def _columns(op: OpBuilder, x: ir.Value, count: int) -> list[ir.Value]:
    return [op.Reshape(op.Gather(x, i, axis=-1), [-1]) for i in range(count)]


@aten.lower(
    "aten::histogram.bin_ct",
    cases=[
        case(lambda x: torch.histogram(x, 5), f32(40)),
        case(lambda x: torch.histogram(x, 4, range=(-1.0, 1.0), density=True), f32(7, 5)),
        case(lambda x, w: torch.histogram(x, 3, weight=w), f64(9), f64(9, low=0.0)),
        case(lambda x: torch.histogram(x, 3), np.full(5, 2.5, np.float32)),
    ],
    min_opset=16,
)
def histogram(
    op: OpBuilder,
    x: ir.Value,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: ir.Value | None = None,
    density: bool = False,
) -> tuple[ir.Value, ir.Value]:
    """The weight in bins of equal width, and their ends."""
    column = op.Reshape(x, [-1])
    edges = _edges(op, column, bins, range)
    return _counts(op, [column], [edges], [bins], weight, density), edges


@aten.lower(
    "aten::histogram.bins_tensor",
    cases=[
        case(lambda x, e: torch.histogram(x, e), f32(40), np.array([-1, -0.2, 0, 0.9], np.float32)),
        case(lambda x, e: torch.histogram(x, e, density=True), f32(40), np.array([-1, -0.2, 0, 0.9], np.float32)),
    ],
    min_opset=16,
)
def histogram_between(
    op: OpBuilder, x: ir.Value, bins: ir.Value, *, weight: ir.Value | None = None, density: bool = False
) -> tuple[ir.Value, ir.Value]:
    """The weight between given ends."""
    size = bins.shape[0] if bins.shape is not None else None
    assert isinstance(size, int)
    return _counts(op, [op.Reshape(x, [-1])], [bins], [size - 1], weight, density), bins


@aten.lower(
    "aten::_histogramdd_bin_edges",
    "aten::_histogramdd_from_bin_cts",
    cases=[
        case(lambda x: torch.histogramdd(x, [3, 4])[0], f32(30, 2)),
        case(lambda x: torch.histogramdd(x, [2, 2, 3], density=True)[0], f32(30, 3)),
        case(lambda x: torch.histogramdd(x, [3, 4])[1], f32(30, 2)),
    ],
    min_opset=16,
)
def histogram_of_rows(
    op: OpBuilder,
    x: ir.Value,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: ir.Value | None = None,
    density: bool = False,
) -> ir.Value | tuple[ir.Value, ...]:
    """The weight of rows in boxes of equal size, or the boxes' ends."""
    columns = _columns(op, x, len(bins))
    edges = [
        _edges(op, column, size, pair)
        for column, size, pair in zip(columns, bins, _pairs(range, len(bins)), strict=True)
    ]
    return tuple(edges) if "edges" in op.name else _counts(op, columns, edges, bins, weight, density)


@aten.lower(
    "aten::_histogramdd_from_bin_tensors",
    cases=[
        case(lambda x, e: torch.histogramdd(x, [e, e * 2])[0], f32(30, 2), np.array([-1, -0.2, 0.1, 0.9], np.float32))
    ],
    min_opset=16,
)
def histogram_of_rows_between(
    op: OpBuilder, x: ir.Value, bins: Sequence[ir.Value], *, weight: ir.Value | None = None, density: bool = False
) -> ir.Value:
    """The weight of rows between given ends."""
    sizes = [size - 1 for item in bins for size in item.shape or () if isinstance(size, int)]
    return _counts(op, _columns(op, x, len(bins)), bins, sizes, weight, density)
