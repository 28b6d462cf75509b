"""Ragged tensors as their components: the values, and for each ragged axis where its rows end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i64
from onnxport.opset_maps.lowerings import groups
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import components, elements, int64, rank

_SPLITS = np.array([0, 2, 2, 5], np.int64)
_OUTER = np.array([0, 1, 1, 3], np.int64)
_END = np.iinfo(np.int64).max


def _ragged(x: Any) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_splits(x, _SPLITS)


def _nested(x: Any) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_nested_row_splits(x, [_OUTER, _SPLITS])


@tensorflow.lower(
    "RaggedGather",
    cases=[
        case(lambda x: components(tf.gather(_ragged(x), [2, 0, 2])), f32(5)),
        case(lambda x: components(tf.gather(_nested(x), [2, 1])), f32(5, 2)),
        case(lambda x, i: components(tf.gather(_ragged(x), i)), f32(5), i64(2, 2, low=0, high=2)),
        case(lambda x: components(tf.concat([_ragged(x), _ragged(2.0 * x)], 1)), f32(5)),
    ],
)
def ragged_gather(
    op: OpBuilder,
    params_nested_splits: list[ir.Value],
    params_dense_values: ir.Value,
    indices: ir.Value,
    *,
    OUTPUT_RAGGED_RANK: int = 0,
) -> Sequence[ir.Value]:
    """Rows one behind the other, axis by axis."""
    dtype = params_nested_splits[0].dtype or ir.DataType.INT64
    results: list[ir.Value] = []
    for axis in range(1, rank(indices)):  # the axes of the indices are rows of equal length
        width = op.dim(indices, axis)
        count = op.Squeeze(op.ReduceProd(op.Slice(op.shape(indices), [0], [axis]), keepdims=1), op.axes(0))
        results.append(op.Mul(op.Range(0, op.Add(count, 1), 1), width))
    places = op.Reshape(int64(op, indices), [-1])
    for splits in params_nested_splits:
        taken, places = groups.gathered_rows(op, int64(op, splits), places)
        results.append(taken)
    return [*(op.cast(item, dtype) for item in results), op.Gather(params_dense_values, places, axis=0)]


def _coordinates(op: OpBuilder, levels: Sequence[tuple[ir.Value, ir.Value]]) -> list[ir.Value]:
    """The place of each value along the rows and along each ragged axis; a level is its rows' ids and starts."""
    columns: list[ir.Value] = []
    place: ir.Value | None = None
    for ids, starts in reversed(levels):
        size = op.Squeeze(op.shape(ids), op.axes(0))
        own = op.Sub(op.Range(0, size, 1), op.Gather(starts, ids, axis=0))
        columns = [own if place is None else op.Gather(own, place, axis=0), *columns]
        place = ids if place is None else op.Gather(ids, place, axis=0)
    return [item for item in (place, *columns) if item is not None]


@tensorflow.lower(
    "RaggedTensorToSparse",
    cases=[
        case(lambda x: components(_ragged(x).to_sparse()), f32(5)),
        case(lambda x: components(_nested(x).to_sparse()), f32(5)),
        case(lambda x: components(_ragged(x).to_sparse()), f32(5, 2)),
    ],
)
def ragged_to_sparse(op: OpBuilder, rt_nested_splits: list[ir.Value], rt_dense_values: ir.Value) -> Sequence[ir.Value]:
    """The place of each value; the shape that holds the longest rows."""
    splits = [int64(op, item) for item in rt_nested_splits]
    levels = [(groups.row_ids(op, item), groups.starts_and_lengths(op, item)[0]) for item in splits]
    places = [op.Unsqueeze(item, op.axes(1)) for item in _coordinates(op, levels)]
    longest = [groups.greatest(op, groups.starts_and_lengths(op, item)[1]) for item in splits]
    height = op.Sub(op.shape(splits[0]), 1)
    inner = rank(rt_dense_values) - 1
    indices, sizes = op.Concat(*places, axis=1), [height, *longest]
    if inner:
        shape = op.Slice(op.shape(rt_dense_values), [1], [_END], [0])
        each = op.ReduceProd(shape, keepdims=1)
        total = op.Squeeze(op.Mul(op.dim(rt_dense_values, 0), each), op.axes(0))
        number = op.Range(0, total, 1)
        rows = op.Gather(indices, op.Div(number, each), axis=0)
        indices = op.Concat(rows, groups.places(op, op.Mod(number, each), shape, inner), axis=1)
        sizes.append(shape)
    return indices, op.Reshape(rt_dense_values, [-1]), op.Concat(*sizes, axis=0)


