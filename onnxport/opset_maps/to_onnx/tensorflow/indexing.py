"""Gathering, scattering, selecting and ordering elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, case, f32, i32, i64
from onnxport.opset_maps.lowerings import groups
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
        case(lambda x, i: tf.gather(x, i, batch_dims=1), f32(3, 4), i32(3, low=0, high=4)),
        case(lambda x, i: tf.gather(x, i, axis=2, batch_dims=2), f32(3, 2, 4, 5), i32(3, 2, low=0, high=4)),
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
    at, batch = at % n, batch_dims if batch_dims >= 0 else batch_dims + k
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
        case(lambda x: tf.scatter_nd([[3], [1]], x, [4]), np.array(["a", "\u00e9"], object), name="strings"),
    ],
)
def scatter_nd(op: OpBuilder, indices: ir.Value, updates: ir.Value, shape: ir.Value) -> ir.Value:
    """Scattered into zeros; updates of one place add up."""
    blank = op.Expand(op.const(0, updates.dtype), int64(op, shape))
    if updates.dtype != ir.DataType.STRING:
        return scatter_slices(op, blank, int64(op, indices), updates, "add")
    places = op.constant(indices)
    flat = None if places is None else places.reshape(-1, places.shape[-1])
    if flat is None or len(np.unique(flat, axis=0)) != len(flat):
        raise UnsupportedOperator("ScatterNd: strings of one place, which TensorFlow joins, have no ONNX form")
    return scatter_slices(op, blank, int64(op, indices), updates)


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


_FAR = np.array([np.nan, 1, -np.inf, np.nan], np.float32)
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
    evidence = [
        case(lambda x, u: function(x, _rows(3), u), f32(5, 2), f32(3, 2), min_opset=least),
        case(lambda x, u: function(x, [[0], [2], [0], [3]], u), _FAR, _FAR[::-1].copy(), min_opset=least),
    ]

    @tensorflow.lower(name, min_opset=least, cases=evidence)
    def lower(op: OpBuilder, tensor: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
        updates = op.Neg(updates) if name == "TensorScatterSub" else updates
        if reduction == "add" or not is_floating(tensor):
            return scatter_slices(op, tensor, int64(op, indices), updates, reduction)
        # An update that is NaN is passed over, and a NaN that is there stays.
        last = op.const(-np.inf if reduction == "max" else np.inf, updates.dtype)
        updates = op.Where(op.IsNaN(updates), last, updates)
        return op.Where(op.IsNaN(tensor), tensor, scatter_slices(op, tensor, int64(op, indices), updates, reduction))

    lower.__doc__ = summary


for _name, _scatter in _TENSOR_SCATTERS.items():
    _register_tensor_scatter(_name, *_scatter)


@tensorflow.lower(
    "ScatterNdNonAliasingAdd",
    min_opset=16,
    cases=[
        case(
            lambda x, u: tf.raw_ops.ScatterNdNonAliasingAdd(input=x, indices=_rows(3), updates=u), f32(5, 2), f32(3, 2)
        )
    ],
)
def scatter_nd_non_aliasing_add(op: OpBuilder, input: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
    """ONNX ScatterND that adds."""
    return scatter_slices(op, input, int64(op, indices), updates, "add")


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
    """ONNX TopK over the last axis, always in descending order."""
    values, indices = op.TopK(input, op.Reshape(int64(op, k), [1]), axis=-1, largest=1, sorted=1)
    return values, op.cast(indices, index_type)


@tensorflow.lower(
    "ApproxTopK",
    cases=[
        case(lambda x: tf.math.approx_max_k(x, 3), f32(2, 7), dynamic=True),
    ],
)
def approx_top_k(
    op: OpBuilder,
    input: ir.Value,
    *,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    is_max_k: bool = True,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> Sequence[ir.Value]:
    """ONNX TopK, which is exact."""
    values, indices = op.TopK(input, [k], axis=reduction_dimension, largest=int(is_max_k), sorted=1)
    return values, op.cast(indices, ir.DataType.INT32)


@tensorflow.lower(
    "NthElement",
    cases=[
        case(lambda x: tf.raw_ops.NthElement(input=x, n=2), f32(3, 7), dynamic=True),
        case(lambda x: tf.raw_ops.NthElement(input=x, n=1, reverse=True), i32(7)),
    ],
)
def nth_element(op: OpBuilder, input: ir.Value, n: ir.Value, *, reverse: bool = False) -> ir.Value:
    """The n-th in order along the last axis."""
    place = int64(op, n)
    count = op.Reshape(op.Add(place, 1), [1])
    values, _ = op.TopK(input, count, axis=-1, largest=int(reverse), sorted=1)
    return op.Gather(values, op.Reshape(place, np.zeros(0, np.int64)), axis=-1)


@tensorflow.lower(
    "ListDiff",
    cases=[
        case(lambda x, y: tf.raw_ops.ListDiff(x=x, y=y), i32(9, low=0, high=5), i32(3, low=0, high=5)),
        case(lambda x, y: tf.raw_ops.ListDiff(x=x, y=y, out_idx=tf.int64), f32(4), f32(3)),
        case(lambda x: tf.norm(x, ord="fro", axis=[0, 2]), f32(2, 3, 4)),
    ],
)
def list_diff(
    op: OpBuilder, x: ir.Value, y: ir.Value, *, out_idx: ir.DataType = ir.DataType.INT32
) -> Sequence[ir.Value]:
    """The elements of `x` that are not in `y`, and where they stand."""
    known, others = op.constant(x), op.constant(y)
    if known is not None and others is not None:
        kept = np.flatnonzero(~np.isin(known, others))
        return op.const(known[kept]), op.cast(op.const(kept), out_idx)
    equal = op.Equal(op.Unsqueeze(x, [1]), op.Unsqueeze(y, [0]))
    hits = op.reduce("ReduceSum", op.cast(equal, ir.DataType.INT64), [1], keepdims=False)
    places = op.Squeeze(op.NonZero(op.Equal(hits, 0)), [0])
    return op.Gather(x, places, axis=0), op.cast(places, out_idx)


@tensorflow.lower(
    "UnravelIndex",
    cases=[case(lambda x: tf.unravel_index(x, [3, 4, 5]), i32(6, low=0, high=60))],
)
def unravel_index(op: OpBuilder, indices: ir.Value, dims: ir.Value) -> ir.Value:
    """The index along each axis, a row an axis."""
    sizes = static_ints(op, dims, "dims")
    strides = [int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(sizes))]
    flat = op.Unsqueeze(indices, [0])
    rows = [op.Mod(op.Div(flat, op.const(step, x.dtype)), op.const(size, x.dtype))
            for x in [indices] for step, size in zip(strides, sizes)]  # fmt: skip
    return op.Concat(*rows, axis=0)


@tensorflow.lower(
    "InTopK",
    cases=[case(lambda x, i: tf.raw_ops.InTopK(predictions=x, targets=i, k=3), f32(4, 5), i32(4, low=0, high=5))],
)
def old_in_top_k(op: OpBuilder, predictions: ir.Value, targets: ir.Value, *, k: int) -> ir.Value:
    """Whether fewer than k predictions exceed the target's."""
    return in_top_k(op, predictions, targets, op.const(k))


