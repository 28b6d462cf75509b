"""Rows reduced by segment, parted and put together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, f64, i32
from onnxport.opset_maps.lowerings.reductions import is_floating
from onnxport.opset_maps.lowerings.scatter import Reduction, scatter_slices
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, rank

_SEGMENT = np.array([0, 2, 0, -1, 2], np.int32)


def segments(
    op: OpBuilder, data: ir.Value, ids: ir.Value, count: ir.Value, reduction: Reduction, initial: float
) -> ir.Value:
    """Rows of `data` reduced by segment; negative ids go to a row of their own that is cut off."""
    if rank(ids) != 1:  # several axes of ids stand for as many of the rows
        data = op.Reshape(
            data, op.Concat([-1], op.Slice(op.shape(data), [rank(ids)], [np.iinfo(np.int64).max]), axis=0)
        )
        ids = op.Reshape(ids, [-1])
    total = op.Reshape(int64(op, count), [1])
    ids = op.cast(ids, ir.DataType.INT64)
    target = op.Where(op.Less(ids, 0), total, ids)
    rest = op.Slice(op.shape(data), [1], [np.iinfo(np.int64).max])
    start = op.Expand(op.const(initial, data.dtype), op.Concat(op.Add(total, 1), rest, axis=0))
    return op.Slice(scatter_slices(op, start, op.Unsqueeze(target, [1]), data, reduction), [0], total)


def _limits(dtype: ir.DataType | None) -> tuple[float, float]:
    """Least and greatest number of a type."""
    if dtype is None:
        raise UnsupportedOperator("an operand of unknown type")
    number = float if dtype.is_floating_point() else int
    return number(dtype.min), number(dtype.max)


# By TensorFlow's name: its function, how rows are combined, the least opset and the result of an empty segment.
_SEGMENT_REDUCTIONS: dict[str, tuple[Callable[..., tf.Tensor], Reduction, int, str]] = {
    "UnsortedSegmentSum": (tf.math.unsorted_segment_sum, "add", 16, "Sums by segment."),
    "UnsortedSegmentProd": (tf.math.unsorted_segment_prod, "mul", 16, "Products by segment."),
    "UnsortedSegmentMax": (
        tf.math.unsorted_segment_max,
        "max",
        18,
        "Greatest by segment; an empty one gives the type's least number.",
    ),
    "UnsortedSegmentMin": (
        tf.math.unsorted_segment_min,
        "min",
        18,
        "Least by segment; an empty one gives the type's greatest number.",
    ),
}


def _of_nothing(reduction: Reduction, dtype: ir.DataType | None) -> float:
    """The result of a reduction of no elements."""
    if reduction in ("add", "mul"):
        return 0 if reduction == "add" else 1
    return _limits(dtype)[0 if reduction == "max" else 1]


def _register_segments(
    name: str, function: Callable[..., tf.Tensor], reduction: Reduction, least: int, summary: str
) -> None:
    @tensorflow.lower(
        name,
        min_opset=least,
        cases=[
            case(lambda x: function(x, _SEGMENT, 4), f32(5, 2)),
            case(lambda x: function(x, tf.reshape(_SEGMENT[:4], [2, 2]), 4), i32(2, 2, 3)),
        ],
    )
    def lower(op: OpBuilder, data: ir.Value, segment_ids: ir.Value, num_segments: ir.Value) -> ir.Value:
        return segments(op, data, segment_ids, num_segments, reduction, _of_nothing(reduction, data.dtype))

    lower.__doc__ = summary


for _name, _segment in _SEGMENT_REDUCTIONS.items():
    _register_segments(_name, *_segment)


def _sorted_segments(op: OpBuilder, data: ir.Value, ids: ir.Value, reduction: Reduction, initial: float) -> ir.Value:
    none = op.const([-1])  # of no ids at all
    count = op.Add(
        op.reduce("ReduceMax", op.Concat(none, op.cast(ids, ir.DataType.INT64), axis=0), [0], keepdims=True), 1
    )
    return segments(op, data, ids, count, reduction, initial)


_SORTED = np.array([0, 0, 2, 2, 3], np.int32)


def _mean(op: OpBuilder, data: ir.Value, ids: ir.Value, count: ir.Value | None, *, root: bool = False) -> ir.Value:
    """Sums by segment over their counts or (`root`) the roots of these."""
    ones = op.Expand(op.const(1, data.dtype), op.shape(data))

    def total(x: ir.Value) -> ir.Value:
        return _sorted_segments(op, x, ids, "add", 0) if count is None else segments(op, x, ids, count, "add", 0)

    counts = op.Max(total(ones), op.const(1, data.dtype))
    return op.Div(total(data), op.Sqrt(counts) if root else counts)


# By the rest of the name: how rows are combined, the least opset, and the result of a segment without rows as V1 gives it.
_SORTED_REDUCTIONS: dict[str, tuple[Reduction, int]] = {
    "Sum": ("add", 16),
    "Prod": ("mul", 16),
    "Max": ("max", 18),
    "Min": ("min", 18),
}


def _register_sorted(name: str, reduction: Reduction, least: int) -> None:
    @tensorflow.lower(
        f"Segment{name}",
        min_opset=least,
        cases=[
            case(lambda x: getattr(tf.raw_ops, f"Segment{name}")(data=x, segment_ids=_SORTED), drawn)
            for drawn in (f32(5, 2), i32(5))
        ],
    )
    def lower(op: OpBuilder, data: ir.Value, segment_ids: ir.Value) -> ir.Value:
        nothing = _of_nothing(reduction, data.dtype)
        if reduction in ("add", "mul"):
            return _sorted_segments(op, data, segment_ids, reduction, nothing)
        if is_floating(data):  # a segment of infinities only has one of them
            nothing = -np.inf if reduction == "max" else np.inf
        result = _sorted_segments(op, data, segment_ids, reduction, nothing)
        ones = op.Expand(op.const(1, ir.DataType.INT64), op.shape(data))
        rows = _sorted_segments(op, ones, segment_ids, "add", 0)
        return op.Where(op.Equal(rows, 0), op.const(0, data.dtype), result)

    lower.__doc__ = f"{name} by sorted segment; one without rows gives {1 if name == 'Prod' else 0}."


for _name, _sorted_reduction in _SORTED_REDUCTIONS.items():
    _register_sorted(_name, *_sorted_reduction)


@tensorflow.lower("SegmentMean", min_opset=16, cases=[case(lambda x: tf.math.segment_mean(x, _SORTED), f32(5, 2))])
def segment_mean(op: OpBuilder, data: ir.Value, segment_ids: ir.Value) -> ir.Value:
    """Sums by sorted segment over their counts; an empty one gives 0."""
    return _mean(op, data, segment_ids, None)


def _register_sparse(name: str, function: Callable[..., tf.Tensor]) -> None:
    rows, ids = np.array([3, 0, 3, 1, 2], np.int32), _SORTED

    @tensorflow.lower(
        f"SparseSegment{name} SparseSegment{name}WithNumSegments",
        min_opset=16,
        cases=[
            case(lambda x: function(x, rows, ids), f32(4, 2)),
            case(lambda x: function(x, rows, ids, num_segments=6), f64(4, 2)),
        ],
    )
    def lower(
        op: OpBuilder,
        data: ir.Value,
        indices: ir.Value,
        segment_ids: ir.Value,
        num_segments: ir.Value | None = None,
        *,
        sparse_gradient: bool = False,
    ) -> ir.Value:
        picked = op.Gather(data, indices, axis=0)
        if name != "Sum":
            return _mean(op, picked, segment_ids, num_segments, root=name == "SqrtN")
        if num_segments is None:
            return _sorted_segments(op, picked, segment_ids, "add", 0)
        return segments(op, picked, segment_ids, num_segments, "add", 0)

    lower.__doc__ = f"The rows at the indices, then their {name} by segment."


_register_sparse("Sum", tf.sparse.segment_sum)
_register_sparse("Mean", tf.sparse.segment_mean)
_register_sparse("SqrtN", tf.sparse.segment_sqrt_n)


@tensorflow.lower(
    "DynamicPartition",
    cases=[
        case(lambda x: tf.dynamic_partition(x, _SORTED, 4), f32(5, 2)),
        case(lambda x, p: tf.dynamic_partition(x, p, 3), f32(2, 3, 2), i32(2, 3, low=0, high=3)),
    ],
)
def dynamic_partition(
    op: OpBuilder, data: ir.Value, partitions: ir.Value, *, num_partitions: int
) -> Sequence[ir.Value]:
    """The rows of each number, by Compress."""
    if rank(partitions) != 1:
        rest = op.Slice(op.shape(data), [rank(partitions)], [np.iinfo(np.int64).max])
        data, partitions = op.Reshape(data, op.Concat([-1], rest, axis=0)), op.Reshape(partitions, [-1])
    return [op.Compress(data, op.Equal(partitions, part), axis=0) for part in range(num_partitions)]


@tensorflow.lower(
    "DynamicStitch ParallelDynamicStitch",
    cases=[
        case(lambda x, y: tf.dynamic_stitch([[0, 3], [1, 2, 4]], [x, y]), f32(2, 3), f32(3, 3)),
        case(lambda x, y: tf.dynamic_stitch([2, [[0, 1], [2, 3]]], [x, y]), f32(3), f32(2, 2, 3)),
    ],
)
def dynamic_stitch(op: OpBuilder, indices: list[ir.Value], data: list[ir.Value]) -> ir.Value:
    """Rows scattered to their indices, of which later ones win."""
    flat = [op.Reshape(int64(op, item), [-1]) for item in indices]
    size = op.Add(op.reduce("ReduceMax", op.Concat(*flat, axis=0), [0], keepdims=True), 1)
    rest = op.Slice(op.shape(data[0]), [rank(indices[0])], [np.iinfo(np.int64).max])
    result = op.Expand(op.const(0, data[0].dtype), op.Concat(size, rest, axis=0))
    for places, rows in zip(flat, data, strict=True):
        updates = op.Reshape(rows, op.Concat([-1], rest, axis=0))
        result = scatter_slices(op, result, op.Unsqueeze(places, [1]), updates)
    return result


def _spread(name: str) -> Callable[[Any], Any]:
    def run(dy: Any) -> Any:
        return getattr(tf.raw_ops, name)(grad=dy, indices=[0, 3, 1, 3], segment_ids=[0, 0, 1, 2], output_dim0=5)

    return run


_SPREADS = ("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad")


@tensorflow.lower(*_SPREADS, min_opset=16, cases=[case(_spread(name), f32(3, 2)) for name in _SPREADS])
def sparse_segment_grad(
    op: OpBuilder, grad: ir.Value, indices: ir.Value, segment_ids: ir.Value, output_dim0: ir.Value
) -> ir.Value:
    """The gradient of each segment, over its rows' number or the root of it, added to the rows that it was summed of."""
    ids = int64(op, segment_ids)
    parts = op.Gather(grad, ids, axis=0)
    if op.name != "SparseSegmentSumGrad":
        counts = segments(op, op.Expand(op.const(1, grad.dtype), op.shape(ids)), ids, op.dim(grad, 0), "add", 0)
        shares = op.Gather(op.Sqrt(counts) if op.name == "SparseSegmentSqrtNGrad" else counts, ids, axis=0)
        parts = op.Div(parts, op.Reshape(shares, [-1] + [1] * (rank(grad) - 1)))
    rest = op.Slice(op.shape(grad), [1], [np.iinfo(np.int64).max])
    zeros = op.Expand(op.const(0, grad.dtype), op.Concat(op.Reshape(int64(op, output_dim0), [1]), rest, axis=0))
    return scatter_slices(op, zeros, op.Unsqueeze(int64(op, indices), op.axes(1)), parts, "add")
