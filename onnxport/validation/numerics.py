"""What is known of a source's arithmetic without running it: how long its sums are, how coarse its types, what is random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from onnxport.graph.bodies import bodies
from onnxport.graph.constants import constant_of
from onnxport.validation.tolerance import epsilon

# Where the length of a sum is not known before the model runs.
_UNKNOWN_LENGTH = 64
_RANDOM = frozenset("RandomNormal RandomUniform RandomNormalLike RandomUniformLike Multinomial Bernoulli".split())
_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_SUMS = frozenset("ReduceSum ReduceMean ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp ReduceLogSum".split())


@dataclass(frozen=True)
class Numerics:
    """Facts about the arithmetic of a source; a converted model is never asked for its own."""

    length: int = 1  # K, the longest sum of products; 1 where there is none
    # The epsilon of the coarsest type that it computes in, whatever type its outputs have: a 16-bit one somewhere, or a
    # narrower one that numbers are cast to; else
    # None.
    coarse: float | None = None
    trees: bool = False  # it holds tree ensembles, so that its results jump
    direct_trees: bool = False  # all of them read the graph's inputs as they are: nothing is rounded before a threshold
    random: frozenset[str] = frozenset()  # names of the outputs that depend on a random operator


def of_model(model: ir.Model) -> Numerics:
    """The facts, in one pass over the nodes."""
    length = 1
    direct: list[bool] = []
    coarse: set[float] = set()
    stages = model.opset_imports.get("", 0) >= 21  # since when GroupNormalization has `stash_type`
    for node in model.graph.all_nodes():
        length = max(length, length_of(node))
        if node.op_type.startswith("TreeEnsemble"):
            direct.append(_reads_inputs(node))
        coarse.update(epsilon(dtype.numpy()) for dtype in _result_types(node) if dtype in _HALVES)
        if _narrows(node) or (stages and _stashes(node)):
            coarse.add(2.0**-23)
    names = frozenset(value.name or "" for value in random_outputs(model))
    return Numerics(length, max(coarse, default=None), bool(direct), bool(direct) and all(direct), names)


def _result_types(node: ir.Node) -> set[ir.DataType]:
    """The element types of a node's results; where the file does not tell, what they follow from."""
    known = {value.dtype for value in node.outputs if value.dtype is not None}
    if known:
        return known
    if node.op_type == "Cast":
        return {ir.DataType(node.attributes.get_int("to", 0))}
    operands = (constant_of(value) or value for value in node.inputs if value is not None)
    return {item.dtype for item in operands if item.dtype is not None}


def _narrows(node: ir.Node) -> bool:
    """Whether a node casts float64 to float32."""
    source = node.inputs[0] if node.op_type == "Cast" else None
    return source is not None and source.dtype == ir.DataType.DOUBLE and node.outputs[0].dtype == ir.DataType.FLOAT


def _stashes(node: ir.Node) -> bool:
    """Whether a node of float64 normalises in float32, as the body of GroupNormalization does by default."""
    if node.op_type != "GroupNormalization" or node.domain or node.outputs[0].dtype != ir.DataType.DOUBLE:
        return False
    return node.attributes.get_int("stash_type", 1) == ir.DataType.FLOAT


def random_outputs(model: ir.Model) -> list[ir.Value]:
    """The outputs that depend on a random operator, of the graph or of a body in it."""
    return outputs_behind(model, is_random)


def outputs_behind(model: ir.Model, is_such: Callable[[ir.Node], bool]) -> list[ir.Value]:
    """The outputs that depend on such an operator, of the graph or of a body in it."""
    tainted: set[ir.Value] = set()
    for node in model.graph:
        inner = bodies(node)
        inputs = [*node.inputs, *(value for body in inner for inside in body.all_nodes() for value in inside.inputs)]
        own = is_such(node) or any(is_such(inside) for body in inner for inside in body.all_nodes())
        if own or any(value in tainted for value in inputs if value is not None):
            tainted.update(node.outputs)
    return [value for value in model.graph.outputs if value in tainted]


