"""A part of a graph as a graph of its own."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedFunctionsPass, RemoveUnusedNodesPass, RemoveUnusedOpsetsPass

from onnxport.errors import InvalidInputError


def cut(model: ir.Model, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Makes values of the main graph its inputs and outputs, and leaves out what no output needs any more; in place.

    Its values have types, as far as ONNX's inference finds them. Inputs that are needed beside the new ones stay; without
    `outputs` all of them do.

    Raises:
        InvalidInputError: there is no such value, its type is unknown, or no output depends on it.
    """
    graph = model.graph
    values = _values(graph)
    ends = [_named(values, name, "cut_outputs") for name in outputs] or list(graph.outputs)
    old = [_named(values, name, "cut_inputs") for name in inputs]
    renewed = {value: _begin(graph, value) for value in old}
    begins = list(renewed.values())
    graph.outputs.clear()
    graph.outputs.extend(renewed.get(value, value) for value in ends)
    own = [value for value in graph.inputs if value not in begins]
    graph.inputs.clear()
    graph.inputs.extend([*own, *begins])
    for step in (RemoveUnusedNodesPass(), RemoveUnusedFunctionsPass(), RemoveUnusedOpsetsPass()):
        step(model)
    for value in begins:
        if not _is_needed(value):
            raise InvalidInputError(f"cut_inputs: no output depends on {value.name!r} alone; leave it out")
    for name in [name for name, value in graph.initializers.items() if not _is_needed(value)]:
        del graph.initializers[name]  # before IR version 4 a weight is an input too, for which onnx-ir keeps it
    kept = [value for value in graph.inputs if _is_needed(value)]
    graph.inputs.clear()
    graph.inputs.extend(kept)


def _is_needed(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _values(graph: ir.Graph) -> dict[str, ir.Value]:
    values = [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]
    return {value.name: value for value in values if value.name}


def _named(values: dict[str, ir.Value], name: str, option: str) -> ir.Value:
    if name not in values:
        raise InvalidInputError(
            f"{option}: the graph has no value {name!r}; its nodes' results are named in the file (bodies of loops and "
            "branches can't be cut)"
        )
    return values[name]


def _begin(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """A graph input in place of a node's result."""
    if value.is_initializer():  # before IR version 4 it is an input too
        raise InvalidInputError(f"cut_inputs: {value.name!r} is a weight, not a result of a node")
    if value in graph.inputs:
        return value
    if value.type is None:
        raise InvalidInputError(f"cut_inputs: the type of {value.name!r} is not known, so it can't be an input")
    begin = ir.Value(name=value.name, type=value.type, shape=value.shape)
    value.name = f"{value.name}_before_the_cut"  # its node may stay for another of its results
    value.replace_all_uses_with(begin, replace_graph_outputs=True)
    graph.inputs.append(begin)
    return begin
