"""Writing by index: scatter, the index_* family, slices and diagonals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i64
from onnxport.opset_maps.lowerings.arithmetic import floor_div
from onnxport.opset_maps.lowerings.axes import permuted, positions
from onnxport.opset_maps.lowerings.axes import size as axis_size
from onnxport.opset_maps.lowerings.dtypes import Operand, Size
from onnxport.opset_maps.lowerings.reductions import cut_to_zero, is_floating
from onnxport.opset_maps.lowerings.scatter import Reduction, scatter_elements
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.diagonals import diagonal_positions
from onnxport.opset_maps.to_onnx.pytorch.indexing import END, index, index_put, number_like, slice_
from onnxport.opset_maps.to_onnx.pytorch.linear import rank

HANN = torch.hann_window(8)


def scattered(
    op: OpBuilder, x: ir.Value, dim: int, index: ir.Value, src: ir.Value, reduction: Reduction | None = None
) -> ir.Value:
    """ScatterElements of the part of `src` that `index` covers.

    Raises:
        UnsupportedOperator: the target opset has no such reduction.
    """
    if rank(x) == 0:
        one, at, value = (op.Reshape(item, [1]) for item in (x, index, src))
        return op.Reshape(scatter_elements(op, one, at, value, 0, reduction), np.zeros(0, np.int64))
    if src.shape is None or index.shape is None or list(src.shape) != list(index.shape):
        count = rank(x)
        src = op.Slice(src, [0] * count, op.shape(index), list(range(count)))
    return scatter_elements(op, x, index, op.cast_like(src, x), dim, reduction)


_REDUCE: dict[str, Reduction] = {"add": "add", "multiply": "mul"}


@aten.lower(
    "aten::scatter.src",
    "aten::scatter.reduce",
    cases=[
        case(lambda x, i, s: x.scatter(1, i, s), f32(3, 5), np.array([[0, 2], [1, 3], [4, 0]]), f32(3, 5)),
        case(lambda x, i, s: x.scatter(0, i, s), f32(3, 5), np.array([[1, 0, 2, 2, 0]]), f32(2, 5)),
    ],
)
def scatter_src(
    op: OpBuilder, x: ir.Value, dim: int, index: ir.Value, src: ir.Value, *, reduce: str | None = None
) -> ir.Value:
    """ScatterElements."""
    return scattered(op, x, dim, index, src, _REDUCE[reduce] if reduce else None)


@aten.lower(
    "aten::scatter.value",
    "aten::scatter.value_reduce",
    cases=[
        case(lambda x, i: x.scatter(1, i, 7.0), f32(3, 5), i64(3, 2, low=0, high=5)),
        case(lambda x, i: x.scatter(1, i, -2.5), i64(3, 5), i64(3, 2, low=0, high=5)),
    ],
)
def scatter_value(
    op: OpBuilder, x: ir.Value, dim: int, index: ir.Value, value: Operand, *, reduce: str | None = None
) -> ir.Value:
    """ScatterElements of one number."""
    src = op.Expand(number_like(op, value, x), op.shape(index))
    return scattered(op, x, dim, index, src, _REDUCE[reduce] if reduce else None)


@aten.lower(
    "aten::scatter_add",
    cases=[case(lambda x, i, s: x.scatter_add(1, i, s), f32(3, 5), i64(3, 4, low=0, high=5), f32(3, 4))],
    min_opset=16,
)
def scatter_add(op: OpBuilder, x: ir.Value, dim: int, index: ir.Value, src: ir.Value) -> ir.Value:
    """ScatterElements that adds."""
    return scattered(op, x, dim, index, src, "add")


_REDUCTIONS: dict[str, Reduction] = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


@aten.lower(
    "aten::scatter_reduce",
    cases=[
        case(
            lambda x, i, s, r=reduce, keep=include: x.scatter_reduce(1, i, s, r, include_self=keep),
            f32(3, 5),
            i64(3, 4, low=0, high=5),
            f32(3, 4),
            min_opset=18,
            name=f"{reduce}-{include}",
        )
        for reduce in _REDUCTIONS
        for include in (True, False)
    ],
    min_opset=16,
)
def scatter_reduce(
    op: OpBuilder, x: ir.Value, dim: int, index: ir.Value, src: ir.Value, reduce: str, *, include_self: bool = True
) -> ir.Value:
    """ScatterElements with a reduction; what was there before is first replaced by its neutral element on request."""
    if x.dtype == ir.DataType.BOOL:
        numbers, updates = op.cast(x, ir.DataType.INT32), op.cast(src, ir.DataType.INT32)
        result = scatter_reduce(op, numbers, dim, index, updates, reduce, include_self=include_self)
        return op.cast(result, ir.DataType.BOOL)
    start = x
    if not include_self:
        start = scattered(op, x, dim, index, op.Expand(_neutral(op, reduce, x), op.shape(index)))
    result = scattered(op, start, dim, index, src, _REDUCTIONS[reduce])
    if reduce in ("amax", "amin") and is_floating(x):  # runtimes pass over a NaN, or a number beside it
        return op.Add(result, scattered(op, cut_to_zero(op, start), dim, index, cut_to_zero(op, src), "add"))
    if reduce != "mean":
        return result
    ones = op.Expand(number_like(op, 1, x), op.shape(index))
    before = op.Expand(number_like(op, 1, x), op.shape(x))
    if not include_self:
        before = scattered(op, before, dim, index, op.Expand(number_like(op, 0, x), op.shape(index)))
    count = scattered(op, before, dim, index, ones, "add")
    if x.dtype is not None and x.dtype.is_floating_point():
        return op.Div(result, op.Max(count, 1.0))
    return floor_div(op, result, op.Max(count, 1))


def _neutral(op: OpBuilder, reduce: str, x: ir.Value) -> ir.Value:
    if reduce in ("sum", "mean"):
        return number_like(op, 0, x)
    if reduce == "prod":
        return number_like(op, 1, x)
    if x.dtype is None:
        raise UnsupportedOperator("an operand of unknown type")
    if x.dtype.is_floating_point():
        return number_like(op, float("-inf") if reduce == "amax" else float("inf"), x)
    limits = np.iinfo(x.dtype.numpy())
    return number_like(op, int(limits.min if reduce == "amax" else limits.max), x)


@aten.lower(
    "aten::unfold_backward",
    cases=[
        case(lambda x: torch.ops.aten.unfold_backward(x, [2, 9, 3], 1, 4, 2), f32(2, 3, 3, 4)),
        case(lambda x: torch.istft(torch.stft(x, 8, window=HANN, return_complex=True), 8, window=HANN), f32(2, 40)),
    ],
    min_opset=16,
)
def unfold_backward(
    op: OpBuilder, grad_in: ir.Value, input_sizes: Sequence[int | ir.Value], dim: int, size: int, step: int
) -> ir.Value:
    """The windows added up where they came from."""
    count = len(input_sizes)
    axis = dim % count
    others = [i for i in range(count) if i != axis]
    windows = permuted(op, grad_in, [*others, axis, count])
    starts = op.Mul(op.Range(0, axis_size(op, grad_in, axis), 1), step)
    places = op.Reshape(op.Add(op.Unsqueeze(starts, op.axes(1)), np.arange(size)), [-1])
    flat = op.Reshape(windows, [*[0] * len(others), -1])
    sizes = [input_sizes[i] for i in others]
    flat = op.Expand(flat, op.shape_vector([*sizes, op.dim(flat, -1)]))  # torch.istft gives one window for all signals
    empty = op.Expand(op.const(0, grad_in.dtype), op.shape_vector([*sizes, input_sizes[axis]]))
    total = scatter_elements(op, empty, op.Expand(places, op.shape(flat)), flat, -1, "add")
    return permuted(op, total, [*range(axis), count - 1, *range(axis, count - 1)])


@aten.lower(
    "aten::index_add",
    cases=[
        case(lambda x, i, s: x.index_add(1, i, s, alpha=2), f32(3, 5), np.array([0, 3, 0]), f32(3, 3)),
        case(lambda x, i, s: x.index_add(0, i, s), f32(3, 5), np.array([2, 2]), f32(2, 5)),
    ],
    min_opset=16,
)
def index_add(
    op: OpBuilder, x: ir.Value, dim: int, index: ir.Value, source: ir.Value, *, alpha: Operand = 1
) -> ir.Value:
    """ScatterElements that adds, the same index along the other axes."""
    source = op.cast_like(source, x)
    source = source if not isinstance(alpha, ir.Value) and alpha == 1 else op.Mul(source, number_like(op, alpha, x))
    if rank(x) == 0:
        return op.Add(x, source)
    return scattered_along(op, x, index, source, dim, "add")


@aten.lower(
    "aten::index_copy",
    cases=[
        case(lambda x, i, s: x.index_copy(1, i, s), f32(3, 5), np.array([0, 3]), f32(3, 2)),
        case(lambda x, i, s: x.index_copy(0, i, s), f32(), np.array([0]), f32()),
    ],
)
def index_copy(op: OpBuilder, x: ir.Value, dim: int, index: ir.Value, source: ir.Value) -> ir.Value:
    """ScatterElements, the same index along the other axes."""
    source = op.cast_like(source, x)
    return _alone(op, x, index, source) if rank(x) == 0 else scattered_along(op, x, index, source, dim)


def _alone(op: OpBuilder, x: ir.Value, index: ir.Value, value: ir.Value) -> ir.Value:
    """A number replaced by another, where the index names it."""
    if not rank(index):
        return op.Reshape(value, op.const(np.zeros(0, np.int64)))
    rows = op.Concat(op.Reshape(x, [1]), op.Expand(op.Reshape(value, [-1]), op.Reshape(op.Size(index), [1])), axis=0)
    return op.Gather(rows, -1, axis=0)


@aten.lower(
    "aten::index_fill",
    cases=[
        case(lambda x, i: x.index_fill(1, i, 7.0), f32(3, 5), np.array([0, 3]), dynamic=False),
        case(lambda x, i: x.index_fill(0, i, 7.0), f32(), np.zeros(0, np.int64)),
        case(lambda x, i: x.index_fill(0, i, 7.0), f32(), np.array(0)),
    ],
)
def index_fill(op: OpBuilder, x: ir.Value, dim: int, index: ir.Value, value: Operand) -> ir.Value:
    """ScatterElements of one number, the same index along the other axes."""
    if rank(x) == 0:
        return _alone(op, x, index, number_like(op, value, x))
    axis = dim % rank(x)
    sizes = [op.Size(index) if i == axis else axis_size(op, x, i) for i in range(rank(x))]
    source = op.Expand(number_like(op, value, x), op.shape_vector(sizes))
    return scattered_along(op, x, index, source, dim)


@aten.lower(
    "aten::put",
    cases=[
        case(lambda x, i, s: x.put(i, s), f32(3, 5), np.array([0, 13]), f32(2)),
        case(lambda x, i, s: torch.ops.aten.put(x, i, s, True), f32(3, 5), np.array([3, 3]), f32(2), min_opset=16),
    ],
)
def put(op: OpBuilder, x: ir.Value, index: ir.Value, source: ir.Value, accumulate: bool = False) -> ir.Value:
    """ScatterElements into the flattened tensor."""
    flat, at, values = (op.Reshape(item, [-1]) for item in (x, index, source))
    return op.Reshape(scattered(op, flat, 0, at, values, "add" if accumulate else None), op.shape(x))


@aten.lower(
    "aten::diagonal_scatter",
    cases=[
        case(lambda x, s: x.diagonal_scatter(s), f32(3, 4), f32(3)),
        case(lambda x, s: x.diagonal_scatter(s, 1, 0, 2), f32(3, 2, 4), f32(2, 3)),
        case(lambda x, s: x.diagonal_scatter(s, 1, 1, 2), f32(3, 4, 0), f32(3, 0), min_opset=14),
        case(lambda x, s: x.diagonal_scatter(s, 1, 1, 2), f32(3, 4, 0), f32(3, 0), min_opset=14, dynamic=True),
    ],
)
def diagonal_scatter(
    op: OpBuilder, x: ir.Value, src: ir.Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> ir.Value:
    """ScatterElements into the two axes flattened to one."""
    flat, positions, order = diagonal_positions(op, x, offset, dim1, dim2)
    source = op.cast_like(src, x)
    result = op.ScatterElements(flat, op.Expand(positions, op.shape(source)), source, axis=-1)
    count = rank(x)
    sizes = [op.dim(x, axis) for axis in order]
    back = op.Reshape(result, op.shape_vector(sizes), allowzero=1 if op.opset >= 14 else None)
    return permuted(op, back, [order.index(axis) for axis in range(count)])


@aten.lower(
    "aten::slice_scatter",
    cases=[
        case(lambda x, s: x.slice_scatter(s, 1, 1, 3), f32(2, 5), f32(2, 2), dynamic=True),
        case(lambda x, s: x.slice_scatter(s, 1, 0, 5, 2), f32(2, 5), f32(2, 3)),
        case(lambda x, s: x.slice_scatter(s, 0, -2), f32(4, 5), f32(2, 5)),
    ],
)
def slice_scatter(
    op: OpBuilder,
    x: ir.Value,
    src: ir.Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> ir.Value:
    """Concat of what stands before, the new values, and what stands behind; ScatterElements for steps."""
    start = 0 if start is None else start
    end = END if end is None else end
    source = op.cast_like(src, x)
    if not (isinstance(step, int) and step == 1):
        places = slice_(op, positions(op, x, dim), 0, start, end, step)
        return scattered_along(op, x, places, source, dim)
    size = x.shape[dim] if x.shape is not None else None
    parts = [source]
    if not (isinstance(start, int) and (start == 0 or (isinstance(size, int) and start <= -size))):
        parts.insert(0, slice_(op, x, dim, 0, start))
    if not (isinstance(end, int) and (end == END or (isinstance(size, int) and end >= size))):
        parts.append(slice_(op, x, dim, end, END))
    return source if len(parts) == 1 else op.Concat(*parts, axis=dim)


def scattered_along(
    op: OpBuilder, x: ir.Value, positions: ir.Value, source: ir.Value, dim: int, reduction: Reduction | None = None
) -> ir.Value:
    """`x` with `source` at `positions` (a vector) along one axis."""
    column = op.Reshape(positions, [-1, *[1] * (rank(x) - 1 - dim % rank(x))])
    return scatter_elements(op, x, op.Expand(column, op.shape(source)), source, dim, reduction)


@aten.lower(
    "aten::select_scatter",
    cases=[
        case(lambda x, s: x.select_scatter(s, 1, 2), f32(2, 5), f32(2), dynamic=True),
        case(lambda x, s: x.select_scatter(s, 0, -1), f32(2, 5), f32(5)),
    ],
)
def select_scatter(op: OpBuilder, x: ir.Value, src: ir.Value, dim: int, index: Size) -> ir.Value:
    """The slice of one index, replaced."""
    source = op.Unsqueeze(src, op.axes(dim % rank(x)))
    if isinstance(index, ir.Value):
        return scattered_along(op, x, op.Reshape(index, [1]), op.cast_like(source, x), dim)
    return slice_scatter(op, x, source, dim, index, END if index == -1 else index + 1)


def _within(op: OpBuilder, x: ir.Value, indices: Sequence[ir.Value | None]) -> list[ir.Value | None]:
    """Indices cut to the axes that they index."""
    last = [op.Sub(axis_size(op, x, axis), 1) for axis in range(len(indices))]
    return [
        item if item is None else op.Max(op.Min(op.cast(item, ir.DataType.INT64), end), op.const(0))
        for item, end in zip(indices, last, strict=True)
    ]


@aten.lower(
    "aten::_unsafe_masked_index",
    cases=[
        case(
            lambda x, m, i: torch.ops.aten._unsafe_masked_index(x, m, [i, None], 7.0),
            f32(4, 3),
            np.array([[True], [False], [True]]),
            np.array([2, 9, 0]),
        )
    ],
)
def masked_index(
    op: OpBuilder, x: ir.Value, mask: ir.Value, indices: Sequence[ir.Value | None], fill: Operand
) -> ir.Value:
    """Elements at indices that may lie outside where the mask is false, and a number there."""
    return op.Where(mask, index(op, x, _within(op, x, indices)), number_like(op, fill, x))


@aten.lower(
    "aten::_unsafe_masked_index_put_accumulate",
    cases=[
        case(
            lambda x, m, i, v: torch.ops.aten._unsafe_masked_index_put_accumulate(x, m, [i, None], v),
            f32(4, 3),
            np.array([[True], [False], [True]]),
            np.array([2, 9, 2]),
            f32(3, 3),
        )
    ],
    min_opset=16,
)
def masked_index_put(
    op: OpBuilder, x: ir.Value, mask: ir.Value, indices: Sequence[ir.Value | None], values: ir.Value
) -> ir.Value:
    """Values added at indices that may lie outside where the mask is false, where nothing is added."""
    added = op.Where(mask, values, number_like(op, 0, values))
    return index_put(op, x, _within(op, x, indices), added, accumulate=True)
