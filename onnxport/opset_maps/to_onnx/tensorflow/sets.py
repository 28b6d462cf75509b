"""Sets along the last axis of dense and sparse tensors: their common and distinct elements, and their sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case
from onnxport.opset_maps.lowerings import groups
from onnxport.opset_maps.lowerings.axes import size
from onnxport.opset_maps.lowerings.order import distinct
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import components, int64, rank

_LEFT = np.array([[1, 2, 3], [4, 5, 5]], np.int32)
_RIGHT = np.array([[2, 3, 9, 9], [5, 7, 7, 0]], np.int32)
_WORDS = np.array([["b", "a", "é"], ["", "x", "x"]], object), np.array([["a", "z"], ["x", "y"]], object)
# The number of the set and the elements, one behind the other; the shape of the sets.
_Members = tuple[ir.Value, ir.Value]


def _of_dense(op: OpBuilder, x: ir.Value) -> tuple[_Members, ir.Value]:
    n = rank(x)
    if n < 2:
        raise UnsupportedOperator(f"{op.name}: sets of a tensor of {n} axes")
    width = op.dim(x, n - 1)
    flat = op.Reshape(x, [-1])
    rows = op.Div(op.Range(0, op.Squeeze(op.shape(flat), op.axes(0)), 1), width)
    return (rows, flat), op.Slice(op.shape(x), [0], [-1], [0])


def _of_sparse(op: OpBuilder, indices: ir.Value, values: ir.Value, shape: ir.Value) -> tuple[_Members, ir.Value]:
    count = indices.shape[1] if indices.shape is not None else None
    if not isinstance(count, int) or count < 2:
        raise UnsupportedOperator(f"{op.name}: a sparse tensor of unknown rank, or of one axis")
    lead = op.Slice(int64(op, shape), [0], [-1], [0])
    places = op.Slice(op.cast(indices, ir.DataType.INT64), [0], [-1], [1])
    return (groups.numbers(op, places, lead, count - 1), values), lead


def _result(
    op: OpBuilder, first: _Members, second: _Members, shape: ir.Value, count: int, operation: str
) -> Sequence[ir.Value]:
    """The elements that the operation keeps, in order within each set, as a sparse tensor."""
    values, inverse = groups.ranked(op, (first[1], second[1]))
    size = op.Max(op.shape(values), op.const([1]))
    keys = [op.Add(op.Mul(rows, size), place) for (rows, _), place in zip((first, second), inverse, strict=True)]
    distinct_keys, members = groups.ranked(op, keys)
    number = op.shape(distinct_keys)
    none = op.Expand(op.const(0), number)
    here = [
        op.cast(op.ScatterElements(none, item, op.Expand(op.const(1), op.shape(item)), axis=0), ir.DataType.BOOL)
        for item in members
    ]
    if operation == "intersection":
        kept = op.And(*here)
    elif operation == "union":
        kept = op.Or(*here)
    else:
        one, other = here if operation == "a-b" else here[::-1]
        kept = op.And(one, op.Not(other))
    key = op.Compress(distinct_keys, kept, axis=0)
    rows = op.Div(key, size)
    column = groups.ranks_within(op, rows)
    places = op.Concat(groups.places(op, rows, shape, count), op.Unsqueeze(column, op.axes(1)), axis=1)
    widest = groups.greatest(op, op.Add(column, 1))
    return places, op.Gather(values, op.Mod(key, size), axis=0), op.Concat(shape, widest, axis=0)


_CALLS = (tf.sets.intersection, tf.sets.difference, tf.sets.union)
_DENSE: list[Case] = [
    *(case(lambda x, y, call=call: components(call(x, y)), _LEFT, _RIGHT) for call in _CALLS),
    case(lambda x, y: components(tf.sets.difference(x, y, aminusb=False)), _LEFT, _RIGHT),
    case(lambda x, y: components(tf.sets.union(tf.stack([x, x]), tf.stack([y, y]))), *_WORDS),
]


@tensorflow.lower("DenseToDenseSetOperation", cases=_DENSE)
def dense_to_dense(op: OpBuilder, set1: ir.Value, set2: ir.Value, *, set_operation: str) -> Sequence[ir.Value]:
    """The elements that two dense tensors' sets have in common, or not."""
    (first, shape), (second, _) = _of_dense(op, set1), _of_dense(op, set2)
    return _result(op, first, second, shape, rank(set1) - 1, set_operation)


