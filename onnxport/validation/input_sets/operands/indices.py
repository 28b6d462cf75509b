"""Indices into another operand, none beyond its size."""

from __future__ import annotations

from math import prod

import numpy as np

from onnxport.validation.input_sets.operands.scene import Rules, Scene, Shape, Values

RULES = Rules()


@RULES.of("Gather", "GatherElements", shapes=(0, 1))
def _gather(scene: Scene, data: Shape, indices: Shape) -> Values:
    size = data[scene.attribute("axis", 0)] if data else 0
    return {1: scene.rng.integers(scene.least_index(size), size, indices)} if size else {}


@RULES.of("ArrayFeatureExtractor", shapes=(0, 1))
def _features(scene: Scene, data: Shape, indices: Shape) -> Values:
    return {1: scene.rng.integers(0, data[-1], indices)} if data else {}


@RULES.of("GatherND", shapes=(0, 1))
def _gather_nd(scene: Scene, data: Shape, indices: Shape) -> Values:
    if not indices:
        return {}
    first = scene.attribute("batch_dims", 0)
    bounds = np.asarray(data[first : first + indices[-1]])
    return {1: scene.rng.integers(-bounds if scene.draw.from_end else 0, bounds, indices)}


@RULES.of("Scatter", "ScatterElements", shapes=(0, 1))
def _scatter(scene: Scene, data: Shape, indices: Shape) -> Values:
    """No place is written twice: which of two writes counts is not defined."""
    axis = scene.attribute("axis", 0) % len(data)
    size, count = data[axis], indices[axis]
    if count > size:
        return {1: scene.rng.integers(0, size, indices)}
    others = indices[:axis] + indices[axis + 1 :]
    order = scene.rng.permuted(np.broadcast_to(np.arange(size), (*others, size)), axis=-1)
    chosen = np.moveaxis(order[..., :count], -1, axis)
    return {1: np.where((scene.rng.random(chosen.shape) < 0.5) & scene.draw.from_end, chosen - size, chosen)}


@RULES.of("ScatterND", shapes=(0, 1))
def _scatter_nd(scene: Scene, data: Shape, indices: Shape) -> Values:
    if not indices:
        return {}
    bounds, count = data[: indices[-1]], prod(indices[:-1])
    places = scene.rng.choice(prod(bounds), count, replace=count > prod(bounds))
    return {1: np.stack(np.unravel_index(places, bounds), -1).reshape(indices)}


@RULES.of("TensorScatter", shapes=(0, 1, 2))
def _tensor_scatter(scene: Scene, past: Shape, update: Shape, places: Shape) -> Values:
    axis = scene.attribute("axis", -2)
    free = past[axis] if scene.attribute("mode", "linear") == "circular" else past[axis] - update[axis] + 1
    return {2: scene.rng.integers(0, max(free, 1), places)}


@RULES.of("RotaryEmbedding", shapes=(1, 3))
def _rotary(scene: Scene, cache: Shape, places: Shape) -> Values:
    return {3: scene.rng.integers(0, cache[0], places)} if cache else {}


@RULES.of("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", shapes=(0, 1))
def _targets(scene: Scene, scores: Shape, targets: Shape) -> Values:
    drawn = scene.rng.integers(0, scores[1], targets)
    if "ignore_index" in scene.node.attributes and drawn.size > 1:
        drawn.flat[0] = scene.attribute("ignore_index", 0)
    return {1: drawn}


@RULES.of("Compress", shapes=(1,))
def _compress(scene: Scene, mask: Shape) -> Values:
    out = scene.output_shape()
    count = max(mask[0] // 2, 1) if out is None else out[scene.attribute("axis", 0)]
    return {1: scene.rng.permutation(np.arange(mask[0]) < count)}


@RULES.of("MaxUnpool", shapes=(1,))
def _max_unpool(scene: Scene, pooled: Shape) -> Values:
    """Places count in the tensor of the size that the windows give, whatever the third operand holds."""
    kernel = scene.attribute("kernel_shape", [2] * (len(pooled) - 2))
    rank = len(kernel)
    strides, pads = scene.attribute("strides", [1] * rank), scene.attribute("pads", [0] * (2 * rank))
    sizes = [(size - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank] for i, size in enumerate(pooled[2:])]
    places = np.sort(scene.rng.choice(prod((*pooled[:2], *sizes)), prod(pooled), replace=False)).reshape(pooled)
    return {1: places, 2: scene.output_shape() or (*pooled[:2], *sizes)}
