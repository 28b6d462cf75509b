"""Feature crosses: every combination of the values that rows of several columns have, as strings or as hashes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, i64
from onnxport.opset_maps.lowerings import groups, hashes
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.hashing import with_hash
from onnxport.opset_maps.to_onnx.tensorflow.operands import components, int64, static_int

_TEXT = ir.DataType.STRING
_FIRST = np.array([["a", "\u00e9"], ["b", ""], ["a", "c"]], object)
_PLACES = np.array([[0, 0], [2, 0], [2, 1]], np.int64)
_SPLITS = np.array([0, 2, 2, 3], np.int64)


@dataclass(frozen=True)
class Column:
    """The values of one column: those of all rows one behind the other, how many each row has, and where it starts."""

    values: ir.Value
    counts: ir.Value
    starts: ir.Value


def _column(op: OpBuilder, values: ir.Value, counts: ir.Value) -> Column:
    return Column(values, counts, op.CumSum(counts, op.const(np.int64(0)), exclusive=1))


def _dense(op: OpBuilder, x: ir.Value) -> Column:
    return _column(op, op.Reshape(x, [-1]), op.Expand(op.dim(x, 1), op.dim(x, 0)))


def _sparse(op: OpBuilder, indices: ir.Value, values: ir.Value, shape: ir.Value) -> Column:
    rows = op.Gather(int64(op, indices), np.int64(0), axis=1)
    ones = op.Expand(op.const(1), op.shape(rows))
    return _column(op, values, groups.combined(op, ones, rows, op.Slice(int64(op, shape), [0], [1]), "add", 0))


def _ragged(op: OpBuilder, values: ir.Value, splits: ir.Value) -> Column:
    starts, counts = groups.starts_and_lengths(op, int64(op, splits))
    return Column(values, counts, starts)


Combine = Callable[[OpBuilder, list[ir.Value]], ir.Value]


def _crossed(op: OpBuilder, columns: Sequence[Column], combine: Combine) -> tuple[ir.Value, ir.Value]:
    """Every combination of each row, the last column's values first, and how many combinations each row has."""
    total = columns[0].counts
    for column in columns[1:]:
        total = op.Mul(total, column.counts)
    splits = groups.splits_of(op, total)
    rows = groups.row_ids(op, splits)
    size = op.Squeeze(op.shape(rows), op.axes(0))
    rest = op.Sub(op.Range(0, size, 1), op.Gather(splits, rows, axis=0))
    chosen: list[ir.Value] = []
    for column in reversed(columns):
        count = op.Gather(column.counts, rows, axis=0)
        place = op.Add(op.Gather(column.starts, rows, axis=0), op.Mod(rest, count))
        chosen.insert(0, op.Gather(column.values, place, axis=0))
        rest = op.Div(rest, count)
    return combine(op, chosen), total


