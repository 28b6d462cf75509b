"""Target shapes, repeats, sizes and axes: operands that the declared shape of the output decides."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import prod

import numpy as np
import onnx_ir as ir

from onnxport.graph.runtimes.kernels import REDUCES_EMPTY_FROM_THE_LAST
from onnxport.validation.input_sets.operands.scene import (
    Rule,
    Scene,
    Shape,
    Values,
    attribute,
    element_count,
    operand,
    output_shape,
    some_from_end,
)


def _declared_shape_at(*places: int) -> Rule:
    def rule(scene: Scene, node: ir.Node) -> Values:
        out = output_shape(scene, node)
        return dict.fromkeys(places, out) if out is not None else {}

    return rule


def _reshape(scene: Scene, node: ir.Node) -> Values:
    out, data = output_shape(scene, node), scene.shape(operand(node, 0))
    if out is not None and (data is None or prod(out) == prod(data)):
        return {1: out}
    count = element_count(scene, node, 1, 1)
    if data is None or not count:
        return {}
    kept = [size for size in data if size > 1][: count - 1]
    return {1: [*([1] * (count - 1 - len(kept))), *kept, -1]}


def _expand(scene: Scene, node: ir.Node) -> Values:
    out = output_shape(scene, node)
    count = element_count(scene, node, 1, len(out or ()))
    return {1: out[len(out) - count :]} if out is not None and count <= len(out) else {}


def _tile(scene: Scene, node: ir.Node) -> Values:
    out, data = output_shape(scene, node), scene.shape(operand(node, 0))
    if data is None:
        return {}
    if out is None or 0 in data:
        return {1: scene.rng.integers(1, 4, len(data))}
    return {1: [b // a for a, b in zip(data, out, strict=True)]}


def _crop_or_pad(scene: Scene, node: ir.Node) -> Values:
    out = output_shape(scene, node)
    axes = attribute(node, "axes", None)
    return {} if out is None else {1: out if axes is None else [out[axis] for axis in axes]}


def _resize(scene: Scene, node: ir.Node) -> Values:
    out, data = output_shape(scene, node), scene.shape(operand(node, 0))
    if data is None:
        return {}
    out = out or tuple(size if axis < 2 else 2 * size for axis, size in enumerate(data))
    axes = attribute(node, "axes", None) or range(len(data))
    sizes, scales = [out[axis] for axis in axes], [out[axis] / data[axis] for axis in axes]
    if node.op_type == "Upsample":
        return {1: scales}
    # The scale that rounds down to the declared size is not the quotient's own rounding: a little more.
    scales = [scale if scale == 1 else scale * (1 + 1e-6) for scale in scales]
    count = len(sizes)
    start, end = scene.rng.uniform(0, 0.4, count), scene.rng.uniform(0.6, 1, count)
    return {1: np.concatenate([start, end]), 2: scales, 3: sizes}


def _col2im(scene: Scene, node: ir.Node) -> Values:
    out, data = output_shape(scene, node), scene.shape(operand(node, 0))
    if out is None or data is None:
        return {}
    image, rank = out[2:], len(out) - 2
    strides, dilations = attribute(node, "strides", [1] * rank), attribute(node, "dilations", [1] * rank)
    pads = attribute(node, "pads", [0] * (2 * rank))
    for block in product(*(range(1, size + pads[i] + pads[i + rank] + 1) for i, size in enumerate(image))):
        places = [
            (size + pads[i] + pads[i + rank] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
            for i, size in enumerate(image)
        ]
        if prod(block) * out[1] == data[1] and min(places) > 0 and prod(places) == data[2]:
            return {1: image, 2: block}
    return {1: image}


def _affine_grid(scene: Scene, node: ir.Node) -> Values:
    out = output_shape(scene, node)
    return {1: [out[0], 3, *out[1:-1]]} if out is not None else {}


def _reduction_axes(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), output_shape(scene, node)
    if data is None:
        return {}
    count, rank = min(element_count(scene, node, 1, 1), len(data)), len(data)
    keep = attribute(node, "keepdims", 1)
    choices = [
        axes
        for axes in combinations(range(rank), count)
        if out is None
        or _reduced_shape(data, axes, keep) == out
        or (not axes and _reduced_shape(data, range(rank), keep) == out)
    ]
    if not choices or (0 in data and not REDUCES_EMPTY_FROM_THE_LAST):
        return {1: choices[0] if choices else list(range(count))}
    return {1: some_from_end(scene, choices[int(scene.rng.integers(len(choices)))], rank)}


def _reduced_shape(shape: Shape, axes: Sequence[int], keep: int) -> Shape:
    return tuple(1 if i in axes else size for i, size in enumerate(shape) if keep or i not in axes)


def _squeeze(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), output_shape(scene, node)
    if data is None:
        return {}
    ones = [axis for axis, size in enumerate(data) if size == 1]
    for axes in combinations(ones, min(element_count(scene, node, 1, 1), len(ones))):
        if out is None or _reduced_shape(data, axes, 0) == out:
            return {1: some_from_end(scene, axes, len(data))}
    return {}


def _unsqueeze(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), output_shape(scene, node)
    count = element_count(scene, node, 1, 1)
    if data is None:
        return {}
    rank = len(data) + count
    choices = [
        axes
        for axes in combinations(range(rank), count)
        if out is None or (len(out) == rank and _reduced_shape(out, axes, 0) == data and all(out[a] == 1 for a in axes))
    ]
    return {1: some_from_end(scene, choices[int(scene.rng.integers(len(choices)))], rank)} if choices else {}


def _any_axis_at(place: int) -> Rule:
    def rule(scene: Scene, node: ir.Node) -> Values:
        data = scene.shape(operand(node, 0))
        return {place: scene.rng.integers(-len(data), len(data))} if data else {}

    return rule


def _dft(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), output_shape(scene, node)
    if data is None or len(data) < 2:
        return {}
    axes = [
        axis
        for axis in range(1, max(len(data) - 1, 2))
        if out is None or all(a == b for i, (a, b) in enumerate(zip(data[:-1], out[:-1], strict=True)) if i != axis)
    ]
    axis = axes[int(scene.rng.integers(len(axes)))] if axes else 1
    return {1: data[axis] if out is None else out[axis], 2: some_from_end(scene, [axis], len(data))[0]}


RULES: dict[str, Rule] = {
    "Reshape": _reshape,
    "Expand": _expand,
    "ConstantOfShape": _declared_shape_at(0),
    "Tile": _tile,
    "CenterCropPad": _crop_or_pad,
    "Resize": _resize,
    "Upsample": _resize,
    "Col2Im": _col2im,
    "AffineGrid": _affine_grid,
    **{
        f"Reduce{name}": _reduction_axes
        for name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
    },
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "CumSum": _any_axis_at(1),
    "CumProd": _any_axis_at(1),
    "DFT": _dft,
}
