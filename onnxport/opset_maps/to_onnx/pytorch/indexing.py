"""Indexing: slices, advanced indexing with integers and masks, lookups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, built, case, f32, i64
from onnxport.opset_maps.lowerings.axes import permuted, windowed
from onnxport.opset_maps.lowerings.dtypes import Operand, Size, to_dtype
from onnxport.opset_maps.lowerings.scatter import scatter_slices
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.linear import rank

END = np.iinfo(np.int64).max


@aten.lower(
    "aten::select.int",
    "aten::select_copy.int",
    cases=[case(lambda x: x[:, -1], f32(2, 3, 4), dynamic=True), case(lambda x: x.select(-1, 0), f32(2, 3))],
)
def select(op: OpBuilder, x: ir.Value, dim: int, index: Size) -> ir.Value:
    """Gather of one index."""
    return op.Gather(x, index, axis=dim)


@aten.lower(
    "aten::slice.Tensor",
    "aten::slice_copy.Tensor",
    cases=[
        case(lambda x: x[:, 1:-1], f32(2, 5), dynamic=True),
        case(lambda x: x[1:], f32(3, 5), dynamic=True),
        case(lambda x: x[:, ::2], f32(2, 5)),
        case(lambda x: x[:, -9:9], f32(2, 5)),
        case(lambda x: x[: x.shape[0] - 1], f32(3, 5), dynamic=True),
    ],
)
def slice_(
    op: OpBuilder, x: ir.Value, dim: int = 0, start: Size | None = None, end: Size | None = None, step: Size = 1
) -> ir.Value:
    """Slice."""
    start = 0 if start is None else start
    end = END if end is None else end
    size = x.shape[dim] if x.shape is not None else None
    whole = isinstance(end, int) and (end == END or (isinstance(size, int) and end >= size))
    if isinstance(start, int) and start == 0 and whole and isinstance(step, int) and step == 1:
        return x
    return op.Slice(x, op.shape_vector([start]), op.shape_vector([end]), op.axes(dim), op.shape_vector([step]))


@aten.lower(
    "aten::narrow",
    "aten::narrow_copy",
    cases=[case(lambda x: x.narrow(1, 1, 2), f32(2, 5), dynamic=True), case(lambda x: x.narrow(1, -3, 2), f32(2, 5))],
)
def narrow(op: OpBuilder, x: ir.Value, dim: int, start: Size, length: Size) -> ir.Value:
    """Slice of a length."""
    if isinstance(start, int) and isinstance(length, int):
        return slice_(op, x, dim, start, END if start < 0 and start + length == 0 else start + length)
    return slice_(op, x, dim, start, op.Add(_scalar(op, start), _scalar(op, length)))


def _scalar(op: OpBuilder, item: Size) -> ir.Value:
    return op.cast(item, ir.DataType.INT64) if isinstance(item, ir.Value) else op.const(item)


@aten.lower(
    "aten::index_select",
    cases=[case(lambda x, i: x.index_select(1, i), f32(2, 5), i64(3, low=0, high=5), dynamic=False)],
)
def index_select(op: OpBuilder, x: ir.Value, dim: int, index: ir.Value) -> ir.Value:
    """Gather."""
    if rank(x) == 0:
        return x
    return op.Gather(x, op.Reshape(index, [1]) if rank(index) == 0 else index, axis=dim)


@aten.lower(
    "aten::embedding",
    cases=[
        built(lambda: nn.Embedding(7, 4, padding_idx=0), i64(2, 3, low=0, high=7), dynamic=True),
        case(lambda i, w: F.embedding(i, w), i64(3, low=0, high=7), f32(7, 4)),
    ],
)
def embedding(op: OpBuilder, weight: ir.Value, indices: ir.Value, *_: object) -> ir.Value:
    """Gather of rows."""
    return op.Gather(weight, indices, axis=0)


@aten.lower(
    "aten::gather", cases=[case(lambda x, i: x.gather(1, i), f32(2, 5), i64(2, 3, low=0, high=5), dynamic=True)]
)
def gather(op: OpBuilder, x: ir.Value, dim: int, index: ir.Value, *, sparse_grad: bool = False) -> ir.Value:
    """GatherElements."""
    if rank(x) == 0 or rank(index) == 0:
        flat = op.GatherElements(op.Reshape(x, [-1]), op.Reshape(index, [-1]), axis=0)
        return op.Reshape(flat, op.shape(index))
    return op.GatherElements(x, index, axis=dim)


@aten.lower("aten::take", cases=[case(torch.take, f32(2, 5), i64(3, low=-10, high=10))])
def take(op: OpBuilder, x: ir.Value, index: ir.Value) -> ir.Value:
    """Gather from the flattened tensor."""
    return op.Gather(op.Reshape(x, [-1]), index, axis=0)


@aten.lower(
    "aten::nonzero",
    "aten::argwhere",
    cases=[
        case(torch.nonzero, i64(3, 4, low=0, high=2)),
        case(lambda x: (x > 0).nonzero(), f32(3, 4)),
        case(lambda x: x.sum().nonzero(), f32(3, 4)),
    ],
)
def nonzero(op: OpBuilder, x: ir.Value) -> ir.Value:
    """NonZero, a row an element; of a number rows without columns."""
    if not rank(x):
        count = op.Reshape(op.cast(op.cast(x, ir.DataType.BOOL), ir.DataType.INT64), [1])
        return op.Expand(op.const(np.zeros((1, 0), np.int64)), op.Concat(count, op.const([0]), axis=0))
    return op.Transpose(op.NonZero(op.cast(x, ir.DataType.BOOL)), perm=[1, 0])


@aten.lower(
    "aten::nonzero_static",
    cases=[
        case(lambda x: torch.nonzero_static(x, size=4), i64(3, 3, low=0, high=2)),
        case(lambda x: torch.nonzero_static(x, size=9, fill_value=-7), i64(3, 2, low=0, high=2)),
        case(lambda x: torch.nonzero_static(x, size=x.shape[0]), i64(3, 2, low=0, high=2), dynamic=True),
    ],
)
def nonzero_static(op: OpBuilder, x: ir.Value, *, size: int | ir.Value, fill_value: int = -1) -> ir.Value:
    """NonZero, filled up and cut to a size."""
    count = op.shape_vector([size])
    if not rank(x):
        return op.Expand(op.const(np.zeros((1, 0), np.int64)), op.shape_vector([size, 0]))
    result = op.Transpose(op.NonZero(op.cast(x, ir.DataType.BOOL)), perm=[1, 0])
    spare = op.Expand(op.const(fill_value), op.shape_vector([size, rank(x)]))
    return op.Slice(op.Concat(result, spare, axis=0), [0], count, [0])


@aten.lower(
    "aten::nonzero_numpy",
    "aten::where.default",
    cases=[case(lambda x: torch.where(x > 0), f32(3, 4)), case(lambda x: torch.where(x), f32())],
)
def nonzero_numpy(op: OpBuilder, x: ir.Value) -> tuple[ir.Value, ...]:
    """NonZero, a vector an axis."""
    x = x if rank(x) else op.Reshape(x, [1])
    return tuple(_rows(op, op.NonZero(op.cast(x, ir.DataType.BOOL)), max(rank(x), 1)))


def _rows(op: OpBuilder, table: ir.Value, count: int) -> list[ir.Value]:
    return [op.Gather(table, row, axis=0) for row in range(count)]


@aten.lower(
    "aten::masked_select",
    cases=[
        case(lambda x: x.masked_select(x > 0), f32(3, 4)),
        case(lambda x, m: x.masked_select(m > 0), f32(3, 4), f32(4)),
    ],
)
def masked_select(op: OpBuilder, x: ir.Value, mask: ir.Value) -> ir.Value:
    """Compress of the flattened tensor, after both are broadcast."""
    if x.shape is None or mask.shape is None or list(x.shape) != list(mask.shape):
        both = op.Expand(x, op.shape(mask))
        mask = op.Expand(mask, op.shape(both))
        x = both
    return op.Compress(op.Reshape(x, [-1]), op.Reshape(mask, [-1]), axis=0)


@aten.lower("aten::one_hot", cases=[case(lambda i: F.one_hot(i, 5), i64(2, 3, low=0, high=5), dynamic=True)])
def one_hot(op: OpBuilder, x: ir.Value, num_classes: Size = -1) -> ir.Value:
    """Equality with each class."""
    if not isinstance(num_classes, ir.Value) and num_classes < 0:
        num_classes = op.Add(op.reduce("ReduceMax", x, list(range(rank(x))), keepdims=False), 1)
    classes = op.Range(0, num_classes, 1)
    return op.cast(op.Equal(op.Unsqueeze(x, op.axes(-1)), classes), ir.DataType.INT64)


@dataclass(frozen=True)
class Selection:
    """Advanced indexing as operands for GatherND and ScatterND.

    Attributes:
        indices: INT64, a tuple of positions along the last axis.
        order: axes of the operand, the indexed ones first.
        count: how many axes are indexed.
        rank: rank of the broadcast index tensors.
        place: where the index axes stand in the result; None for in front.
    """

    indices: ir.Value
    order: list[int]
    count: int
    rank: int
    place: int

    def gathered_order(self, total: int) -> list[int]:
        """What turns [indices, rest] into the order of torch's result."""
        front, rest = list(range(self.rank)), list(range(self.rank, total))
        return [*rest[: self.place], *front, *rest[self.place :]]


