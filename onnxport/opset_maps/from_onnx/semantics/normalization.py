"""Normalisation."""

from __future__ import annotations

from typing import Any, Required, TypedDict, Unpack

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import f32
from onnxport.opset_maps.from_onnx.axes import int_op, per_axis, resolved
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Ints, Tensor
from onnxport.opset_maps.maps import onnx


def standardised(xp: Namespace, x: Tensor, axes: Ints, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """x less its mean and divided by its deviation along axes; the mean; the inverse deviation."""
    centre = xp.mean(x, tuple(axes), True)
    deviation = xp.subtract(x, centre)
    variance = xp.mean(xp.square(deviation), tuple(axes), True)
    inverse = xp.reciprocal(xp.sqrt(xp.add(variance, epsilon)))
    return xp.multiply(deviation, inverse), centre, inverse


def batch_affine(
    xp: Namespace, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, epsilon: float
) -> Tensor:
    """scale (x - mean) / sqrt(var + epsilon) + bias along axis 1; the statistics may have a wider type."""
    rank = xp.ndim(x)
    width = xp.dtype(mean)
    inverse = xp.reciprocal(xp.sqrt(xp.add(var, epsilon)))
    factor = xp.multiply(xp.astype(scale, width), inverse)
    shift = xp.subtract(xp.astype(bias, width), xp.multiply(mean, factor))
    wide = xp.add(xp.multiply(xp.astype(x, width), per_axis(xp, factor, rank, 1)), per_axis(xp, shift, rank, 1))
    return xp.astype(wide, xp.dtype(x))


class BatchNormAttributes(TypedDict, total=False):
    """Attributes of BatchNormalization."""

    epsilon: float
    momentum: float
    training_mode: int
    spatial: int
    is_test: int


class LayerNormAttributes(TypedDict, total=False):
    """Attributes of LayerNormalization and RMSNormalization."""

    axis: int
    epsilon: float
    stash_type: int


class GroupNormAttributes(TypedDict, total=False):
    """Attributes of GroupNormalization."""

    num_groups: Required[int]
    epsilon: float
    stash_type: int


def batch_trains(xp: Namespace, form: BatchNormAttributes) -> bool:
    """Whether BatchNormalization normalises by the batch's own statistics: before opset 14 where it has further outputs."""
    if xp.version >= 14:
        return bool(form.get("training_mode", 0))
    return not form.get("is_test", 1) if xp.version < 7 else xp.output_count > 1


@onnx.op("BatchNormalization", versions=(1, 6, 7, 9, 14, 15))
def batch_normalization(xp: Namespace, x: Tensor, *statistics: Tensor, **form: Unpack[BatchNormAttributes]) -> Any:
    """Normalised by running statistics; in training mode by the batch's own, and the running ones updated."""
    if not form.get("spatial", 1):
        raise UnsupportedOperator("spatial=0, statistics of each element, has no mapping")
    scale, bias, mean, var = statistics
    epsilon, momentum = form.get("epsilon", 1e-5), form.get("momentum", 0.9)
    if not batch_trains(xp, form):
        return batch_affine(xp, x, scale, bias, mean, var, epsilon)
    rank = xp.ndim(x)
    axes = tuple(i for i in range(rank) if i != 1)
    batch_mean = xp.mean(x, axes)
    centred = xp.subtract(x, per_axis(xp, batch_mean, rank, 1))
    batch_var = xp.mean(xp.square(centred), axes)
    width = xp.dtype(mean)
    batch_mean, batch_var = xp.astype(batch_mean, width), xp.astype(batch_var, width)
    result = batch_affine(xp, x, scale, bias, batch_mean, batch_var, epsilon)
    running = [
        xp.add(xp.multiply(old, momentum), xp.multiply(new, 1 - momentum))
        for old, new in ((mean, batch_mean), (var, batch_var))
    ]
    return (result, *running, batch_mean, batch_var)[: xp.output_count]


@onnx.op("InstanceNormalization", versions=(1, 6, 22))
def instance_normalization(xp: Namespace, x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Each image of each channel normalised by itself."""
    rank = xp.ndim(x)
    normal, _, _ = standardised(xp, x, range(2, rank), epsilon)
    return xp.add(xp.multiply(normal, per_axis(xp, scale, rank, 1)), per_axis(xp, bias, rank, 1))


@onnx.op(
    "LayerNormalization",
    versions=(1, 17),  # 1 is onnxruntime's own, in files of earlier opsets that it optimised
    cases=[
        graph(
            "(float[N, 4] x, float[4] g, float[4] b) => (float[N, 4] y) {y = LayerNormalization <axis = -1> (x, g, b)}",
            f32(3, 4),
            f32(4),
            f32(4),
            opset=13,
        )
    ],
)
def layer_normalization(
    xp: Namespace, x: Tensor, scale: Tensor, bias: Tensor | None = None, **form: Unpack[LayerNormAttributes]
) -> Any:
    """Normalised over the axes from `axis` on, computed in the type `stash_type`."""
    dtype, (axes, epsilon, width) = xp.dtype(x), _layer(xp, x, form)
    normal, mean, inverse = standardised(xp, xp.astype(x, width), axes, epsilon)
    result = xp.multiply(xp.astype(normal, dtype), scale)
    result = result if bias is None else xp.add(result, bias)
    stashed = ir.DataType(form.get("stash_type", 1))
    outputs = (result, xp.astype(mean, stashed), xp.astype(inverse, stashed))
    return outputs[: xp.output_count] if xp.output_count > 1 else result


def _width(dtype: ir.DataType, stash_type: int) -> ir.DataType:
    """A stash type narrower than the input's does not narrow it."""
    stash = ir.DataType(stash_type)
    return dtype if dtype.bitwidth > stash.bitwidth else stash


def _layer(xp: Namespace, x: Tensor, form: LayerNormAttributes) -> tuple[tuple[int, ...], float, ir.DataType]:
    """The axes from `axis` on, epsilon, and the type in which is computed."""
    rank = xp.ndim(x)
    axes = tuple(range(resolved(form.get("axis", -1), rank), rank))
    return axes, form.get("epsilon", 1e-5), _width(xp.dtype(x), form.get("stash_type", 1))


@onnx.op("RMSNormalization", versions=(23,))
def rms_normalization(xp: Namespace, x: Tensor, scale: Tensor, **form: Unpack[LayerNormAttributes]) -> Tensor:
    """Divided by the root mean square over the axes from `axis` on."""
    dtype, (axes, epsilon, width) = xp.dtype(x), _layer(xp, x, form)
    wide = xp.astype(x, width)
    root = xp.sqrt(xp.add(xp.mean(xp.square(wide), axes, True), epsilon))
    normal = xp.astype(xp.divide(wide, root), dtype)
    result = xp.multiply(normal, xp.astype(scale, dtype) if xp.dtype(scale) != dtype else scale)
    wanted = xp.output_dtype(0)
    return result if wanted is None else xp.astype(result, wanted)


@onnx.op("GroupNormalization", versions=(18, 21))
def group_normalization(
    xp: Namespace, x: Tensor, scale: Tensor, bias: Tensor, **form: Unpack[GroupNormAttributes]
) -> Tensor:
    """Groups of channels normalised; scale and bias are per channel, in opset 18 per group."""
    num_groups, epsilon = form["num_groups"], form.get("epsilon", 1e-5)
    ours, dtype = xp.shape(x), xp.dtype(x)
    rank, width = len(ours), _width(dtype, form.get("stash_type", 1))
    depth = int_op(xp, "floor_div", ours[1], num_groups)
    grouped = xp.reshape(x, (ours[0], num_groups, depth, *ours[2:]))
    normal, _, _ = standardised(xp, xp.astype(grouped, width), range(2, rank + 1), epsilon)
    normal = xp.astype(normal, dtype)
    if xp.version < 21:
        result = xp.add(xp.multiply(normal, per_axis(xp, scale, rank + 1, 1)), per_axis(xp, bias, rank + 1, 1))
        return xp.reshape(result, ours)
    flat = xp.reshape(normal, ours)
    return xp.add(xp.multiply(flat, per_axis(xp, scale, rank, 1)), per_axis(xp, bias, rank, 1))


@onnx.op("MeanVarianceNormalization", versions=(9, 13))
def mean_variance_normalization(xp: Namespace, x: Tensor, *, axes: tuple[int, ...] = (0, 2, 3)) -> Tensor:
    """(x - mean) / deviation, with 1e-9 added to the deviation."""
    rank = xp.ndim(x)
    along = tuple(sorted(resolved(axis, rank) for axis in axes))
    centre = xp.mean(x, along, True)
    squares = xp.mean(xp.square(x), along, True)
    deviation = xp.sqrt(xp.subtract(squares, xp.square(centre)))
    return xp.divide(xp.subtract(x, centre), xp.add(deviation, 1e-9))


@onnx.op("LpNormalization", versions=(1, 22))
def lp_normalization(xp: Namespace, x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Divided by the p-norm along an axis; 0 where that is 0."""
    along = (resolved(axis, xp.ndim(x)),)
    if p == 1:
        norm = xp.sum(xp.abs(x), along, True)
    else:
        norm = xp.sqrt(xp.sum(xp.square(x), along, True))
    safe = xp.where(xp.equal(norm, 0), 1.0, norm)
    return xp.where(xp.equal(norm, 0), 0.0, xp.divide(x, safe))


@onnx.op("LRN", versions=(1, 13))
def lrn(xp: Namespace, x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """x / (bias + alpha / size times the sum of squares over `size` neighbouring channels) to the beta."""
    rank, channels = xp.ndim(x), xp.shape(x)[1]
    before = (size - 1) // 2
    pairs = [(before, size - 1 - before) if i == 1 else (0, 0) for i in range(rank)]
    squares = xp.pad(xp.square(x), pairs)
    total = xp.slice(squares, 1, 0, channels)
    for i in range(1, size):
        total = xp.add(total, xp.slice(squares, 1, i, int_op(xp, "add", channels, i)))
    return xp.divide(x, xp.pow(xp.add(xp.multiply(total, alpha / size), bias), beta))
