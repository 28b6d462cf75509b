"""Where the nodes of a TensorFlow graph come from."""

from __future__ import annotations

from typing import Any

from onnxport.graph.provenance import Source
from onnxport.tracing.tensorflow_program import WEIGHTS
from onnxport.tracing.tensorflow_stacks import stands_for_many, user_line


class Sources:
    """Where nodes come from.

    Stacks are slow to read: each is read once, however many nodes have it, and where each node has its own, one of a framework's
    layer that no user's code called.
    """

    def __init__(self) -> None:
        self._without_user: set[str] = set()
        # By a stack's id, which is its own as long as the stack is held.
        self._read: dict[int, tuple[Any, tuple[str, int | None]]] = {}

    def __call__(self, node: Any) -> Source:
        """The source of a node, with file and line of the user's code as far as they were recorded."""
        scope = node.name.rpartition("/")[0]
        file, line = self._line(node, scope)
        return Source(node.type, node.name, scope, file, line)

    def _line(self, node: Any, scope: str) -> tuple[str, int | None]:
        if node.type in _SILENT:
            return "", None
        recorded = getattr(node, "traceback", None)
        if id(recorded) in self._read:
            return self._read[id(recorded)][1]
        layer = scope.rpartition("/")[0] if scope.count("/") > 1 else scope
        if layer in self._without_user or not hasattr(recorded, "get_user_frames"):
            return "", None
        result = user_line(recorded)
        self._read[id(recorded)] = recorded, result
        if scope and result[1] is None and not stands_for_many(recorded):
            self._without_user.add(layer)
        return result


_SILENT = frozenset({"Const", "Identity", "ReadVariableOp", "Placeholder", WEIGHTS})  # operators that write no node
