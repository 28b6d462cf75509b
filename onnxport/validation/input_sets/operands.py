"""Operands that must fit together, drawn for one node at a time: a rule an operator.

A rule gives values for some of the node's inputs by their index. What the graph declares of the node's outputs decides first: a
`Reshape` is drawn to the shape that its output has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import ceil, prod
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from onnxport.validation.input_sets.pictures import encoded_image

Shape = tuple[int, ...]
Values = Mapping[int, Any]


class Scene(Protocol):
    """What a rule may ask while inputs are drawn."""

    rng: np.random.Generator
    from_end: bool  # whether indices may count from the end, which a source in a framework need not take

    def shape(self, value: ir.Value | None) -> Shape | None:
        """The sizes of a value in this draw; None where they are not known."""

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The numbers of a value that is a constant or drawn before; None else."""


Rule = Callable[[Scene, ir.Node], Values]


def operand(node: ir.Node, index: int) -> ir.Value | None:
    """An input of a node; None where it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def attribute(node: ir.Node, name: str, default: Any) -> Any:
    """The value of an attribute, or its default."""
    return node.attributes[name].value if name in node.attributes else default


def _out(scene: Scene, node: ir.Node, index: int = 0) -> Shape | None:
    return scene.shape(node.outputs[index]) if index < len(node.outputs) else None


def _length(scene: Scene, node: ir.Node, index: int, default: int) -> int:
    """The number of elements of a one-dimensional operand."""
    shape = scene.shape(operand(node, index))
    return prod(shape) if shape is not None else default


def _least(scene: Scene, size: int) -> int:
    """The least index into an axis."""
    return -size if scene.from_end else 0


def _turned(scene: Scene, axes: Sequence[int], rank: int) -> list[int]:
    """Axes of which some count from the end."""
    return [axis - rank if scene.rng.random() < 0.5 else axis for axis in axes]


# -- shapes ----------------------------------------------------------------------------------------------------------------


def _shape_at(*places: int) -> Rule:
    def rule(scene: Scene, node: ir.Node) -> Values:
        out = _out(scene, node)
        return dict.fromkeys(places, out) if out is not None else {}

    return rule


def _reshape(scene: Scene, node: ir.Node) -> Values:
    out, data = _out(scene, node), scene.shape(operand(node, 0))
    if out is not None and (data is None or prod(out) == prod(data)):
        return {1: out}
    count = _length(scene, node, 1, 1)
    if data is None or not count:
        return {}
    kept = [size for size in data if size > 1][: count - 1]
    return {1: [*([1] * (count - 1 - len(kept))), *kept, -1]}


def _expand(scene: Scene, node: ir.Node) -> Values:
    out = _out(scene, node)
    count = _length(scene, node, 1, len(out or ()))
    return {1: out[len(out) - count :]} if out is not None and count <= len(out) else {}


def _tile(scene: Scene, node: ir.Node) -> Values:
    out, data = _out(scene, node), scene.shape(operand(node, 0))
    if data is None:
        return {}
    if out is None or 0 in data:
        return {1: scene.rng.integers(1, 4, len(data))}
    return {1: [b // a for a, b in zip(data, out, strict=True)]}


def _crop_or_pad(scene: Scene, node: ir.Node) -> Values:
    out = _out(scene, node)
    axes = attribute(node, "axes", None)
    return {} if out is None else {1: out if axes is None else [out[axis] for axis in axes]}


def _resize(scene: Scene, node: ir.Node) -> Values:
    out, data = _out(scene, node), scene.shape(operand(node, 0))
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
    out, data = _out(scene, node), scene.shape(operand(node, 0))
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
    out = _out(scene, node)
    return {1: [out[0], 3, *out[1:-1]]} if out is not None else {}


# -- axes ------------------------------------------------------------------------------------------------------------------


def _reduced(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), _out(scene, node)
    if data is None:
        return {}
    count, rank = min(_length(scene, node, 1, 1), len(data)), len(data)
    keep = attribute(node, "keepdims", 1)
    choices = [
        axes
        for axes in combinations(range(rank), count)
        if out is None or _without(data, axes, keep) == out or (not axes and _without(data, range(rank), keep) == out)
    ]
    if (
        not choices or 0 in data
    ):  # of a tensor without elements onnxruntime 1.31 does not take axes that count from the end
        return {1: choices[0] if choices else list(range(count))}
    return {1: _turned(scene, choices[int(scene.rng.integers(len(choices)))], rank)}


def _without(shape: Shape, axes: Sequence[int], keep: int) -> Shape:
    return tuple(1 if i in axes else size for i, size in enumerate(shape) if keep or i not in axes)


def _squeeze(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), _out(scene, node)
    if data is None:
        return {}
    ones = [axis for axis, size in enumerate(data) if size == 1]
    for axes in combinations(ones, min(_length(scene, node, 1, 1), len(ones))):
        if out is None or _without(data, axes, 0) == out:
            return {1: _turned(scene, axes, len(data))}
    return {}


def _unsqueeze(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), _out(scene, node)
    count = _length(scene, node, 1, 1)
    if data is None:
        return {}
    rank = len(data) + count
    choices = [
        axes
        for axes in combinations(range(rank), count)
        if out is None or (len(out) == rank and _without(out, axes, 0) == data and all(out[a] == 1 for a in axes))
    ]
    return {1: _turned(scene, choices[int(scene.rng.integers(len(choices)))], rank)} if choices else {}


def _axis_at(place: int) -> Rule:
    def rule(scene: Scene, node: ir.Node) -> Values:
        data = scene.shape(operand(node, 0))
        return {place: scene.rng.integers(-len(data), len(data))} if data else {}

    return rule


def _dft(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), _out(scene, node)
    if data is None or len(data) < 2:
        return {}
    axes = [
        axis
        for axis in range(1, max(len(data) - 1, 2))
        if out is None or all(a == b for i, (a, b) in enumerate(zip(data[:-1], out[:-1], strict=True)) if i != axis)
    ]
    axis = axes[int(scene.rng.integers(len(axes)))] if axes else 1
    return {1: data[axis] if out is None else out[axis], 2: _turned(scene, [axis], len(data))[0]}


# -- parts of a tensor -----------------------------------------------------------------------------------------------------


def _slice(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), _out(scene, node)
    if data is None:
        return {}
    count, rank = _length(scene, node, 1, len(data)), len(data)
    fixed = scene.constant(operand(node, 3))
    if fixed is not None:
        axes = [int(axis) % rank for axis in fixed]
    elif operand(node, 3) is None:
        axes = list(range(count))
    else:
        changed = [axis for axis in range(rank) if out is not None and out[axis] != data[axis]]
        axes = [*changed, *(axis for axis in range(rank) if axis not in changed)][:count]
    rows = [_cut(scene, data[axis], out[axis] if out is not None else max(data[axis] - 1, 1), node) for axis in axes]
    starts, ends, steps = zip(*rows, strict=True) if rows else ((), (), ())
    return {1: starts, 2: ends, 3: _turned(scene, axes, rank) if fixed is None else axes, 4: steps}


def _cut(scene: Scene, size: int, wanted: int, node: ir.Node) -> tuple[int, int, int]:
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
    data, out = scene.shape(operand(node, 0)), _out(scene, node)
    if data is None:
        return {}
    count, rank = _length(scene, node, 1, 2 * len(data)) // 2, len(data)
    more = [b - a for a, b in zip(data, out, strict=True)] if out is not None else [1] * rank
    axes = sorted(range(rank), key=lambda axis: more[axis] == 0)[:count] if operand(node, 3) else list(range(rank))
    axes.sort()
    # where values of the tensor itself are repeated there are only so many
    most = {"reflect": -1, "edge": 1 << 20, "wrap": 0}.get(attribute(node, "mode", "constant"), 1 << 20)
    before = [
        min(int(scene.rng.integers(0, abs(more[a]) + 1)), data[a] + most) * (1 if more[a] >= 0 else -1) for a in axes
    ]
    after = [more[axis] - begin for axis, begin in zip(axes, before, strict=True)]
    return {1: [*before, *after], 3: _turned(scene, axes, rank)}


def _top_k(scene: Scene, node: ir.Node) -> Values:
    data, out = scene.shape(operand(node, 0)), _out(scene, node)
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
    return {1: _parts(data[axis], _length(scene, node, 1, len(outs)))}


def _parts(size: int, count: int) -> list[int]:
    return [size // count + (i < size % count) for i in range(count)] if count else []


def _split_to_sequence(scene: Scene, node: ir.Node) -> Values:
    data, split = scene.shape(operand(node, 0)), scene.shape(operand(node, 1))
    if data is None or split is None:
        return {}
    size = data[attribute(node, "axis", 0)]
    return {1: scene.rng.integers(1, size + 1)} if not split else {1: _parts(size, split[0])}


def _range(scene: Scene, node: ir.Node) -> Values:
    out = _out(scene, node)
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
    out = _out(scene, node)
    known = scene.constant(operand(node, 1))
    depth = int(known.flat[0]) if known is not None else 4
    if out is not None:
        depth = out[attribute(node, "axis", -1)]
    indices = scene.shape(operand(node, 0))
    drawn = scene.rng.integers(_least(scene, depth), depth, indices) if indices is not None else 0
    return {0: drawn, 1: depth}


# -- indices ---------------------------------------------------------------------------------------------------------------


def _gather(scene: Scene, node: ir.Node) -> Values:
    data, indices = scene.shape(operand(node, 0)), scene.shape(operand(node, 1))
    if not data or indices is None:
        return {}
    size = data[attribute(node, "axis", 0)]
    return {1: scene.rng.integers(_least(scene, size), size, indices)} if size else {}


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
    order = scene.rng.permuted(np.broadcast_to(np.arange(size), (*_dropped(indices, axis), size)), axis=-1)
    chosen = np.moveaxis(order[..., :count], -1, axis)
    return {1: np.where((scene.rng.random(chosen.shape) < 0.5) & scene.from_end, chosen - size, chosen)}


def _dropped(shape: Shape, axis: int) -> Shape:
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
    out, mask = _out(scene, node), scene.shape(operand(node, 1))
    if mask is None:
        return {}
    count = max(mask[0] // 2, 1) if out is None else out[attribute(node, "axis", 0)]
    chosen = np.arange(mask[0]) < count
    return {1: scene.rng.permutation(chosen)}


def _max_unpool(scene: Scene, node: ir.Node) -> Values:
    """Places count in the tensor of the size that the windows give, whatever the third operand says."""
    pooled, out = scene.shape(operand(node, 1)), _out(scene, node)
    if pooled is None:
        return {}
    kernel = attribute(node, "kernel_shape", [2] * (len(pooled) - 2))
    rank = len(kernel)
    strides, pads = attribute(node, "strides", [1] * rank), attribute(node, "pads", [0] * (2 * rank))
    sizes = [(size - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank] for i, size in enumerate(pooled[2:])]
    places = np.sort(scene.rng.choice(prod((*pooled[:2], *sizes)), prod(pooled), replace=False)).reshape(pooled)
    return {1: places, 2: out or (*pooled[:2], *sizes)}


# -- lengths and places in a sequence --------------------------------------------------------------------------------------


def _lengths(place: int, axis: int) -> Rule:
    """Numbers of steps, from 1 to the size of an axis of the data."""

    def rule(scene: Scene, node: ir.Node) -> Values:
        data, lengths = scene.shape(operand(node, 0)), scene.shape(operand(node, place))
        where = attribute(node, "time_axis", axis)
        return {place: scene.rng.integers(1, data[where] + 1, lengths)} if data and lengths is not None else {}

    return rule


def _attention(scene: Scene, node: ir.Node) -> Values:
    keys, mask, lengths = (scene.shape(operand(node, i)) for i in (1, 3, 6))
    values: dict[int, Any] = {}
    if keys is not None and lengths is not None:
        longest = min(keys[-2], mask[-1]) if mask else keys[-2]
        values[6] = scene.rng.integers(1, longest + 1, lengths)
    if mask is not None and mask and node.inputs[3] is not None and node.inputs[3].dtype == ir.DataType.BOOL:
        seen = scene.rng.random(mask) < 0.6
        seen[..., 0] = True  # a row that sees nothing has no softmax
        values[3] = seen
    return values


def _place_in_sequence(place: int, extra: int) -> Rule:
    def rule(scene: Scene, node: ir.Node) -> Values:
        count = SEQUENCE_LENGTH
        return {place: scene.rng.integers(-count, count + extra)}

    return rule


def _loop(scene: Scene, node: ir.Node) -> Values:
    outs = [shape for output in node.outputs if (shape := scene.shape(output))]
    return {0: outs[-1][0] if outs and 0 < outs[-1][0] <= 16 else 3, 1: True}


# -- numbers that bound each other -----------------------------------------------------------------------------------------


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
    out = _out(scene, node)
    return {0: out[1], 1: 2 * (out[0] - 1)} if out is not None else {0: 8, 1: 16}


def _window(scene: Scene, node: ir.Node) -> Values:
    out = _out(scene, node)
    return {0: out[0]} if out else {}


def _stft(scene: Scene, node: ir.Node) -> Values:
    signal, out, window = scene.shape(operand(node, 0)), _out(scene, node), scene.shape(operand(node, 2))
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


# Where a sequence is drawn it has this many elements.
SEQUENCE_LENGTH = 3

RULES: dict[str, Rule] = {
    "ImageDecoder": encoded_image,
    "Reshape": _reshape,
    "Expand": _expand,
    "ConstantOfShape": _shape_at(0),
    "Tile": _tile,
    "CenterCropPad": _crop_or_pad,
    "Resize": _resize,
    "Upsample": _resize,
    "Col2Im": _col2im,
    "AffineGrid": _affine_grid,
    **{
        f"Reduce{name}": _reduced
        for name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
    },
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "CumSum": _axis_at(1),
    "CumProd": _axis_at(1),
    "DFT": _dft,
    "Slice": _slice,
    "Pad": _pad,
    "TopK": _top_k,
    "Split": _split,
    "SplitToSequence": _split_to_sequence,
    "Range": _range,
    "OneHot": _one_hot,
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
    "ReverseSequence": _lengths(1, 0),
    "RNN": _lengths(4, 0),
    "GRU": _lengths(4, 0),
    "LSTM": _lengths(4, 0),
    "Attention": _attention,
    "SequenceAt": _place_in_sequence(1, 0),
    "SequenceErase": _place_in_sequence(1, 0),
    "SequenceInsert": _place_in_sequence(2, 1),
    "Loop": _loop,
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
