"""Repetition, bags and reductions by index; sizes as a list."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i64
from onnxport.opset_maps.lowerings.axes import size as axis_size
from onnxport.opset_maps.lowerings.scatter import Reduction, require_reduction, scatter_elements
from onnxport.opset_maps.lowerings.search import insertion
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.distance import norm_of
from onnxport.opset_maps.to_onnx.pytorch.indexing import END
from onnxport.opset_maps.to_onnx.pytorch.linear import rank
from onnxport.opset_maps.to_onnx.pytorch.scatter import scatter_reduce
from onnxport.opset_maps.to_onnx.pytorch.symbolic import sym_size

_INT64 = ir.DataType.INT64
_OFFSETS = np.array([0, 3, 3, 4])


@aten.lower(
    "aten::size.default",
    "aten::sym_size.default",
    cases=[case(torch.kron, f32(2, 3), f32(4, 2))],
)
def sizes(op: OpBuilder, x: ir.Value) -> tuple[ir.Value | int, ...]:
    """The size of every axis."""
    return tuple(sym_size(op, x, axis) for axis in range(rank(x)))


@aten.lower(
    "aten::repeat_interleave.Tensor",
    cases=[
        case(torch.repeat_interleave, i64(5, low=0, high=4)),
        case(lambda x, n: x.repeat_interleave(n, dim=1), f32(2, 4), np.array([2, 0, 1, 3])),
    ],
)
def repeat_interleave(op: OpBuilder, repeats: ir.Value, *, output_size: int | ir.Value | None = None) -> ir.Value:
    """For each place of the result, how many runs end before it."""
    counts = op.cast(repeats, _INT64)
    ends = op.CumSum(counts, op.const(0))
    total = op.ReduceSum(counts, keepdims=0)
    result = insertion(op, ends, op.Range(op.const(0), total, op.const(1)), right=True, dtype=_INT64)
    return op.cast(result, op.result.dtype)


@aten.lower(
    "aten::index_reduce",
    cases=[
        case(
            lambda x, i, s, r=reduce, keep=include: torch.ops.aten.index_reduce(x, 1, i, s, r, include_self=keep),
            f32(3, 5),
            np.array([0, 3, 0, 1]),
            f32(3, 4),
            min_opset=18,
            name=f"{reduce}-{include}",
        )
        for reduce in ("prod", "mean", "amax", "amin")
        for include in (True, False)
    ],
    min_opset=16,
)
def index_reduce(
    op: OpBuilder, x: ir.Value, dim: int, index: ir.Value, source: ir.Value, reduce: str, *, include_self: bool = True
) -> ir.Value:
    """scatter_reduce with the same index along the other axes."""
    if not rank(x):
        one = [op.Reshape(item, [-1]) for item in (x, index, source)]
        result = index_reduce(op, one[0], 0, one[1], one[2], reduce, include_self=include_self)
        return op.Reshape(result, np.zeros(0, np.int64))
    axis = dim % rank(x)
    shape = [-1 if i == axis else 1 for i in range(rank(x))]
    places = op.Expand(op.Reshape(op.cast(index, _INT64), shape), op.shape(source))
    return scatter_reduce(op, x, dim, places, source, reduce, include_self=include_self)


@aten.lower(
    "aten::embedding_renorm",
    cases=[
        case(lambda i, w: F.embedding(i, w.clone(), max_norm=1.0), i64(5, low=0, high=7), f32(7, 4), dynamic=True),
        case(
            lambda i, w: (w := w.clone(), F.embedding(i, w, max_norm=0.5, norm_type=1.0)),
            i64(2, low=0, high=7),
            f32(7, 4),
        ),
    ],
)
def embedding_renorm(op: OpBuilder, x: ir.Value, indices: ir.Value, max_norm: float, norm_type: float) -> ir.Value:
    """The rows that are looked up, cut to a greatest norm."""
    length = norm_of(op, x, norm_type, 1)
    flat = op.Reshape(op.cast(indices, _INT64), [-1])
    rows = op.Expand(op.const(False), op.shape(length))
    hit = op.ScatterElements(rows, flat, op.Expand(op.const(True), op.shape(flat)), axis=0)
    factor = op.Div(op.const(max_norm, x.dtype), op.Add(length, 1e-7))
    cut = op.And(hit, op.Greater(length, float(max_norm)))
    return op.Mul(x, op.Unsqueeze(op.Where(cut, factor, op.const(1.0, x.dtype)), op.axes(1)))


_BAG_REDUCTIONS: tuple[Reduction, ...] = ("add", "add", "max")


@aten.lower(
    "aten::embedding_bag aten::_embedding_bag_forward_only aten::_embedding_bag",
    cases=[
        *(
            case(
                lambda i, w, m=mode: F.embedding_bag(i, w, mode=m),
                i64(2, 3, low=0, high=6),
                f32(6, 4),
                min_opset=18,
                name=mode,
            )
            for mode in ("sum", "mean", "max")
        ),
        *(
            case(
                lambda i, w, o, m=mode: F.embedding_bag(i, w, o, mode=m, padding_idx=2),
                np.array([1, 2, 5, 2, 0, 3]),
                f32(6, 4),
                _OFFSETS,
                min_opset=18,
                name=f"{mode}-offsets",
            )
            for mode in ("sum", "mean", "max")
        ),
        case(
            lambda i, w, o: F.embedding_bag(i, w, o, mode="sum", padding_idx=-1),
            np.array([1, 5, 5, 2, 0, 3]),
            f32(6, 4),
            _OFFSETS,
            min_opset=18,
            name="the last row for padding",
        ),
        case(
            lambda i, w, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s, include_last_offset=True),
            i64(6, low=0, high=6),
            f32(6, 4),
            np.array([0, 2, 6]),
            f32(6),
        ),
    ],
    min_opset=16,
)
def embedding_bag(
    op: OpBuilder,
    weight: ir.Value,
    indices: ir.Value,
    offsets: ir.Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: ir.Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[ir.Value | None, ...]:
    """Rows of the table, gathered and scattered into their bags; only the first result, the others are for training."""
    require_reduction(op, _BAG_REDUCTIONS[mode])
    dtype = op.result.dtype
    if include_last_offset:
        offsets = op.Slice(offsets, [0], [-1], [0])
    places = op.Range(op.const(0), op.Size(indices), op.const(1))
    starts = op.cast(offsets, _INT64)
    bag = op.Max(op.Sub(insertion(op, starts, places, right=True, dtype=_INT64), 1), 0)
    rows = op.Gather(weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = op.Mul(rows, op.Unsqueeze(op.cast(per_sample_weights, dtype), op.axes(1)))
    count = op.Expand(op.const(1.0, dtype), op.shape(indices))
    fill = op.const(-np.inf if mode == 2 else 0.0, dtype)
    inner = op.name.startswith("aten::_embedding_bag")  # of which -1 is the default
    if padding_idx is not None and not (inner and padding_idx == -1):
        size = weight.shape[0] if weight.shape is not None else None
        if padding_idx < 0 and not isinstance(size, int):
            raise UnsupportedOperator("a negative padding_idx of a table of dynamic size")
        real = op.Not(op.Equal(indices, padding_idx % size if isinstance(size, int) else padding_idx))
        rows = op.Where(op.Unsqueeze(real, op.axes(1)), rows, fill)
        count = op.cast(real, dtype)
    bags = op.Shape(starts)
    empty = op.Expand(fill, op.Concat(bags, op.dim(weight, 1), axis=0))
    where = op.Expand(op.Unsqueeze(bag, op.axes(1)), op.Shape(rows))
    result = scatter_elements(op, empty, where, rows, 0, _BAG_REDUCTIONS[mode])
    zero = op.const(0.0, dtype)
    sizes = scatter_elements(op, op.Expand(zero, bags), bag, count, 0, "add")
    if mode == 1:
        result = op.Div(result, op.Unsqueeze(op.Max(sizes, 1.0), op.axes(1)))
    elif mode == 2:
        result = op.Where(op.Unsqueeze(op.Greater(sizes, 0.0), op.axes(1)), result, zero)
    return result, None, None, None


# By reduction: its name for scattering, and what a segment without elements has where no initial value is given.
_SEGMENTS: dict[str, tuple[Reduction, float]] = {
    "sum": ("add", 0.0),
    "mean": ("add", 0.0),
    "prod": ("mul", 1.0),
    "max": ("max", -np.inf),
    "min": ("min", np.inf),
}


@aten.lower(
    "aten::segment_reduce",
    cases=[
        case(
            lambda x, n, r=reduce: torch.segment_reduce(x, r, lengths=n, unsafe=True),
            f32(6, 3),
            np.array([2, 0, 3, rest]),
            min_opset=18,
            name=f"{reduce}-{rest}",
        )
        for reduce in _SEGMENTS
        for rest in (0, 1)
    ]
    + [
        case(
            lambda x, n: torch.segment_reduce(x, "mean", offsets=n, axis=1, unsafe=True, initial=2.0),
            f32(2, 5),
            np.array([[0, 2, 2, 5], [0, 1, 4, 5]]),
        )
    ],
    min_opset=16,
)
def segment_reduce(
    op: OpBuilder,
    data: ir.Value,
    reduce: str,
    *,
    lengths: ir.Value | None = None,
    indices: ir.Value | None = None,
    offsets: ir.Value | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> ir.Value:
    """The segment of each element, then ScatterElements with a reduction."""
    if lengths is not None:
        counts = op.cast(lengths, _INT64)
        ends = op.CumSum(counts, op.const(axis))
    elif offsets is not None:
        starts = op.cast(offsets, _INT64)
        ends = op.Slice(starts, [1], [END], [axis])
        counts = op.Sub(ends, op.Slice(starts, [0], [-1], [axis]))
    else:
        raise UnsupportedOperator("segments given by indices")
    places = op.Range(0, axis_size(op, data, axis), 1)
    # The number of segments that end at or before a place: all ends [..., 1, segments] with all places [elements, 1].
    passed = op.LessOrEqual(op.Unsqueeze(ends, op.axes(axis)), op.Unsqueeze(places, op.axes(1)))
    segment = op.reduce("ReduceSum", op.cast(passed, _INT64), [-1], keepdims=False)
    inner = list(range(axis + 1, rank(data)))
    widened = [op.Unsqueeze(item, op.axes(*inner)) if inner else item for item in (segment, counts)]
    reduction, neutral = _SEGMENTS[reduce]
    # One segment more, for elements behind the last one, which torch checks for unless it is told not to (unsafe).
    segments = op.Add(op.shape(counts), np.eye(rank(counts), dtype=np.int64)[axis])
    shape = op.Concat(segments, op.Slice(op.shape(data), [axis + 1], [END], [0]), axis=0)
    start = op.Expand(op.const(neutral if initial is None else initial, data.dtype), shape)
    result = scatter_elements(op, start, op.Expand(widened[0], op.shape(data)), data, axis, reduction)
    result = op.Slice(result, [0], [-1], [axis])
    if reduce != "mean":
        return result
    if initial is None:
        return op.Div(result, op.cast_like(widened[1], data))
    return op.Div(result, op.cast_like(op.Max(widened[1], 1), data))
