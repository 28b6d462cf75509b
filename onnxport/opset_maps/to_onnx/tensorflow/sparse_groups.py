"""Sparse tensors put together, parted, filled up, reduced and counted, as their components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, f32, i32, i64
from onnxport.opset_maps.lowerings import groups
from onnxport.opset_maps.lowerings.order import distinct
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import components, int64, static_int, static_ints

_PLACES = np.array([[0, 1], [0, 3], [2, 0], [2, 2]], np.int64)
_OTHERS = np.array([[0, 1], [1, 1], [2, 0], [2, 3]], np.int64)
_END = np.iinfo(np.int64).max


def _sparse(values: Any, places: np.ndarray = _PLACES, shape: Sequence[int] = (3, 4)) -> tf.SparseTensor:
    return tf.SparseTensor(places, values, list(shape))


def _rank(indices: ir.Value) -> int:
    size = indices.shape[1] if indices.shape is not None and indices.shape.rank() == 2 else None
    if not isinstance(size, int):
        raise UnsupportedOperator("a sparse tensor of unknown rank")
    return size


def _united(
    op: OpBuilder, indices: Sequence[ir.Value], shape: ir.Value
) -> tuple[ir.Value, ir.Value, list[ir.Value], ir.Value]:
    """The places that two sparse tensors have together, where each element goes among them, and how many they are."""
    rank = _rank(indices[0])
    numbered = [groups.numbers(op, op.cast(item, ir.DataType.INT64), shape, rank) for item in indices]
    distinct_keys, inverse = groups.ranked(op, numbered)
    return groups.places(op, distinct_keys, shape, rank), distinct_keys, inverse, op.shape(distinct_keys)


@tensorflow.lower(
    "SparseAdd",
    cases=[
        case(lambda x: components(tf.sparse.add(_sparse(x), _sparse(2 * x, _OTHERS))), f32(4)),
        case(lambda x: components(tf.sparse.add(_sparse(x), _sparse(-x, _OTHERS), threshold=0.5)), f32(4)),
        case(lambda x: components(tf.sparse.add(_sparse(x), _sparse(x, _OTHERS))), i32(4)),
    ],
    min_opset=16,
)
def sparse_add(
    op: OpBuilder,
    a_indices: ir.Value,
    a_values: ir.Value,
    a_shape: ir.Value,
    b_indices: ir.Value,
    b_values: ir.Value,
    b_shape: ir.Value,
    thresh: ir.Value,
) -> Sequence[ir.Value]:
    """The sums at the places of both, without those below the threshold."""
    shape = int64(op, a_shape)
    where, _, inverse, count = _united(op, (a_indices, b_indices), shape)
    every, together = op.Concat(*inverse, axis=0), op.Concat(a_values, b_values, axis=0)
    total = groups.combined(op, together, every, count, "add", 0)
    kept = op.GreaterOrEqual(op.Abs(total), thresh)
    return op.Compress(where, kept, axis=0), op.Compress(total, kept, axis=0), shape


@tensorflow.lower(
    "SparseSparseMaximum SparseSparseMinimum",
    cases=[
        case(lambda x: components(tf.sparse.maximum(_sparse(x), _sparse(2 * x, _OTHERS))), f32(4)),
        case(lambda x: components(tf.sparse.minimum(_sparse(x), _sparse(2 * x, _OTHERS))), i32(4)),
    ],
    min_opset=16,
)
def sparse_sparse_extreme(op: OpBuilder, *operands: ir.Value) -> Sequence[ir.Value]:
    """The extremes at the places of both; what is not there counts as 0."""
    where, _, inverse, count = _united(op, operands[::3], int64(op, operands[2]))
    filled = [
        groups.combined(op, values, group, count, "add", 0)
        for values, group in zip(operands[1::3], inverse, strict=True)
    ]
    return where, op.node("Max" if op.name == "SparseSparseMaximum" else "Min", *filled)


@tensorflow.lower(
    "SparseConcat",
    cases=[
        case(lambda x: components(tf.sparse.concat(1, [_sparse(x), _sparse(2 * x, _OTHERS)])), f32(4)),
        case(lambda x: components(tf.sparse.concat(0, [_sparse(x), _sparse(2 * x, _OTHERS)])), f32(4)),
        case(
            lambda x: components(
                tf.sparse.concat(-1, [_sparse(x), _sparse(x, shape=(5, 4))], expand_nonconcat_dims=True)
            ),
            i32(4),
        ),
    ],
)
def sparse_concat(
    op: OpBuilder, indices: list[ir.Value], values: list[ir.Value], shapes: list[ir.Value], *, concat_dim: int
) -> Sequence[ir.Value]:
    """The places of each moved behind those before, in row-major order."""
    rank = _rank(indices[0])
    axis = concat_dim % rank
    pick = op.const((np.arange(rank) == axis).astype(np.int64))
    sizes = [int64(op, shape) for shape in shapes]
    moved, shift = [], op.const(np.zeros(rank, np.int64))
    for places, shape in zip(indices, sizes, strict=True):
        moved.append(op.Add(op.cast(places, ir.DataType.INT64), shift))
        shift = op.Add(shift, op.Mul(shape, pick))
    result = op.Add(op.Mul(sizes[0], op.const((np.arange(rank) != axis).astype(np.int64))), shift)
    places = op.Concat(*moved, axis=0)
    order = groups.ascending(op, groups.numbers(op, places, result, rank))
    return op.Gather(places, order, axis=0), op.Gather(op.Concat(*values, axis=0), order, axis=0), result


@tensorflow.lower(
    "SparseSplit",
    cases=[
        case(lambda x: components(tf.sparse.split(_sparse(x), num_split=2, axis=1)), f32(4)),
        case(lambda x: components(tf.sparse.split(_sparse(x, shape=(3, 5)), num_split=3, axis=1)), f32(4)),
    ],
)
def sparse_split(
    op: OpBuilder, split_dim: ir.Value, indices: ir.Value, values: ir.Value, shape: ir.Value, *, num_split: int
) -> list[ir.Value]:
    """Parts of nearly equal size, the larger ones first."""
    rank = _rank(indices)
    axis = static_int(op, split_dim, "split_dim") % rank
    indices, shape = op.cast(indices, ir.DataType.INT64), int64(op, shape)
    pick = op.const((np.arange(rank) == axis).astype(np.int64))
    whole = op.Slice(shape, [axis], [axis + 1], [0])
    size, more = op.Div(whole, num_split), op.Mod(whole, num_split)
    place, start = op.Gather(indices, axis, axis=1), op.const([0])
    results: tuple[list[ir.Value], list[ir.Value], list[ir.Value]] = ([], [], [])
    for part in range(num_split):
        length = op.Add(size, op.cast(op.Greater(more, part), ir.DataType.INT64))
        end = op.Add(start, length)
        kept = op.And(op.GreaterOrEqual(place, start), op.Less(place, end))
        results[0].append(op.Sub(op.Compress(indices, kept, axis=0), op.Mul(pick, start)))
        results[1].append(op.Compress(values, kept, axis=0))
        results[2].append(op.Add(shape, op.Mul(pick, op.Sub(length, whole))))
        start = end
    return [*results[0], *results[1], *results[2]]


@tensorflow.lower(
    "SparseFillEmptyRows",
    cases=[
        case(lambda x: components(tf.sparse.fill_empty_rows(_sparse(x), -1.0)), f32(4)),
        case(
            lambda x: tf.raw_ops.SparseFillEmptyRows(
                indices=_PLACES[::-1], values=x, dense_shape=[4, 4], default_value=7
            ),
            i32(4),
        ),
    ],
    min_opset=16,
)
def sparse_fill_empty_rows(
    op: OpBuilder, indices: ir.Value, values: ir.Value, dense_shape: ir.Value, default_value: ir.Value
) -> Sequence[ir.Value]:
    """An element in the first column of each row without one."""
    rank = _rank(indices)
    indices = op.cast(indices, ir.DataType.INT64)
    height = op.Slice(int64(op, dense_shape), [0], [1], [0])
    added, empty, order, inverse = groups.with_empty_rows(op, op.Gather(indices, 0, axis=1), height)
    column = op.Unsqueeze(added, op.axes(1))
    fresh = op.Pad(column, op.const([0, 0, 0, rank - 1])) if rank > 1 else column
    filled = op.Concat(values, op.Expand(default_value, op.shape(added)), axis=0)
    places = op.Gather(op.Concat(indices, fresh, axis=0), order, axis=0)
    return places, op.Gather(filled, order, axis=0), empty, inverse


def _ragged_filled(x: Any) -> Any:
    rows = np.array([0, 0, 2, 2, 3], np.int64)
    return tf.raw_ops.RaggedFillEmptyRows(
        value_rowids=rows, values=x, nrows=tf.constant(5, tf.int64), default_value=9.0
    )


@tensorflow.lower("RaggedFillEmptyRows", cases=[case(_ragged_filled, f32(5))], min_opset=16)
def ragged_fill_empty_rows(
    op: OpBuilder, value_rowids: ir.Value, values: ir.Value, nrows: ir.Value, default_value: ir.Value
) -> Sequence[ir.Value]:
    """An element for each row without one."""
    rows = int64(op, value_rowids)
    added, empty, order, inverse = groups.with_empty_rows(op, rows, op.Reshape(int64(op, nrows), [1]))
    filled = op.Concat(values, op.Expand(default_value, op.shape(added)), axis=0)
    return op.Gather(op.Concat(rows, added, axis=0), order, axis=0), op.Gather(filled, order, axis=0), empty, inverse


def _filled_gradient(name: str) -> Case:
    order = np.array([0, 2, 3], np.int64)
    return case(lambda x: getattr(tf.raw_ops, name)(reverse_index_map=order, grad_values=x), f32(5))


@tensorflow.lower(
    "SparseFillEmptyRowsGrad RaggedFillEmptyRowsGrad",
    cases=[_filled_gradient("SparseFillEmptyRowsGrad"), _filled_gradient("RaggedFillEmptyRowsGrad")],
)
def fill_empty_rows_grad(
    op: OpBuilder, reverse_index_map: ir.Value, grad_values: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """The gradients of the elements, and the sum of those of the fillings."""
    taken = op.Gather(grad_values, reverse_index_map, axis=0)
    rest = op.ScatterElements(grad_values, reverse_index_map, op.Mul(taken, op.const(0, taken.dtype)), axis=0)
    return taken, op.reduce("ReduceSum", rest, [0], keepdims=False)


# -- reductions --------------------------------------------------------------------------------------------------------


def reduction_operands(
    op: OpBuilder, indices: ir.Value, values: ir.Value, shape: ir.Value, axes: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value, int, list[int]]:
    """The components of the sparse tensor that a reduction takes, its rank and the axes: all of them where none is named."""
    rank = _rank(indices)
    return indices, values, shape, rank, [axis % rank for axis in static_ints(op, axes, "axes")] or list(range(rank))


def by_groups(
    op: OpBuilder, indices: ir.Value, values: ir.Value, shape: ir.Value, axes: Sequence[int], *, largest: bool
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The groups that have elements, by their numbers in the tensor without `axes`; their results; the shape that is left."""
    rank = _rank(indices)
    left = [axis for axis in range(rank) if axis not in axes]
    sizes = op.Gather(shape, op.const(np.array(left, np.int64)), axis=0)
    rest = op.Gather(op.cast(indices, ir.DataType.INT64), op.const(np.array(left, np.int64)), axis=1)
    distinct_keys, inverse, _ = distinct(op, groups.numbers(op, rest, sizes, len(left)))
    dtype = values.dtype or ir.DataType.FLOAT
    start = 0 if not largest else -np.inf if dtype.is_floating_point() else int(dtype.min)
    return (
        distinct_keys,
        groups.combined(op, values, inverse, op.shape(distinct_keys), "max" if largest else "add", start),
        sizes,
    )


