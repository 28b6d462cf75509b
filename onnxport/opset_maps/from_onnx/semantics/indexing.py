"""Gathering, scattering, sorting, selecting."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.axes import int_op, part, product, resolved, scalar, size_operand
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Host, HostValue, Int, Known, Tensor, UnknownUntilRun, known
from onnxport.opset_maps.from_onnx.windows import spanned
from onnxport.opset_maps.maps import onnx


def non_negative(xp: Namespace, indices: Known, size: Int) -> Tensor:
    """Indices, of which negative ones count from the end, as a tensor of non-negative ones."""
    if isinstance(indices, np.ndarray):
        if (indices >= 0).all():
            return xp.constant(indices.astype(np.int64))
        if known(size):
            return xp.constant(np.where(indices < 0, indices + size, indices).astype(np.int64))
        indices = xp.constant(indices.astype(np.int64))
    return xp.where(xp.less(indices, 0), xp.add(indices, size_operand(xp, size, xp.dtype(indices))), indices)


@onnx.op("Gather", versions=(1, 11, 13))
def gather(xp: Namespace, x: Tensor, indices: Known, *, axis: int = 0) -> Tensor:
    """Slices along an axis; a constant scalar index is a slice."""
    axis = resolved(axis, xp.ndim(x)) if axis < 0 else axis
    if isinstance(indices, np.ndarray) and indices.ndim == 0:
        index = int(indices)
        return xp.squeeze(xp.slice(x, axis, index, index + 1 if index != -1 else None), (axis,))
    return xp.take(x, non_negative(xp, indices, xp.shape(x)[axis]), axis)


@onnx.op("GatherElements", versions=(11, 13))
def gather_elements(xp: Namespace, x: Tensor, indices: Known, *, axis: int = 0) -> Tensor:
    """One element an index."""
    axis = resolved(axis, xp.ndim(x))
    return xp.take_along_axis(x, non_negative(xp, indices, xp.shape(x)[axis]), axis)


def _non_negative_tuples(xp: Namespace, x: Tensor, indices: Tensor, first: int) -> Tensor:
    """Index tuples into the axes of x from `first` on, without negative ones."""
    ours, depth = xp.shape(x), xp.shape(indices)[-1]
    if not known(depth):
        raise UnknownUntilRun("index tuples of a length known only when the model runs")
    bounds = xp.from_host(HostValue.of(list(ours[first : first + depth])).array, xp.dtype(indices))
    return xp.where(xp.less(indices, 0), xp.add(indices, bounds), indices)


@onnx.op("GatherND", versions=(11, 12, 13))
def gather_nd(xp: Namespace, x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Slices at index tuples."""
    return xp.gather_nd(x, _non_negative_tuples(xp, x, indices, batch_dims), batch_dims)


@onnx.op("Scatter", versions=(9, 11))
def scatter(xp: Namespace, x: Tensor, indices: Known, updates: Tensor, *, axis: int = 0) -> Tensor:
    """x with one element an index replaced."""
    return scatter_elements(xp, x, indices, updates, axis=axis)


