"""Sorting, and searches in sorted data. Every sort is stable."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, case, f32, i64
from onnxport.opset_maps.lowerings.axes import permuted
from onnxport.opset_maps.lowerings.dtypes import Operand, to_dtype
from onnxport.opset_maps.lowerings.order import distinct, quantiles, run_lengths, runs, top
from onnxport.opset_maps.lowerings.reductions import is_floating
from onnxport.opset_maps.lowerings.scatter import scatter_elements
from onnxport.opset_maps.lowerings.search import insertion
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.linear import rank


def sorted_along(op: OpBuilder, x: ir.Value, dim: int, descending: bool = False) -> tuple[ir.Value, ir.Value]:
    """All elements along an axis in order, and where they stood."""
    if not rank(x):
        return x, op.const(0)
    return top(op, x, op.dim(x, dim), dim, largest=descending)


def _arguments(args: tuple[Any, ...], stable: object, dim: int, descending: bool) -> tuple[int, bool]:
    """The overloads sort(dim, descending) and sort.stable(*, stable, dim, descending)."""
    rest = [item for item in args if item is not None] if stable is None else list(args)
    dim = rest[0] if rest else dim
    return dim, bool(rest[1]) if len(rest) > 1 else descending


@aten.lower(
    "aten::sort",
    cases=[
        case(lambda x: x.sort(1), f32(2, 6), dynamic=True),
        case(lambda x: x.sort(0, descending=True), i64(7, low=0, high=3)),
        case(lambda x: torch.sort(x, stable=True, dim=-1, descending=True), i64(2, 9, low=0, high=3)),
        case(lambda x: x.sort(), boolean(7)),
    ],
)
def sort(
    op: OpBuilder, x: ir.Value, *args: Any, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[ir.Value, ir.Value]:
    """TopK of everything."""
    return sorted_along(op, x, *_arguments(args, stable, dim, descending))


@aten.lower(
    "aten::argsort",
    cases=[
        case(lambda x: x.argsort(1), f32(2, 6)),
        case(lambda x: x.argsort(dim=0, descending=True, stable=True), i64(7)),
    ],
)
def argsort(
    op: OpBuilder, x: ir.Value, *args: Any, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> ir.Value:
    """TopK's indices."""
    return sorted_along(op, x, *_arguments(args, stable, dim, descending))[1]


@aten.lower("aten::msort", cases=[case(torch.msort, f32(5, 2), dynamic=True)])
def msort(op: OpBuilder, x: ir.Value) -> ir.Value:
    """TopK along the first axis."""
    return sorted_along(op, x, 0)[0]