def _selection(op: OpBuilder, x: ir.Value, indices: Sequence[ir.Value | None]) -> Selection:
    vectors: list[tuple[int, ir.Value]] = []
    axis = 0
    for item in indices:
        if item is None:
            axis += 1
        elif item.dtype in (ir.DataType.BOOL, ir.DataType.UINT8):
            count = rank(item)
            if count == 0:
                raise UnsupportedOperator("indexing with a mask that has no dimension")
            rows = _rows(op, op.NonZero(op.cast(item, ir.DataType.BOOL)), count)
            vectors.extend((axis + i, row) for i, row in enumerate(rows))
            axis += count
        else:
            vectors.append((axis, op.cast(item, ir.DataType.INT64)))
            axis += 1
    axes = [at for at, _ in vectors]
    result = _broadcast(op, [vector for _, vector in vectors])
    stacked = [op.Unsqueeze(item, op.axes(-1)) for item in result]
    adjacent = axes == list(range(axes[0], axes[0] + len(axes))) and not _split_by_none(indices)
    others = [i for i in range(rank(x)) if i not in axes]
    return Selection(
        stacked[0] if len(stacked) == 1 else op.Concat(*stacked, axis=-1),
        [*axes, *others],
        len(axes),
        rank(result[0]),
        axes[0] if adjacent else 0,
    )


