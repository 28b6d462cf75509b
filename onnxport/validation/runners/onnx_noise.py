"""An ONNX source with rounding of its own: weights and inner results off by one unit in the last place, drawn anew each run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.graph.bodies import bodies
from onnxport.graph.passes.rounding import ROUNDING
from onnxport.graph.protos import to_proto
from onnxport.validation import tolerance
from onnxport.validation.numerics import CARRIERS

# Operators whose results are not rounded, or by no more than their operands.
_EXACT = CARRIERS | frozenset(
    "Abs Ceil Clip Compress Constant ConstantOfShape Div Floor GatherElements GatherND LabelEncoder Max Min Mul Neg OneHot "
    "Pad Reciprocal ReduceMax ReduceMin Relu Round ScatterElements ScatterND Sign Sqrt Tile TopK Where".split()
)
_MOVABLE = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16})  # types of weights that move


def with_noise(graph: ir.Model, coarse: float | None = None) -> onnx.ModelProto:
    """The graph with its weights off by one unit in the last place, and the results of its nodes off by one, at random.

    After Monte Carlo arithmetic (Parker, Pierce and Eggert, "Monte Carlo arithmetic: how to gamble with floating point and
    win", 2000): what a large intermediate value loses in a difference shows, which the inputs' last place need not move.
    With `coarse`, the epsilon of a narrower type that the graph rounds to on its way, what it rounds is off by one of its units.
    What trees read, and their own sums of leaves, stay as they are: across a threshold there is a jump, not noise.
    """
    rng = np.random.default_rng(0)
    kept = {value.name for value in _read_by_trees(graph)}
    proto = to_proto(graph)
    for tensor in proto.graph.initializer:
        value = graph.graph.initializers[tensor.name].const_value
        if value is None or tensor.name in kept or value.dtype not in _MOVABLE:
            continue
        moved = tolerance.nudge(value.numpy(), 1, rng)
        tensor.CopyFrom(ir.serde.serialize_tensor(ir.tensor(moved, name=tensor.name)))
    types = {value.name: value.dtype for node in graph.graph for value in node.outputs}
    numbers = {ir.DataType.FLOAT: "float", ir.DataType.DOUBLE: "double"}
    for dtype, word in numbers.items():
        unit = tolerance.epsilon(dtype.numpy()) if coarse is None else coarse
        for number, what in ((unit, "unit"), (1.0, "one"), (1.0 / unit, "whole")):
            constant = ir.tensor(np.asarray(number, dtype.numpy()), name=f"noise/{word}/{what}")
            proto.graph.initializer.append(ir.serde.serialize_tensor(constant))
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    for node in nodes:
        proto.graph.node.append(node)
        written = proto.graph.node[-1]
        drawn = node.op_type.startswith("Random") and not node.domain
        if coarse is not None:
            exact = not any(item.key == ROUNDING for item in node.metadata_props)
        else:
            exact = drawn or node.op_type in _EXACT
        if exact or kept.intersection(node.output):
            continue
        for place, name in enumerate(node.output):
            inexact = types.get(name)
            if name and inexact in numbers:
                written.output[place] = f"{name}/exact"
                proto.graph.node.extend(_noise(name, f"noise/{numbers[inexact]}", float(rng.integers(1 << 20))))
    return proto


def _read_by_trees(graph: ir.Model) -> set[ir.Value]:
    """Every value that a tree ensemble depends on, and those that the ensembles give."""
    inexact: set[ir.Value] = set()
    for node in reversed(graph.graph):
        inside = [inner for body in bodies(node) for inner in body.all_nodes()]
        trees = any(item.op_type.startswith("TreeEnsemble") for item in (node, *inside))
        if trees or inexact.intersection(node.outputs):
            inexact.update(node.outputs)
            inexact.update(value for item in (node, *inside) for value in item.inputs if value is not None)
    return inexact


def _noise(name: str, numbers: str, seed: float) -> Iterator[onnx.NodeProto]:
    """Nodes that multiply each element by 1 or by one unit in the last place more or less, as 1 plus the draw is rounded.

    Whole numbers stay: they count, or stand for something, and their arithmetic is exact; but not where all numbers are whole.
    """
    make, exact = onnx.helper.make_node, f"{name}/exact"
    yield make("RandomUniformLike", [exact], [f"{name}/drawn"], low=-1.5, high=1.5, seed=seed)
    yield make("Mul", [f"{name}/drawn", f"{numbers}/unit"], [f"{name}/move"])
    yield make("Add", [f"{name}/move", f"{numbers}/one"], [f"{name}/factor"])
    yield make("Mul", [exact, f"{name}/factor"], [f"{name}/moved"])
    yield make("Floor", [exact], [f"{name}/floor"])
    yield make("Equal", [exact, f"{name}/floor"], [f"{name}/equal"])
    yield make("Abs", [exact], [f"{name}/size"])
    yield make("Less", [f"{name}/size", f"{numbers}/whole"], [f"{name}/small"])
    yield make("And", [f"{name}/equal", f"{name}/small"], [f"{name}/whole"])
    yield make("Where", [f"{name}/whole", exact, f"{name}/moved"], [name])
