"""What an ONNX model is, as plain data and as lines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from onnxport.graph.provenance import PREFIX

if TYPE_CHECKING:
    import onnx_ir as ir

_LONG = 200  # characters of a property that are shown to people


def value(item: ir.Value) -> dict[str, Any]:
    """Name, element type and shape of a graph's input or output."""
    shape = None if item.shape is None else [dim if isinstance(dim, int) else dim.value for dim in item.shape]
    return {"name": item.name, "type": str(item.type) if item.type is not None else None, "shape": shape}


def signature(model: ir.Model) -> dict[str, Any]:
    """Inputs, outputs and versions of a model."""
    graph = model.graph
    return {
        "inputs": [value(item) for item in graph.inputs if item.name not in graph.initializers],
        "outputs": [value(item) for item in graph.outputs],
        "opsets": dict(graph.opset_imports),
        "ir_version": model.ir_version,
    }


def contents(model: ir.Model) -> dict[str, Any]:
    """Operators, weights, subgraphs, functions and provenance of a model."""
    nodes = list(model.graph.all_nodes())
    ops = Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in nodes)
    weights = [item.const_value for item in model.graph.initializers.values() if item.const_value is not None]
    origins = Counter(node.metadata_props[f"{PREFIX}op"] for node in nodes if f"{PREFIX}op" in node.metadata_props)
    return {
        "producer": " ".join(part for part in (model.producer_name, model.producer_version) if part),
        "nodes": len(nodes),
        "operators": dict(ops.most_common()),
        "parameters": sum(tensor.size for tensor in weights),
        "bytes": sum(tensor.nbytes for tensor in weights),
        "types": dict(Counter(tensor.dtype.name for tensor in weights)),
        "functions": len(model.functions),
        "function_nodes": {item.name: len(item) for item in model.functions.values()},
        "source_operators": dict(origins.most_common()),
        "metadata": dict(model.metadata_props),
    }


def signature_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """`signature` as lines."""
    for kind in ("inputs", "outputs"):
        for item in summary[kind]:
            dims = item["shape"]
            shape = "?" if dims is None else ", ".join("?" if dim is None else str(dim) for dim in dims)
            yield f"  {kind[:-1]:<7} {item['name']}: {item['type'] or '?'} [{shape}]"


def weight_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """What `contents` has beside the operators, as lines."""
    types = ", ".join(f"{name} x{count}" for name, count in summary["types"].items())
    yield f"  weights {summary['parameters']:,} numbers in {size(summary['bytes'])}{f' ({types})' if types else ''}"
    if summary["producer"]:
        yield f"  written by {summary['producer']}"
    if summary["functions"]:
        called = ", ".join(f"{name} ({count} nodes)" for name, count in summary["function_nodes"].items())
        yield f"  functions: {called}"
    for key, text in summary["metadata"].items():
        yield f"  {key}: {text if len(text) <= _LONG else f'{text[:_LONG]}... ({len(text):,} characters)'}"


def summary_text(model: ir.Model) -> str:
    """Versions, inputs, outputs, weights and operators of a model, for people."""
    ends, inside = signature(model), contents(model)
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in ends["opsets"].items())
    operators = ", ".join(f"{op} x{count}" if count > 1 else op for op, count in inside["operators"].items())
    head = f"{model.graph.name or 'model'}: {opsets}, IR {ends['ir_version']}, {inside['nodes']} nodes"
    return "\n".join([head, *signature_lines(ends), *weight_lines(inside), f"  operators {operators}"])


def size(count: float) -> str:
    """A number of bytes for people.

    >>> size(512), size(25_600_000)
    ('512 B', '24.4 MiB')
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    step = min(int(math.log(count, 1024)), len(units) - 1) if count >= 1 else 0
    return f"{count / 1024**step:.{1 if step else 0}f} {units[step]}"