# Operators that hand values on without arithmetic.
CARRIERS = frozenset(
    "Cast Identity Reshape Unsqueeze Squeeze Flatten Transpose Concat Expand Gather Slice Split".split()
)


def _reads_inputs(node: ir.Node) -> bool:
    """Whether the node's first input comes from graph inputs and constants by operators that compute nothing."""
    stack = [node.inputs[0]] if node.inputs else []
    while stack:
        value = stack.pop()
        producer = value.producer() if value is not None else None
        if producer is None:
            continue
        if producer.op_type not in CARRIERS:
            return False
        stack.extend(producer.inputs)
    return True


def is_random(node: ir.Node) -> bool:
    """Whether a node draws its result anew each time."""
    if node.op_type == "Dropout" and not node.domain:
        mode = node.inputs[2] if len(node.inputs) > 2 else None
        return mode is not None and (mode.const_value is None or bool(mode.const_value.numpy()))
    return node.op_type in _RANDOM


def length_of(node: ir.Node) -> int:
    """The length of the sums that a node computes, from the static shapes of its inputs."""
    shapes = [value.shape if value is not None else None for value in node.inputs]
    match node.op_type:
        case "MatMul" | "MatMulInteger" | "QLinearMatMul":
            second = shapes[3 if node.op_type == "QLinearMatMul" else 1]
            if second is not None and second.rank() > 1 and isinstance(second[-2], int):
                return second[-2]
            return _size(shapes[0], -1)
        case "Gemm":
            return _size(shapes[0], 0 if "transA" in node.attributes and node.attributes["transA"].as_int() else 1)
        case "Conv" | "ConvInteger" | "QLinearConv":
            return _product(shapes[3 if node.op_type == "QLinearConv" else 1], 1)
        case "ConvTranspose":
            return _product(shapes[1], 2) * _size(shapes[1], 0)
        case "RNN" | "GRU" | "LSTM":
            return _size(shapes[1], 2) + _size(shapes[2], 2)
        case "Attention" | "Einsum":
            sizes = [dim for shape in shapes if shape is not None for dim in list(shape)[-2:]]
            return max((dim if isinstance(dim, int) else _UNKNOWN_LENGTH for dim in sizes), default=_UNKNOWN_LENGTH)
        case "LayerNormalization" | "RMSNormalization" | "LogSoftmax" | "Softmax":
            axis = node.attributes["axis"].as_int() if "axis" in node.attributes else -1
            return _size(shapes[0], axis)
        case op if op in _SUMS:
            return prod(_size(shapes[0], axis) for axis in _reduced(node))
        case "GlobalAveragePool":
            return _product(shapes[0], 2)
        case "LinearClassifier" | "LinearRegressor":
            return _size(shapes[0], -1)
        case "SVMClassifier" | "SVMRegressor":
            return len(node.attributes["coefficients"].value) if "coefficients" in node.attributes else 1
        case "TreeEnsemble" | "TreeEnsembleClassifier" | "TreeEnsembleRegressor":
            trees = node.attributes.get("nodes_treeids") or node.attributes.get("tree_roots")
            return len(set(trees.value)) if trees is not None else 1
    return 1


def _reduced(node: ir.Node) -> list[int]:
    """The axes of a reduction, as far as they are constant; by default all that are known."""
    if "axes" in node.attributes:
        return [int(axis) for axis in node.attributes["axes"].as_ints()]
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    if axes is not None and axes.const_value is not None:
        return [int(axis) for axis in axes.const_value.numpy().reshape(-1)]
    shape = node.inputs[0].shape if node.inputs and node.inputs[0] is not None else None
    return list(range(shape.rank())) if shape is not None and axes is None else []


def _size(shape: ir.Shape | None, axis: int) -> int:
    if shape is None or not -shape.rank() <= axis < shape.rank():
        return _UNKNOWN_LENGTH
    size = shape[axis]
    return size if isinstance(size, int) and size > 0 else _UNKNOWN_LENGTH


def _product(shape: ir.Shape | None, start: int) -> int:
    if shape is None:
        return _UNKNOWN_LENGTH
    return prod(_size(shape, axis) for axis in range(start, shape.rank()))