@tensorflow.lower(
    "InTopKV2",
    cases=[case(lambda x, i: tf.math.in_top_k(i, x, 2), f32(4, 5), i32(4, low=0, high=5))],
)
def in_top_k(op: OpBuilder, predictions: ir.Value, targets: ir.Value, k: ir.Value) -> ir.Value:
    """Whether fewer than k predictions exceed the target's; false of a target that is no class, and beside infinity or NaN."""
    targets = int64(op, targets)
    known = op.And(op.GreaterOrEqual(targets, 0), op.Less(targets, op.dim(predictions, 1)))
    index = op.Unsqueeze(op.Where(known, targets, op.const(0)), [1])
    mine = op.GatherElements(predictions, index, axis=1)
    larger = op.reduce("ReduceSum", op.cast(op.Greater(predictions, mine), ir.DataType.INT64), [1], keepdims=False)
    nothing = op.reduce("ReduceSum", op.Mul(predictions, 0.0), [1], keepdims=False)  # NaN of a row that is not finite
    return op.And(op.And(known, op.Equal(nothing, 0.0)), op.Less(larger, int64(op, k)))


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


@tensorflow.lower(
    "Unique UniqueWithCounts",
    cases=[case(lambda x: tf.unique(x), i32(9)), case(lambda x: tf.unique_with_counts(x), i32(9))],
)
def unique(op: OpBuilder, x: ir.Value, *, out_idx: ir.DataType = ir.DataType.INT32) -> Sequence[ir.Value]:
    """ONNX Unique in order of first appearance."""
    y, *others = _unique(op, x, None, len(op.results) + 1)
    return [y, *(op.cast(item, out_idx) for item in others)]


