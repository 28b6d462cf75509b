"""Gathering, scattering, selecting and ordering elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, case, f32, i32
from onnxport.opset_maps.lowerings.order import distinct_by_appearance
from onnxport.opset_maps.lowerings.reductions import is_floating
from onnxport.opset_maps.lowerings.scatter import Reduction, scatter_slices
from onnxport.opset_maps.lowerings.search import insertion
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import elements, int64, rank, static_int, static_ints


@tensorflow.lower(
    "GatherV2",
    cases=[
        case(lambda x: tf.gather(x, [2, 0], axis=1), f32(4, 5), dynamic=True),
        case(lambda x, i: tf.gather(x, i), f32(4, 5), i32(2, 3, low=0, high=4)),
        case(lambda x, i: tf.gather(x, i, batch_dims=1), f32(3, 4, 5), i32(3, 2, low=0, high=4)),
        case(lambda x, i: tf.gather(x, i, axis=2, batch_dims=1), f32(3, 4, 5, 2), i32(3, 2, low=0, high=5)),
    ],
)
def gather_v2(op: OpBuilder, params: ir.Value, indices: ir.Value, axis: ir.Value, *, batch_dims: int = 0) -> ir.Value:
    """ONNX Gather, with batch axes GatherND."""
    at = static_int(op, axis, "GatherV2: axis")
    if batch_dims == 0:
        known, index = elements(op, params), op.constant(indices)
        if known is not None and index is not None and index.ndim <= 1:
            part = [known[int(i)] for i in index.ravel()]
            if all(item is not None for item in part):
                return op.const(np.asarray(part, np.int64).reshape(index.shape), params.dtype)
        return op.Gather(params, indices, axis=at)
    n, k = rank(params), rank(indices)
    at, batch = at % n, batch_dims % k
    order = [*range(batch), at, *(i for i in range(batch, n) if i != at)]
    result = op.GatherND(op.Transpose(params, perm=order), op.Unsqueeze(int64(op, indices), [-1]), batch_dims=batch)
    # Axes are now: batch, the indices' own, the operand's others; the indices' belong where the gathered axis was.
    own, before = k - batch, at - batch
    total = batch + own + n - batch - 1
    back = [
        *range(batch),
        *range(batch + own, batch + own + before),
        *range(batch, batch + own),
        *range(batch + own + before, total),
    ]
    return op.Transpose(result, perm=back) if before else result


@tensorflow.lower(
    "Gather", cases=[case(lambda x, i: tf.raw_ops.Gather(params=x, indices=i), f32(4, 5), i32(2, low=0, high=4))]
)
def gather(op: OpBuilder, params: ir.Value, indices: ir.Value) -> ir.Value:
    """ONNX Gather along axis 0."""
    return op.Gather(params, indices, axis=0)


@tensorflow.lower(
    "GatherNd",
    cases=[
        case(lambda x: tf.gather_nd(x, [[0, 1], [3, 2]]), f32(4, 5, 2), dynamic=True),
        case(lambda x, i: tf.gather_nd(x, i), f32(4, 5), i32(2, 3, 2, low=0, high=4)),
    ],
)
def gather_nd(op: OpBuilder, params: ir.Value, indices: ir.Value, *, bad_indices_policy: str = "") -> ir.Value:
    """ONNX GatherND."""
    if bad_indices_policy not in ("", "ERROR"):
        raise UnsupportedOperator(f"GatherNd: bad_indices_policy={bad_indices_policy!r} has no ONNX form")
    return op.GatherND(params, int64(op, indices))


def _rows(n: int) -> np.ndarray:
    return np.array([[0], [2], [0]], np.int32)[:n]


@tensorflow.lower(
    "ScatterNd",
    min_opset=16,
    cases=[
        case(lambda x: tf.scatter_nd(_rows(3), x, [5, 2]), f32(3, 2), name="repeated"),
        case(lambda x, i: tf.scatter_nd(i, x, [5, 6]), f32(4), i32(4, 2, low=0, high=5)),
    ],
)
def scatter_nd(op: OpBuilder, indices: ir.Value, updates: ir.Value, shape: ir.Value) -> ir.Value:
    """Scattered into zeros; updates of one place add up."""
    zero = op.const(0, updates.dtype)
    return scatter_slices(op, op.Expand(zero, int64(op, shape)), int64(op, indices), updates, "add")


@tensorflow.lower(
    "TensorScatterUpdate",
    cases=[
        case(lambda x, u: tf.tensor_scatter_nd_update(x, _rows(2), u), f32(5, 2), f32(2, 2)),
        case(lambda x, u: tf.tensor_scatter_nd_update(x, [[1, 1], [4, 0]], u), f32(5, 2), f32(2)),
    ],
)
def tensor_scatter_update(
    op: OpBuilder, tensor: ir.Value, indices: ir.Value, updates: ir.Value, *, bad_indices_policy: str = ""
) -> ir.Value:
    """ONNX ScatterND."""
    if bad_indices_policy not in ("", "ERROR"):
        raise UnsupportedOperator(f"TensorScatterUpdate: bad_indices_policy={bad_indices_policy!r} has no ONNX form")
    return op.ScatterND(tensor, int64(op, indices), updates)


# By TensorFlow's name: its function, how updates are combined, the least opset and what is written.
_TENSOR_SCATTERS: dict[str, tuple[Callable[..., tf.Tensor], Reduction, int, str]] = {
    "TensorScatterAdd": (tf.tensor_scatter_nd_add, "add", 16, "ONNX ScatterND that adds."),
    "TensorScatterSub": (tf.tensor_scatter_nd_sub, "add", 16, "ONNX ScatterND that adds the negated updates."),
    "TensorScatterMax": (tf.tensor_scatter_nd_max, "max", 18, "ONNX ScatterND that keeps the greatest."),
    "TensorScatterMin": (tf.tensor_scatter_nd_min, "min", 18, "ONNX ScatterND that keeps the least."),
}


def _register_tensor_scatter(
    name: str, function: Callable[..., tf.Tensor], reduction: Reduction, least: int, summary: str
) -> None:
    evidence = case(lambda x, u: function(x, _rows(3), u), f32(5, 2), f32(3, 2), min_opset=least)

    @tensorflow.lower(name, min_opset=least, cases=[evidence])
    def lower(op: OpBuilder, tensor: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
        updates = op.Neg(updates) if name == "TensorScatterSub" else updates
        return scatter_slices(op, tensor, int64(op, indices), updates, reduction)

    lower.__doc__ = summary


for _name, _scatter in _TENSOR_SCATTERS.items():
    _register_tensor_scatter(_name, *_scatter)


@tensorflow.lower(
    "OneHot",
    cases=[
        case(lambda i: tf.one_hot(i, 4), i32(2, 3, low=-1, high=5), dynamic=True),
        case(lambda i: tf.one_hot(i, 4, on_value=2.5, off_value=-1.0, axis=1), i32(2, 3, low=0, high=4)),
        case(lambda i: tf.one_hot(i, 3, axis=0, dtype=tf.int64), i32(2, low=0, high=3)),
    ],
)
def one_hot(
    op: OpBuilder, indices: ir.Value, depth: ir.Value, on_value: ir.Value, off_value: ir.Value, *, axis: int = -1
) -> ir.Value:
    """`on` where the index equals the class, else `off`; ONNX OneHot would wrap negative indices, TensorFlow drops them."""
    n = rank(indices)
    at = axis % (n + 1)
    classes = op.Range(0, int64(op, depth), 1)
    classes = op.Reshape(classes, [-1 if i == at else 1 for i in range(n + 1)])
    hit = op.Equal(op.Unsqueeze(op.cast(indices, ir.DataType.INT64), [at]), classes)
    return op.Where(hit, on_value, off_value)


@tensorflow.lower(
    "TopKV2",
    cases=[
        case(lambda x: tf.math.top_k(x, 3), f32(2, 7), dynamic=True),
        case(lambda x, k: tf.math.top_k(x, k[0]), f32(2, 7), np.array([2], np.int32)),
    ],
)
def top_k(
    op: OpBuilder, input: ir.Value, k: ir.Value, *, sorted: bool = True, index_type: ir.DataType = ir.DataType.INT32
) -> Sequence[ir.Value]:
    """ONNX TopK over the last axis."""
    values, indices = op.TopK(input, op.Reshape(int64(op, k), [1]), axis=-1, largest=1, sorted=1)
    return values, op.cast(indices, index_type)


@tensorflow.lower(
    "InTopKV2",
    cases=[case(lambda x, i: tf.math.in_top_k(i, x, 2), f32(4, 5), i32(4, low=0, high=5))],
)
def in_top_k(op: OpBuilder, predictions: ir.Value, targets: ir.Value, k: ir.Value) -> ir.Value:
    """Whether fewer than k predictions exceed the target's."""
    index = op.Unsqueeze(targets, [1])
    mine = op.GatherElements(predictions, index, axis=1)
    larger = op.reduce("ReduceSum", op.cast(op.Greater(predictions, mine), ir.DataType.INT64), [1], keepdims=False)
    finite = op.Not(op.Or(op.IsNaN(op.Squeeze(mine, [1])), op.IsInf(op.Squeeze(mine, [1]))))
    return op.And(finite, op.Less(larger, int64(op, k)))


