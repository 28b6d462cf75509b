"""What an ONNX model is, as it is printed: for the summary of a conversion and for ``onnxport inspect``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from onnxport.cli.console import add, say, show
from onnxport.graph.workbench.description import signature_lines, weight_lines

_MOST = 12  # operators listed before the rest is counted together


def show_signature(summary: Mapping[str, Any]) -> None:
    """Writes inputs and outputs as lines."""
    for line in signature_lines(summary):
        say(line)


def show_contents(summary: Mapping[str, Any]) -> None:
    """Writes weights and origin as lines, and a table of operators."""
    for line in weight_lines(summary):
        say(line)
    table = Table("operator", "nodes", box=None, padding=(0, 2))
    rows = list(summary["operators"].items())
    for op, count in rows[:_MOST]:
        add(table, op, str(count))
    if len(rows) > _MOST:
        add(table, f"{len(rows) - _MOST} others", str(sum(count for _, count in rows[_MOST:])))
    show(table)
