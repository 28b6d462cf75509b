"""Which calls of modules the nodes of an exported program belong to."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import torch
from torch.export.graph_signature import InputKind

from onnxport.converters.to_onnx.pytorch_places import module_path, origin_name
from onnxport.graph.scopes import Chain, Scope, Scopes
from onnxport.tracing.pytorch_nodes import module_stack


def scopes_of(program: torch.export.ExportedProgram) -> Scopes:
    """The calls around each node of a program, and the names of its parameters and buffers."""
    nodes = (node for node in program.graph.nodes if node.op == "call_function")
    chains = {origin_name(node): _chain(module_stack(node)) for node in nodes}
    kinds = (InputKind.PARAMETER, InputKind.BUFFER)
    own = frozenset(str(spec.target) for spec in program.graph_signature.input_specs if spec.kind in kinds)
    return Scopes(chains, own)


def _chain(stack: dict[str, Any]) -> Chain:
    """The calls of a stack of modules, by keys of which those of a later call end in ``@1``, ``@2``, ..."""
    named = ((key, item) for key, item in stack.items() if not key.startswith("_empty_nn_module_stack"))
    return tuple(Scope(module_path(path), key, _kinds(kind)) for key, (path, kind) in named)


@lru_cache(maxsize=1024)
def _kinds(kind: type | str) -> tuple[str, ...]:
    """A class's dotted name and those of its bases, as far as they are loaded; a program holds the name alone."""
    if isinstance(kind, str):
        module, _, name = kind.rpartition(".")
        known = getattr(sys.modules.get(module), name, None)
        if not isinstance(known, type):
            return (kind,)
        kind = known
    bases = [item for item in kind.__mro__ if item not in (object, torch.nn.Module)]
    return tuple(dotted(item) for item in bases)


def dotted(kind: type) -> str:
    """A class's name as programs hold it."""
    return f"{kind.__module__}.{kind.__qualname__}"