@tensorflow.lower(
    "Where",
    cases=[
        case(lambda x: tf.where(x), boolean(3, 4)),
        case(lambda x: tf.raw_ops.Where(condition=x), i32(3, 4, low=-1, high=2)),
    ],
)
def where(op: OpBuilder, input: ir.Value) -> ir.Value:
    """ONNX NonZero, a row an element."""
    return op.Transpose(op.NonZero(input), perm=[1, 0])


def _unique(op: OpBuilder, x: ir.Value, axis: int | None, outputs: int) -> tuple[ir.Value, ...]:
    """All results of ONNX Unique but the second, in order of first appearance; each NaN of a vector is a value of its own."""
    if is_floating(x) and rank(x) == 1:
        return distinct_by_appearance(op, x)[: outputs - 1]
    values, _, *places = op.Unique(x, axis=axis, sorted=0, outputs=outputs)
    return values, *places


@tensorflow.lower("Unique", cases=[case(lambda x: tf.unique(x), i32(9))])
def unique(op: OpBuilder, x: ir.Value, *, out_idx: ir.DataType = ir.DataType.INT32) -> Sequence[ir.Value]:
    """ONNX Unique in order of first appearance."""
    y, inverse = _unique(op, x, None, 3)
    return y, op.cast(inverse, out_idx)


