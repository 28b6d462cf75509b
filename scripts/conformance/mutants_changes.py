"""One change at a time to an ONNX graph: what a converter gets wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper


@dataclass(frozen=True)
class Change:
    """A changed copy of a graph.

    Attributes:
        kind: one of `KINDS`.
        words: where and what.
        proto: the changed graph.
    """

    kind: str
    words: str
    proto: onnx.ModelProto


KINDS = ("attribute", "operator", "operand", "tree", "weight", "float16", "outputs")
# An operator and what it is taken for.
_SWAPS = {
    "Max": ["Min"],
    "Min": ["Max"],
    "Add": ["Sub"],
    "Sub": ["Add"],
    "Mul": ["Div"],
    "Div": ["Mul"],
    "Relu": ["LeakyRelu", "Elu", "Softplus"],
    "Sigmoid": ["Tanh", "HardSigmoid"],
    "Tanh": ["Softsign", "Erf"],
    "Erf": ["Tanh"],
    "Floor": ["Round"],
    "Round": ["Floor"],
    "ReduceMean": ["ReduceSum", "ReduceMax"],
    "ReduceSum": ["ReduceMean"],
    "ReduceMax": ["ReduceMean"],
    "MaxPool": ["AveragePool"],
    "Greater": ["GreaterOrEqual"],
    "Less": ["LessOrEqual"],
    "ArgMax": ["ArgMin"],
    "Softmax": ["LogSoftmax"],
    "Sqrt": ["Abs"],
    "Exp": ["Softplus"],
}
_AXES = ("axis",)
_FLAGS = ("keepdims", "transA", "transB", "select_last_index", "largest", "align_corners", "count_include_pad")
_TREE_LEVELS = ("nodes_values", "nodes_values_as_tensor", "nodes_splits")
_TREE_LEAVES = (
    "target_weights",
    "class_weights",
    "leaf_weights",
    "target_weights_as_tensor",
    "class_weights_as_tensor",
)


def changes(proto: onnx.ModelProto, draw: random.Random) -> Iterator[Change]:
    """Changed copies of a model; what changes nothing in the file is left out."""
    same = _copy(proto)
    yield from (change for change in _all_changes(proto, draw) if change.proto != same)


def _all_changes(proto: onnx.ModelProto, draw: random.Random) -> Iterator[Change]:
    for index, node in enumerate(proto.graph.node):
        where = f"{node.op_type} {node.name or index}"
        edits = (_attributes(node), _operators(node), _operands(node, proto), _trees(node, draw))
        for kind, found in zip(KINDS, edits, strict=False):
            for word, edit in found:
                changed = _copy(proto)
                edit(changed.graph.node[index])
                yield Change(kind, f"{where}: {word}", changed)
    yield from _weights(proto, draw)
    yield from _detours(proto)
    yield from _outputs(proto)


def _copy(proto: onnx.ModelProto) -> onnx.ModelProto:
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    del changed.graph.value_info[:]
    return changed


Edit = Callable[[onnx.NodeProto], None]


def _attributes(node: onnx.NodeProto) -> Iterator[tuple[str, Edit]]:
    for place, attribute in enumerate(node.attribute):
        name = attribute.name
        if name in _AXES:
            yield f"{name} off by one", _set_int(place, attribute.i + (1 if attribute.i <= 0 else -1))
        elif name in _FLAGS:
            yield f"{name} flipped", _set_int(place, 1 - attribute.i)
        elif name == "perm" and len(attribute.ints) > 1:
            yield "perm turned", _turn(place)
        elif name == "epsilon":
            yield "epsilon x 1000", _scale_float(place, 1000.0)
        elif attribute.type == onnx.AttributeProto.FLOAT and name in ("alpha", "beta", "gamma", "lambd"):
            yield f"{name} x 1.05", _scale_float(place, 1.05)
        elif name == "approximate" and attribute.s != b"none":
            yield "approximate dropped", _drop(place)
        elif name == "pads" and any(attribute.ints):
            yield "pads turned", _turn(place)


def _set_int(place: int, value: int) -> Edit:
    def edit(node: onnx.NodeProto) -> None:
        node.attribute[place].i = value

    return edit


def _turn(place: int) -> Edit:
    def edit(node: onnx.NodeProto) -> None:
        values = list(node.attribute[place].ints)
        del node.attribute[place].ints[:]
        node.attribute[place].ints.extend([*values[1:], values[0]])

    return edit


def _scale_float(place: int, factor: float) -> Edit:
    def edit(node: onnx.NodeProto) -> None:
        node.attribute[place].f *= factor

    return edit


def _drop(place: int) -> Edit:
    def edit(node: onnx.NodeProto) -> None:
        del node.attribute[place]

    return edit


def _operators(node: onnx.NodeProto) -> Iterator[tuple[str, Edit]]:
    for other in _SWAPS.get(node.op_type, ()) if not node.domain else ():
        yield f"taken for {other}", _become(other)


def _become(op_type: str) -> Edit:
    def edit(node: onnx.NodeProto) -> None:
        node.op_type = op_type

    return edit


def _operands(node: onnx.NodeProto, proto: onnx.ModelProto) -> Iterator[tuple[str, Edit]]:
    constants = {item.name for item in proto.graph.initializer}
    if (
        node.op_type in ("Gemm", "Conv", "ConvTranspose", "LayerNormalization")
        and len(node.input) > 2
        and node.input[2]
    ):
        yield "bias dropped", lambda changed: changed.input.pop() and None
    if node.op_type in ("Sub", "Div", "Pow", "MatMul", "Greater", "Less") and len(node.input) == 2:
        yield "operands swapped", lambda changed: changed.input.extend([changed.input.pop(0)])
    if node.op_type in ("Add", "Mul", "Sub", "Div") and node.input[1] in constants:

        def skip(changed: onnx.NodeProto) -> None:
            del changed.input[1:]
            changed.op_type = "Identity"

        yield "constant operand dropped", skip


def _trees(node: onnx.NodeProto, draw: random.Random) -> Iterator[tuple[str, Edit]]:
    if not node.op_type.startswith("TreeEnsemble"):
        return
    for place, attribute in enumerate(node.attribute):
        values = _numbers(attribute)
        if attribute.name in _TREE_LEVELS and values.size:
            for share in (0.01, 0.02, 0.05):
                yield f"a threshold moved by {share:.0%} of the range", _move(place, draw.randrange(10**6), share)
        if attribute.name in _TREE_LEAVES and values.size:
            yield "a leaf off by a hundredth", _scale_leaf(place, draw.randrange(10**6))
        if attribute.name == "nodes_modes" and attribute.strings:
            yield "<= taken for <", _modes(place)


def _numbers(attribute: onnx.AttributeProto) -> np.ndarray:
    if attribute.type == onnx.AttributeProto.TENSOR:
        return numpy_helper.to_array(attribute.t)
    return np.asarray(attribute.floats, np.float32)


def _store(attribute: onnx.AttributeProto, values: np.ndarray) -> None:
    if attribute.type == onnx.AttributeProto.TENSOR:
        attribute.t.CopyFrom(numpy_helper.from_array(values.astype(numpy_helper.to_array(attribute.t).dtype)))
    else:
        del attribute.floats[:]
        attribute.floats.extend(values.tolist())


def _move(place: int, pick: int, share: float) -> Edit:
    def edit(node: onnx.NodeProto) -> None:
        features = next(item for item in node.attribute if item.name == "nodes_featureids").ints
        modes = next((list(item.strings) for item in node.attribute if item.name == "nodes_modes"), [])
        values = _numbers(node.attribute[place]).copy()
        splits = [i for i in range(len(values)) if not modes or modes[i] != b"LEAF"]
        chosen = splits[pick % len(splits)]
        beside = [values[i] for i in splits if features[i] == features[chosen]]
        values[chosen] += share * (float(np.ptp(beside)) or 1.0)
        _store(node.attribute[place], values)

    return edit


def _scale_leaf(place: int, pick: int) -> Edit:
    def edit(node: onnx.NodeProto) -> None:
        values = _numbers(node.attribute[place]).copy()
        shown = np.flatnonzero(values)
        if len(shown):
            values[shown[pick % len(shown)]] *= 1.01
        _store(node.attribute[place], values)

    return edit


def _modes(place: int) -> Edit:
    def edit(node: onnx.NodeProto) -> None:
        modes = [item.replace(b"BRANCH_LEQ", b"BRANCH_LT") for item in node.attribute[place].strings]
        del node.attribute[place].strings[:]
        node.attribute[place].strings.extend(modes)

    return edit


def _weights(proto: onnx.ModelProto, draw: random.Random) -> Iterator[Change]:
    for index, tensor in enumerate(proto.graph.initializer):
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind != "f" or not array.size or not np.any(array):
            continue
        for word, values in _changed_weights(array, draw):
            changed = _copy(proto)
            changed.graph.initializer[index].CopyFrom(
                numpy_helper.from_array(np.ascontiguousarray(values.astype(array.dtype)), tensor.name)
            )
            yield Change("weight", f"{tensor.name}: {word}", changed)


def _changed_weights(array: np.ndarray, draw: random.Random) -> Iterator[tuple[str, np.ndarray]]:
    yield "x 1.01", array * 1.01
    if array.ndim:
        axis = draw.randrange(array.ndim)
        channel = draw.randrange(array.shape[axis])
        for factor in (1.01, 1.001):
            values = np.moveaxis(array.copy(), axis, 0)
            values[channel] *= factor
            if not np.array_equal(np.moveaxis(values, 0, axis), array):
                yield f"channel {channel} of axis {axis} x {factor}", np.moveaxis(values, 0, axis)
    if array.ndim == 2 and array.shape[0] == array.shape[1] > 1:
        yield "transposed", array.T
    if array.ndim and array.shape[-1] > 1:
        yield "rolled along the last axis", np.roll(array, 1, axis=-1)


def _detours(proto: onnx.ModelProto) -> Iterator[Change]:
    inferred = onnx.shape_inference.infer_shapes(proto)
    floats = {
        item.name
        for item in (*inferred.graph.value_info, *inferred.graph.output)
        if item.type.tensor_type.elem_type == TensorProto.FLOAT
    }
    for index, node in enumerate(proto.graph.node):
        if not node.output or node.output[0] not in floats:
            continue
        changed = _copy(proto)
        name = node.output[0]
        changed.graph.node[index].output[0] = f"{name}/wide"
        narrow = onnx.helper.make_node("Cast", [f"{name}/wide"], [f"{name}/narrow"], to=TensorProto.FLOAT16)
        back = onnx.helper.make_node("Cast", [f"{name}/narrow"], [name], to=TensorProto.FLOAT)
        changed.graph.node.insert(index + 1, back)
        changed.graph.node.insert(index + 1, narrow)
        yield Change("float16", f"{node.op_type} {node.name or index}: through float16", changed)


def _outputs(proto: onnx.ModelProto) -> Iterator[Change]:
    kinds = [item.type.SerializeToString() for item in proto.graph.output]
    for first in range(len(kinds)):
        for second in range(first + 1, len(kinds)):
            if kinds[first] != kinds[second]:
                continue
            a, b = (proto.graph.output[place].name for place in (first, second))
            changed = _copy(proto)
            names = {a: b, b: a}
            for node in changed.graph.node:
                for field in (node.input, node.output):
                    for place, name in enumerate(field):
                        field[place] = names.get(name, name)
            yield Change("outputs", f"outputs {a} and {b} swapped", changed)
