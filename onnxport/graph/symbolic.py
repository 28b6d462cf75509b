"""onnx-ir, imported without sympy: a conversion whose sizes are numbers or names computes with none, and sympy takes 0.25 s."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_SYMPY = "sympy"
_importing = threading.RLock()


class _Deferred(ModuleType):
    """Stands for sympy in the modules that import it, and imports it when one of them uses it."""

    # What `onnx_ir._symbolic_shapes` (1.1) puts into a table while it is imported; the table's functions are only called.
    _listed = frozenset({"Max", "Min", "Mod", "floor", "sqrt"})

    def __getattr__(self, name: str) -> Any:
        if name in self._listed and sys.modules.get(_SYMPY) is self:
            return self._function(name)
        return getattr(self._real(), name)

    def _function(self, name: str) -> Callable[..., Any]:
        return lambda *args, **options: getattr(self._real(), name)(*args, **options)

    def _real(self) -> ModuleType:
        with _importing:
            if sys.modules.get(_SYMPY) is self:
                del sys.modules[_SYMPY]
            return import_module(_SYMPY)


def import_onnx_ir() -> None:
    """Imports onnx-ir; sympy follows where something is done with symbolic sizes, or where anybody imports it."""
    if "onnx_ir" in sys.modules or _SYMPY in sys.modules or find_spec(_SYMPY) is None:
        return
    with _importing:
        sys.modules[_SYMPY] = stand_in = _Deferred(_SYMPY)
        try:
            import_module("onnx_ir")
        finally:
            if sys.modules.get(_SYMPY) is stand_in:
                del sys.modules[_SYMPY]
