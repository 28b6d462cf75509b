"""What torch.export takes for a model: a module, also where the user has a callable or a module's method."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch

from onnxport.errors import InvalidModelError
from onnxport.tracing.pytorch_quantized import readable


def as_module(model: object) -> torch.nn.Module:
    """`model` as a module: itself, what a wrapper holds, or a module whose forward is the callable.

    Weights that are packed for dynamic quantisation are tensors in it.

    Raises:
        InvalidModelError: it can't be called.
    """
    return readable(_module_of(model))


def _module_of(model: object) -> torch.nn.Module:
    if isinstance(model, torch.nn.Module):
        if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            return model.module
        if "_parameters" not in vars(model):
            raise InvalidModelError(
                f"{type(model).__qualname__} holds no parameters yet: its __init__ lacks super().__init__()"
            )
        if isinstance(model, (torch.nn.ModuleList, torch.nn.ModuleDict)) and not _computes(model):
            raise InvalidModelError(
                f"{type(model).__qualname__} holds modules and computes nothing: pass the module that calls them, or "
                "torch.nn.Sequential(*modules) where each takes what the one before gives"
            )
        original = getattr(model, "_orig_mod", None)  # what torch.compile returns
        return original if isinstance(original, torch.nn.Module) else model
    if isinstance(model, torch.Tensor):
        raise InvalidModelError(f"a Tensor of {list(model.shape)} is no model: pass the module itself, or a function")
    if not callable(model):
        raise InvalidModelError(
            f"{type(model).__qualname__} is neither a torch.nn.Module nor a callable: pass the module itself"
        )
    owner = getattr(model, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return with_forward(owner, model)
    module = torch.nn.Module()
    for name, child in _used_modules(model):
        module.add_module(name, child)
    return with_forward(module.eval() if not any(True for _ in module.children()) else module, model)


def _computes(module: torch.nn.Module) -> bool:
    """Whether a module has a forward of its own."""
    return type(module).forward is not torch.nn.Module.forward or "forward" in vars(module)


def with_forward(
    module: torch.nn.Module, forward: Callable[..., Any], signature: inspect.Signature | None = None
) -> torch.nn.Module:
    """A module with `module`'s own parameters and another forward."""
    signature = signature or _signature(forward)
    inner = _as_forward(forward)
    method = inner.__func__ if isinstance(inner, types.MethodType) and inner.__self__ is module else None

    other = getattr(forward, "__func__", None) is not type(module).forward

    def call(self: torch.nn.Module, *args: object, **kwargs: object) -> Any:
        if method is None:
            return inner(*args, **kwargs)
        if not other:
            return method(self, *args, **kwargs)
        # A method of another name may call the module itself, whose forward is then its own.
        owner: torch.nn.Module = object.__new__(type(module))
        owner.__dict__ = self.__dict__
        return method(owner, *args, **kwargs)

    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    call.__signature__ = inspect.Signature([this, *signature.parameters.values()])  # type: ignore[attr-defined]
    own = type(module)  # by whose name transformers looks up what a model can give beside its result
    kind = type(own.__name__, (own,), {"forward": call, "__module__": own.__module__, "__qualname__": own.__qualname__})
    copy: torch.nn.Module = object.__new__(kind)
    copy.__dict__ = module.__dict__
    return copy


def _as_forward(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with "forward" as its code's name: torch keeps only frames of that name in a node's stack trace."""
    if isinstance(function, types.MethodType):
        return types.MethodType(_as_forward(function.__func__), function.__self__)
    if not isinstance(function, types.FunctionType):
        return function
    code = function.__code__.replace(co_name="forward")
    defaults, closure = function.__defaults__, function.__closure__
    copy = types.FunctionType(code, function.__globals__, function.__name__, defaults, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _signature(forward: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(forward)
    except (TypeError, ValueError):  # a built-in function of torch
        return inspect.Signature([inspect.Parameter("input", inspect.Parameter.VAR_POSITIONAL)])


def _used_modules(function: Any) -> list[tuple[str, torch.nn.Module]]:
    """Modules that a function closes over, takes from its globals or holds, by variable name."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None:
        held = vars(function) if hasattr(function, "__dict__") else {}
        return [(name, item) for name, item in held.items() if isinstance(item, torch.nn.Module)]
    cells = zip(code.co_freevars, function.__closure__ or (), strict=False)
    objects = [(name, cell.cell_contents) for name, cell in cells]
    objects += [(name, function.__globals__.get(name)) for name in code.co_names]
    return [(name, item) for name, item in objects if isinstance(item, torch.nn.Module)]
