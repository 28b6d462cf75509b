"""A finished torch.fx graph as a module that holds its parameters, buffers and layers."""

from __future__ import annotations

import torch
from torch import fx, nn

from onnxport.opset_maps.from_onnx.pytorch.paths import is_constant
from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder


def graph_module(recorder: Recorder, name: str) -> fx.GraphModule:
    """The module of a finished graph."""
    root = nn.Module()
    # A layer stands at its path before parameters that lie in it are looked at; else an empty module would hold them.
    for kind in ("call_module", "get_attr"):
        for target in sorted((str(node.target) for node in recorder.graph.nodes if node.op == kind), key=_depth):
            place(root, target, recorder.attributes.get(target))
    result = fx.GraphModule(root, recorder.graph, name)
    _without_constants(result)
    result._deepcopy_hooks.append(_without_constants)
    return result


def _without_constants(module: nn.Module) -> None:
    """Leaves constants of the program out of the state dict: a GraphModule, and its copy, makes every buffer persistent."""
    module._non_persistent_buffers_set.update(name for name in module._buffers if is_constant(name))


def _depth(target: str) -> int:
    return target.count(".")


def place(root: nn.Module, target: str, value: object) -> None:
    """Sets a parameter, buffer, module or other object at a dotted path."""
    *path, name = target.split(".")
    module = root
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module._modules[part]
    if value is None or name in module._modules or name in module._parameters or name in module._buffers:
        return
    if isinstance(value, nn.Module):
        module.add_module(name, value)
    elif isinstance(value, nn.Parameter):
        module.register_parameter(name, value)
    elif isinstance(value, torch.Tensor):
        module.register_buffer(name, value, persistent=not is_constant(name))
    else:
        setattr(module, name, value)