@tensorflow.lower(
    "SparseReduceMaxSparse SparseReduceSumSparse",
    cases=[
        case(lambda x: components(tf.sparse.reduce_max(_sparse(x), 1, output_is_sparse=True)), f32(4)),
        case(lambda x: components(tf.sparse.reduce_sum(_sparse(x), 0, output_is_sparse=True)), f32(4)),
        case(lambda x: components(tf.sparse.reduce_sum(_sparse(x), 0, keepdims=True, output_is_sparse=True)), f32(4)),
    ],
    min_opset=18,
)
def sparse_reduce_sparse(op: OpBuilder, *operands: ir.Value, keep_dims: bool = False) -> Sequence[ir.Value]:
    """The results of the groups that have elements."""
    input_indices, input_values, input_shape, rank, axes = reduction_operands(op, *operands)
    shape = int64(op, input_shape)
    if len(axes) == rank:
        raise UnsupportedOperator(f"{op.name} over all axes")
    distinct_keys, result, sizes = by_groups(
        op, input_indices, input_values, shape, axes, largest=op.name == "SparseReduceMaxSparse"
    )
    places = groups.places(op, distinct_keys, sizes, rank - len(axes))
    if not keep_dims:
        return places, result, sizes
    left = [axis for axis in range(rank) if axis not in axes]
    back = op.const(np.array([left.index(axis) if axis in left else len(left) for axis in range(rank)], np.int64))
    wide = op.Gather(op.Pad(places, op.const([0, 0, 0, 1])), back, axis=1)
    return wide, result, op.Gather(op.Concat(sizes, op.const([1]), axis=0), back, axis=0)


