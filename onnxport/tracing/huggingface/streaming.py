"""A model without the memory of its weights runs: each module has its weights while it runs, and no longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from onnxport.tracing.pytorch_deferred import Weight, weight_of

Read = Callable[[], torch.Tensor]
# Where the truth of a type is looked for: in the next wider one.
WIDER = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.float32: torch.float64}


@contextmanager
def weights_while_running(
    model: torch.nn.Module, *, wider: bool = False, instead: Mapping[Weight | None, Read] | None = None
) -> Iterator[None]:
    """Reads the weights that a module itself holds when it is called, and lets go of them when it returns.

    With `wider` they are in the next wider type, which the module's parameters have all the time. `instead` has other contents
    of some weights.
    """
    held = [_Held(module, wider, instead or {}) for module in model.modules() if module._parameters]
    handles = []
    for item in held:
        handles.append(item.module.register_forward_pre_hook(item.enter))
        handles.append(item.module.register_forward_hook(item.leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for item in held:
            item.module._parameters.update(item.original)


class _Held:
    """The weights that a module itself holds."""

    def __init__(self, module: torch.nn.Module, wider: bool, instead: Mapping[Weight | None, Read]) -> None:
        self.module = module
        named = [(name, item, weight_of(item)) for name, item in module._parameters.items() if item is not None]
        self.original = {name: item for name, item, weight in named if weight is not None}
        self._reads = {name: instead.get(weight, weight.read) for name, _, weight in named if weight is not None}
        self._dtypes = {name: WIDER.get(x.dtype, x.dtype) if wider else x.dtype for name, x in self.original.items()}
        self._between = dict(self.original)
        if wider:
            blanks = {name: torch.zeros((), dtype=dtype) for name, dtype in self._dtypes.items()}
            self._between = {name: _parameter(item.expand(self.original[name].shape)) for name, item in blanks.items()}
        module._parameters.update(self._between)

    def enter(self, _: torch.nn.Module, __: Any) -> None:
        """Before the module runs."""
        read = {name: read().to(self._dtypes[name]) for name, read in self._reads.items()}
        self.module._parameters.update({name: _parameter(item) for name, item in read.items()})

    def leave(self, _: torch.nn.Module, __: Any, ___: Any) -> None:
        """After it has run."""
        self.module._parameters.update(self._between)


def _parameter(tensor: torch.Tensor) -> torch.nn.Parameter:
    return torch.nn.Parameter(tensor, requires_grad=False)