@tensorflow.lower(
    "DenseToSparseSetOperation",
    cases=[
        case(lambda x, y, call=call: components(call(x, tf.sparse.from_dense(y))), _LEFT, _RIGHT) for call in _CALLS
    ],
)
def dense_to_sparse(
    op: OpBuilder,
    set1: ir.Value,
    set2_indices: ir.Value,
    set2_values: ir.Value,
    set2_shape: ir.Value,
    *,
    set_operation: str,
) -> Sequence[ir.Value]:
    """The elements that a dense and a sparse tensor's sets have in common, or not."""
    first, shape = _of_dense(op, set1)
    second, _ = _of_sparse(op, set2_indices, set2_values, set2_shape)
    return _result(op, first, second, shape, rank(set1) - 1, set_operation)


@tensorflow.lower(
    "SparseToSparseSetOperation",
    cases=[
        case(lambda x, y, call=call: components(call(tf.sparse.from_dense(x), tf.sparse.from_dense(y))), _LEFT, _RIGHT)
        for call in _CALLS
    ],
)
def sparse_to_sparse(
    op: OpBuilder,
    set1_indices: ir.Value,
    set1_values: ir.Value,
    set1_shape: ir.Value,
    set2_indices: ir.Value,
    set2_values: ir.Value,
    set2_shape: ir.Value,
    *,
    set_operation: str,
) -> Sequence[ir.Value]:
    """The elements that two sparse tensors' sets have in common, or not."""
    first, shape = _of_sparse(op, set1_indices, set1_values, set1_shape)
    second, _ = _of_sparse(op, set2_indices, set2_values, set2_shape)
    count = set1_indices.shape[1] if set1_indices.shape is not None else 0
    return _result(op, first, second, shape, int(count) - 1, set_operation)  # type: ignore[arg-type]


@tensorflow.lower(
    "SetSize",
    cases=[
        case(lambda x: tf.sets.size(tf.sparse.from_dense(x)), np.array([[1, 2, 2], [0, 0, 0], [5, 0, 5]], np.int32))
    ],
    min_opset=16,
)
def set_size(op: OpBuilder, set_indices: ir.Value, set_values: ir.Value, set_shape: ir.Value) -> ir.Value:
    """How many distinct elements each set has."""
    (rows, values), shape = _of_sparse(op, set_indices, set_values, set_shape)
    distinct_keys, (place,) = groups.ranked(op, (values,))
    size = op.Max(op.shape(distinct_keys), op.const([1]))
    keys, _, _ = distinct(op, op.Add(op.Mul(rows, size), place))
    total = op.ReduceProd(shape, keepdims=1)
    ones = op.Expand(op.const(1, ir.DataType.INT32), op.shape(keys))
    return op.Reshape(groups.combined(op, ones, op.Div(keys, size), total, "add", 0), shape)


@tensorflow.lower(
    "ComputeAccidentalHits",
    cases=[
        case(
            lambda x: tf.raw_ops.ComputeAccidentalHits(
                true_classes=x, sampled_candidates=tf.constant([2, 5, 1, 4, 5], tf.int64), num_true=2
            ),
            np.array([[1, 5], [3, 2], [7, 7]], np.int64),
        )
    ],
)
def compute_accidental_hits(
    op: OpBuilder, true_classes: ir.Value, sampled_candidates: ir.Value, *, num_true: int, **_: object
) -> Sequence[ir.Value]:
    """The rows, and the places among the candidates, of true classes that were drawn; of a class drawn twice the last place."""
    count = size(op, sampled_candidates, 0)
    same = op.Equal(op.Unsqueeze(sampled_candidates, op.axes(0)), op.Unsqueeze(sampled_candidates, op.axes(1)))
    later = op.Greater(op.Unsqueeze(op.Range(0, count, 1), op.axes(0)), op.Unsqueeze(op.Range(0, count, 1), op.axes(1)))
    again = op.reduce("ReduceMax", op.cast(op.And(same, later), ir.DataType.INT64), [1], keepdims=False)
    drawn = op.Equal(op.Unsqueeze(true_classes, op.axes(2)), sampled_candidates)
    hits = op.NonZero(op.And(drawn, op.Equal(again, 0)))
    rows, places = op.Gather(hits, 0, axis=0), op.Gather(hits, 2, axis=0)
    lowest = op.const(np.finfo(np.float32).min, ir.DataType.FLOAT)
    return op.cast(rows, ir.DataType.INT32), places, op.Expand(lowest, op.shape(rows))
