"""PyTorch models on an accelerator: what is converted and proved is a copy on the processor, where every input can be tried.

On a GPU an index out of range ends the process's use of the device, and sums are rounded otherwise than in float32.
"""

from __future__ import annotations

import copy
import functools
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

_HERE = frozenset(("cpu", "meta"))
_moved: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()  # where each copy's original is


def on_processor(model: object) -> object:
    """A copy of `model` on the processor, if it is a module, a method of one or a program with tensors elsewhere; else itself.

    The copy takes no memory of the accelerator. A model that can't be copied stays where it is.
    """
    if isinstance(model, torch.export.ExportedProgram):
        tensors = [*model.state_dict.values(), *model.constants.values(), *pytree.tree_leaves(model.example_inputs)]
    else:
        tensors = list(_tensors(model))
    place = next((str(tensor.device) for tensor in tensors if _elsewhere(tensor)), None)
    if place is None:
        return model
    try:
        moved = _moved_program(model) if isinstance(model, torch.export.ExportedProgram) else _copied(model, place)
    except Exception:  # what a user's module holds need not be copied
        return model
    _moved[_module_of(moved)] = place
    return moved


def original_place(model: object) -> str:
    """The device of what `on_processor` copied; empty where `model` is no such copy."""
    try:
        return _moved.get(_module_of(model), "")
    except TypeError:  # an object without weak references
        return ""


def notes_of(model: object) -> tuple[str, ...]:
    """A report's notes of such a copy."""
    place = original_place(model)
    return (f"the model is on {place}: a copy on the processor was converted and run",) if place else ()


def beside(model: object, arguments: Any) -> Any:
    """`arguments` with their tensors on the processor, where `model` is; as they are if it holds tensors elsewhere.

    What a function holds is not known: its arguments stay where they are.
    """
    unknown = not isinstance(_module_of(model), torch.nn.Module) or any(
        _elsewhere(tensor) for tensor in _tensors(model)
    )
    if unknown or not any(_elsewhere(leaf) for leaf in pytree.tree_leaves(arguments)):
        return arguments
    return pytree.tree_map(lambda leaf: leaf.detach().cpu() if _elsewhere(leaf) else leaf, arguments)


def _elsewhere(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.device.type not in _HERE


def _module_of(model: object) -> object:
    if isinstance(model, types.MethodType):
        return model.__self__
    return _module_of(model.func) if isinstance(model, functools.partial) else model


def _tensors(model: object) -> Iterator[torch.Tensor]:
    module = _module_of(model)
    if isinstance(module, torch.nn.Module) and "_parameters" in vars(module):  # which __init__ may have left out
        yield from module.parameters()
        yield from module.buffers()


def _moved_program(program: torch.export.ExportedProgram) -> object:
    from torch.export.passes import move_to_device_pass

    return move_to_device_pass(program, "cpu")


def _copied(model: object, place: str) -> object:
    if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        model = model.module  # which spreads over accelerators what the module itself computes
    with torch.no_grad(), _ClonesHere():
        result = copy.deepcopy(model)
    module = _module_of(result)
    if isinstance(module, torch.nn.Module):
        for part in module.modules():
            for name, value in vars(part).items():
                if (isinstance(value, torch.device) and value.type not in _HERE) or value in (
                    place,
                    place.split(":")[0],
                ):
                    setattr(part, name, type(value)("cpu"))
    return result


class _ClonesHere(TorchFunctionMode):
    """Inside, the copy of a tensor stands on the processor."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is torch.Tensor.clone and _elsewhere(args[0]):
            return args[0].cpu()
        if func is torch.Tensor.__deepcopy__ and _elsewhere(args[0]):  # parameters copy themselves by `clone`
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = tensor.detach().cpu().requires_grad_(tensor.requires_grad)
            return memo[id(tensor)]
        return func(*args, **(kwargs or {}))