def _split_by_none(indices: Sequence[ir.Value | None]) -> bool:
    given = [i for i, item in enumerate(indices) if item is not None]
    return given != list(range(given[0], given[-1] + 1))


def _broadcast(op: OpBuilder, items: list[ir.Value]) -> list[ir.Value]:
    """INT64 tensors expanded to their common shape."""
    if len(items) == 1 or all(_same_shape(item, items[0]) for item in items):
        return items
    total = items[0]
    for item in items[1:]:
        total = op.Add(total, item)
    shape = op.shape(total)
    return [item if _same_shape(item, total) else op.Expand(item, shape) for item in items]


def _same_shape(a: ir.Value, b: ir.Value) -> bool:
    return (
        a.shape is not None
        and b.shape is not None
        and list(a.shape) == list(b.shape)
        and None not in [getattr(dim, "value", dim) for dim in a.shape]
    )


def _is_mask(item: ir.Value | None) -> bool:
    return item is not None and item.dtype in (ir.DataType.BOOL, ir.DataType.UINT8)


@aten.lower(
    "aten::index.Tensor",
    "aten::_unsafe_index.Tensor",
    cases=[
        case(lambda x, i: x[i], f32(4, 3), i64(2, 2, low=-4, high=4)),
        case(lambda x, i: x[:, i], f32(4, 3), i64(2, low=0, high=3), dynamic=False),
        case(lambda x, i, j: x[i, j], f32(4, 3, 2), i64(2, low=0, high=4), i64(2, low=0, high=3)),
        case(lambda x, i, j: x[:, i, :, j], f32(2, 3, 4, 5), i64(2, low=0, high=3), i64(2, low=0, high=5)),
        case(lambda x, i, j: x[:, i, j], f32(2, 3, 4, 5), i64(2, 1, low=0, high=3), i64(6, low=0, high=4)),
        case(lambda x: x[x > 0], f32(4, 3)),
        case(lambda x, m: x[:, m > 0], f32(4, 3, 2), f32(3)),
        case(lambda x, m, i: x[m > 0, :, i], f32(4, 3, 2), f32(4), np.array([1])),
        case(lambda x, m: x[m > 0], f32(4, 3, 2), f32(4, 3)),
        case(lambda x, i: x[i, None, :, -1], f32(4, 3, 2), i64(5, low=0, high=4)),
    ],
)
def index(op: OpBuilder, x: ir.Value, indices: Sequence[ir.Value | None]) -> ir.Value:
    """Gather for one index tensor; GatherND for several, or for the places where a mask is true."""
    given = [(axis, item) for axis, item in enumerate(indices) if item is not None]
    if not given:
        return x
    if len(given) == 1 and not _is_mask(given[0][1]):
        return op.Gather(x, given[0][1], axis=given[0][0])
    if len(given) == 1 and rank(given[0][1]) == 1:
        return op.Compress(x, op.cast(given[0][1], ir.DataType.BOOL), axis=given[0][0])
    chosen = _selection(op, x, indices)
    result = op.GatherND(permuted(op, x, chosen.order), chosen.indices)
    return permuted(op, result, chosen.gathered_order(chosen.rank + rank(x) - chosen.count))