@tensorflow.lower(
    "UniqueV2 UniqueWithCountsV2",
    cases=[
        case(call, *inputs)
        for raw in (tf.raw_ops.UniqueV2, tf.raw_ops.UniqueWithCountsV2)
        for call, inputs in (
            (lambda x, raw=raw: raw(x=x, axis=[0]), [i32(9, 1, low=0, high=3)]),
            (lambda x, raw=raw: raw(x=x, axis=tf.constant([], tf.int32)), [i32(9)]),
        )
    ],
)
def unique_v2(
    op: OpBuilder, x: ir.Value, axis: ir.Value, *, out_idx: ir.DataType = ir.DataType.INT32
) -> Sequence[ir.Value]:
    """ONNX Unique along an axis, in order of first appearance."""
    axes = static_ints(op, axis, "UniqueV2: the axis")
    y, *others = _unique(op, x, axes[0] if axes else None, len(op.results) + 1)
    return [y, *(op.cast(item, out_idx) for item in others)]


@tensorflow.lower(
    "Bucketize", cases=[case(lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.5, 0.5, 2.0]), f32(3, 4))]
)
def bucketize(op: OpBuilder, input: ir.Value, *, boundaries: Sequence[float]) -> ir.Value:
    """How many boundaries are at most the element."""
    bounds = op.const(np.asarray(boundaries, np.float32).astype(np.float64))
    return insertion(op, bounds, op.cast(input, ir.DataType.DOUBLE), right=True, dtype=ir.DataType.INT32)


@tensorflow.lower(
    "RaggedRange",
    cases=[
        case(lambda a, b: tf.raw_ops.RaggedRange(starts=a, limits=b, deltas=2), i32(5, low=-4, high=2), i32(5)),
        case(lambda a: tf.raw_ops.RaggedRange(starts=a, limits=-2, deltas=-1), i64(4)),
        case(lambda a, b: tf.raw_ops.RaggedRange(starts=a, limits=b, deltas=0.1), f32(5), f32(5)),
        case(lambda a: tf.raw_ops.RaggedRange(starts=a, limits=-2.0, deltas=[-0.7, 1.0, -0.3, -9.0]), f32(4)),
    ],
)
def ragged_range(
    op: OpBuilder,
    starts: ir.Value,
    limits: ir.Value,
    deltas: ir.Value,
    *,
    Tsplits: ir.DataType = ir.DataType.INT64,
) -> Sequence[ir.Value]:
    """The bounds of the rows, and the numbers of all of them: row i goes from starts[i] to limits[i] in steps of deltas[i]."""
    dtype = starts.dtype
    if dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        splits, values = _floating_ranges(op, starts, limits, deltas)
        return op.cast(splits, Tsplits), values
    if dtype is None or not dtype.is_integer():
        raise UnsupportedOperator("RaggedRange of numbers of 16 bits")
    start, limit, step = (op.cast(item, ir.DataType.INT64) for item in (starts, limits, deltas))
    # ceil((limit - start) / step) where a division is cut towards zero
    forward = op.Sub(op.Sub(limit, start), op.Sign(step))
    steps = op.Add(op.Div(forward, step), op.const(1))
    towards = op.Greater(op.Mul(op.Sub(limit, start), op.Sign(step)), op.const(0))
    lengths = op.Reshape(op.Where(towards, steps, op.const(0)), [-1])
    ends = op.CumSum(lengths, op.const(0))
    splits = op.Concat(op.const([0]), ends, axis=0)
    places = op.Range(op.const(0), op.Gather(splits, op.const(-1)), op.const(1))
    row = insertion(op, ends, places, right=True, dtype=ir.DataType.INT64)
    rows = op.shape(lengths)
    first, by = (op.Gather(op.Expand(item, rows), row) for item in (start, step))
    values = op.Add(first, op.Mul(op.Sub(places, op.Gather(splits, row)), by))
    return op.cast(splits, Tsplits), op.cast(values, dtype)


def _floating_ranges(op: OpBuilder, start: ir.Value, limit: ir.Value, step: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The bounds and numbers of ranges of floating-point numbers: one step is added after the other."""
    span = op.Sub(limit, start)
    backward = op.Less(op.Mul(op.Sign(span), op.Sign(step)), 0.0)
    counts = op.cast(op.Ceil(op.Abs(op.Div(span, step))), ir.DataType.INT64)
    lengths = op.Reshape(op.Where(backward, op.const(0), counts), [-1])
    rows = op.shape(lengths)
    longest = groups.greatest(op, lengths)
    place = op.Range(0, op.Squeeze(longest, op.axes(0)), 1)
    first, by = (op.Unsqueeze(op.Expand(item, rows), op.axes(1)) for item in (start, step))
    values = op.CumSum(op.Where(op.Equal(place, 0), first, by), op.const(1))
    kept = op.Less(place, op.Unsqueeze(lengths, op.axes(1)))
    flat = op.Compress(op.Reshape(values, [-1]), op.Reshape(kept, [-1]), axis=0)
    return groups.splits_of(op, lengths), flat


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
