"""Convolutions and pooling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import reduce
from typing import Any, Unpack, cast

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import f32
from onnxport.opset_maps.from_onnx.axes import int_op, number, part, per_axis, product, size_operand, sizes
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import (
    GroupedStrides,
    Host,
    Int,
    Ints,
    InvalidOperand,
    Tensor,
    host_array,
    known,
    optional,
)
from onnxport.opset_maps.from_onnx.windows import PoolAttributes, WindowAttributes, WindowGeometry, spanned, windows
from onnxport.opset_maps.maps import onnx


def kernel_size(xp: Namespace, w: Tensor, kernel_shape: Ints | None) -> tuple[int, ...]:
    """Size of the windows: the attribute, or that of the weight."""
    # That of a computed weight may be dynamic; only padding by SAME asks for it, and says so when it does.
    return tuple(kernel_shape) if kernel_shape else cast(tuple[int, ...], xp.shape(w)[2:])


class ConvAttributes(WindowAttributes, total=False):
    """Attributes of a convolution."""

    group: int
    kernel_shape: Ints | None


@onnx.op("Conv", versions=(1, 11, 22))
def conv(xp: Namespace, x: Tensor, w: Tensor, b: Tensor | None = None, **form: Unpack[ConvAttributes]) -> Tensor:
    """Cross-correlation."""
    kernel, groups = kernel_size(xp, w, form.get("kernel_shape")), form.get("group", 1)
    ours = xp.shape(x)[2:] if form.get("auto_pad", "").startswith("SAME") else (0,) * len(kernel)
    moves = windows(xp, ours, kernel, form)
    return xp.conv(x, w, b, strides=moves.strides, pads=moves.pads, dilations=moves.dilations, groups=groups)


class TransposedLayout(ConvAttributes, total=False):
    """Attributes of a transposed convolution."""

    output_padding: Ints | None
    output_shape: Ints | None


def transposed_windows(
    xp: Namespace, x: Tensor, w: Tensor, form: TransposedLayout
) -> tuple[GroupedStrides, list[tuple[Int, Int]]]:
    """The windows of a transposed convolution of x with w, and what is cut off the full convolution.

    The cuts are those before and after each spatial axis; negative numbers are added.
    Source: ONNX operator specification, ConvTranspose-22.
    """
    kernel = kernel_size(xp, w, form.get("kernel_shape"))
    rank, auto_pad = len(kernel), form.get("auto_pad", "NOTSET")
    pads, output_shape = form.get("pads"), form.get("output_shape")
    step, spread = tuple(form.get("strides") or (1,) * rank), tuple(form.get("dilations") or (1,) * rank)
    extra = form.get("output_padding") or (0,) * rank
    ours = xp.shape(x)[2:] if output_shape or auto_pad.startswith("SAME") else (0,) * rank
    cuts: list[tuple[Int, Int]] = []
    for i in range(rank):
        if output_shape or auto_pad.startswith("SAME"):
            reach = spanned(xp, kernel[i], spread[i], 1)
            wanted = output_shape[len(output_shape) - rank + i] if output_shape else int_op(xp, "mul", ours[i], step[i])
            full = int_op(xp, "add", spanned(xp, ours[i], step[i], reach), extra[i])
            total = int_op(xp, "sub", full, wanted)
            if not output_shape:  # nothing grows, as in ONNX's shape inference and onnxruntime
                total = int_op(xp, "max", total, 0)
            if known(total) and total < 0:  # longer than the full convolution: zeros follow
                cuts.append((0, total))
                continue
            half = int_op(xp, "div", total, 2)
            rest = int_op(xp, "sub", total, half)
            before, after = (half, rest) if auto_pad == "SAME_UPPER" else (rest, half)
        else:
            before, after = (0, 0) if auto_pad == "VALID" or not pads else (pads[i], pads[i + rank])
        cuts.append((before, int_op(xp, "sub", after, extra[i])))
    return GroupedStrides(strides=step, dilations=spread, groups=form.get("group", 1)), cuts


@onnx.op("ConvTranspose", versions=(1, 11, 22))
def conv_transpose(
    xp: Namespace, x: Tensor, w: Tensor, b: Tensor | None = None, **window: Unpack[TransposedLayout]
) -> Tensor:
    """Transposed convolution: in full, then cut by the pads."""
    moves, cuts = transposed_windows(xp, x, w, window)
    grows = any(known(n) and n < 0 for pair in cuts for n in pair)
    full = xp.conv_transpose(x, w, None if grows else b, **moves)
    for i, (before, after) in enumerate(cuts):
        start = before if not known(before) or before > 0 else None
        stop = int_op(xp, "neg", after) if not known(after) or after > 0 else None
        if start is not None or stop is not None:
            if stop is not None and not known(stop):
                stop = int_op(xp, "add", xp.shape(full)[2 + i], stop)
            full = xp.slice(full, 2 + i, start, stop)
    if grows:
        pairs = [(max(-a, 0) if known(a) else 0, max(-b_, 0) if known(b_) else 0) for a, b_ in cuts]
        full = xp.pad(full, [(0, 0), (0, 0), *pairs])
        if b is not None:
            full = xp.add(full, per_axis(xp, b, len(cuts) + 2, 1))
    return full


@onnx.op("DeformConv", versions=(19, 22))
def deform_conv(
    xp: Namespace,
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    *more: Tensor | None,
    offset_group: int = 1,
    **window: Unpack[ConvAttributes],
) -> Tensor:
    """Convolution of an image (N, C, H, W) sampled bilinearly at moved places, 0 outside.

    Source: Dai et al., "Deformable Convolutional Networks", and v2 for the mask.
    """
    b, mask = optional(more, 2)
    n, c, h, wide = xp.shape(x)
    outs = xp.shape(w)[0]
    kernel, group = kernel_size(xp, w, window.get("kernel_shape")), window.get("group", 1)
    form = windows(xp, (h, wide), kernel, window)
    rows, columns = form.counts
    taps = kernel[0] * kernel[1]
    dtype = xp.dtype(x)
    moved = xp.reshape(offset, (n, offset_group, taps, 2, rows, columns))
    places = []
    for i, count in enumerate(form.counts):
        start = xp.multiply(xp.arange(0, count), form.strides[i])
        start = xp.subtract(start, size_operand(xp, form.pads[i][0]))
        tap = xp.multiply(xp.arange(0, kernel[i]), form.dilations[i])
        tap = xp.broadcast_to(xp.expand_dims(tap, [1 - i]), kernel)
        grid = xp.expand_dims(start, [0, 2 if i == 0 else 1])
        grid = xp.add(xp.expand_dims(xp.reshape(tap, (taps,)), [1, 2]), grid)
        shift = part(xp, moved, 3, i)
        places.append(xp.add(shift, xp.astype(grid, dtype)))
    depth = int_op(xp, "floor_div", c, offset_group)
    flat = xp.reshape(x, (n, offset_group, depth, int_op(xp, "mul", h, wide)))
    sampled = _bilinear(xp, flat, places, (h, wide), (n, offset_group, depth), product(xp, (taps, rows, columns)))
    sampled = xp.reshape(sampled, (n, offset_group, depth, taps, rows, columns))
    if mask is not None:
        weights = xp.expand_dims(xp.reshape(mask, (n, offset_group, taps, rows, columns)), [2])
        sampled = xp.multiply(sampled, weights)
    inner = int_op(xp, "mul", int_op(xp, "floor_div", c, group), taps)
    columns_matrix = xp.reshape(sampled, (n, group, inner, int_op(xp, "mul", rows, columns)))
    kernels = xp.reshape(w, (1, group, int_op(xp, "floor_div", outs, group), inner))
    result = xp.reshape(xp.matmul(kernels, columns_matrix), (n, outs, rows, columns))
    return result if b is None else xp.add(result, per_axis(xp, b, 4, 1))


def _bilinear(
    xp: Namespace, flat: Tensor, places: list[Tensor], image: tuple[Int, Int], lead: tuple[Int, Int, Int], count: Int
) -> Tensor:
    """Elements of images flattened to (N, groups, channels, H W) at fractional places (N, groups, ...)."""
    n, groups, depth = lead
    floors = [xp.floor(place) for place in places]
    bounds = [xp.from_host(host_array(length), ir.DataType.INT64) for length in image]
    parts = []
    for corner in itertools.product((0.0, 1.0), repeat=2):
        weights, insides, positions = [], [], []
        for place, low, bound, step in zip(places, floors, bounds, corner, strict=True):
            base = xp.add(low, step)
            weights.append(xp.subtract(1.0, xp.abs(xp.subtract(place, base))))
            position = xp.astype(base, ir.DataType.INT64)
            insides.append(xp.logical_and(xp.greater_equal(position, 0), xp.less(position, bound)))
            positions.append(xp.maximum(xp.minimum(position, xp.subtract(bound, 1)), 0))
        index = xp.add(xp.multiply(positions[0], bounds[1]), positions[1])
        weight = xp.multiply(xp.multiply(*weights), xp.astype(xp.logical_and(*insides), xp.dtype(flat)))
        chosen = xp.broadcast_to(xp.reshape(index, (n, groups, 1, count)), (n, groups, depth, count))
        parts.append(xp.multiply(xp.take_along_axis(flat, chosen, 3), xp.reshape(weight, (n, groups, 1, count))))
    return reduce(xp.add, parts)


@onnx.op("Col2Im", versions=(18,))
def col2im(
    xp: Namespace, x: Tensor, image_shape: Host, block_shape: Host, **window: Unpack[WindowAttributes]
) -> Tensor:
    """Columns of window elements added back to the images they were taken from."""
    image, block = sizes(image_shape), tuple(number(k) for k in sizes(block_shape))
    rank = len(block)
    form = windows(xp, image, block, window)
    n, channels, columns = xp.shape(x)
    taps = product(xp, block)
    blocks = product(xp, form.counts)
    if known(blocks) and known(columns) and blocks != columns:
        raise InvalidOperand(f"{columns} columns for {blocks} blocks of the image")
    if known(channels) and channels % math.prod(block):
        raise InvalidOperand(f"{channels} rows for blocks of {taps} elements")
    depth = int_op(xp, "floor_div", channels, taps)
    padded = [int_op(xp, "add", size, a + b) for size, (a, b) in zip(image, form.pads, strict=True)]
    index: Tensor | None = None
    for i in range(rank):
        inside = xp.multiply(xp.arange(0, block[i]), form.dilations[i])
        starts = xp.multiply(xp.arange(0, form.counts[i]), form.strides[i])
        inside = xp.expand_dims(inside, [j for j in range(2 * rank) if j != i])
        starts = xp.expand_dims(starts, [j for j in range(2 * rank) if j != rank + i])
        place = xp.add(inside, starts)
        index = place if index is None else xp.add(xp.multiply(index, size_operand(xp, padded[i])), place)
    total = product(xp, padded)
    elements = product(xp, (taps, *form.counts))
    flat = xp.reshape(x, (n, depth, elements))
    assert index is not None
    chosen = xp.broadcast_to(xp.reshape(index, (1, 1, elements)), (n, depth, elements))
    filled = xp.scatter_elements(xp.zeros((n, depth, total), xp.dtype(x)), chosen, flat, 2, "add")
    result = xp.reshape(filled, (n, depth, *padded))
    for i, (before, _after) in enumerate(form.pads):
        result = xp.slice(result, 2 + i, before or None, int_op(xp, "add", image[i], before))
    return result


def pool_windows(xp: Namespace, x: Tensor, form: PoolAttributes) -> WindowGeometry:
    """The windows of a pooling operator over an image."""
    auto_pad = form.get("auto_pad", "NOTSET")
    if auto_pad.startswith("SAME") and any(spread > 1 for spread in form.get("dilations") or ()):
        # onnxruntime pads as for windows without gaps and gives fewer of them than the specification counts.
        raise UnsupportedOperator(f"auto_pad={auto_pad} of windows with gaps: runtimes do not agree; write the pads")
    return windows(xp, xp.shape(x)[2:], form["kernel_shape"], form, form.get("ceil_mode", 0))


def extracted(xp: Namespace, x: Tensor, form: WindowGeometry) -> Tensor:
    """The elements of each window of an image that is padded already: (N, C, windows ..., window elements ...)."""
    rank = len(form.kernel)
    for i in range(rank):
        axis = 2 + 2 * i
        starts = xp.multiply(xp.arange(0, form.counts[i]), form.strides[i])
        inside = xp.multiply(xp.arange(0, form.kernel[i]), form.dilations[i])
        x = xp.take(x, xp.add(xp.expand_dims(starts, [1]), xp.expand_dims(inside, [0])), axis)
    return xp.permute_dims(x, (0, 1, *(2 + 2 * i for i in range(rank)), *(3 + 2 * i for i in range(rank))))


_LEAST: dict[ir.DataType, int] = {ir.DataType.INT8: -128, ir.DataType.UINT8: 0}


@onnx.op("MaxPool", versions=(1, 8, 10, 11, 12, 22))
def max_pool(xp: Namespace, x: Tensor, **attributes: Unpack[PoolAttributes]) -> Any:
    """Greatest element of each window, and on request its index in the tensor."""
    form = pool_windows(xp, x, attributes)
    least = _LEAST.get(xp.dtype(x), -float("inf"))
    padded = xp.pad(x, form.padded, "constant", least) if form.has_padding else x
    if not xp.wants(1):
        return xp.max_pool(padded, form.kernel, strides=form.strides, dilations=form.dilations)
    rank, ours = len(form.kernel), xp.shape(x)
    elements = xp.reshape(extracted(xp, padded, form), (*ours[:2], *form.counts, math.prod(form.kernel)))
    place = xp.argmax(elements, 2 + rank)
    return xp.max(elements, (2 + rank,)), _flat_index(xp, x, form, place, attributes.get("storage_order", 0))


def _flat_index(xp: Namespace, x: Tensor, form: WindowGeometry, place: Tensor, storage_order: int) -> Tensor:
    """Index in the flattened tensor of the element that stands at `place` in its window."""
    rank, ours = len(form.kernel), xp.shape(x)
    positions: list[Tensor] = []
    rest = place
    for i in reversed(range(rank)):
        inside = xp.floor_mod(rest, form.kernel[i])
        rest = xp.divide(xp.subtract(rest, inside), form.kernel[i])
        start = xp.multiply(xp.arange(0, form.counts[i]), form.strides[i])
        start = xp.subtract(
            xp.expand_dims(start, [j for j in range(2 + rank) if j != 2 + i]), size_operand(xp, form.pads[i][0])
        )
        positions.insert(0, xp.add(xp.multiply(inside, form.dilations[i]), start))
    order = range(rank) if storage_order == 0 else reversed(range(rank))
    flat = None
    for i in order:
        flat = positions[i] if flat is None else xp.add(xp.multiply(flat, size_operand(xp, ours[2 + i])), positions[i])
    images = xp.expand_dims(xp.arange(0, int_op(xp, "mul", ours[0], ours[1])), list(range(1, 1 + rank)))
    images = xp.multiply(xp.reshape(images, (*ours[:2], *[1] * rank)), size_operand(xp, product(xp, ours[2:])))
    assert flat is not None
    return xp.add(flat, images)


@onnx.op("AveragePool", versions=(1, 7, 10, 11, 19, 22))
def average_pool(xp: Namespace, x: Tensor, **attributes: Unpack[PoolAttributes]) -> Tensor:
    """Mean of each window, over the elements of the image or, with `count_include_pad`, of the padded image."""
    form = pool_windows(xp, x, attributes)
    count_include_pad = attributes.get("count_include_pad", 0)
    padded = xp.pad(x, form.padded) if form.has_padding else x
    total = xp.sum_pool(padded, form.kernel, strides=form.strides, dilations=form.dilations)
    if not form.has_padding or (count_include_pad and all(known(e) and e == 0 for e in form.extra)):
        return xp.divide(total, float(math.prod(form.kernel)))
    ours = xp.shape(x)[2:]
    ones = xp.ones((1, 1, *ours), xp.dtype(x))
    explicit = [(0, 0), (0, 0), *form.pads]
    if count_include_pad:
        ones = xp.pad(xp.pad(ones, explicit, "constant", 1), [(0, 0), (0, 0), *((0, e) for e in form.extra)])
    else:
        ones = xp.pad(ones, form.padded)
    return xp.divide(total, xp.sum_pool(ones, form.kernel, strides=form.strides, dilations=form.dilations))


@onnx.op("LpPool", versions=(1, 2, 11, 18, 22))
def lp_pool(xp: Namespace, x: Tensor, *, p: float = 2, **attributes: Unpack[PoolAttributes]) -> Tensor:
    """p-norm of each window."""
    form = pool_windows(xp, x, attributes)
    powers = xp.pow(xp.abs(x), p)
    padded = xp.pad(powers, form.padded) if form.has_padding else powers
    total = xp.sum_pool(padded, form.kernel, strides=form.strides, dilations=form.dilations)
    return xp.pow(total, 1 / p)


def _global(reduce: Callable[[Namespace, Tensor, tuple[int, ...]], Tensor]) -> Callable[..., Any]:
    def operator(xp: Namespace, x: Tensor) -> Tensor:
        return reduce(xp, x, tuple(range(2, xp.ndim(x))))

    operator.__doc__ = "One element an image."
    return operator


onnx.op("GlobalAveragePool", versions=(1, 22))(_global(lambda xp, x, axes: xp.mean(x, axes, True)))
onnx.op("GlobalMaxPool", versions=(1, 22))(_global(lambda xp, x, axes: xp.max(x, axes, True)))


@onnx.op(
    "GlobalLpPool",
    versions=(1, 2, 22),
    cases=[graph("(float[N, 3, 4, 5] x) => (float[N, 3, 1, 1] y) {y = GlobalLpPool <p = 3> (x)}", f32(2, 3, 4, 5))],
)
def global_lp_pool(xp: Namespace, x: Tensor, *, p: float = 2) -> Tensor:
    """p-norm of each image."""
    axes = tuple(range(2, xp.ndim(x)))
    return xp.pow(xp.sum(xp.pow(xp.abs(x), p), axes, True), 1 / p)
