"""Isotonic regression, and distances of sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, f64, i32
from onnxport.opset_maps.lowerings import isotonic
from onnxport.opset_maps.lowerings.axes import positions
from onnxport.opset_maps.lowerings.groups import numbers
from onnxport.opset_maps.lowerings.loops import loop
from onnxport.opset_maps.lowerings.scatter import scatter_slices
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import rank

_INT64, _FLOAT = ir.DataType.INT64, ir.DataType.FLOAT


@tensorflow.lower(
    "IsotonicRegression",
    cases=[
        case(lambda x: tf.nn.isotonic_regression(x), f32(3, 6)),
        case(lambda x: tf.nn.isotonic_regression(x, decreasing=False), f64(2, 2, 7)),
        case(lambda x: tf.nn.isotonic_regression(x), i32(3, 9, low=-3, high=3)),
        case(lambda x: tf.nn.isotonic_regression(x), np.array([[1, 1, 3, 3, 2, 2, 2, 5]], np.float32)),
    ],
)
def isotonic_regression(
    op: OpBuilder, input: ir.Value, *, output_dtype: ir.DataType = _FLOAT
) -> tuple[ir.Value, ir.Value]:
    """The nearest sequence that never rises, and the numbers of its pools, in a Loop."""
    x, n = op.cast(input, output_dtype), rank(input)
    rows = x if n == 2 else op.Reshape(x, op.Concat([-1], op.dim(x, n - 1), axis=0))
    fitted, pool = isotonic.decreasing(op, rows)
    shape = op.shape(input)
    return op.Reshape(fitted, shape), op.cast(op.Reshape(pool, shape), ir.DataType.INT32)


def _words(name: str, normalize: bool) -> Callable[[Any, Any], Any]:
    def run(x: Any, y: Any) -> Any:
        return tf.edit_distance(tf.sparse.from_dense(x), tf.sparse.from_dense(y), normalize=normalize)

    return run


_FIRST = np.array([[1, 2, 3, 4], [4, 5, 0, 0], [0, 0, 0, 0], [7, 7, 7, 0]], np.int64)
_SECOND = np.array([[1, 3, 3, 4], [4, 6, 7, 5], [1, 2, 0, 0], [0, 0, 0, 0]], np.int64)


@tensorflow.lower(
    "EditDistance",
    cases=[case(_words("", flag), _FIRST, _SECOND) for flag in (True, False)]
    + [case(_words("", False), np.stack([_FIRST, _SECOND]), np.stack([_SECOND, _SECOND]))]
    + [case(_words("", True), _FIRST[:, ::-1].copy(), _SECOND, name="behind gaps")],
)
def edit_distance(
    op: OpBuilder,
    hypothesis_indices: ir.Value,
    hypothesis_values: ir.Value,
    hypothesis_shape: ir.Value,
    truth_indices: ir.Value,
    truth_values: ir.Value,
    truth_shape: ir.Value,
    *,
    normalize: bool = True,
) -> ir.Value:
    """Levenshtein's distance of each pair of sequences, an anti-diagonal free table row by row in a Loop."""
    if hypothesis_values.dtype == ir.DataType.STRING:
        raise UnsupportedOperator("EditDistance of strings")
    n = hypothesis_indices.shape[1] if hypothesis_indices.shape is not None else None
    if not isinstance(n, int):
        raise UnsupportedOperator("EditDistance: the rank of the sparse tensors is not known")
    groups = op.Max(*(op.Slice(item, [0], [-1], [0]) for item in (hypothesis_shape, truth_shape)))
    count = op.reduce("ReduceProd", groups, [0], keepdims=True)
    first, first_lengths = _rows(op, hypothesis_indices, hypothesis_values, hypothesis_shape, groups, count, n)
    second, second_lengths = _rows(op, truth_indices, truth_values, truth_shape, groups, count, n)
    wide = op.dim(second, 1)
    columns = op.Range(0, op.Squeeze(op.Add(wide, 1), op.axes(0)), 1)
    start = op.Expand(columns, op.Concat(count, op.Add(wide, 1), axis=0))
    lengths = op.Unsqueeze(first_lengths, op.axes(1))

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        (before,) = states
        element = b.Gather(first, b.Unsqueeze(k, b.axes(0)), axis=1)
        differs = b.cast(b.Not(b.Equal(element, second)), _INT64)
        above = b.Add(before, 1)
        aside = b.Add(b.Slice(before, [0], [-1], [1]), differs)
        # Without insertions; these are a running minimum of what lies left, a step each.
        best = b.Concat(b.Slice(above, [0], [1], [1]), b.Min(aside, b.Slice(above, [1], [2**31 - 1], [1])), axis=1)
        shifted = b.Unsqueeze(b.Sub(best, columns), b.axes(1))
        far = b.Greater(b.Unsqueeze(columns, b.axes(0)), b.Unsqueeze(columns, b.axes(1)))
        reached = b.reduce("ReduceMin", b.Where(far, b.const(2**40), shifted), [2], keepdims=False)
        after = b.Add(reached, columns)
        return [b.Where(b.Less(k, lengths), after, before)]

    (table,) = loop(op, op.Squeeze(op.dim(first, 1), op.axes(0)), [start], step)
    distance = op.GatherElements(table, op.Unsqueeze(second_lengths, op.axes(1)), axis=1)
    result = op.cast(op.Squeeze(distance, op.axes(1)), _FLOAT)
    if normalize:
        length = op.cast(second_lengths, _FLOAT)
        nothing = op.Equal(length, 0.0)
        whole = op.Where(op.Equal(result, 0.0), op.const(0.0), op.const(np.inf))
        result = op.Where(nothing, whole, op.Div(result, length))
    return op.Reshape(result, groups)


def _rows(
    op: OpBuilder, indices: ir.Value, values: ir.Value, shape: ir.Value, groups: ir.Value, count: ir.Value, n: int
) -> tuple[ir.Value, ir.Value]:
    """Sequences as rows of a matrix, and their lengths; columns without an element are no part of a sequence."""
    row = numbers(op, op.Slice(indices, [0], [-1], [1]), groups, n - 1)
    longest = op.Slice(shape, [-1], [2**31 - 1], [0])
    own = op.Equal(
        op.Unsqueeze(row, op.axes(0)), op.Unsqueeze(op.Range(0, op.Squeeze(count, op.axes(0)), 1), op.axes(1))
    )
    lengths = op.reduce("ReduceSum", op.cast(own, _INT64), [1], keepdims=False)
    starts = op.CumSum(lengths, op.const(0), exclusive=1)
    place = op.Sub(positions(op, indices, 0), op.Gather(starts, row, axis=0))
    empty = op.Expand(op.const(0, values.dtype), op.Concat(count, longest, axis=0))
    at = op.Concat(op.Unsqueeze(row, op.axes(1)), op.Unsqueeze(place, op.axes(1)), axis=1)
    return scatter_slices(op, empty, at, values), lengths
