"""The assignments of a TensorFlow program: state that is written and read is refused, never lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorflow.python.framework import dtypes

from onnxport.converters.to_onnx.tensorflow_graphs import executed, functions_of, skip_identities, writes_state
from onnxport.converters.to_onnx.tensorflow_sources import Sources
from onnxport.errors import Unsupported
from onnxport.tracing.tensorflow_program import Program, Variable


class Writes:
    """The writes to variables that run with a program, and which of the variables outputs depend on."""

    def __init__(self, program: Program, sources: Sources) -> None:
        self._program = program
        self._sources = sources
        self._read: set[str] = set()
        self._done: set[str] = set()
        self._writes: list[tuple[str, Unsupported]] = []
        graph = program.graph
        if hasattr(graph, "control_outputs"):
            self._collect(graph.get_operations(), {})
        else:
            self._collect(executed([port.tensor.op for port in program.outputs]), {})

    def note_read(self, name: str) -> None:
        """Records that an output depends on a variable."""
        self._read.add(name)

    def note_done(self, name: str) -> None:
        """Records that the graph holds a write: later reads give what was written."""
        self._done.add(name)

    def refused(self) -> list[Unsupported]:
        """The writes to variables that outputs depend on."""
        return [item for name, item in self._writes if not name or name in self._read]

    def notes(self) -> list[str]:
        """What the result leaves out: writes to variables that no output depends on."""
        unread = {name for name, _ in self._writes if name not in self._read}
        names, done = sorted(unread - self._done), sorted(unread & self._done)
        notes = [f"left out, since no output depends on them: writes to {', '.join(names)}"] if names else []
        return [*notes, f"what {', '.join(done)} holds is not kept from one run to the next"] if done else notes

    def _collect(self, nodes: Iterable[Any], names: dict[str, str]) -> None:
        """Notes the writes among `nodes`; `names` gives the variable that an argument of the function is."""
        for node in nodes:
            if writes_state(node.type):
                name = self._variable_name(node.inputs[0], names) if node.inputs else ""
                written = f"variable {name!r}" if name else "a variable"
                reason = f"writes {written}, which outputs depend on; an ONNX graph has no state"
                self._writes.append((name, Unsupported("tensorflow", node.type, reason, self._sources(node).where)))
            for function in functions_of(node):
                graph = self._program.function(function)
                operands = list(node.inputs)[-len(graph.inputs) :] if graph.inputs else []
                pairs = zip(graph.inputs, operands, strict=True)
                resources = [(inside.name, operand) for inside, operand in pairs if operand.dtype == dtypes.resource]
                inner = {name: self._variable_name(operand, names) for name, operand in resources}
                self._collect(graph.get_operations(), inner)

    def _variable_name(self, tensor: Any, names: dict[str, str]) -> str:
        tensor = skip_identities(tensor)
        captured = self._program.captured.get(tensor.name)
        return captured.name if isinstance(captured, Variable) else names.get(tensor.name, "")
