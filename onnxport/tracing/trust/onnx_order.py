"""Nodes of a file in topological order.

ONNX asks for it, while onnxruntime sorts a model's nodes itself, those of branches and loops excepted, and its quantiser writes
files where a branch reads what a node behind it gives.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, MutableSequence

from onnx import AttributeProto, GraphProto, NodeProto

from onnxport.errors import InvalidModelError


class UnknownOperand(InvalidModelError):
    """A node reads what nothing before it gives."""


def sort_nodes(nodes: MutableSequence[NodeProto]) -> None:
    """Puts every node behind those that it or its graphs read from, else in the order in which they stand."""
    ordered = [nodes[i] for i in _order(list(nodes))]
    del nodes[:]
    nodes.extend(ordered)


def _order(nodes: list[NodeProto]) -> list[int]:
    """Places of nodes in a topological order; as they stand where they read from each other in a circle."""
    givers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    readers: list[list[int]] = [[] for _ in nodes]
    waiting = []
    for i, node in enumerate(nodes):
        read = {*node.input, *(name for body in _bodies(node) for name in _outer(body))}
        before = {givers[name] for name in read if name in givers}
        waiting.append(len(before))
        for giver in before:
            readers[giver].append(i)
    ready = [i for i, count in enumerate(waiting) if not count]
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for reader in readers[order[-1]]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    return order if len(order) == len(nodes) else list(range(len(nodes)))


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