@onnx.op("ScatterElements", versions=(11, 13, 16, 18))
def scatter_elements(
    xp: Namespace, x: Tensor, indices: Known, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """x with one element an index replaced or combined."""
    axis = resolved(axis, xp.ndim(x))
    index = non_negative(xp, indices, xp.shape(x)[axis])
    return xp.scatter_elements(x, index, updates, axis, reduction)  # type: ignore[arg-type]


@onnx.op("ScatterND", versions=(11, 13, 16, 18))
def scatter_nd(xp: Namespace, x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """x with slices at index tuples replaced or combined."""
    return xp.scatter_nd(x, _non_negative_tuples(xp, x, indices, 0), updates, reduction)  # type: ignore[arg-type]


@onnx.op("TensorScatter", versions=(24,))
def tensor_scatter(
    xp: Namespace, cache: Tensor, update: Tensor, write: Tensor | None = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    """A cache with `update` written along an axis from each batch element's own place on, round the end if circular."""
    ours, theirs = xp.shape(cache), xp.shape(update)
    rank = len(ours)
    axis = resolved(axis, rank)
    steps = xp.expand_dims(xp.arange(0, theirs[axis]), [i for i in range(rank) if i != axis])
    if write is not None:
        steps = xp.add(steps, xp.expand_dims(xp.astype(write, ir.DataType.INT64), list(range(1, rank))))
    if mode == "circular":
        steps = xp.floor_mod(steps, size_operand(xp, ours[axis], xp.dtype(steps)))
    return xp.scatter_elements(cache, xp.broadcast_to(steps, theirs), update, axis)


@onnx.op("Compress", versions=(9, 11, 28))
def compress(xp: Namespace, x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """Slices where a condition holds, or elements of the flattened tensor."""
    if axis is None:
        return xp.compress(xp.reshape(x, (-1,)), condition, 0)
    return xp.compress(x, condition, resolved(axis, xp.ndim(x)))


@onnx.op("Unique", versions=(11, 28))
def unique(xp: Namespace, x: Tensor, *, axis: int | None = None, sorted: int = 1) -> tuple[Tensor, ...]:
    """Distinct elements, sorted or in the order in which they come, with first index, inverse and counts."""
    along = None if axis is None else resolved(axis, xp.ndim(x))
    values, first, inverse, counts = xp.unique(x, along)
    if not sorted:
        order = xp.argsort(first, 0)
        values = xp.take(values, order, along or 0)
        first, counts = xp.take(first, order, 0), xp.take(counts, order, 0)
        inverse = xp.take(xp.argsort(order, 0), inverse, 0)
    return (values, first, inverse, counts)[: xp.output_count]


@onnx.op("TopK", versions=(1, 10, 11, 24))
def top_k(
    xp: Namespace, x: Tensor, count: Host | None = None, *, k: int = 0, axis: int, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    """The k greatest or least elements along an axis, in order, and their indices."""
    n = scalar(count) if count is not None else k
    return xp.top_k(x, n, resolved(axis, xp.ndim(x)), bool(largest))


@onnx.op("OneHot", versions=(9, 11, 28))
def one_hot(xp: Namespace, indices: Tensor, depth: Host, values: Tensor, *, axis: int = -1) -> Tensor:
    """A new axis with the second value at the index and the first elsewhere."""
    n = scalar(depth)
    n = int(n) if isinstance(n, float) else n
    rank = xp.ndim(indices) + 1
    index = xp.astype(indices, ir.DataType.INT64)
    index = xp.where(xp.less(index, 0), xp.add(index, size_operand(xp, n, xp.dtype(index))), index)
    chosen = xp.one_hot(index, n, resolved(axis, rank))
    off, on = (part(xp, values, 0, i) for i in (0, 1))
    return xp.where(chosen, on, off)


@onnx.op("MaxUnpool", versions=(9, 11, 22))
def max_unpool(
    xp: Namespace,
    x: Tensor,
    indices: Tensor,
    output_shape: Host | None = None,
    *,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """Elements put back to their places in the tensor that was pooled, 0 elsewhere."""
    ours = xp.shape(x)
    spatial = len(kernel_shape)
    step, padding = strides or (1,) * spatial, pads or (0,) * (2 * spatial)
    natural: list[Int] = list(ours[:2])
    for i in range(spatial):
        natural.append(spanned(xp, ours[2 + i], step[i], kernel_shape[i] - padding[i] - padding[spatial + i]))
    flat = xp.zeros((product(xp, natural),), xp.dtype(x))
    filled = xp.reshape(xp.scatter_elements(flat, xp.reshape(indices, (-1,)), xp.reshape(x, (-1,)), 0), natural)
    if output_shape is None:
        return filled
    wanted = [int(n) if known(n) else n for n in output_shape]
    pairs = [(0, int_op(xp, "sub", b, a)) for a, b in zip(natural, wanted, strict=True)]
    return xp.pad(filled, pairs)
