"""Nodes of a file in topological order.

ONNX asks for it, while onnxruntime sorts a model's nodes itself, those of branches and loops excepted, and its quantiser writes
files where a branch reads what a node behind it gives.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence
from graphlib import CycleError, TopologicalSorter

from onnx import AttributeProto, GraphProto, NodeProto

from onnxport.errors import InvalidModelError


class UnknownOperand(InvalidModelError):
    """A node reads what nothing before it gives."""


def sort_nodes(nodes: MutableSequence[NodeProto]) -> None:
    """Puts every node behind those that it or its graphs read from; nodes that read from each other in a circle stay."""
    givers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for i, node in enumerate(nodes):
        read = {*node.input, *(name for body in _bodies(node) for name in _outer(body))}
        sorter.add(i, *(givers[name] for name in read if name in givers))
    try:
        ordered = [nodes[i] for i in sorter.static_order()]
    except CycleError:
        return
    del nodes[:]
    nodes.extend(ordered)


def _outer(graph: GraphProto) -> set[str]:
    """Names of values around a graph that it reads."""
    read = {item.name for item in graph.output}
    own = {item.name for item in (*graph.input, *graph.initializer)}
    for node in graph.node:
        read.update(node.input)
        own.update(node.output)
        for body in _bodies(node):
            read |= _outer(body)
    return read - own - {item.values.name for item in graph.sparse_initializer}


def _bodies(node: NodeProto) -> Iterator[GraphProto]:
    for item in node.attribute:
        if item.type == AttributeProto.GRAPH:
            yield item.g
        elif item.type == AttributeProto.GRAPHS:
            yield from item.graphs
