"""The graphs that nodes hold: branches of If, bodies of Loop and Scan."""

from __future__ import annotations

import onnx_ir as ir


def bodies(node: ir.Node) -> list[ir.Graph]:
    """The graphs that a node holds as attributes."""
    found: list[ir.Graph] = []
    for item in node.attributes.values():
        if item.is_ref():
            continue
        if item.type == ir.AttributeType.GRAPH:
            found.append(item.as_graph())
        elif item.type == ir.AttributeType.GRAPHS:
            found.extend(item.as_graphs())
    return found
