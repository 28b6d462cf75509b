"""What an ONNX model is, as plain data: for the summary of a conversion and for ``onnxport inspect``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.table import Table

from onnxport.cli.console import out, say

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnxport.model import OnnxModel

_MOST = 12  # operators listed before the rest is counted together


def value(item: ir.Value) -> dict[str, Any]:
    """Name, element type and shape of a graph's input or output."""
    shape = None if item.shape is None else [dim if isinstance(dim, int) else dim.value for dim in item.shape]
    return {"name": item.name, "type": str(item.type) if item.type is not None else None, "shape": shape}


def signature(hub: OnnxModel) -> dict[str, Any]:
    """Inputs, outputs and versions of a model."""
    graph = hub.model.graph
    return {
        "inputs": [value(item) for item in graph.inputs if item.name not in graph.initializers],
        "outputs": [value(item) for item in graph.outputs],
        "opsets": dict(graph.opset_imports),
        "ir_version": hub.model.ir_version,
    }


def contents(hub: OnnxModel) -> dict[str, Any]:
    """Operators, weights, subgraphs, functions and provenance of a model."""
    from onnxport.graph.provenance import PREFIX

    nodes = list(hub.model.graph.all_nodes())
    ops = Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in nodes)
    weights = [item.const_value for item in hub.model.graph.initializers.values() if item.const_value is not None]
    origins = Counter(node.metadata_props[f"{PREFIX}op"] for node in nodes if f"{PREFIX}op" in node.metadata_props)
    return {
        "producer": " ".join(part for part in (hub.model.producer_name, hub.model.producer_version) if part),
        "nodes": len(nodes),
        "operators": dict(ops.most_common()),
        "parameters": sum(tensor.size for tensor in weights),
        "bytes": sum(tensor.nbytes for tensor in weights),
        "types": dict(Counter(tensor.dtype.name for tensor in weights)),
        "functions": len(hub.model.functions),
        "source_operators": dict(origins.most_common()),
        "metadata": dict(hub.model.metadata_props),
    }


def show_signature(summary: Mapping[str, Any]) -> None:
    """Writes `signature` as lines."""
    for kind in ("inputs", "outputs"):
        for item in summary[kind]:
            dims = item["shape"]
            shape = "?" if dims is None else ", ".join("?" if dim is None else str(dim) for dim in dims)
            say(f"  {kind[:-1]:<7} {item['name']}: {item['type']} [{shape}]")


def show_contents(summary: Mapping[str, Any]) -> None:
    """Writes `contents` as lines and a table of operators."""
    types = ", ".join(f"{name} x{count}" for name, count in summary["types"].items())
    say(f"  weights {summary['parameters']:,} numbers in {size(summary['bytes'])}{f' ({types})' if types else ''}")
    if summary["producer"]:
        say(f"  written by {summary['producer']}")
    for key, text in summary["metadata"].items():
        say(f"  {key}: {text}")
    table = Table("operator", "nodes", box=None, padding=(0, 2))
    rows = list(summary["operators"].items())
    for op, count in rows[:_MOST]:
        table.add_row(op, str(count))
    if len(rows) > _MOST:
        table.add_row(f"{len(rows) - _MOST} others", str(sum(count for _, count in rows[_MOST:])))
    out.print(table)


def size(count: float) -> str:
    """A number of bytes for people.

    >>> size(512), size(25_600_000)
    ('512 B', '24.4 MiB')
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    step = min(int(math.log(count, 1024)), len(units) - 1) if count >= 1 else 0
    return f"{count / 1024**step:.{1 if step else 0}f} {units[step]}"
