"""ONNX models, run by onnxruntime or ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import onnx
import onnx_ir as ir

from onnxport.errors import InvalidInputError
from onnxport.frameworks import Framework
from onnxport.graph import rows
from onnxport.graph.protos import to_proto
from onnxport.graph.runtime import Session
from onnxport.validation.runners.base import Binding, Example, Outputs, Runner, split_arguments


class OnnxRunner(Runner):
    """Runs a session; leaves are the graph's inputs in order."""

    framework: ClassVar[Framework] = "onnx"

    def __init__(self, session: Session, title: str, example: Example | None, model: ir.Model | None = None) -> None:
        super().__init__(title, example)
        self._model = model
        self.session = session
        self.runtime = session.backend

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """Outputs in graph order."""
        names = self.example.names if self.example is not None else self.session.input_names
        if len(leaves) != len(names):
            raise InvalidInputError(
                f"the model takes {len(names)} inputs ({', '.join(names)}), {len(leaves)} were given"
            )
        values = self.session.run(dict(zip(names, leaves, strict=True)))
        return list(zip(self.session.output_names, values, strict=True))

    def intermediates(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Every tensor of the main graph by name."""
        if self._model is None:
            return {}
        names = self.example.names if self.example is not None else self.session.input_names
        return values_of(self._model, dict(zip(names, leaves, strict=True)))


def values_of(model: ir.Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Every tensor of the model's main graph on `feeds`, the graph run as it is written."""
    values = [value for node in model.graph for value in node.outputs if value.name]
    names = [value.name or "" for value in values if value.type is None or isinstance(value.type, ir.TensorType)]
    proto = to_proto(model)
    shown = {item.name for item in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in shown)
    session = Session(proto, optimize=False)
    return dict(zip(names, session.run(feeds, names), strict=True))


def bind(model: Any, binding: Binding) -> OnnxRunner:
    """A runner of an `OnnxModel`."""
    from onnxport.validation.runners import to_numpy

    session: Session = model.session
    title = model.model.graph.name or "model"
    if binding.inputs is None and not binding.kwargs:
        return OnnxRunner(session, title, None, model.model)
    inputs: Any = () if binding.inputs is None else binding.inputs
    if rows.is_frame(inputs) or rows.is_records(inputs):  # one graph input a column
        inputs = rows.columns_of(inputs)
    args, named = split_arguments(inputs, binding.kwargs)
    given: Mapping[str, Any] = {**dict(zip(session.input_names, args, strict=False)), **named}
    if len(args) > len(session.input_names) or set(given) != set(session.input_names):
        raise InvalidInputError(
            f"the model takes inputs {', '.join(session.input_names)}; {len(args)} positional ones and {sorted(named)} were given"
        )
    names = tuple(session.input_names)
    leaves = tuple(session.prepare(name, to_numpy(given[name])) for name in names)
    return OnnxRunner(session, title, Example(names, leaves), model.model)
