"""The smallest part of a model that still shows what the whole shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedFunctionsPass, RemoveUnusedNodesPass, RemoveUnusedOpsetsPass

from onnxport.graph.segments import values_read


def part(model: ir.Model, kept: Collection[int]) -> ir.Model | None:
    """A model of the nodes at these places of the main graph; None where that can't stand alone.

    What they read of other nodes becomes inputs, under its own name, and what others read of them outputs. The values of `model`
    have types, as far as ONNX's inference finds them.
    """
    copy = model.clone()
    graph = copy.graph
    nodes = list(graph)
    chosen, others = [nodes[i] for i in sorted(kept)], [node for i, node in enumerate(nodes) if i not in set(kept)]
    needed = dict.fromkeys(value for node in chosen for value in values_read(node))
    foreign = [value for value in needed if value.producer() in others]
    if any(value.type is None for value in foreign):
        return None
    read_elsewhere = {value for node in others for value in values_read(node)} | set(graph.outputs)
    produced = [value for node in chosen for value in node.outputs if value.name]
    ends = [value for value in produced if value in read_elsewhere or not value.uses()]
    graph.outputs.clear()
    for value in foreign:
        begin = ir.Value(name=value.name, type=value.type, shape=value.shape)
        value.name = None
        value.replace_all_uses_with(begin)
        graph.inputs.append(begin)
    graph.outputs.extend(ends)
    for node in others:
        node.resize_inputs(0)
    graph.remove(others)
    for step in (RemoveUnusedNodesPass(), RemoveUnusedFunctionsPass(), RemoveUnusedOpsetsPass()):
        step(copy)
    own = [value for value in graph.inputs if value.uses()]
    graph.inputs.clear()
    graph.inputs.extend(own)
    return copy


def hollow(model: ir.Model) -> ir.Model | None:
    """The inputs and outputs without what computes, zeros in its place; None where an output is no tensor of numbers."""
    inputs = [value for value in model.graph.inputs if not value.is_initializer()]
    begins = [ir.Value(name=value.name, type=value.type, shape=value.shape) for value in inputs]
    nodes: list[ir.Node] = []
    for value in model.graph.outputs:
        if not isinstance(value.type, ir.TensorType) or value.type.dtype == ir.DataType.STRING:
            return None
        sizes = [size if isinstance(size, int) else 1 for size in value.shape or ()]
        zeros = ir.tensor(np.zeros(sizes, value.type.dtype.numpy()), value.type.dtype)
        nodes.append(ir.node("Constant", [], {"value": zeros}, name=f"zeros_{len(nodes)}"))
        end = nodes[-1].outputs[0]
        end.name, end.type, end.shape = value.name, value.type, value.shape
    ends = [node.outputs[0] for node in nodes]
    graph = ir.Graph(begins, ends, nodes=nodes, opset_imports=dict(model.graph.opset_imports), name=model.graph.name)
    return ir.Model(graph, ir_version=model.ir_version)


def smallest(count: int, shows: Callable[[Sequence[int]], bool]) -> list[int]:
    """Places of `count` nodes of which none can be left out: those alone show it, and without any one of them nothing does.

    Delta debugging: halves, then ever smaller pieces and their complements (Zeller and Hildebrandt, Simplifying and isolating
    failure-inducing input, IEEE TSE 28(2), 2002, algorithm ddmin). `shows` holds for all of them.

    >>> smallest(20, lambda places: {3, 11} <= set(places))
    [3, 11]
    """
    places, pieces = list(range(count)), 2
    while len(places) > 1:
        size = -(-len(places) // pieces)
        parts = [places[start : start + size] for start in range(0, len(places), size)]
        one = next((piece for piece in parts if len(piece) < len(places) and shows(piece)), None)
        if one is not None:
            places, pieces = one, 2
            continue
        rest = ([place for place in places if place not in set(piece)] for piece in parts)
        left = next((remaining for remaining in rest if remaining and len(parts) > 2 and shows(remaining)), None)
        if left is not None:
            places, pieces = left, max(pieces - 1, 2)
        elif pieces >= len(places):
            break
        else:
            pieces = min(2 * pieces, len(places))
    return places