# -- counts ------------------------------------------------------------------------------------------------------------


def _ragged_counts(x: Any) -> list[tf.Tensor]:
    return components(
        tf.sparse.bincount(tf.RaggedTensor.from_row_splits(x, tf.constant([0, 2, 2, 5], tf.int64)), axis=-1)
    )


@tensorflow.lower(
    "DenseCountSparseOutput SparseCountSparseOutput RaggedCountSparseOutput",
    cases=[
        case(lambda x: components(tf.sparse.bincount(x, axis=-1, minlength=8)), i64(2, 5, low=0, high=6)),
        case(lambda x: components(tf.sparse.bincount(x, axis=-1, maxlength=4)), i64(2, 5, low=0, high=6)),
        case(lambda x: components(tf.sparse.bincount(x, axis=-1, binary_output=True)), i64(5, low=0, high=6)),
        case(lambda x, w: components(tf.sparse.bincount(x, weights=w, axis=-1)), i64(2, 5, low=0, high=6), f32(2, 5)),
        case(lambda x: components(tf.sparse.bincount(_sparse(x), axis=-1, minlength=8)), i64(4, low=0, high=6)),
        case(_ragged_counts, i64(5, low=0, high=6)),
    ],
    min_opset=16,
)
def sparse_output_count(
    op: OpBuilder, *operands: ir.Value, minlength: int = -1, maxlength: int = -1, binary_output: bool = False
) -> Sequence[ir.Value]:
    """The counts, or total weights, of the numbers of each row as a sparse tensor."""
    *components, weights = operands
    number, rows, height = _rows_of_numbers(op, components)
    width = op.const([maxlength])
    if maxlength <= 0:
        width = op.Max(op.Add(groups.greatest(op, number), 1), op.const([minlength]))
    inside = op.Less(number, width)
    key = number if rows is None else op.Add(op.Mul(rows, width), number)
    distinct_keys, inverse, counts = distinct(op, op.Compress(key, inside, axis=0))
    result = op.cast(counts, op.results[1].dtype if op.results[1] is not None else ir.DataType.FLOAT)
    if binary_output:
        result = op.Expand(op.const(1, result.dtype), op.shape(distinct_keys))
    elif weights.shape is None or weights.shape.rank() == 0 or weights.shape[0] != 0:
        kept = op.Compress(op.Reshape(weights, [-1]), inside, axis=0)
        result = groups.combined(op, kept, inverse, op.shape(distinct_keys), "add", 0)
    shape = width if height is None else op.Concat(height, width, axis=0)
    return groups.places(op, distinct_keys, shape, 1 if height is None else 2), result, shape


def _rows_of_numbers(
    op: OpBuilder, components: Sequence[ir.Value]
) -> tuple[ir.Value, ir.Value | None, ir.Value | None]:
    """The numbers of a dense, sparse or ragged tensor as a vector, the row of each, and how many rows; None of a vector."""
    if len(components) == 3:
        indices, values, shape = components
        if _rank(indices) == 1:
            return int64(op, values), None, None
        rows = op.Gather(op.cast(indices, ir.DataType.INT64), 0, axis=1)
        return int64(op, values), rows, op.Slice(int64(op, shape), [0], [1], [0])
    if len(components) == 2:
        splits, values = int64(op, components[0]), int64(op, components[1])
        return values, groups.row_ids(op, splits), op.Sub(op.shape(splits), 1)
    (values,) = components
    if values.shape is None or values.shape.rank() == 1:
        return int64(op, values), None, None
    height, width = op.dim(values, 0), op.dim(values, 1)
    count = op.Squeeze(op.Mul(height, width), op.axes(0))
    return int64(op, op.Reshape(values, [-1])), op.Div(op.Range(0, count, 1), width), height