@aten.lower(
    "aten::index_put",
    "aten::_unsafe_index_put",
    cases=[
        case(lambda x, i, v: x.index_put((i,), v), f32(4, 3), np.array([2, 0]), f32(2, 3)),
        case(
            lambda x, i, v: x.index_put((i,), v, accumulate=True), f32(4, 3), np.array([2, 0, 2]), f32(3), min_opset=16
        ),
        case(lambda x, v: x.index_put((x > 0,), v), f32(4, 3), np.array(7.0, np.float32)),
        case(lambda x, m, v: x.index_put((m > 0,), v), f32(4, 3), f32(4), f32(3)),
        case(lambda x, v: x.index_put((x > -9,), v), f32(4, 3), f32(12)),
        case(
            lambda x, v: x.index_put((x[:, 0] > -9, torch.tensor([1])), v, accumulate=True),
            f32(4, 3),
            f32(4),
            min_opset=16,
        ),
        case(lambda x, i, v: torch.ops.aten.index_put(x, [None, i], v), f32(4, 3, 2), np.array([2, 0]), f32(4, 2, 2)),
        case(lambda x, i, v: torch.ops.aten.index_put(x, [i, None, i], v), f32(4, 3, 4), np.array([2, 0]), f32(2, 3)),
    ],
)
def index_put(
    op: OpBuilder,
    x: ir.Value,
    indices: Sequence[ir.Value | None],
    values: ir.Value,
    accumulate: bool = False,
    unsafe: bool = False,
) -> ir.Value:
    """Where for one mask and one number; else scattered, adding up on request (opset 16)."""
    given = [item for item in indices if item is not None]
    if not given:
        return op.Add(x, op.Expand(values, op.shape(x))) if accumulate else op.Expand(values, op.shape(x))
    first = indices[0]
    if len(given) == 1 and first is not None and _is_mask(first) and _is_single(values) and not accumulate:
        mask = op.cast(first, ir.DataType.BOOL)
        missing = rank(x) - rank(mask)
        if missing:
            mask = op.Unsqueeze(mask, op.axes(*range(rank(mask), rank(x))))
        return op.Where(mask, op.Reshape(values, np.zeros(0, np.int64)), x)
    chosen = _selection(op, x, indices)
    front = permuted(op, x, chosen.order)
    updates = _as_updates(op, front, values, chosen, rank(x))
    result = scatter_slices(op, front, chosen.indices, updates, "add" if accumulate else None)
    return permuted(op, result, [chosen.order.index(axis) for axis in range(rank(x))])


