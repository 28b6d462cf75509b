"""Shape of tensors: asked for, changed, joined, cut."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.axes import given, int_op, number, product, resolved, scalar, sizes
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import (
    Host,
    HostValue,
    Int,
    InvalidOperand,
    Number,
    Tensor,
    UnknownUntilRun,
    known,
)
from onnxport.opset_maps.maps import onnx


@onnx.op("Identity", versions=(1, 13, 14, 16, 19, 21, 23, 24, 25))
def identity(xp: Namespace, x: Tensor) -> Tensor:
    """x."""
    return x


@onnx.op("Shape", versions=(1, 13, 15, 19, 21, 23, 24, 25))
def shape(xp: Namespace, x: Tensor, *, start: int = 0, end: int | None = None) -> HostValue:
    """Sizes, which stay on the Python side."""
    return HostValue.of(list(xp.shape(x)[start:end]))


@onnx.op("Size", versions=(1, 13, 19, 21, 23, 24, 25))
def size(xp: Namespace, x: Tensor) -> HostValue:
    """Number of elements."""
    return HostValue.of(product(xp, xp.shape(x)))


@onnx.op("Reshape", versions=(1, 5, 13, 14, 19, 21, 23, 24, 25))
def reshape(xp: Namespace, x: Tensor, shape: Host, *, allowzero: int = 0, **attributes: Any) -> Tensor:
    """The same elements in another shape; 0 copies a size of x unless `allowzero`."""
    wanted = sizes(shape)
    if allowzero or all(n != 0 if known(n) else xp.is_size(n) for n in wanted):
        return xp.reshape(x, wanted)
    ours = xp.shape(x)
    return xp.reshape(x, [_copied(xp, n, ours[i]) if i < len(ours) else n for i, n in enumerate(wanted)])


def _copied(xp: Namespace, n: Int, ours: Int) -> Int:
    """A wanted size, for which 0 stands for the size that is there."""
    if known(n):
        return ours if n == 0 else n
    return n if xp.is_size(n) else int_op(xp, "where", int_op(xp, "eq", n, 0), ours, n)


@onnx.op("Flatten", versions=(1, 9, 11, 13, 21, 23, 24, 25))
def flatten(xp: Namespace, x: Tensor, *, axis: int = 1) -> Tensor:
    """A matrix: the axes before `axis` are its rows."""
    ours = xp.shape(x)
    axis = resolved(axis, len(ours))
    rows, columns = product(xp, ours[:axis]), product(xp, ours[axis:])
    if known(rows) and rows != 0 and not known(columns):
        columns = -1
    elif known(columns) and columns != 0 and not known(rows):
        rows = -1
    return xp.reshape(x, (rows, columns))


@onnx.op("Squeeze", versions=(1, 11, 13, 21, 23, 24, 25))
def squeeze(xp: Namespace, x: Tensor, axes: Host | None = None, **attributes: Any) -> Tensor:
    """Axes of size 1 removed: those named, else all."""
    chosen = given(axes)
    rank = xp.ndim(x)
    if chosen is None:
        ours = xp.shape(x)
        if not all(known(n) for n in ours):
            raise UnknownUntilRun("which axes have size 1 is known only when the model runs")
        chosen = tuple(i for i, n in enumerate(ours) if n == 1)
    return xp.squeeze(x, sorted({resolved(axis, rank) for axis in chosen}))


@onnx.op("Unsqueeze", versions=(1, 11, 13, 21, 23, 24, 25))
def unsqueeze(xp: Namespace, x: Tensor, axes: Host | None = None, **attributes: Any) -> Tensor:
    """Axes of size 1 inserted."""
    chosen = given(axes) or ()
    if all(axis >= 0 for axis in chosen):
        return xp.expand_dims(x, sorted(chosen))
    rank = xp.ndim(x) + len(chosen)
    return xp.expand_dims(x, sorted(resolved(axis, rank) for axis in chosen))


@onnx.op("Transpose", versions=(1, 13, 21, 23, 24, 25))
def transpose(xp: Namespace, x: Tensor, *, perm: tuple[int, ...] | None = None) -> Tensor:
    """Axes reordered, by default reversed."""
    return xp.permute_dims(x, perm if perm is not None else tuple(reversed(range(xp.ndim(x)))))


@onnx.op("Concat", versions=(1, 4, 11, 13))
def concat(xp: Namespace, *xs: Tensor, axis: int = 1) -> Tensor:
    """Joined along an axis."""
    return xp.concat(xs, axis if axis >= 0 else resolved(axis, xp.ndim(xs[0])))


@onnx.op("Split", versions=(1, 2, 11, 13, 18))
def split(
    xp: Namespace, x: Tensor, parts: Host | None = None, *, axis: int = 0, num_outputs: int | None = None, **early: Any
) -> tuple[Tensor, ...]:
    """Cut along an axis, by sizes or into equal parts, of which the last may be shorter."""
    axis = resolved(axis, xp.ndim(x))
    wanted = sizes(parts) if parts is not None else list(early["split"]) if early.get("split") else None
    if wanted is None:
        total, count = xp.shape(x)[axis], num_outputs or xp.output_count
        size = int_op(xp, "ceil_div", total, count)
        wanted = [size] * (count - 1) + [int_op(xp, "sub", total, int_op(xp, "mul", size, count - 1))]
    return tuple(xp.split(x, wanted, axis))


@onnx.op("Expand", versions=(8, 13))
def expand(xp: Namespace, x: Tensor, shape: Host) -> Tensor:
    """Broadcast with a tensor of `shape`."""
    return xp.expand(x, sizes(shape))


@onnx.op("Tile", versions=(1, 6, 13))
def tile(xp: Namespace, x: Tensor, repeats: Host, axis: Host | None = None) -> Tensor:
    """Repeated along each axis (opset 1: along one)."""
    if axis is not None:
        rank, chosen = xp.ndim(x), number(scalar(axis))
        return xp.tile(x, [scalar(repeats) if i == chosen else 1 for i in range(rank)])
    times = sizes(repeats)
    if len(times) != xp.ndim(x):
        raise InvalidOperand(f"{len(times)} repeats of a tensor of {xp.ndim(x)} axes")
    return xp.tile(x, times)


@onnx.op("Slice", versions=(1, 10, 11, 13))
def slice_(
    xp: Namespace, x: Tensor, starts: Host, ends: Host, axes: Host | None = None, steps: Host | None = None, **_: Any
) -> Tensor:
    """Cut by start, end and step along axes."""
    begin, stop = sizes(starts), sizes(ends)
    chosen = given(axes) or tuple(range(len(begin)))
    strides = sizes(steps) if steps is not None else [1] * len(begin)
    for axis, first, last, step in zip(chosen, begin, stop, strides, strict=True):
        axis = axis if axis >= 0 else resolved(axis, xp.ndim(x))
        if number(step) == 0:
            raise InvalidOperand(f"a step of 0 along axis {axis}")
        x = _slice(xp, x, axis, first, last, number(step))
    return x


_FAR = 1 << 31  # Models write the end of an axis as the greatest integer of 32 or 64 bits.


def _slice(xp: Namespace, x: Tensor, axis: int, first: Int, last: Int, step: int) -> Tensor:
    if step > 0:
        start = None if known(first) and first == 0 else first
        stop = None if known(last) and last >= _FAR - 1 else last
        if start is None and stop is None and step == 1:
            return x
        return xp.slice(x, axis, start, stop, step)
    size = xp.shape(x)[axis]
    start = None if known(first) and first >= _FAR - 1 else first
    if known(first) and known(size) and 0 < size < -first:
        start = 0  # backwards a start is moved into the axis, from either side
    if known(last) and (last <= -_FAR or (known(size) and last < -size)):
        return xp.slice(x, axis, start, None, step)
    if known(last) and last < 0 and not known(size):
        raise UnknownUntilRun("where a backward slice ends is known only when the model runs")
    return xp.slice(x, axis, start, last, step)


@onnx.op("Pad", versions=(1, 2, 11, 13, 18, 19, 21, 23, 24, 25))
def pad(
    xp: Namespace,
    x: Tensor,
    pads: Host | None = None,
    value: Number | None = None,
    axes: Host | None = None,
    **form: Any,
) -> Tensor:
    """Padded along axes; negative numbers cut."""
    rank = xp.ndim(x)
    wanted = sizes(pads if pads is not None else form["paddings"])
    chosen = [resolved(number(a), rank) for a in axes.reshape(-1)] if axes is not None else list(range(rank))
    fill = 0 if value is None else value
    if isinstance(fill, float) and not xp.dtype(x).is_floating_point():
        fill = int(fill)
    pairs: list[tuple[Int, Int]] = [(0, 0)] * rank
    for i, axis in enumerate(chosen):
        pairs[axis] = (wanted[i], wanted[i + len(chosen)])
    for axis, (before, after) in enumerate(pairs):
        cut = [int(-n) if known(n) and n < 0 else 0 for n in (before, after)]
        if any(cut):
            x = xp.slice(x, axis, cut[0] or None, -cut[1] if cut[1] else None)
            pairs[axis] = (0 if cut[0] else before, 0 if cut[1] else after)
    if all(known(a) and known(b) and a == b == 0 for a, b in pairs):
        return x
    return xp.pad(x, pairs, form["mode"], fill)


@onnx.op("CenterCropPad", versions=(18,))
def center_crop_pad(xp: Namespace, x: Tensor, shape: Host, *, axes: tuple[int, ...] | None = None) -> Tensor:
    """Cut or padded with zeros around its centre to a shape."""
    ours, wanted = xp.shape(x), sizes(shape)
    chosen = [resolved(a, len(ours)) for a in axes] if axes is not None else list(range(len(ours)))
    pairs: list[tuple[Int, Int]] = [(0, 0)] * len(ours)
    for axis, target in zip(chosen, wanted, strict=True):
        n = ours[axis]
        if not (known(n) and known(target)):
            raise UnknownUntilRun("whether an axis is cut or padded is known only when the model runs")
        if n > target:
            first = (n - target) // 2
            x = xp.slice(x, axis, first, first + target)
        elif n < target:
            first = (target - n) // 2
            pairs[axis] = (first, target - n - first)
    return x if all(pair == (0, 0) for pair in pairs) else xp.pad(x, pairs)


@onnx.op("DepthToSpace", versions=(1, 11, 13, 28))
def depth_to_space(xp: Namespace, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of channels moved into the image."""
    n, c, h, w = xp.shape(x)
    depth = int_op(xp, "floor_div", c, blocksize * blocksize)
    split = (n, blocksize, blocksize, depth, h, w) if mode == "DCR" else (n, depth, blocksize, blocksize, h, w)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    tall, wide = int_op(xp, "mul", h, blocksize), int_op(xp, "mul", w, blocksize)
    return xp.reshape(xp.permute_dims(xp.reshape(x, split), order), (n, depth, tall, wide))


