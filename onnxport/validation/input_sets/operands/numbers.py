"""Numbers that bound each other: limits, boxes, frames, zero points."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import numpy as np

from onnxport.validation.input_sets.operands.scene import Rules, Scene, Shape, Values

RULES = Rules()


@RULES.of("Clip")
def _clip(scene: Scene) -> Values:
    if scene.is_floating(0):
        return {1: scene.rng.uniform(-1, 0), 2: scene.rng.uniform(0.1, 1)}
    return {1: scene.rng.integers(0, 2), 2: scene.rng.integers(2, 5)}


@RULES.of("NonMaxSuppression", shapes=(0, 1))
def _boxes(scene: Scene, shape: Shape, scores: Shape) -> Values:
    corners = np.sort(scene.rng.random((*shape[:-1], 2, 2)), axis=-2)
    boxes = corners.reshape(*shape[:-1], 4)
    return {0: boxes, 1: scene.rng.random(scores), 3: [scene.rng.uniform(0.2, 0.8)], 4: [scene.rng.uniform(0, 0.3)]}


@RULES.of("RoiAlign", shapes=(0, 1))
def _rois(scene: Scene, data: Shape, rois: Shape) -> Values:
    size = np.asarray([data[3], data[2]]) / scene.attribute("spatial_scale", 1.0)
    corners = np.sort(scene.rng.random((rois[0], 2, 2)), axis=1) * (size - 1)
    return {1: corners.reshape(rois), 2: scene.rng.integers(0, data[0], rois[0])}


@RULES.of("MelWeightMatrix")
def _mel_weights(scene: Scene) -> Values:
    out = scene.output_shape()
    return {0: out[1], 1: 2 * (out[0] - 1)} if out is not None else {0: 8, 1: 16}


@RULES.of("BlackmanWindow", "HammingWindow", "HannWindow")
def _window(scene: Scene) -> Values:
    out = scene.output_shape()
    return {0: out[0]} if out else {}


@RULES.of("STFT", shapes=(0,))
def _stft(scene: Scene, signal: Shape) -> Values:
    out, window = scene.output_shape(), scene.shape(2)
    width = window[0] if window else signal[1] // 4
    if out is not None and not window:
        width = 2 * (out[2] - 1) if scene.attribute("onesided", 1) else out[2]
    frames = out[1] if out is not None else 3
    steps: Iterator[int] = (step for step in range(1, signal[1]) if (signal[1] - width) // step + 1 == frames)
    return {1: next(steps, max(ceil(width / 2), 1)), 3: width}


@RULES.of("Adagrad", "Adam", "Momentum")
def _learning_rate(scene: Scene) -> Values:
    return {0: scene.rng.uniform(0.01, 0.2)}


@RULES.of("QuantizeLinear", "DequantizeLinear")
def _zero_point(scene: Scene) -> Values:
    """None for numbers of 32 bits and for floating-point ones."""
    point = scene.operand(2)
    wide = point is not None and point.dtype is not None and point.dtype.bitwidth >= 32
    return {2: 0} if wide or scene.is_floating(2) else {}
