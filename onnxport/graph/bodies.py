"""The graphs that nodes hold: branches of If, bodies of Loop and Scan."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir


def bodies(node: ir.Node) -> list[ir.Graph]:
    """The graphs that a node holds as attributes."""
    graphs: list[ir.Graph] = []
    for item in node.attributes.values():
        if item.is_ref():
            continue
        if item.type == ir.AttributeType.GRAPH:
            graphs.append(item.as_graph())
        elif item.type == ir.AttributeType.GRAPHS:
            graphs.extend(item.as_graphs())
    return graphs


def all_initializers(model: ir.Model) -> Iterator[ir.Value]:
    """The initializers of a model, then those of the graphs that its nodes and functions hold."""
    stack: list[ir.Graph | ir.Function] = [*reversed(model.functions.values()), model.graph]
    while stack:
        graph = stack.pop()
        if isinstance(graph, ir.Graph):
            yield from graph.initializers.values()
        stack.extend(reversed([body for node in graph for body in bodies(node)]))