@onnx.op("SpaceToDepth", versions=(1, 13, 28))
def space_to_depth(xp: Namespace, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of the image moved into the channels, in the order of `mode`."""
    n, c, h, w = xp.shape(x)
    low, narrow = int_op(xp, "floor_div", h, blocksize), int_op(xp, "floor_div", w, blocksize)
    blocks = xp.reshape(x, (n, c, low, blocksize, narrow, blocksize))
    depth = int_op(xp, "mul", c, blocksize * blocksize)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return xp.reshape(xp.permute_dims(blocks, order), (n, depth, low, narrow))


@onnx.op("Trilu", versions=(14,))
def trilu(xp: Namespace, x: Tensor, k: Host | None = None, *, upper: int = 1) -> Tensor:
    """The upper or lower triangle from diagonal k, else 0."""
    if xp.input_dtype(0) == ir.DataType.STRING:
        raise UnsupportedOperator("strings have no zero that could stand outside of the triangle")
    rows, columns = xp.shape(x)[-2:]
    diagonal = scalar(k) if k is not None else 0
    offset = xp.subtract(
        xp.expand_dims(xp.arange(0, columns), [0]),
        xp.expand_dims(xp.arange(diagonal, int_op(xp, "add", rows, diagonal)), [1]),
    )
    kept = xp.greater_equal(offset, 0) if upper else xp.less_equal(offset, 0)
    return xp.where(kept, x, xp.zeros((), xp.dtype(x)))


@onnx.op("ReverseSequence", versions=(10, 28))
def reverse_sequence(xp: Namespace, x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """The first `lengths` steps of each batch element reversed."""
    rank = xp.ndim(x)
    ours = xp.shape(x)
    steps = xp.expand_dims(xp.arange(0, ours[time_axis]), [i for i in range(rank) if i != time_axis])
    ends = xp.expand_dims(xp.astype(lengths, ir.DataType.INT64), [i for i in range(rank) if i != batch_axis])
    index = xp.where(xp.less(steps, ends), xp.subtract(xp.subtract(ends, 1), steps), steps)
    return xp.take_along_axis(x, xp.broadcast_to(index, ours), time_axis)
