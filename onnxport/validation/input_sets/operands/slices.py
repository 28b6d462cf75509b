"""Which part of a tensor an operator takes, adds or counts: starts, ends, pads, splits, ranges."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.validation.input_sets.operands.scene import (
    Rule,
    Scene,
    Values,
    attribute,
    element_count,
    least_index,
    operand,
    output_shape,
    some_from_end,
)


def _slice(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), output_shape(scene, node)
    if data is None:
        return {}
    count, rank = element_count(scene, node, 1, len(data)), len(data)
    fixed = scene.constant(operand(node, 3))
    if fixed is not None:
        axes = [int(axis) % rank for axis in fixed]
    elif operand(node, 3) is None:
        axes = list(range(count))
    else:
        changed = [axis for axis in range(rank) if out is not None and out[axis] != data[axis]]
        axes = [*changed, *(axis for axis in range(rank) if axis not in changed)][:count]
    rows = [
        _start_end_step(scene, data[axis], out[axis] if out is not None else max(data[axis] - 1, 1), node)
        for axis in axes
    ]
    starts, ends, steps = zip(*rows, strict=True) if rows else ((), (), ())
    return {1: starts, 2: ends, 3: some_from_end(scene, axes, rank) if fixed is None else axes, 4: steps}


def _start_end_step(scene: Scene, size: int, wanted: int, node: ir.Node) -> tuple[int, int, int]:
    """Start, end and step that take `wanted` of `size` elements."""
    given = scene.constant(operand(node, 4))
    steps = [1] if operand(node, 4) is None else [1, -1, 2, -2, 3] if given is None else [int(given.flat[0])]
    feasible = [step for step in steps if (wanted - 1) * abs(step) < size]
    if wanted == 0 or not feasible:
        return size, 10 * size + 10, 1
    step = feasible[int(scene.rng.integers(len(feasible)))]
    first = int(scene.rng.integers(0, size - (wanted - 1) * abs(step)))
    last = first + (wanted - 1) * abs(step)
    if step > 0:
        return first, last + 1, step
    return last, first - 1 if first else -size - 1, step


def _pad(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), output_shape(scene, node)
    if data is None:
        return {}
    count, rank = element_count(scene, node, 1, 2 * len(data)) // 2, len(data)
    more = [b - a for a, b in zip(data, out, strict=True)] if out is not None else [1] * rank
    axes = sorted(range(rank), key=lambda axis: more[axis] == 0)[:count] if operand(node, 3) else list(range(rank))
    axes.sort()
    # where values of the tensor itself are repeated there are only so many
    most = {"reflect": -1, "edge": 1 << 20, "wrap": 0}.get(attribute(node, "mode", "constant"), 1 << 20)
    before = [
        min(int(scene.rng.integers(0, abs(more[a]) + 1)), data[a] + most) * (1 if more[a] >= 0 else -1) for a in axes
    ]
    after = [more[axis] - begin for axis, begin in zip(axes, before, strict=True)]
    return {1: [*before, *after], 3: some_from_end(scene, axes, rank)}


def _top_k(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), output_shape(scene, node)
    axis = attribute(node, "axis", -1)
    if out is not None:
        return {1: [out[axis]]}
    return {1: [min(2, data[axis])]} if data is not None else {1: [1]}


def _split(scene: Scene, node: ir.Node) -> Values:
    data, axis = scene.shape(operand(node, 0)), attribute(node, "axis", 0)
    outs = [scene.shape(output) for output in node.outputs]
    if all(out is not None for out in outs) and outs:
        return {1: [out[axis] for out in outs if out is not None]}
    if data is None:
        return {}
    return {1: _even_split(data[axis], element_count(scene, node, 1, len(outs)))}


def _even_split(size: int, count: int) -> list[int]:
    return [size // count + (i < size % count) for i in range(count)] if count else []


def _split_to_sequence(scene: Scene, node: ir.Node) -> Values:
    data, split = scene.shape(operand(node, 0)), scene.shape(operand(node, 1))
    if data is None or split is None:
        return {}
    size = data[attribute(node, "axis", 0)]
    return {1: scene.rng.integers(1, size + 1)} if not split else {1: _even_split(size, split[0])}


def _range(scene: Scene, node: ir.Node) -> Values:
    out = output_shape(scene, node)
    count = out[0] if out is not None else 4
    dtype = node.inputs[0].dtype if node.inputs and node.inputs[0] is not None else None
    floating = dtype is not None and dtype.is_floating_point()
    start, step = (
        (scene.rng.uniform(-2, 2), float(scene.rng.choice([-0.75, 0.5, 2])))
        if floating
        else (int(scene.rng.integers(-5, 6)), int(scene.rng.choice([-3, -1, 1, 2])))
    )
    return {0: start, 1: start + step * (count - 0.5) if floating else start + step * count, 2: step}


def _one_hot(scene: Scene, node: ir.Node) -> Values:
    out = output_shape(scene, node)
    known = scene.constant(operand(node, 1))
    depth = int(known.flat[0]) if known is not None else 4
    if out is not None:
        depth = out[attribute(node, "axis", -1)]
    indices = scene.shape(operand(node, 0))
    drawn = scene.rng.integers(least_index(scene, depth), depth, indices) if indices is not None else 0
    return {0: drawn, 1: depth}


RULES: dict[str, Rule] = {
    "Slice": _slice,
    "Pad": _pad,
    "TopK": _top_k,
    "Split": _split,
    "SplitToSequence": _split_to_sequence,
    "Range": _range,
    "OneHot": _one_hot,
}
