"""Inputs and outputs of a graph with their channels behind the rows, NCHW, where the graph has them last."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.errors import InvalidInputError
from onnxport.graph.names import NameAuthority
from onnxport.graph.passes.rename import every_value
from onnxport.graph.passes.reshapes import MergeReshapesPass

_LEAST = 3  # axes: rows, a place, channels


def turn(
    model: ir.Model, inputs: Sequence[str], outputs: Sequence[str], *, first: bool = True, merge: bool = True
) -> None:
    """Puts the channels of inputs and outputs before the places or, without `first`, behind them; in place.

    A transpose that stands beside another one goes with it, unless `merge` is left out.

    Raises:
        InvalidInputError: there is no such input or output, or it has too few axes.
    """
    graph, names = model.graph, NameAuthority()
    for name in {value.name for value in every_value(graph) if value.name}:
        names.reserve(name)
    node_names = NameAuthority()  # runtimes refuse a name that two nodes have
    for name in {node.name for node in graph.all_nodes() if node.name}:
        node_names.reserve(name)
    for name in inputs:
        index, value = _end(graph.inputs, name, "inputs_as_nchw")
        rank = value.shape.rank() if value.shape is not None else 0
        outer, inner = _orders(rank) if first else tuple(reversed(_orders(rank)))
        given = ir.Value(name=name, type=value.type, shape=_permuted(value.shape, outer))
        graph.inputs[index] = given
        value.name = names.unique(f"{name}_turned")
        node = _transpose(given, value, inner, node_names)
        graph.insert_before(graph[0], node) if len(graph) else graph.append(node)
    for name in outputs:
        index, value = _end(graph.outputs, name, "outputs_as_nchw")
        if value.is_graph_input():
            raise InvalidInputError(f"outputs_as_nchw: {name!r} is an input as it is given: turn that one")
        rank = value.shape.rank() if value.shape is not None else 0
        outer, _ = _orders(rank) if first else tuple(reversed(_orders(rank)))
        value.name = names.unique(f"{name}_turned")
        result = ir.Value(name=name, type=value.type, shape=_permuted(value.shape, outer))
        graph.append(_transpose(value, result, outer, node_names))
        graph.outputs[index] = result
    if merge:
        MergeReshapesPass(names)(model)


def _end(values: Sequence[ir.Value], name: str, option: str) -> tuple[int, ir.Value]:
    for index, value in enumerate(values):
        if value.name == name:
            if value.shape is None or value.shape.rank() < _LEAST:
                raise InvalidInputError(
                    f"{option}: {name!r} has no channels behind places: it has the sizes {value.shape}"
                )
            return index, value
    raise InvalidInputError(f"{option}: there is no {name!r} but {', '.join(str(value.name) for value in values)}")


def _orders(rank: int) -> tuple[list[int], list[int]]:
    """The axes with channels first by those with channels last, and the other way round."""
    return [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]


def _permuted(shape: ir.Shape | None, order: Sequence[int]) -> ir.Shape | None:
    return None if shape is None else ir.Shape([shape[axis] for axis in order])


def _transpose(source: ir.Value, result: ir.Value, order: Sequence[int], names: NameAuthority) -> ir.Node:
    name = names.unique(str(result.name))
    return ir.Node("", "Transpose", [source], [ir.AttrInt64s("perm", list(order))], outputs=[result], name=name)