@tensorflow.lower(
    "UniqueV2",
    cases=[
        case(lambda x: tf.raw_ops.UniqueV2(x=x, axis=[0]), i32(9, 1, low=0, high=3)),
        case(lambda x: tf.raw_ops.UniqueV2(x=x, axis=tf.constant([], tf.int32)), i32(9)),
    ],
)
def unique_v2(
    op: OpBuilder, x: ir.Value, axis: ir.Value, *, out_idx: ir.DataType = ir.DataType.INT32
) -> Sequence[ir.Value]:
    """ONNX Unique along an axis, in order of first appearance."""
    axes = static_ints(op, axis, "UniqueV2: the axis")
    y, inverse = _unique(op, x, axes[0] if axes else None, 3)
    return y, op.cast(inverse, out_idx)


@tensorflow.lower("UniqueWithCounts", cases=[case(lambda x: tf.unique_with_counts(x), i32(9))])
def unique_with_counts(op: OpBuilder, x: ir.Value, *, out_idx: ir.DataType = ir.DataType.INT32) -> Sequence[ir.Value]:
    """ONNX Unique with its counts."""
    y, inverse, counts = _unique(op, x, None, 4)
    return y, op.cast(inverse, out_idx), op.cast(counts, out_idx)


@tensorflow.lower(
    "Bucketize", cases=[case(lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.5, 0.5, 2.0]), f32(3, 4))]
)
def bucketize(op: OpBuilder, input: ir.Value, *, boundaries: Sequence[float]) -> ir.Value:
    """How many boundaries are at most the element."""
    bounds = op.const(np.asarray(boundaries, np.float32).astype(np.float64))
    return insertion(op, bounds, op.cast(input, ir.DataType.DOUBLE), right=True, dtype=ir.DataType.INT32)


