"""Why an engine does not take a file, in one line that names the operator where the engine names it or its node."""

from __future__ import annotations

import re

import onnx_ir as ir

_SHORT = 240  # characters


def refusal(text: str, model: ir.Model) -> str:
    """The line of an engine's error that names an operator of the model or a node, whose operator is added; else the first."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    nodes = list(model.graph.all_nodes())
    operators = {node.op_type for node in nodes}
    for line in lines:
        if operators & set(re.findall(r"[A-Za-z]\w*", line)):
            return line[:_SHORT]
    named = {node.name: node.op_type for node in nodes if node.name}
    for line in lines:
        for word in re.findall(r"[^\s'\",]+", line):
            if word in named:
                return f"{named[word]}: {line}"[:_SHORT]
    return lines[0][:_SHORT] if lines else "no reason given"
