"""Variables that a program writes before it reads them: the value goes from the write to the reads behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import onnx_ir as ir

from onnxport.converters.to_onnx.tensorflow_graphs import executed
from onnxport.converters.to_onnx.tensorflow_writes import Writes
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.tensorflow.values import VariableHandle
from onnxport.tracing.tensorflow_program import Program

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


class State:
    """What variables hold after the writes so far; of a write in a branch or a loop nothing is known afterwards."""

    WRITES = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
    _ORDERED = WRITES | _CALLS | {"ReadVariableOp"}
    # What TensorFlow 1 keeps in its graph: read when the model is converted.
    SOURCES = frozenset({"VariableV2", "Variable", "HashTableV2", "MutableHashTableV2"})

    def __init__(self, program: Program) -> None:
        self._program = program
        self._values: dict[str, Callable[[], ir.Value]] = {}
        self.initial: dict[str, Callable[[], ir.Value]] = {}  # the variables' values before the first write
        self._lost: set[str] = set()
        self._writing: dict[str, bool] = {}

    def written(self, name: str) -> ir.Value | None:
        """The value that a variable was given, None if it was given none."""
        return None if name in self._lost or name not in self._values else self._values[name]()

    def write(self, op: OpBuilder, node: Any, operands: Sequence[Any], writes: Writes) -> None:
        """Lowers a write; what a variable holds after one in a body is not known."""
        handle, value = operands[0], operands[1]
        if not isinstance(handle, VariableHandle) or not isinstance(value, ir.Value):
            return
        if not op.is_main:
            self._lost.add(handle.name)
            if handle.name in self._values:  # the body may read it: not what was written before
                writes.note_read(handle.name)
            return
        writes.note_done(handle.name)
        before = self._values.get(handle.name, self.initial[handle.name])
        operator = {"AssignAddVariableOp": "Add", "AssignSubVariableOp": "Sub"}.get(node.type)

        @cache
        def after() -> ir.Value:  # when it is read: a counter that nothing reads needs no former value
            return value if operator is None else op.node(operator, before(), value)

        self._values[handle.name] = after

    def before(self, node: Any) -> list[Any]:
        """The reads and writes that have to come before a read, a write or a call."""
        if node.type not in self._ORDERED:
            return []
        return [item for item in node.control_inputs if item.type in self.WRITES or self._is_ordered(item)]

    def left_behind(self, graph: Any) -> list[Any]:
        """The writes of a function, whether or not a result depends on them."""
        return [node for node in executed(getattr(graph, "control_outputs", ())) if node.type in self.WRITES]

    def _is_ordered(self, node: Any) -> bool:
        """Whether a node reads a variable, or calls a function that writes one."""
        return node.type == "ReadVariableOp" or (node.type in _CALLS and self._writes(node))

    def _writes(self, node: Any) -> bool:
        name = node.get_attr("f").name
        if name not in self._writing:
            self._writing[name] = False  # of a function that calls itself
            inner = self._program.function(name).get_operations()
            self._writing[name] = any(
                item.type in self.WRITES or (item.type in _CALLS and self._writes(item)) for item in inner
            )
        return self._writing[name]
