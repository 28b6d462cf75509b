"""Where a node of an exported graph comes from: its operator, module, file and line."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Any

import torch

from onnxport.graph.provenance import Source, relative_path
from onnxport.tracing.pytorch_nodes import module_stack, recorded_call, stack_trace

# Calls of Keras' layers through PyTorch's, in which no line is the user's.
_NO_PLACES = (
    f"onnxport{os.sep}tracing{os.sep}keras_pytorch.py",
    f"keras{os.sep}src{os.sep}backend{os.sep}torch{os.sep}",
)
_OPERATOR_NAMES: dict[Any, str] = {}


def operator_name(target: Any) -> str:
    """``aten::add.Tensor``, ``higher_order::cond``, ``operator::mul``: how the map knows what a node calls."""
    name = _OPERATOR_NAMES.get(target)
    if name is None:
        if isinstance(target, torch._ops.OpOverload):
            base = target.name()
            name = base if "." in base else f"{base}.default"
        elif isinstance(target, torch._ops.HigherOrderOperator):
            name = f"higher_order::{target.name()}"
        else:
            module = (getattr(target, "__module__", "") or "").lstrip("_").partition(".")[0]
            name = f"{module}::{getattr(target, '__name__', type(target).__name__)}"
        _OPERATOR_NAMES[target] = name
    return name


def source_of(node: torch.fx.Node, name: str) -> Source:
    """The origin of a node that calls the operator `name`."""
    layer, file, line = recorded_call(node)
    module = layer or _module_of(node)
    if not file:
        file, line = place(stack_trace(node))
    return Source(name, origin_name(node), module, file, line)


def origin_name(node: torch.fx.Node) -> str:
    """The name that the nodes which a node becomes have in common."""
    module = _module_of(node)
    return f"{module}/{node.name}" if module else node.name


def _module_of(node: torch.fx.Node) -> str:
    stack = module_stack(node)
    return module_path(next(reversed(stack.values()))[0]) if stack else ""


@lru_cache(maxsize=4096)
def module_path(text: str) -> str:
    """The module's path in the model's own terms; Dynamo writes it as Python.

    >>> module_path("L['self'].blocks.0.attn"), module_path("blocks.0.attn")
    ('blocks.0.attn', 'blocks.0.attn')
    """
    text = re.sub(r"^L\['self'\]\.?", "", text)
    text = re.sub(r"_modules\['([^']+)'\]", r"\1", text)
    return re.sub(r"\[(\d+)\]", r".\1", text).replace("getattr_L__self___", "")


@lru_cache(maxsize=4096)
def place(trace: str) -> tuple[str, int | None]:
    """File and line of the innermost frame that is not torch's own.

    >>> place('File "/x/model.py", line 3, in forward')
    ('model.py', 3)
    """
    result: tuple[str, int | None] = ("", None)
    end = len(trace)
    while (start := trace.rfind('File "', 0, end)) >= 0:
        stop = trace.find('"', start + 6)
        file = trace[start + 6 : stop]
        if any(part in file for part in _NO_PLACES):
            end = start
            continue
        number = trace[stop + 8 : trace.find(",", stop + 2)]
        here = (relative_path(file), int(number) if number.isdigit() else None)
        if "/torch/" not in file and not file.startswith("<"):
            return here
        result = result if result[0] else here
        end = start
    return result
