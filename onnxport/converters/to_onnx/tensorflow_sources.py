"""Where the nodes of a TensorFlow graph come from."""

from __future__ import annotations

from typing import Any

from onnxport.graph.provenance import Source
from onnxport.tracing.tensorflow_program import WEIGHTS
from onnxport.tracing.tensorflow_stacks import user_line


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
        result = user_line(recorded) if hasattr(recorded, "get_user_frames") else ("", None)
        if scope and result[1] is None:
            self._without_user.add(layer)
        return result


_SILENT = frozenset({"Const", "Identity", "ReadVariableOp", "Placeholder", WEIGHTS})  # operators that write no node
