"""A module to trace in the place of the user's: modules of its own around the same tensors.

While torch.export traces, it puts its fake tensors into the module that it was given, and what the module's code sets on itself
is set. A shell takes both, so that the user's module can be called meanwhile, in another thread, and is afterwards what it was.
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch._subclasses.fake_tensor import is_fake
from torch.export import ExportedProgram
from torch.nn.parameter import is_lazy

_DEPTH = 4  # how deep containers in a module's attributes are looked through for modules


def shell_of(
    root: torch.nn.Module, stand_ins: Mapping[int, torch.nn.Module] = MappingProxyType({})
) -> torch.nn.Module | None:
    """Another module with the tensors of `root`; None where its modules can't be had twice.

    `stand_ins` take the place of the modules with these ids.

    Lists, dicts, bound methods and partial functions among the attributes refer to the shells as the originals do to each
    other. Parameters that have no shape yet get one in the module that they belong to, and TorchScript's modules have a part
    that Python does not see: these are traced in place.
    """
    modules = list(root.modules())
    if any(isinstance(item, torch.jit.ScriptModule) for item in modules) or any(map(is_lazy, root.parameters())):
        return None
    shells = {id(item): stand_ins.get(id(item)) or object.__new__(type(item)) for item in modules}
    for item in (item for item in modules if id(item) not in stand_ins):
        shells[id(item)].__dict__.update({name: _moved(value, shells, _DEPTH) for name, value in vars(item).items()})
    return shells[id(root)]


def reaches_past(program: ExportedProgram, root: torch.nn.Module) -> bool:
    """Whether the trace of a shell met a tensor of the module itself, through a closure for one, and took it for a constant.

    A program's constants hold its buffers that are not persistent too: these it has as buffers.
    """
    own = {item.data_ptr() for item in [*root.parameters(), *root.buffers()] if _has_memory(item)}
    buffers = set(program.graph_signature.buffers)
    others = (item for name, item in program.constants.items() if name not in buffers)
    constants = [item for item in others if isinstance(item, torch.Tensor) and _has_memory(item)]
    return any(item.data_ptr() in own for item in constants)


def _has_memory(tensor: torch.Tensor) -> bool:
    plain = tensor.layout == torch.strided and tensor.device.type != "meta" and not is_fake(tensor)
    return plain and tensor.numel() > 0


def _moved(value: Any, shells: dict[int, Any], depth: int) -> Any:
    """A value of a module's attribute for the module's shell."""
    if isinstance(value, torch.nn.Module):
        return shells.get(id(value), value)
    if depth == 0:
        return value
    if type(value) in (list, tuple, set):
        return type(value)(_moved(item, shells, depth - 1) for item in value)
    if type(value) in (dict, OrderedDict):
        return type(value)((key, _moved(item, shells, depth - 1)) for key, item in value.items())
    if isinstance(value, types.MethodType) and id(value.__self__) in shells:
        return types.MethodType(value.__func__, shells[id(value.__self__)])
    if type(value) is functools.partial:
        args = [_moved(item, shells, depth - 1) for item in value.args]
        keywords = {key: _moved(item, shells, depth - 1) for key, item in value.keywords.items()}
        return functools.partial(_moved(value.func, shells, depth - 1), *args, **keywords)
    return value
