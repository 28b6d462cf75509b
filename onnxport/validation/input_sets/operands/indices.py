"""Indices into another operand, none beyond its size."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as ir

from onnxport.validation.input_sets.operands.scene import (
    Rule,
    Scene,
    Shape,
    Values,
    attribute,
    least_index,
    operand,
    output_shape,
)


def _gather(scene: Scene, node: ir.Node) -> Values:
    data, indices = scene.shape(operand(node, 0)), scene.shape(operand(node, 1))
    if not data or indices is None:
        return {}
    size = data[attribute(node, "axis", 0)]
    return {1: scene.rng.integers(least_index(scene, size), size, indices)} if size else {}


def _features(scene: Scene, node: ir.Node) -> Values:
    data, indices = scene.shape(operand(node, 0)), scene.shape(operand(node, 1))
    return {1: scene.rng.integers(0, data[-1], indices)} if data and indices is not None else {}


def _gather_nd(scene: Scene, node: ir.Node) -> Values:
    data, indices = scene.shape(operand(node, 0)), scene.shape(operand(node, 1))
    if data is None or not indices:
        return {}
    first = attribute(node, "batch_dims", 0)
    bounds = np.asarray(data[first : first + indices[-1]])
    return {1: scene.rng.integers(-bounds if scene.from_end else 0, bounds, indices)}


def _scatter(scene: Scene, node: ir.Node) -> Values:
    """No place is written twice: which of two writes counts is not defined."""
    data, indices = scene.shape(operand(node, 0)), scene.shape(operand(node, 1))
    if data is None or indices is None:
        return {}
    axis = attribute(node, "axis", 0) % len(data)
    size, count = data[axis], indices[axis]
    if count > size:
        return {1: scene.rng.integers(0, size, indices)}
    order = scene.rng.permuted(np.broadcast_to(np.arange(size), (*_without_axis(indices, axis), size)), axis=-1)
    chosen = np.moveaxis(order[..., :count], -1, axis)
    return {1: np.where((scene.rng.random(chosen.shape) < 0.5) & scene.from_end, chosen - size, chosen)}


def _without_axis(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _scatter_nd(scene: Scene, node: ir.Node) -> Values:
    data, indices = scene.shape(operand(node, 0)), scene.shape(operand(node, 1))
    if data is None or not indices:
        return {}
    bounds, count = data[: indices[-1]], prod(indices[:-1])
    places = scene.rng.choice(prod(bounds), count, replace=count > prod(bounds))
    return {1: np.stack(np.unravel_index(places, bounds), -1).reshape(indices)}


def _tensor_scatter(scene: Scene, node: ir.Node) -> Values:
    past, update, places = (scene.shape(operand(node, i)) for i in range(3))
    if past is None or update is None or places is None:
        return {}
    axis = attribute(node, "axis", -2)
    free = past[axis] if attribute(node, "mode", "linear") == "circular" else past[axis] - update[axis] + 1
    return {2: scene.rng.integers(0, max(free, 1), places)}


def _rotary(scene: Scene, node: ir.Node) -> Values:
    cache, places = scene.shape(operand(node, 1)), scene.shape(operand(node, 3))
    return {3: scene.rng.integers(0, cache[0], places)} if cache and places is not None else {}


def _targets(scene: Scene, node: ir.Node) -> Values:
    scores, targets = scene.shape(operand(node, 0)), scene.shape(operand(node, 1))
    if scores is None or targets is None:
        return {}
    drawn = scene.rng.integers(0, scores[1], targets)
    if "ignore_index" in node.attributes and drawn.size > 1:
        drawn.flat[0] = attribute(node, "ignore_index", 0)
    return {1: drawn}


def _compress(scene: Scene, node: ir.Node) -> Values:
    out, mask = output_shape(scene, node), scene.shape(operand(node, 1))
    if mask is None:
        return {}
    count = max(mask[0] // 2, 1) if out is None else out[attribute(node, "axis", 0)]
    chosen = np.arange(mask[0]) < count
    return {1: scene.rng.permutation(chosen)}


def _max_unpool(scene: Scene, node: ir.Node) -> Values:
    """Places count in the tensor of the size that the windows give, whatever the third operand holds."""
    pooled, out = scene.shape(operand(node, 1)), output_shape(scene, node)
    if pooled is None:
        return {}
    kernel = attribute(node, "kernel_shape", [2] * (len(pooled) - 2))
    rank = len(kernel)
    strides, pads = attribute(node, "strides", [1] * rank), attribute(node, "pads", [0] * (2 * rank))
    sizes = [(size - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank] for i, size in enumerate(pooled[2:])]
    places = np.sort(scene.rng.choice(prod((*pooled[:2], *sizes)), prod(pooled), replace=False)).reshape(pooled)
    return {1: places, 2: out or (*pooled[:2], *sizes)}


RULES: dict[str, Rule] = {
    "Gather": _gather,
    "GatherElements": _gather,
    "ArrayFeatureExtractor": _features,
    "GatherND": _gather_nd,
    "Scatter": _scatter,
    "ScatterElements": _scatter,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "RotaryEmbedding": _rotary,
    "NegativeLogLikelihoodLoss": _targets,
    "SoftmaxCrossEntropyLoss": _targets,
    "Compress": _compress,
    "MaxUnpool": _max_unpool,
}
