"""Numbers that bound each other: limits, boxes, frames, zero points."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import numpy as np
import onnx_ir as ir

from onnxport.validation.input_sets.operands.scene import Rule, Scene, Values, attribute, operand, output_shape


def _clip(scene: Scene, node: ir.Node) -> Values:
    dtype = node.inputs[0].dtype if node.inputs and node.inputs[0] is not None else None
    if dtype is not None and dtype.is_floating_point():
        return {1: scene.rng.uniform(-1, 0), 2: scene.rng.uniform(0.1, 1)}
    return {1: scene.rng.integers(0, 2), 2: scene.rng.integers(2, 5)}


def _boxes(scene: Scene, node: ir.Node) -> Values:
    shape, scores = scene.shape(operand(node, 0)), scene.shape(operand(node, 1))
    if shape is None or scores is None:
        return {}
    corners = np.sort(scene.rng.random((*shape[:-1], 2, 2)), axis=-2)
    boxes = corners.reshape(*shape[:-1], 4)
    return {0: boxes, 1: scene.rng.random(scores), 3: [scene.rng.uniform(0.2, 0.8)], 4: [scene.rng.uniform(0, 0.3)]}


def _rois(scene: Scene, node: ir.Node) -> Values:
    data, rois = scene.shape(operand(node, 0)), scene.shape(operand(node, 1))
    if data is None or rois is None:
        return {}
    size = np.asarray([data[3], data[2]]) / attribute(node, "spatial_scale", 1.0)
    corners = np.sort(scene.rng.random((rois[0], 2, 2)), axis=1) * (size - 1)
    return {1: corners.reshape(rois), 2: scene.rng.integers(0, data[0], rois[0])}


def _mel_weights(scene: Scene, node: ir.Node) -> Values:
    out = output_shape(scene, node)
    return {0: out[1], 1: 2 * (out[0] - 1)} if out is not None else {0: 8, 1: 16}


def _window(scene: Scene, node: ir.Node) -> Values:
    out = output_shape(scene, node)
    return {0: out[0]} if out else {}


def _stft(scene: Scene, node: ir.Node) -> Values:
    signal, out, window = scene.shape(operand(node, 0)), output_shape(scene, node), scene.shape(operand(node, 2))
    if signal is None:
        return {}
    width = window[0] if window else signal[1] // 4
    if out is not None and not window:
        width = 2 * (out[2] - 1) if attribute(node, "onesided", 1) else out[2]
    frames = out[1] if out is not None else 3
    steps: Iterator[int] = (step for step in range(1, signal[1]) if (signal[1] - width) // step + 1 == frames)
    return {1: next(steps, max(ceil(width / 2), 1)), 3: width}


def _optimizer(scene: Scene, node: ir.Node) -> Values:
    return {0: scene.rng.uniform(0.01, 0.2)}


def _quantized(scene: Scene, node: ir.Node) -> Values:
    """Zero points: none for numbers of 32 bits and for floating-point ones."""
    point = operand(node, 2)
    wide = (
        point is not None
        and point.dtype is not None
        and (point.dtype.is_floating_point() or point.dtype.bitwidth >= 32)
    )
    return {2: 0} if wide else {}


RULES: dict[str, Rule] = {
    "Clip": _clip,
    "NonMaxSuppression": _boxes,
    "RoiAlign": _rois,
    "MelWeightMatrix": _mel_weights,
    "BlackmanWindow": _window,
    "HammingWindow": _window,
    "HannWindow": _window,
    "STFT": _stft,
    "Adagrad": _optimizer,
    "Adam": _optimizer,
    "Momentum": _optimizer,
    "QuantizeLinear": _quantized,
    "DequantizeLinear": _quantized,
}
