"""Where the nodes of a TensorFlow graph come from."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

from onnxport.graph.provenance import Source, relative_path


class Sources:
    """Where nodes come from. Stacks are slow to read: of a framework's layer that no user's code called, only one is."""

    def __init__(self) -> None:
        self._without_user: set[str] = set()

    def __call__(self, node: Any) -> Source:
        """The source of a node, with file and line of the user's code as far as they were recorded."""
        scope = node.name.rpartition("/")[0]
        file, line = self._line(node, scope)
        return Source(node.type, node.name, scope, file, line)

    def _line(self, node: Any, scope: str) -> tuple[str, int | None]:
        layer = scope.rpartition("/")[0] if scope.count("/") > 1 else scope
        if node.type in _SILENT or layer in self._without_user:
            return "", None
        recorded = getattr(node, "traceback", None)
        result = _user_line(recorded) if hasattr(recorded, "get_user_frames") else ("", None)
        if scope and result[1] is None:
            self._without_user.add(layer)
        return result


_SILENT = frozenset({"Const", "Identity", "ReadVariableOp", "Placeholder"})  # operators that write no node


def _user_line(recorded: Any) -> tuple[str, int | None]:
    for frame in reversed(list(recorded.get_user_frames())):
        owner = _owner(frame.filename)
        if owner == "onnxport":
            break  # beyond it is the caller of the conversion, not of the node
        if owner == "user":
            return relative_path(frame.filename), frame.lineno
    return "", None


@cache
def _owner(filename: str) -> Literal["onnxport", "framework", "user"]:
    """Whose code a file is."""
    for package in ("onnxport", "tensorflow", "keras", "tf_keras"):
        home = _home(package)
        if home and filename.startswith(home):
            return "onnxport" if package == "onnxport" else "framework"
    return "user"


@cache
def _home(package: str) -> str:
    """The folder of an installed package, empty where there is none."""
    spec = find_spec(package)
    return os.path.dirname(spec.origin) + os.sep if spec is not None and spec.origin else ""
