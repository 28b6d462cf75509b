"""Which part of a tensor an operator takes, adds or counts: starts, ends, pads, splits, ranges."""

from __future__ import annotations

from onnxport.validation.input_sets.operands.scene import Rules, Scene, Shape, Values

RULES = Rules()


@RULES.of("Slice", shapes=(0,))
def _slice(scene: Scene, data: Shape) -> Values:
    out, count, rank = scene.output_shape(), scene.element_count(1, len(data)), len(data)
    fixed = scene.constant(3)
    if fixed is not None:
        axes = [int(axis) % rank for axis in fixed]
    elif scene.operand(3) is None:
        axes = list(range(count))
    else:
        changed = [axis for axis in range(rank) if out is not None and out[axis] != data[axis]]
        axes = [*changed, *(axis for axis in range(rank) if axis not in changed)][:count]
    wanted = out if out is not None else [max(size - 1, 1) for size in data]
    rows = [_start_end_step(scene, data[axis], wanted[axis]) for axis in axes]
    starts, ends, steps = zip(*rows, strict=True) if rows else ((), (), ())
    return {1: starts, 2: ends, 3: scene.some_from_end(axes, rank) if fixed is None else axes, 4: steps}


def _start_end_step(scene: Scene, size: int, wanted: int) -> tuple[int, int, int]:
    """Start, end and step that take `wanted` of `size` elements."""
    given = scene.constant(4)
    steps = [1] if scene.operand(4) is None else [1, -1, 2, -2, 3] if given is None else [int(given.flat[0])]
    feasible = [step for step in steps if (wanted - 1) * abs(step) < size]
    if wanted == 0 or not feasible:
        return size, 10 * size + 10, 1
    step = feasible[int(scene.rng.integers(len(feasible)))]
    first = int(scene.rng.integers(0, size - (wanted - 1) * abs(step)))
    last = first + (wanted - 1) * abs(step)
    if step > 0:
        return first, last + 1, step
    return last, first - 1 if first else -size - 1, step


@RULES.of("Pad", shapes=(0,))
def _pad(scene: Scene, data: Shape) -> Values:
    out, count, rank = scene.output_shape(), scene.element_count(1, 2 * len(data)) // 2, len(data)
    more = [b - a for a, b in zip(data, out, strict=True)] if out is not None else [1] * rank
    axes = sorted(range(rank), key=lambda axis: more[axis] == 0)[:count] if scene.operand(3) else list(range(rank))
    axes.sort()
    # where values of the tensor itself are repeated there are only so many
    most = {"reflect": -1, "edge": 1 << 20, "wrap": 0}.get(scene.attribute("mode", "constant"), 1 << 20)
    drawn = [min(int(scene.rng.integers(0, abs(more[axis]) + 1)), data[axis] + most) for axis in axes]
    before = [count if more[axis] >= 0 else -count for axis, count in zip(axes, drawn, strict=True)]
    after = [more[axis] - begin for axis, begin in zip(axes, before, strict=True)]
    return {1: [*before, *after], 3: scene.some_from_end(axes, rank)}


@RULES.of("TopK")
def _top_k(scene: Scene) -> Values:
    data, out, axis = scene.shape(0), scene.output_shape(), scene.attribute("axis", -1)
    if out is not None:
        return {1: [out[axis]]}
    return {1: [min(2, data[axis])]} if data is not None else {1: [1]}


@RULES.of("Split")
def _split(scene: Scene) -> Values:
    data, axis = scene.shape(0), scene.attribute("axis", 0)
    outs = [scene.draw.shape(output) for output in scene.node.outputs]
    if all(out is not None for out in outs) and outs:
        return {1: [out[axis] for out in outs if out is not None]}
    return {1: _even_split(data[axis], scene.element_count(1, len(outs)))} if data is not None else {}


def _even_split(size: int, count: int) -> list[int]:
    return [size // count + (i < size % count) for i in range(count)] if count else []


@RULES.of("SplitToSequence", shapes=(0, 1))
def _split_to_sequence(scene: Scene, data: Shape, split: Shape) -> Values:
    size = data[scene.attribute("axis", 0)]
    return {1: _even_split(size, split[0]) if split else scene.rng.integers(1, size + 1)}


@RULES.of("Range")
def _range(scene: Scene) -> Values:
    out = scene.output_shape()
    count = out[0] if out is not None else 4
    if scene.is_floating(0):
        number, move = scene.rng.uniform(-2, 2), float(scene.rng.choice([-0.75, 0.5, 2]))
        return {0: number, 1: number + move * (count - 0.5), 2: move}
    start, step = int(scene.rng.integers(-5, 6)), int(scene.rng.choice([-3, -1, 1, 2]))
    return {0: start, 1: start + step * count, 2: step}


@RULES.of("OneHot")
def _one_hot(scene: Scene) -> Values:
    out, known, indices = scene.output_shape(), scene.constant(1), scene.shape(0)
    depth = int(known.flat[0]) if known is not None else 4
    if out is not None:
        depth = out[scene.attribute("axis", -1)]
    drawn = scene.rng.integers(scene.least_index(depth), depth, indices) if indices is not None else 0
    return {0: drawn, 1: depth}
