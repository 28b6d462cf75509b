"""What holds for every file that a conversion writes."""

from __future__ import annotations

import onnx_ir as ir

MOVES = frozenset(("Transpose", "Reshape", "Unsqueeze", "Squeeze", "Flatten"))


def moved_constants(model: ir.Model) -> list[str]:
    """The nodes that do nothing but move a constant."""
    constants = {value for value in model.graph.initializers.values() if value not in model.graph.inputs}
    moves = [node for node in model.graph.all_nodes() if node.op_type in MOVES and node.domain == ""]
    of_constants = [node for node in moves if node.inputs[0] in constants]
    return [f"{node.op_type}({node.inputs[0].name})" for node in of_constants if not node.outputs[0].is_graph_output()]