@tensorflow.lower(
    "LowerBound",
    cases=[case(lambda v: tf.searchsorted(tf.constant([[-1.0, 0.0, 0.0, 2.0]]), v), f32(1, 5))],
)
def lower_bound(
    op: OpBuilder, sorted_inputs: ir.Value, values: ir.Value, *, out_type: ir.DataType = ir.DataType.INT32
) -> ir.Value:
    """How many sorted elements are less than the value."""
    return insertion(op, sorted_inputs, values, right=False, dtype=out_type, nan_behind=False)


@tensorflow.lower(
    "UpperBound",
    cases=[case(lambda v: tf.searchsorted(tf.constant([[-1.0, 0.0, 0.0, 2.0]]), v, side="right"), f32(1, 5))],
)
def upper_bound(
    op: OpBuilder, sorted_inputs: ir.Value, values: ir.Value, *, out_type: ir.DataType = ir.DataType.INT32
) -> ir.Value:
    """How many sorted elements are at most the value; all of them for NaN."""
    return insertion(op, sorted_inputs, values, right=True, dtype=out_type)


_SEGMENT = np.array([0, 2, 0, -1, 2], np.int32)


def segments(
    op: OpBuilder, data: ir.Value, ids: ir.Value, count: ir.Value, reduction: Reduction, initial: float
) -> ir.Value:
    """Rows of `data` reduced by segment; negative ids go to a row of their own that is cut off."""
    if rank(ids) != 1:
        raise UnsupportedOperator(f"segment ids of rank {rank(ids)} have no entry")
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
    info = np.finfo(dtype.numpy()) if dtype.is_floating_point() else np.iinfo(dtype.numpy())
    return (float(info.min), float(info.max)) if dtype.is_floating_point() else (int(info.min), int(info.max))


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
        name, min_opset=least, cases=[case(lambda x: function(x, _SEGMENT, 4), f32(5, 2), min_opset=least)]
    )
    def lower(op: OpBuilder, data: ir.Value, segment_ids: ir.Value, num_segments: ir.Value) -> ir.Value:
        return segments(op, data, segment_ids, num_segments, reduction, _of_nothing(reduction, data.dtype))

    lower.__doc__ = summary


for _name, _segment in _SEGMENT_REDUCTIONS.items():
    _register_segments(_name, *_segment)


def _sorted_segments(op: OpBuilder, data: ir.Value, ids: ir.Value, reduction: Reduction, initial: float) -> ir.Value:
    count = op.Add(op.reduce("ReduceMax", op.cast(ids, ir.DataType.INT64), [0], keepdims=True), 1)
    return segments(op, data, ids, count, reduction, initial)


_SORTED = np.array([0, 0, 2, 2, 3], np.int32)


@tensorflow.lower("SegmentSum", min_opset=16, cases=[case(lambda x: tf.math.segment_sum(x, _SORTED), f32(5, 2))])
def segment_sum(op: OpBuilder, data: ir.Value, segment_ids: ir.Value) -> ir.Value:
    """Sums by sorted segment; an empty one gives 0."""
    return _sorted_segments(op, data, segment_ids, "add", 0)


@tensorflow.lower("SegmentMean", min_opset=16, cases=[case(lambda x: tf.math.segment_mean(x, _SORTED), f32(5, 2))])
def segment_mean(op: OpBuilder, data: ir.Value, segment_ids: ir.Value) -> ir.Value:
    """Sums by sorted segment over their counts; an empty one gives 0."""
    ones = op.Expand(op.const(1, data.dtype), op.shape(data))
    counts = op.Max(_sorted_segments(op, ones, segment_ids, "add", 0), op.const(1, data.dtype))
    return op.Div(_sorted_segments(op, data, segment_ids, "add", 0), counts)
