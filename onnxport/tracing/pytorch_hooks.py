"""What stands in for functions and layers of torch.nn while they are traced: modes, and hooks, which are gone afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.fx import Tracer
from torch.overrides import TorchFunctionMode

from onnxport.tracing.pytorch_masks import has_masks, masks_as_given
from onnxport.tracing.pytorch_padding import padding_as_zeros
from onnxport.tracing.pytorch_recurrent import is_recurrent, kept_whole


def modes_for(module: torch.nn.Module) -> list[TorchFunctionMode]:
    """What stands in for functions and layers that torch can't trace with dynamic sizes or at all."""
    modules = list(module.modules())
    modes: list[TorchFunctionMode] = []
    if any(is_recurrent(item) for item in modules):
        modes.append(kept_whole())
    if any(has_masks(item) for item in modules):
        modes.append(masks_as_given())
    return modes


@contextmanager
def hooked(root: torch.nn.Module, modes: Sequence[TorchFunctionMode]) -> Iterator[None]:
    """While it is active, the layers within `root` have the hooks that their kind and the active `modes` need."""
    with ExitStack() as stack:
        stack.enter_context(padding_as_zeros(root))
        stack.enter_context(_unchanged_modules_left())
        for mode in modes:
            if isinstance(mode, kept_whole):
                stack.enter_context(mode.packing.around(root))
        yield


@contextmanager
def _unchanged_modules_left() -> Iterator[None]:
    """While it is active, ``module.to(dtype)`` that changes no tensor does nothing.

    torch puts other tensors in the place of traced parameters there, even the same ones, which it can't.
    """
    apply = torch.nn.Module._apply

    def changing(module: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> object:
        tensors = [*module.parameters(recurse), *module.buffers(recurse)]
        return module if all(fn(item) is item for item in tensors) else apply(module, fn, recurse)

    torch.nn.Module._apply = changing
    try:
        yield
    finally:
        torch.nn.Module._apply = apply


@contextmanager
def no_fastpath() -> Iterator[None]:
    """Attention layers in their readable form, not as one opaque fused operator."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def calls_may_fail() -> Iterator[None]:
    """While it is active, a trace goes on where a model catches an error of a layer that it calls, as duck typing does.

    torch leaves such a layer among those that are being called.
    """
    call_module = Tracer.call_module

    def call(self: Tracer, m: torch.nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        depth = len(self.module_stack)
        try:
            return call_module(self, m, forward, args, kwargs)
        except Exception:
            while len(self.module_stack) > depth:
                self.module_stack.popitem()
            raise

    Tracer.call_module = call
    try:
        yield
    finally:
        Tracer.call_module = call_module
