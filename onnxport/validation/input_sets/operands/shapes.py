"""Target shapes, repeats, sizes and axes: operands that the declared shape of the output decides."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import prod

import numpy as np

from onnxport.graph.runtimes.kernels import REDUCES_EMPTY_FROM_THE_LAST
from onnxport.validation.input_sets.domains import REDUCTIONS
from onnxport.validation.input_sets.operands.scene import Rules, Scene, Shape, Values

RULES = Rules()


@RULES.of("ConstantOfShape")
def _declared_shape(scene: Scene) -> Values:
    out = scene.output_shape()
    return {0: out} if out is not None else {}


@RULES.of("Reshape")
def _reshape(scene: Scene) -> Values:
    out, data = scene.output_shape(), scene.shape(0)
    if out is not None and (data is None or prod(out) == prod(data)):
        return {1: out}
    count = scene.element_count(1, 1)
    if data is None or not count:
        return {}
    kept = [size for size in data if size > 1][: count - 1]
    return {1: [*([1] * (count - 1 - len(kept))), *kept, -1]}


@RULES.of("Expand")
def _expand(scene: Scene) -> Values:
    out = scene.output_shape()
    count = scene.element_count(1, len(out or ()))
    return {1: out[len(out) - count :]} if out is not None and count <= len(out) else {}


@RULES.of("Tile", shapes=(0,))
def _tile(scene: Scene, data: Shape) -> Values:
    out = scene.output_shape()
    if out is None or 0 in data:
        return {1: scene.rng.integers(1, 4, len(data))}
    return {1: [b // a for a, b in zip(data, out, strict=True)]}


@RULES.of("CenterCropPad")
def _crop_or_pad(scene: Scene) -> Values:
    out, axes = scene.output_shape(), scene.attribute("axes", None)
    return {} if out is None else {1: out if axes is None else [out[axis] for axis in axes]}


@RULES.of("Resize", "Upsample", shapes=(0,))
def _resize(scene: Scene, data: Shape) -> Values:
    out = scene.output_shape() or tuple(size if axis < 2 else 2 * size for axis, size in enumerate(data))
    axes = scene.attribute("axes", None) or range(len(data))
    sizes, scales = [out[axis] for axis in axes], [out[axis] / data[axis] for axis in axes]
    if scene.node.op_type == "Upsample":
        return {1: scales}
    # The scale that rounds down to the declared size is not the quotient's own rounding: a little more.
    scales = [scale if scale == 1 else scale * (1 + 1e-6) for scale in scales]
    count = len(sizes)
    start, end = scene.rng.uniform(0, 0.4, count), scene.rng.uniform(0.6, 1, count)
    return {1: np.concatenate([start, end]), 2: scales, 3: sizes}


@RULES.of("Col2Im", shapes=(0,))
def _col2im(scene: Scene, data: Shape) -> Values:
    out = scene.output_shape()
    if out is None:
        return {}
    image, rank = out[2:], len(out) - 2
    strides, dilations = scene.attribute("strides", [1] * rank), scene.attribute("dilations", [1] * rank)
    pads = scene.attribute("pads", [0] * (2 * rank))
    padded = [size + pads[i] + pads[i + rank] for i, size in enumerate(image)]
    for block in product(*(range(1, size + 1) for size in padded)):
        places = [(size - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i, size in enumerate(padded)]
        if prod(block) * out[1] == data[1] and min(places) > 0 and prod(places) == data[2]:
            return {1: image, 2: block}
    return {1: image}


@RULES.of("AffineGrid")
def _affine_grid(scene: Scene) -> Values:
    out = scene.output_shape()
    return {1: [out[0], 3, *out[1:-1]]} if out is not None else {}


@RULES.of(*REDUCTIONS, shapes=(0,))
def _reduction_axes(scene: Scene, data: Shape) -> Values:
    out, count, rank = scene.output_shape(), min(scene.element_count(1, 1), len(data)), len(data)
    keep = scene.attribute("keepdims", 1)
    choices = [
        axes
        for axes in combinations(range(rank), count)  # none at all may stand for every one
        if out is None or out in (_reduced_shape(data, axes, keep), _reduced_shape(data, axes or range(rank), keep))
    ]
    if not choices or (0 in data and not REDUCES_EMPTY_FROM_THE_LAST):
        return {1: choices[0] if choices else list(range(count))}
    return {1: scene.some_from_end(choices[int(scene.rng.integers(len(choices)))], rank)}


def _reduced_shape(shape: Shape, axes: Sequence[int], keep: int) -> Shape:
    return tuple(1 if i in axes else size for i, size in enumerate(shape) if keep or i not in axes)


@RULES.of("Squeeze", shapes=(0,))
def _squeeze(scene: Scene, data: Shape) -> Values:
    out, ones = scene.output_shape(), [axis for axis, size in enumerate(data) if size == 1]
    for axes in combinations(ones, min(scene.element_count(1, 1), len(ones))):
        if out is None or _reduced_shape(data, axes, 0) == out:
            return {1: scene.some_from_end(axes, len(data))}
    return {}


@RULES.of("Unsqueeze", shapes=(0,))
def _unsqueeze(scene: Scene, data: Shape) -> Values:
    out, count = scene.output_shape(), scene.element_count(1, 1)
    rank = len(data) + count
    choices = [
        axes
        for axes in combinations(range(rank), count)
        if out is None or (len(out) == rank and _reduced_shape(out, axes, 0) == data and all(out[a] == 1 for a in axes))
    ]
    return {1: scene.some_from_end(choices[int(scene.rng.integers(len(choices)))], rank)} if choices else {}


@RULES.of("CumSum", "CumProd", shapes=(0,))
def _any_axis(scene: Scene, data: Shape) -> Values:
    return {1: scene.rng.integers(-len(data), len(data))} if data else {}


@RULES.of("DFT", shapes=(0,))
def _dft(scene: Scene, data: Shape) -> Values:
    out = scene.output_shape()
    if len(data) < 2:
        return {}
    axes = [
        axis
        for axis in range(1, max(len(data) - 1, 2))
        if out is None or all(a == b for i, (a, b) in enumerate(zip(data[:-1], out[:-1], strict=True)) if i != axis)
    ]
    axis = axes[int(scene.rng.integers(len(axes)))] if axes else 1
    return {1: data[axis] if out is None else out[axis], 2: scene.some_from_end([axis], len(data))[0]}
