"""Elements that belong together by their places: sparse tensors, rows of different lengths, sets.

A place of a sparse tensor is one number, its position in row-major order; elements of one row have one number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.order import distinct
from onnxport.opset_maps.lowerings.scatter import Reduction, scatter_elements
from onnxport.opset_maps.lowerings.search import insertion

_INT64 = ir.DataType.INT64
_END = np.iinfo(np.int64).max


def strides(op: OpBuilder, shape: ir.Value, rank: int) -> list[ir.Value]:
    """How many elements lie between neighbours along each axis of a tensor of `shape`, INT64 vectors of one element."""
    result = [op.const([1])]
    for axis in range(rank - 1, 0, -1):
        result.insert(0, op.Mul(result[0], op.Slice(shape, [axis], [axis + 1], [0])))
    return result[:rank]


def numbers(op: OpBuilder, indices: ir.Value, shape: ir.Value, rank: int) -> ir.Value:
    """The number of each place [n, rank] in row-major order; 0 for places without axes."""
    if not rank:
        return op.Expand(op.const(0), op.dim(indices, 0))
    return op.reduce("ReduceSum", op.Mul(indices, op.Concat(*strides(op, shape, rank), axis=0)), [1], keepdims=False)


def places(op: OpBuilder, numbered: ir.Value, shape: ir.Value, rank: int) -> ir.Value:
    """The places [n, rank] of numbers [n]."""
    step = op.Concat(*strides(op, shape, rank), axis=0)
    return op.Mod(op.Div(op.Unsqueeze(numbered, op.axes(1)), step), op.Max(shape, op.const(1)))


def ascending(op: OpBuilder, keys: ir.Value) -> ir.Value:
    """The order that sorts distinct INT64 keys."""
    return op.TopK(keys, op.shape(keys), axis=0, largest=0, sorted=1)[1]


def combined(
    op: OpBuilder, values: ir.Value, group: ir.Value, count: ir.Value, reduction: Reduction, start: float
) -> ir.Value:
    """Values [n] combined by group [n], for `count` (an INT64 vector of one element) groups."""
    return scatter_elements(op, op.Expand(op.const(start, values.dtype), count), group, values, 0, reduction)


def ranks_within(op: OpBuilder, group: ir.Value) -> ir.Value:
    """The position of each element among those of its group, where equal groups [n] stand side by side."""
    size = op.shape(group)
    here = op.Range(0, op.Squeeze(size, op.axes(0)), 1)
    before = op.Concat(op.const([-1]), op.Slice(group, [0], [-1], [0]), axis=0)
    new = op.Not(op.Equal(group, op.Slice(before, [0], size, [0])))
    first = op.Compress(here, new, axis=0)
    return op.Sub(here, op.Gather(first, op.Sub(op.CumSum(op.cast(new, _INT64), 0), 1), axis=0))


def greatest(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The greatest element of an INT64 vector, or 0, as a vector of one element."""
    return op.reduce("ReduceMax", op.Concat(x, op.const([0]), axis=0), [0], keepdims=True)


def row_ids(op: OpBuilder, splits: ir.Value) -> ir.Value:
    """The row of each element of rows that end where `splits` [rows + 1] says."""
    total = op.Squeeze(op.Slice(splits, [-1], [_END], [0]), op.axes(0))
    return insertion(op, op.Slice(splits, [1], [_END], [0]), op.Range(0, total, 1), right=True, dtype=_INT64)


def starts_and_lengths(op: OpBuilder, splits: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where rows begin, and how long they are."""
    starts = op.Slice(splits, [0], [-1], [0])
    return starts, op.Sub(op.Slice(splits, [1], [_END], [0]), starts)


def splits_of(op: OpBuilder, lengths: ir.Value) -> ir.Value:
    """0 and the ends of rows of these lengths."""
    return op.Concat(op.const([0]), op.CumSum(lengths, 0), axis=0)


def gathered_rows(op: OpBuilder, splits: ir.Value, rows: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Some rows one behind the other: their splits, and the places of their elements."""
    starts, lengths = (op.Gather(item, rows, axis=0) for item in starts_and_lengths(op, splits))
    taken = splits_of(op, lengths)
    owner = row_ids(op, taken)
    first = op.Sub(op.Gather(starts, owner, axis=0), op.Gather(taken, owner, axis=0))
    total = op.Squeeze(op.Slice(taken, [-1], [_END], [0]), op.axes(0))
    return taken, op.Add(first, op.Range(0, total, 1))


def with_empty_rows(op: OpBuilder, rows: ir.Value, count: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
    """One more element for each row without any.

    Args:
        op: the builder.
        rows: the row of each element, [n].
        count: how many rows there are, an INT64 vector of one element.

    Returns:
        The rows that have none; whether each row is such; of all n + m elements (the new ones last) the order by rows; where each
        of the n elements goes.
    """
    size = op.shape(rows)
    ones = op.Expand(op.const(1), size)
    empty = op.Equal(combined(op, ones, rows, count, "add", 0), 0)
    added = op.Reshape(op.NonZero(empty), [-1])
    every = op.Concat(rows, added, axis=0)
    total = op.shape(every)
    position = op.Range(0, op.Squeeze(total, op.axes(0)), 1)
    order = ascending(op, op.Add(op.Mul(every, total), position))
    inverse = op.ScatterElements(op.Mul(position, 0), order, position, axis=0)
    return added, empty, order, op.Slice(inverse, [0], size, [0])


def ranked(op: OpBuilder, values: Sequence[ir.Value]) -> tuple[ir.Value, list[ir.Value]]:
    """The distinct elements of several vectors in order, and for each vector the places of its elements among them."""
    together = op.Concat(*values, axis=0)
    if together.dtype == ir.DataType.STRING:
        distinct_keys, _, inverse, _ = op.Unique(together, sorted=1, outputs=4)
    else:
        distinct_keys, inverse, _ = distinct(op, together)
    if len(values) == 1:
        return distinct_keys, [inverse]
    first = op.shape(values[0])
    return distinct_keys, [op.Slice(inverse, [0], first, [0]), op.Slice(inverse, first, [_END], [0])]