def _is_single(values: ir.Value) -> bool:
    return values.shape is not None and all(size == 1 for size in values.shape)


def _as_updates(op: OpBuilder, front: ir.Value, values: ir.Value, chosen: Selection, total: int) -> ir.Value:
    """`values` broadcast to what torch's indexing gives, in ScatterND's order: index axes first."""
    size = chosen.rank + total - chosen.count
    picked = op.Slice(op.shape(chosen.indices), [0], [-1], [0])
    rest = op.Slice(op.shape(front), [chosen.count], [END], [0])
    places = [*_entries(op, picked, chosen.rank), *_entries(op, rest, total - chosen.count)]
    order = chosen.gathered_order(size)
    target = op.Concat(*[places[i] for i in order], axis=0) if order else op.const(np.zeros(0, np.int64))
    expanded = op.Expand(values, target)
    return permuted(op, expanded, [order.index(axis) for axis in range(size)])


def _entries(op: OpBuilder, vector: ir.Value, count: int) -> list[ir.Value]:
    return [op.Slice(vector, [i], [i + 1], [0]) for i in range(count)]


@aten.lower(
    "aten::masked_scatter",
    cases=[
        case(lambda x, s: x.masked_scatter(x > 0, s), f32(3, 4), f32(12)),
        case(lambda x, s: x.masked_scatter(x > 0, s), f32(3, 4), f32(4, 4)),
        case(torch.masked_scatter, f32(4), boolean(3, 4), f32(12)),
        case(lambda x, s: x.masked_scatter(x > 100, s), f32(3, 4), f32(0)),
        case(torch.masked_scatter, f32(3, 0), boolean(3, 0), f32(2), min_opset=14),
    ],
)
def masked_scatter(op: OpBuilder, x: ir.Value, mask: ir.Value, source: ir.Value) -> ir.Value:
    """Where the mask is true, the elements of the source in order: the number of trues so far is their position."""
    x = op.Expand(x, op.Shape(mask)) if rank(mask) > rank(x) else x
    mask = op.Expand(mask, op.shape(x))
    x = op.Expand(x, op.shape(mask))
    shape = op.shape(x)
    flat = op.Reshape(mask, [-1])
    position = op.Sub(op.CumSum(op.cast(flat, ir.DataType.INT64), op.const(0)), 1)
    # A source without elements, which no true of the mask asks for, has one to gather all the same.
    elements = op.Concat(op.Reshape(source, [-1]), op.const([0], source.dtype), axis=0)
    safe = op.Max(op.Min(position, op.Size(source)), 0)
    taken = op.Gather(elements, safe, axis=0)
    return op.Reshape(op.Where(flat, taken, op.Reshape(x, [-1])), shape, allowzero=1 if op.opset >= 14 else None)


@aten.lower(
    "aten::unfold",
    cases=[case(lambda x: x.unfold(1, 3, 2), f32(2, 7), dynamic=True), case(lambda x: x.unfold(0, 2, 1), f32(5, 2))],
)
def unfold(op: OpBuilder, x: ir.Value, dimension: int, size: int, step: int) -> ir.Value:
    """Gather of windows; their elements become the last axis."""
    count = rank(x)
    dim = dimension % count if count else 0
    if not count:
        return op.Reshape(x, [1])
    return permuted(op, windowed(op, x, dim, size, step), [*range(dim + 1), *range(dim + 2, count + 1), dim + 1])


def number_like(op: OpBuilder, value: Operand, x: ir.Value) -> ir.Value:
    """A number in the type of `x`, its fraction cut off where that has none."""
    if x.dtype is None:
        raise UnsupportedOperator("an operand of unknown type")
    if isinstance(value, float) and x.dtype.is_integer():
        value = int(value)
    return to_dtype(op, value, x.dtype)
