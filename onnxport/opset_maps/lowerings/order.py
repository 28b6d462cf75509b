"""Numbers in order, NaN behind everything else, as in NumPy and PyTorch.

ONNX does not say where TopK puts NaN; where a kernel's comparison of a NaN is false, the numbers beside it are misplaced too.
Equal elements come in the order in which they stand.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.reductions import is_floating

_INT32, _DOUBLE = ir.DataType.INT32, ir.DataType.DOUBLE
_BY_WAY_OF = {ir.DataType.BOOL: _INT32}
# In float64 beyond the numbers of the narrower types: what stands for their infinity and for NaN.
_INFINITY, _NAN = 1e300, 1.7e308


def top(
    op: OpBuilder, x: ir.Value, k: ir.Value | int, axis: int, *, largest: bool, ordered: bool = True
) -> tuple[ir.Value, ir.Value]:
    """The `k` largest or smallest elements along an axis and where they stand; NaN is larger than every number."""
    count = op.Reshape(k, [1]) if isinstance(k, ir.Value) else op.const([k])
    if not is_floating(x):
        work = _BY_WAY_OF.get(x.dtype or _INT32, x.dtype or _INT32)
        values, indices = op.TopK(op.cast(x, work), count, axis=axis, largest=int(largest), sorted=int(ordered))
        return op.cast_like(values, x), indices
    indices = _of_double(op, x, axis, largest=largest) if x.dtype == _DOUBLE else None
    if indices is None:
        key = op.Where(op.IsNaN(_typed(op, x)), _NAN, op.Min(op.cast(x, _DOUBLE), _INFINITY))
        indices = op.TopK(key, count, axis=axis, largest=int(largest), sorted=int(ordered))[1]
    else:
        indices = op.Slice(indices, [0], count, [axis])
    return op.GatherElements(x, indices, axis=axis), indices


def _typed(op: OpBuilder, x: ir.Value) -> ir.Value:
    """`x` in a type that IsNaN takes."""
    return op.cast(x, ir.DataType.FLOAT) if x.dtype == ir.DataType.BFLOAT16 else x


def _of_double(op: OpBuilder, x: ir.Value, axis: int, *, largest: bool) -> ir.Value:
    """Where all elements stand in order: sorted as numbers, NaN as infinity, then once more by whether they are NaN."""
    size = op.dim(x, axis)
    is_nan = op.IsNaN(x)
    key = op.Where(is_nan, op.const(float("inf"), _DOUBLE), x)
    indices = op.TopK(key, size, axis=axis, largest=int(largest))[1]
    late = op.GatherElements(op.Cast(is_nan, to=_INT32), indices, axis=axis)
    return op.GatherElements(indices, op.TopK(late, size, axis=axis, largest=int(largest))[1], axis=axis)


def quantiles(op: OpBuilder, x: ir.Value, q: ir.Value, axis: int, *, interpolation: str, ignore_nan: bool) -> ir.Value:
    """The elements of `x` at the shares `q` [Q] of the order along an axis, or what lies between two: [Q, ...] without the axis.

    NaN, which is last in the order, is the result where there is one and it is not ignored.
    """
    places = [i for i in range(rank(x)) if i != axis] + [axis]
    ordered, _ = top(op, op.Transpose(x, perm=places), op.dim(x, axis), -1, largest=False)
    missing = op.reduce("ReduceSum", op.cast(op.IsNaN(_typed(op, ordered)), ir.DataType.INT64), [-1], keepdims=True)
    last = op.cast_like(op.Sub(op.dim(x, axis), op.Add(missing, 1) if ignore_nan else 1), x)
    at = op.Max(op.Mul(q, last), op.const(0.0, x.dtype))
    if not ignore_nan:
        at = op.Where(op.Greater(missing, 0), last, at)
    rounded = {"lower": op.Floor, "higher": op.Ceil, "nearest": op.Round}.get(interpolation)
    at = rounded(at) if rounded is not None else at
    below = op.cast(op.Floor(at), ir.DataType.INT64)
    result = op.GatherElements(ordered, below, axis=-1)
    if rounded is None:
        above = op.GatherElements(ordered, op.cast(op.Ceil(at), ir.DataType.INT64), axis=-1)
        weight = op.const(0.5, x.dtype) if interpolation == "midpoint" else op.Sub(at, op.cast_like(below, x))
        gap = op.Sub(above, result)
        near = op.Less(weight, 0.5)
        result = op.Where(near, op.Add(result, op.Mul(weight, gap)), op.Sub(above, op.Mul(gap, op.Sub(1.0, weight))))
    return op.Transpose(result, perm=[rank(x) - 1, *range(rank(x) - 1)])


def distinct(op: OpBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The distinct elements of a vector in order, for each element the place of its value, and how often each value occurs.

    No NaN equals another; ONNX's Unique leaves open what it does with one, and with the numbers beside it.
    """
    values, inverse, counts, _ = _sorted_runs(op, x)
    return values, inverse, counts


def distinct_by_appearance(op: OpBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """As `distinct`, the values in the order in which each first stands in the vector."""
    values, inverse, counts, firsts = _sorted_runs(op, x)
    size = op.Shape(firsts)
    order = op.TopK(firsts, size, axis=0, largest=0)[1]
    numbers = op.Range(0, op.Squeeze(size, op.axes(0)), 1)
    place = op.ScatterElements(numbers, order, numbers, axis=0)
    return op.Gather(values, order, axis=0), op.Gather(place, inverse, axis=0), op.Gather(counts, order, axis=0)


def runs(op: OpBuilder, x: ir.Value, size: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Runs of equal elements of a vector of `size`, or rows of a matrix: a mask of where each begins, and of each its run."""
    later, earlier = op.Slice(x, [1], size, [0]), op.Slice(x, [0], [-1], [0])
    first = op.Expand(True, op.Min(size, op.const([1])))
    differ = op.Not(op.Equal(later, earlier))
    if rank(x) == 2:
        differ = op.cast(
            op.reduce("ReduceMax", op.cast(differ, ir.DataType.INT32), [1], keepdims=False), ir.DataType.BOOL
        )
    new = op.Concat(first, differ, axis=0)
    return new, op.Sub(op.CumSum(op.cast(new, ir.DataType.INT64), 0), 1)


def run_lengths(op: OpBuilder, new: ir.Value, size: ir.Value) -> ir.Value:
    """How long the runs are that begin where `new` is true."""
    starts = op.Reshape(op.NonZero(new), [-1])
    ends = op.Concat(op.Slice(starts, [1], size, [0]), size, axis=0)
    return op.Sub(op.Slice(ends, [0], op.Shape(starts), [0]), starts)


def _sorted_runs(op: OpBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
    """Of the sorted vector: the value of each run, for each element of `x` its run, lengths, where each run first stands."""
    size = op.dim(x, 0)
    values, indices = top(op, x, size, 0, largest=False)
    new, place = runs(op, values, size)
    inverse = op.ScatterElements(op.Mul(place, 0), indices, place, axis=0)
    counts = run_lengths(op, new, size)
    return op.Compress(values, new, axis=0), inverse, counts, op.Compress(indices, new, axis=0)
