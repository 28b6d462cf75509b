"""``len(tensor)`` and ``int(size)`` while torch.export traces: Python asks for a number, and the traced size varies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch


def _length(value: Any) -> Any:
    """``len``, but a tensor gives its size as the trace has it."""
    return value.shape[0] if isinstance(value, torch.Tensor) and value.dim() else len(value)


class _Kind(type):
    """What the class of whole numbers is asked for is asked of Python's own."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, (int, torch.SymInt))

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, int)

    def __eq__(cls, other: object) -> bool:
        return other is int or other is cls

    def __hash__(cls) -> int:
        return hash(int)


class _Whole(int, metaclass=_Kind):
    """``int``, but of a size, or a fraction of one, it gives what the trace knows of it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], (torch.SymInt, torch.SymFloat)):
            return torch.sym_int(args[0])
        if len(args) == 1 and isinstance(args[0], int) and not isinstance(args[0], bool):
            return args[0]
        return int(*args, **kwargs)


_FORMS = {"len": _length, "int": _Whole}


@contextmanager
def sizes_kept(root: torch.nn.Module) -> Iterator[None]:
    """While it is active, ``len`` and ``int`` give sizes as they vary, in the Python modules of the layers within `root`.

    The built-in functions make an ``int`` of whatever an object's own method returns, so that no size can give itself.
    """
    places = [(item, name) for item in _modules(root) for name in _FORMS if name not in vars(item)]
    for item, name in places:
        vars(item)[name] = _FORMS[name]
    try:
        yield
    finally:
        for item, name in places:
            vars(item).pop(name, None)


def _modules(root: torch.nn.Module) -> list[ModuleType]:
    """The Python modules that define the classes of layers, but for torch's."""
    names = {base.__module__ for layer in root.modules() for base in type(layer).__mro__}
    chosen = (name for name in sorted(names) if name.partition(".")[0] not in ("builtins", "torch", "onnxport"))
    return [sys.modules[name] for name in chosen if name in sys.modules]