def _padded(width: Any, fill: Any = None) -> Any:
    return lambda x: _ragged(x).to_tensor(fill, shape=width)


def _by_row_ids(x: Any) -> Any:
    ragged = tf.RaggedTensor.from_value_rowids(x, np.array([0, 0, 2, 2, 2], np.int64), 4)
    return ragged.to_tensor(-1.0)


@tensorflow.lower(
    "RaggedTensorToTensor",
    cases=[
        case(_padded(None, -1.0), f32(5)),
        case(_padded([None, 2], ""), np.array(["a", "b", "c", "d", "e"], object)),
        case(_padded([4, 2], 3.0), f32(5)),
        case(_padded(None), f32(5, 2)),
        case(_padded(None, [1.0, 2.0]), f32(5, 2)),
        case(lambda x: _nested(x).to_tensor(-1.0), f32(5)),
        case(lambda x: _nested(x).to_tensor(shape=[None, 1, 4, 2]), f32(5, 2)),
        case(_by_row_ids, f32(5)),
    ],
    min_opset=16,
)
def ragged_to_tensor(
    op: OpBuilder,
    shape: ir.Value,
    values: ir.Value,
    default_value: ir.Value,
    row_partition_tensors: list[ir.Value],
    *,
    row_partition_types: Sequence[str],
) -> ir.Value:
    """Rows of different lengths, cut or filled up: values scattered into the default."""
    levels, lengths, height = _levels(
        op, [int64(op, item) for item in row_partition_tensors], list(row_partition_types)
    )
    count = len(levels) + 1
    wanted: list[int | None] | None = [-1] * count  # a scalar -1 asks for what the values need
    if rank(shape):
        wanted = elements(op, shape)
    if wanted is None or len(wanted) < count or None in wanted[:count]:
        raise UnsupportedOperator("RaggedTensorToTensor: sizes that are computed when the model runs have no entry")
    needed = [height, *(groups.greatest(op, item) for item in lengths)]
    sizes = [
        need if want is None or want == -1 else op.const([want]) for want, need in zip(wanted, needed, strict=False)
    ]
    where = _coordinates(op, levels)
    kept = op.Less(where[0], sizes[0])
    for place, size in zip(where[1:], sizes[1:], strict=True):
        kept = op.And(kept, op.Less(place, size))
    indices = op.Compress(op.Concat(*(op.Unsqueeze(item, op.axes(1)) for item in where), axis=1), kept, axis=0)
    inner = [op.Slice(op.shape(values), [1], [_END], [0])] if rank(values) > 1 else []
    blank = op.Expand(default_value, op.Concat(*sizes, *inner, axis=0))
    return op.ScatterND(blank, indices, op.Compress(values, kept, axis=0))


def _levels(
    op: OpBuilder, tensors: list[ir.Value], kinds: list[str]
) -> tuple[list[tuple[ir.Value, ir.Value]], list[ir.Value], ir.Value]:
    """Of each ragged axis the row of each element and where the rows start; the rows' lengths; the number of outer rows."""
    if set(kinds) == {"ROW_SPLITS"}:
        both = [groups.starts_and_lengths(op, splits) for splits in tensors]
        levels = [(groups.row_ids(op, item), start) for item, (start, _) in zip(tensors, both, strict=True)]
        return levels, [length for _, length in both], op.Sub(op.shape(tensors[0]), 1)
    if kinds[:1] != ["FIRST_DIM_SIZE"] or set(kinds[1:]) != {"VALUE_ROWIDS"}:
        raise UnsupportedOperator(f"RaggedTensorToTensor: partitions {kinds} have no entry")
    height = total = op.Reshape(tensors[0], [1])
    levels, lengths = [], []
    for ids in tensors[1:]:
        length = groups.combined(op, op.Expand(op.const(1), op.shape(ids)), ids, total, "add", 0)
        levels.append((ids, op.CumSum(length, 0, exclusive=1)))
        lengths.append(length)
        total = op.shape(ids)
    return levels, lengths, height
