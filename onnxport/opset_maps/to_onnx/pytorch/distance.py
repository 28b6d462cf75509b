"""Distances between rows, and histograms."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.lowerings.axes import size, transposed
from onnxport.opset_maps.lowerings.scatter import scatter_elements
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.linear import rank

# torch's own threshold, from which it takes Euclidean distances from a matrix product.
_FEW_ROWS = 25


def norm_of(op: OpBuilder, gap: ir.Value, p: float, axis: int) -> ir.Value:
    """The p-norm along an axis, which goes."""
    size = op.Abs(gap)
    if p == 0:
        return op.reduce("ReduceSum", op.cast_like(op.Not(op.Equal(gap, 0)), gap), [axis], keepdims=False)
    if p == 1:
        return op.reduce("ReduceSum", size, [axis], keepdims=False)
    if p == 2:
        return op.Sqrt(op.reduce("ReduceSum", op.Mul(gap, gap), [axis], keepdims=False))
    if math.isinf(p):
        if gap.shape is not None and gap.shape[axis] == 0:
            raise UnsupportedOperator("the largest of no distances")
        return op.reduce("ReduceMax", size, [axis], keepdims=False)
    total = op.reduce("ReduceSum", op.Pow(size, float(p)), [axis], keepdims=False)
    return op.Pow(total, 1.0 / p)


@aten.lower(
    "aten::cdist",
    "aten::_cdist_forward",
    cases=[
        case(torch.cdist, f32(2, 5, 3), f32(2, 4, 3), dynamic=True),
        case(torch.cdist, f32(30, 3), f32(28, 3)),
        *(
            case(lambda x, y, p=p: torch.cdist(x, y, p), f32(5, 3), f32(4, 3), name=f"cdist-{p}")
            for p in (0, 1, 3, math.inf)
        ),
    ],
)
def cdist(op: OpBuilder, x1: ir.Value, x2: ir.Value, p: float = 2.0, compute_mode: int | None = None) -> ir.Value:
    """The norm of all differences; of many rows, as torch does, Euclidean ones from |x|^2 + |y|^2 - 2 x y."""
    counts = [item.shape[-2] if item.shape is not None else None for item in (x1, x2)]
    many = all(isinstance(count, int) for count in counts) and max(counts) > _FEW_ROWS  # type: ignore[type-var,operator]
    if p == 2 and (compute_mode == 1 or (compute_mode in (None, 0) and many)):
        squares = [op.reduce("ReduceSum", op.Mul(item, item), [rank(item) - 1], keepdims=True) for item in (x1, x2)]
        product = op.MatMul(op.Mul(x1, -2.0), transposed(op, x2))
        total = op.Add(op.Add(product, squares[0]), transposed(op, squares[1]))
        return op.Sqrt(op.Max(total, 0.0))
    gap = op.Sub(op.Unsqueeze(x1, op.axes(rank(x1) - 1)), op.Unsqueeze(x2, op.axes(rank(x2) - 2)))
    return _distances(op, gap, p)


def _distances(op: OpBuilder, gap: ir.Value, p: float) -> ir.Value:
    """The norms of differences along the last axis; of order 0 how many are not 0, which NaN is no number of."""
    if p == 0:
        return op.reduce("ReduceSum", op.Min(op.Ceil(op.Abs(gap)), 1.0), [rank(gap) - 1], keepdims=False)
    return norm_of(op, gap, p, rank(gap) - 1)


@aten.lower(
    "aten::pdist",
    "aten::_pdist_forward",
    cases=[case(torch.pdist, f32(5, 3), dynamic=True), case(lambda x: torch.pdist(x, 1), f32(4, 3))],
)
def pdist(op: OpBuilder, x: ir.Value, p: float = 2.0) -> ir.Value:
    """The distances above the diagonal, row by row."""
    count = size(op, x, 0)
    places = op.Range(op.const(0), count, op.const(1))
    above = op.Less(op.Unsqueeze(places, op.axes(1)), places)
    gap = op.Sub(op.Unsqueeze(x, op.axes(1)), op.Unsqueeze(x, op.axes(0)))
    distances = op.Reshape(_distances(op, gap, p), [-1])
    return op.Compress(distances, op.Reshape(above, [-1]), axis=0)


@aten.lower(
    "aten::histc",
    cases=[
        case(lambda x: torch.histc(x, 5, -2, 2), f32(40)),
        case(lambda x: torch.histc(x, 6), f32(7, 5)),
        case(lambda x: torch.histc(x, 3), np.full(5, 2.5, np.float32)),
    ],
    min_opset=16,
)
def histc(op: OpBuilder, x: ir.Value, bins: int = 100, min: float = 0, max: float = 0) -> ir.Value:
    """Counts in bins of equal width; elements outside are left out, the upper end belongs to the last bin."""
    if x.shape is not None and 0 in x.shape:
        return op.const(np.zeros(bins), op.result.dtype)
    work = x.dtype if x.dtype == ir.DataType.FLOAT else ir.DataType.DOUBLE
    flat = op.cast(op.Reshape(x, [-1]), work)
    low, high = op.const(float(min), work), op.const(float(max), work)
    if min == max:
        low, high = op.ReduceMin(flat, keepdims=0), op.ReduceMax(flat, keepdims=0)
        same = op.Equal(low, high)
        low, high = op.Where(same, op.Sub(low, 1.0), low), op.Where(same, op.Add(high, 1.0), high)
    inside = op.And(op.GreaterOrEqual(flat, low), op.LessOrEqual(flat, high))
    place = op.Div(op.Mul(op.Sub(flat, low), float(bins)), op.Sub(high, low))
    place = op.Min(op.cast(op.Where(inside, place, op.const(0.0, work)), ir.DataType.INT64), bins - 1)
    counts = scatter_elements(op, op.const(np.zeros(bins), work), place, op.cast(inside, work), 0, "add")
    return op.cast(counts, op.result.dtype)