@aten.lower(
    "aten::topk",
    cases=[
        case(lambda x: x.topk(3), f32(2, 6), dynamic=True),
        case(lambda x: x.topk(2, 0, largest=False), i64(7, 2, low=0, high=100)),
    ],
)
def topk(
    op: OpBuilder, x: ir.Value, k: ir.Value | int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[ir.Value, ir.Value]:
    """TopK."""
    if not rank(x):
        return x, op.const(0)
    return top(op, x, k, dim, largest=largest, ordered=sorted)


@aten.lower(
    "aten::kthvalue",
    cases=[
        case(lambda x: x.kthvalue(2, 1), f32(3, 6), dynamic=True),
        case(lambda x: x.kthvalue(2, 0, True), f32(4, 3)),
    ],
)
def kthvalue(
    op: OpBuilder, x: ir.Value, k: ir.Value | int, dim: int = -1, keepdim: bool = False
) -> tuple[ir.Value, ir.Value]:
    """The last of the k smallest."""
    if not rank(x):
        return x, op.const(0)
    values, indices = top(op, x, k, dim, largest=False)
    return _last(op, values, dim, keepdim), _last(op, indices, dim, keepdim)


def _last(op: OpBuilder, x: ir.Value, dim: int, keepdim: bool) -> ir.Value:
    return op.Gather(x, op.const([-1] if keepdim else -1), axis=dim)


def _median(op: OpBuilder, x: ir.Value, dim: int, keepdim: bool, *, ignore_nan: bool) -> tuple[ir.Value, ir.Value]:
    """The lower middle element and its index; the first NaN where there is one and it is not ignored."""
    if not rank(x):
        return x, op.const(0)
    axis = dim % rank(x)
    values, indices = sorted_along(op, x, axis)
    size = op.dim(x, axis)
    count = op.const(0)
    if is_floating(x):
        count = op.reduce("ReduceSum", op.cast(op.IsNaN(x), ir.DataType.INT64), [axis], keepdims=True)
    valid = op.Sub(size, count)
    middle = op.Max(op.Div(op.Sub(valid, 1), 2), 0)
    if not ignore_nan:
        middle = op.Where(op.Greater(count, 0), valid, middle)
    sizes = [op.const([1]) if i == axis else op.dim(x, i) for i in range(rank(x))]
    at = op.Expand(middle, op.shape_vector(sizes))
    both = op.GatherElements(values, at, axis=axis), op.GatherElements(indices, at, axis=axis)
    return _kept(op, both, axis, keepdim)


def _kept(op: OpBuilder, pair: tuple[ir.Value, ir.Value], axis: int, keepdim: bool) -> tuple[ir.Value, ir.Value]:
    """An element and its place, with or without the axis that they were chosen along."""
    return pair if keepdim else (op.Squeeze(pair[0], op.axes(axis)), op.Squeeze(pair[1], op.axes(axis)))


def _or_filler(op: OpBuilder, x: ir.Value) -> ir.Value:
    """All elements, or what PyTorch gives of none: NaN, the least of whole numbers."""
    flat = op.Reshape(x, [-1])
    if x.shape is not None and all(isinstance(item, int) and item for item in x.shape):
        return flat
    assert x.dtype is not None
    filler = np.nan if is_floating(x) else np.iinfo(x.dtype.numpy()).min
    count = op.Sub(1, op.Min(op.Reshape(op.Size(flat), [1]), 1))
    return op.Concat(flat, op.Expand(op.const([filler], x.dtype), count), axis=0)


def _median_entry(name: str, *, ignore_nan: bool) -> None:
    call = getattr(torch, name)
    nan = np.array([[1, np.nan, 3, 2, np.inf], [4, 1, 3, 2, 9]], np.float32)

    def lower_all(op: OpBuilder, x: ir.Value) -> ir.Value:
        return _median(op, _or_filler(op, x), 0, False, ignore_nan=ignore_nan)[0]

    def lower(op: OpBuilder, x: ir.Value, dim: int, keepdim: bool = False) -> tuple[ir.Value, ir.Value]:
        return _median(op, x, dim, keepdim, ignore_nan=ignore_nan)

    lower_all.__doc__ = "The lower middle of all elements in order."
    lower.__doc__ = "The lower middle element along an axis, and where it stood."
    aten.lower(
        f"aten::{name}",
        cases=[case(call, f32(2, 4)), case(call, i64(5)), case(call, nan), case(call, f32(0, 3)), case(call, i64(0))],
    )(lower_all)
    cases = [
        case(lambda x: call(x, 1), f32(3, 6), dynamic=True),
        case(lambda x: call(x, 1), nan),
        case(lambda x: call(x, 0, True), i64(5, 2, low=0, high=100)),
    ]
    aten.lower(f"aten::{name}.dim", cases=cases)(lower)


_median_entry("median", ignore_nan=False)
_median_entry("nanmedian", ignore_nan=True)


def _quantile_entry(name: str, *, ignore_nan: bool) -> None:
    call = getattr(torch, name)
    nan = np.array([[1, np.nan, 3, 2, 5], [4, 1, 3, 2, 9], [np.nan] * 5], np.float32)
    shares = torch.tensor([0.1, 0.5, 0.9])

    def lower(
        op: OpBuilder,
        x: ir.Value,
        q: Operand,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> ir.Value:
        share = q if isinstance(q, ir.Value) else op.const(float(q), x.dtype)
        whole = op.Reshape(x, [-1]) if dim is None or not rank(x) else x
        axis = 0 if dim is None or not rank(x) else dim % rank(x)
        places = op.Reshape(share, [-1])
        result = quantiles(op, whole, places, axis, interpolation=interpolation, ignore_nan=ignore_nan)
        if keepdim and dim is None and rank(x):
            result = op.Reshape(result, [-1, *[1] * rank(x)])
        elif keepdim and rank(x):
            result = op.Unsqueeze(result, op.axes(axis + 1))
        return result if rank(share) else op.Squeeze(result, op.axes(0))

    lower.__doc__ = "Elements at shares of the order along an axis, or between their neighbours."
    cases = [
        case(lambda x: call(x, 0.3), f32(3, 6), dynamic=True),
        case(lambda x: call(x, shares, dim=1), f32(3, 6), dynamic=True),
        case(lambda x: call(x, shares, dim=0, keepdim=True), f32(5, 2)),
        case(lambda x: call(x, 0.4, dim=1), nan),
        *(
            case(lambda x, way=way: call(x, shares, keepdim=True, interpolation=way), f32(7))
            for way in ("lower", "higher", "midpoint", "nearest")
        ),
    ]
    aten.lower(f"aten::{name} aten::{name}.scalar", cases=cases)(lower)


_quantile_entry("quantile", ignore_nan=False)
_quantile_entry("nanquantile", ignore_nan=True)


@aten.lower(
    "aten::mode",
    cases=[case(lambda x: x.mode(1)[0], i64(3, 9, low=0, high=3)), case(lambda x: x.mode(0, True)[0], f32(4, 2))],
)
def mode(op: OpBuilder, x: ir.Value, dim: int = -1, keepdim: bool = False) -> tuple[ir.Value, ir.Value]:
    """The smallest of the most frequent values along an axis, and the last place where it stands."""
    if not rank(x):
        return x, op.const(0)
    axis = dim % rank(x)
    order = [i for i in range(rank(x)) if i != axis] + [axis]
    last = op.Transpose(x, perm=order)
    values, indices = sorted_along(op, last, -1)
    equal = op.Equal(op.Unsqueeze(values, op.axes(-1)), op.Unsqueeze(values, op.axes(-2)))
    counts = op.reduce("ReduceSum", op.cast(equal, ir.DataType.INT32), [rank(x)], keepdims=False)
    at = op.ArgMax(counts, axis=-1, keepdims=1)
    best = op.GatherElements(values, at, axis=-1)
    run = op.GatherElements(counts, at, axis=-1)
    place = op.GatherElements(indices, op.Add(at, op.cast(op.Sub(run, 1), ir.DataType.INT64)), axis=-1)
    inverse = [order.index(i) for i in range(rank(x))]
    return _kept(op, (op.Transpose(best, perm=inverse), op.Transpose(place, perm=inverse)), axis, keepdim)


# -- distinct values ---------------------------------------------------------------------------------------------------


def _unique(
    op: OpBuilder, x: ir.Value, axis: int | None, *, ordered: bool = True
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Distinct elements (or slices), for each element the place of its value, and how often each value occurs."""
    supported = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64, ir.DataType.INT8)
    work = x.dtype if x.dtype in supported else ir.DataType.INT64
    if x.dtype is None or (work == ir.DataType.INT64 and x.dtype.is_floating_point()):
        work = ir.DataType.FLOAT
    result = op.Unique(op.cast(x, work), axis=axis, sorted=int(ordered), outputs=4)
    return op.cast_like(result[0], x), result[2], result[3]


def _nothing(op: OpBuilder) -> ir.Value:
    """What torch gives for a result that was not asked for."""
    return op.const(np.zeros(0, np.int64))


@aten.lower(
    "aten::_unique2",
    "aten::_unique",
    cases=[
        case(lambda x: torch.unique(x, return_inverse=True, return_counts=True), i64(3, 4, low=0, high=5)),
        case(lambda x: torch.unique(x), boolean(5)),
    ],
)
def unique(
    op: OpBuilder, x: ir.Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Unique of the flattened tensor; torch sorts on the CPU with `sorted` or without."""
    values, inverse, counts = distinct(op, op.Reshape(x, [-1])) if is_floating(x) else _unique(op, x, None)
    inverse = op.Reshape(inverse, op.shape(x))
    return values, inverse if return_inverse else _nothing(op), counts if return_counts else _nothing(op)


@aten.lower(
    "aten::unique_dim",
    cases=[case(lambda x: torch.unique(x, dim=1, return_inverse=True, return_counts=True), i64(2, 9, low=0, high=2))],
)
def unique_dim(
    op: OpBuilder, x: ir.Value, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Unique along an axis."""
    return _unique(op, x, dim % rank(x))


@aten.lower(
    "aten::unique_consecutive",
    cases=[
        case(lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), i64(12, low=0, high=3)),
        case(lambda x: torch.unique_consecutive(x, return_counts=True), i64(2, 6, low=0, high=2)),
        case(lambda x: torch.unique_consecutive(x, True, True, dim=1), i64(2, 12, low=0, high=2)),
        case(lambda x: torch.unique_consecutive(x, True, True, dim=0), i64(12, 2, 1, low=0, high=2)),
    ],
)
def unique_consecutive(
    op: OpBuilder, x: ir.Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Elements that differ from the one before, by Compress; along an axis, slices of which one element does."""
    if dim is not None:
        if rank(x) == 1:  # the trace of PyTorch 2.13 has two axes for the one
            raise UnsupportedOperator("unique_consecutive with dim= of a vector: leave dim out, the result is the same")
        axis = dim % rank(x)
        size = op.dim(x, axis)
        rows = op.Reshape(
            permuted(op, x, [axis, *(i for i in range(rank(x)) if i != axis)]), op.Concat(size, [-1], axis=0)
        )
        new, place = runs(op, rows, size)
        counts = run_lengths(op, new, size)
        values = op.Compress(x, new, axis=axis)
        return values, place if return_inverse else _nothing(op), counts if return_counts else _nothing(op)
    flat = op.Reshape(x, [-1])
    size = op.dim(flat, 0)
    new, place = runs(op, flat, size)
    values, inverse, counts = op.Compress(flat, new, axis=0), op.Reshape(place, op.shape(x)), run_lengths(op, new, size)
    return values, inverse if return_inverse else _nothing(op), counts if return_counts else _nothing(op)


# -- bins --------------------------------------------------------------------------------------------------------------


@aten.lower(
    "aten::searchsorted",
    cases=[
        case(torch.searchsorted, np.array([1, 3, 5, 7], np.float32), f32(2, 3, low=0.0, high=9.0)),
        case(
            lambda e, v: torch.searchsorted(e, v, right=True),
            np.array([[1, 3, 5], [2, 4, 6]]),
            i64(2, 4, low=0, high=7),
        ),
        case(lambda e: torch.searchsorted(e, 3.0, out_int32=True), np.array([1, 3, 5, 7], np.float32)),
    ],
)
def searchsorted(
    op: OpBuilder,
    sorted_sequence: ir.Value,
    x: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: ir.Value | None = None,
) -> ir.Value:
    """How many edges stand before each value, by comparing all with all."""
    edges = sorted_sequence if sorter is None else op.GatherElements(sorted_sequence, sorter, axis=-1)
    values = to_dtype(op, x, edges.dtype or ir.DataType.FLOAT) if not isinstance(x, ir.Value) else x
    return insertion(op, edges, values, right=right or side == "right", dtype=op.result.dtype)


@aten.lower(
    "aten::bucketize",
    cases=[
        case(torch.bucketize, f32(2, 3, low=0.0, high=9.0), np.array([1, 3, 5, 7], np.float32)),
        case(lambda x, e: torch.bucketize(x, e, right=True), i64(6), np.array([-2, 0, 3])),
    ],
)
def bucketize(
    op: OpBuilder, x: Operand, boundaries: ir.Value, *, out_int32: bool = False, right: bool = False
) -> ir.Value:
    """How many boundaries stand before each value."""
    return searchsorted(op, boundaries, x, out_int32=out_int32, right=right)


@aten.lower(
    "aten::bincount",
    cases=[
        case(torch.bincount, i64(9, low=0, high=6)),
        case(lambda x, w: torch.bincount(x, w, minlength=8), i64(9, low=0, high=6), f32(9)),
        case(lambda x: torch.bincount(x, minlength=x.shape[0]), i64(9, low=0, high=6), dynamic=True),
    ],
    min_opset=16,
)
def bincount(op: OpBuilder, x: ir.Value, weights: ir.Value | None = None, minlength: int | ir.Value = 0) -> ir.Value:
    """ScatterElements that adds, into as many bins as the largest value needs."""
    index = op.cast(x, ir.DataType.INT64)
    padded = op.Concat(op.Add(index, 1), op.shape_vector([minlength]), axis=0)
    bins = op.ReduceMax(padded, keepdims=1)
    dtype = op.result.dtype
    empty = op.Expand(op.const(0, dtype), bins)
    ones = op.cast(weights, dtype) if weights is not None else op.Expand(op.const(1, dtype), op.shape(index))
    return scatter_elements(op, empty, index, ones, 0, "add")
