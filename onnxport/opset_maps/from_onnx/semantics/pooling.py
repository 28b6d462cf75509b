"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Unpack

import onnx_ir as ir

from onnxport.opset_maps.cases import f32
from onnxport.opset_maps.from_onnx.axes import int_op, product, size_operand
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Tensor, known
from onnxport.opset_maps.from_onnx.windows import PoolAttributes, WindowGeometry, extracted, pool_windows
from onnxport.opset_maps.maps import onnx

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