def _as_sparse(op: OpBuilder, values: ir.Value, counts: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    splits = groups.splits_of(op, counts)
    rows = groups.row_ids(op, splits)
    size = op.Squeeze(op.shape(rows), op.axes(0))
    within = op.Sub(op.Range(0, size, 1), op.Gather(splits, rows, axis=0))
    indices = op.Concat(op.Unsqueeze(rows, op.axes(1)), op.Unsqueeze(within, op.axes(1)), axis=1)
    return indices, values, op.Concat(op.shape(counts), groups.greatest(op, counts), axis=0)


def _hashed(op: OpBuilder, columns: Sequence[Column]) -> list[Column]:
    """The columns with a number for each value: an integer itself, a string's fingerprint."""
    return [
        Column(with_hash(op, item.values, hashes.fingerprint), item.counts, item.starts)
        if item.values.dtype == _TEXT
        else Column(int64(op, item.values), item.counts, item.starts)
        for item in columns
    ]


def _by_hash(buckets: int, key: int | None) -> Combine:
    def combine(op: OpBuilder, values: list[ir.Value]) -> ir.Value:
        if key is not None:
            values = [op.const(hashes.signed(key)), *values]
        result = values[0]
        for item in values[1:]:
            result = hashes.joined(op, result, item)
        return hashes.remainder(op, result, buckets or 2**63 - 1)

    return combine


def _by_text(separator: str) -> Combine:
    def combine(op: OpBuilder, values: list[ir.Value]) -> ir.Value:
        texts = [op.cast(item, _TEXT) for item in values]
        result = texts[0]
        for item in texts[1:]:
            result = op.StringConcat(op.StringConcat(result, op.const(np.array(separator, object))), item)
        return result

    return combine


def _with_sparse(use: Callable[..., Any], *inputs: Any) -> Case:
    def run(x: Any, y: Any) -> Any:
        return components(use([tf.SparseTensor(_PLACES, y, [3, 2]), x]))

    return case(run, *inputs, min_opset=20)


def _columns_of(op: OpBuilder, *operands: list[ir.Value]) -> list[Column]:
    """Of the indices, values and shapes of sparse operands, and of dense ones."""
    *components, dense_inputs = operands
    sparse = [_sparse(op, *item) for item in zip(*components, strict=True)]
    return [*sparse, *(_dense(op, item) for item in dense_inputs)]


@tensorflow.lower(
    "SparseCross",
    min_opset=18,
    cases=[
        case(lambda x, y: components(tf.sparse.cross_hashed([x, y], 10)), i64(3, 2), i64(3, 1)),
        case(lambda x, y: components(tf.sparse.cross_hashed([x, y])), _FIRST, i64(3, 1), min_opset=20),
        _with_sparse(lambda x: tf.sparse.cross_hashed(x, 100, hash_key=7), _FIRST, i64(3)),
    ],
)
def sparse_cross(
    op: OpBuilder,
    *operands: list[ir.Value],
    hashed_output: bool,
    num_buckets: int,
    hash_key: int,
    out_type: ir.DataType,
    internal_type: ir.DataType,
) -> Sequence[ir.Value]:
    """Combinations as strings, or as the fingerprint of their values' fingerprints modulo the buckets."""
    columns = _columns_of(op, *operands)
    if not hashed_output:
        return _as_sparse(op, *_crossed(op, columns, _by_text("_X_")))
    columns = _hashed(op, columns)
    return _as_sparse(op, *_crossed(op, columns, _by_hash(num_buckets, hash_key)))


@tensorflow.lower(
    "SparseCrossV2",
    min_opset=20,
    cases=[
        case(lambda x, y: components(tf.sparse.cross([x, y])), _FIRST, _FIRST[:, :1]),
        _with_sparse(lambda x: tf.sparse.cross(x, separator="-"), _FIRST, i64(3)),
    ],
)
def sparse_cross_text(op: OpBuilder, *operands: Any) -> Sequence[ir.Value]:
    """Combinations as strings, with a separator."""
    *components, sep = operands
    known = op.constant(sep)
    if known is None:
        raise UnsupportedOperator("SparseCrossV2: the separator is computed when the model runs")
    columns = _columns_of(op, *components)
    return _as_sparse(op, *_crossed(op, columns, _by_text(str(known.reshape(())))))


def _cross_v2(x: Any, y: Any) -> Any:
    empty: list[Any] = []
    return tf.raw_ops.SparseCrossHashed(
        indices=empty, values=empty, shapes=empty, dense_inputs=[x, y], num_buckets=50, strong_hash=False, salt=[5, 6]
    )


@tensorflow.lower("SparseCrossHashed", min_opset=20, cases=[case(_cross_v2, _FIRST, i64(3, 1))])
def sparse_cross_hashed(op: OpBuilder, *operands: Any) -> Sequence[ir.Value]:
    """Combinations as the fingerprint of their values' fingerprints modulo the buckets."""
    *components, num_buckets, strong_hash, _ = operands  # the last is the salt, of a strong hash
    strong = op.constant(strong_hash)
    if strong is None or strong.any():
        raise UnsupportedOperator("SparseCrossHashed: strong_hash=True has no entry")
    buckets = static_int(op, num_buckets, "SparseCrossHashed: the number of buckets")
    columns = _hashed(op, _columns_of(op, *components))
    return _as_sparse(op, *_crossed(op, columns, _by_hash(buckets, None)))


def _ragged_cross(use: Callable[..., Any], *inputs: Any) -> Case:
    def run(x: Any, y: Any) -> Any:
        rows = tf.RaggedTensor.from_row_splits(y, _SPLITS)
        return components(use([rows, x, tf.SparseTensor(_PLACES, y, [3, 2])]))

    return case(run, *inputs, min_opset=20)


@tensorflow.lower(
    "RaggedCross",
    min_opset=18,
    cases=[
        _ragged_cross(tf.ragged.cross, _FIRST, i64(3)),
        _ragged_cross(lambda x: tf.ragged.cross_hashed(x, 100), i64(3, 2), i64(3)),
    ],
)
def ragged_cross(
    op: OpBuilder,
    ragged_values: list[ir.Value],
    ragged_row_splits: list[ir.Value],
    sparse_indices: list[ir.Value],
    sparse_values: list[ir.Value],
    sparse_shape: list[ir.Value],
    dense_inputs: list[ir.Value],
    *,
    input_order: str,
    hashed_output: bool,
    num_buckets: int,
    hash_key: int,
    out_values_type: ir.DataType,
    out_row_splits_type: ir.DataType,
) -> Sequence[ir.Value]:
    """Combinations as strings or fingerprints, as rows of different lengths."""
    groups_of = {
        "R": iter([_ragged(op, *item) for item in zip(ragged_values, ragged_row_splits, strict=True)]),
        "S": iter(_columns_of(op, sparse_indices, sparse_values, sparse_shape, [])),
        "D": iter([_dense(op, item) for item in dense_inputs]),
    }
    columns = [next(groups_of[kind]) for kind in input_order]
    if hashed_output:
        columns = _hashed(op, columns)
    combine = _by_hash(num_buckets, hash_key) if hashed_output else _by_text("_X_")
    values, counts = _crossed(op, columns, combine)
    return values, op.cast(groups.splits_of(op, counts), out_row_splits_type)
