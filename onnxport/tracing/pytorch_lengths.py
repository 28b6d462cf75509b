"""``len(tensor)`` while torch.export traces: Python asks for a whole number, and the traced size is one that varies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch._subclasses import FakeTensor

_NAME = "len"


def _length(value: Any) -> Any:
    """``len``, but a traced tensor gives its size as the trace has it."""
    return value.shape[0] if isinstance(value, FakeTensor) and value.dim() else len(value)


@contextmanager
def lengths_that_vary(root: torch.nn.Module) -> Iterator[None]:
    """While it is active, ``len`` gives sizes that vary as they are, in the Python modules of the layers within `root`.

    The built-in function makes an ``int`` of what ``__len__`` returns, so that no method of a tensor can give them.
    """
    modules = [item for item in _modules(root) if _NAME not in vars(item)]
    for item in modules:
        vars(item)[_NAME] = _length
    try:
        yield
    finally:
        for item in modules:
            vars(item).pop(_NAME, None)


def _modules(root: torch.nn.Module) -> list[ModuleType]:
    """The Python modules that define the classes of layers, but for torch's."""
    names = {base.__module__ for layer in root.modules() for base in type(layer).__mro__}
    chosen = (name for name in sorted(names) if name.partition(".")[0] not in ("builtins", "torch", "onnxport"))
    return [sys.modules[name] for name in chosen if name in sys.modules]
