"""``onnx2torch.utils.common``: which node of the file a layer stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnxport.compat.absent import refusing

__getattr__ = refusing(__name__)


@dataclass(frozen=True)
class OnnxMapping:
    """The names of what a node takes and gives."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def attach(module: Any, model: ir.Model) -> None:
    """Gives layers the attribute ``onnx_mapping``, in place: those whose weights one node of the graph alone takes."""
    for path, layer in module.named_modules():
        own = [name for name, _ in (*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False))]
        weights = [model.graph.initializers.get(f"{path}.{name}") for name in own] if path else []
        nodes = {node for weight in weights if weight is not None for node in weight.consumers()}
        if len(nodes) == 1:
            (node,) = nodes
            layer.onnx_mapping = OnnxMapping(_names(node.inputs), _names(node.outputs))


def _names(values: Sequence[ir.Value | None]) -> tuple[str, ...]:
    return tuple("" if value is None else value.name or "" for value in values)
