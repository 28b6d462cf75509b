"""TensorFlow -> ONNX: the traced graph is read as it is and lowered node by node through the map."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass
from tensorflow.python.framework import dtypes

from onnxport.converters.to_onnx.finish import finish
from onnxport.converters.to_onnx.refusals import Refusals
from onnxport.converters.to_onnx.tensorflow_arguments import call_entry
from onnxport.converters.to_onnx.tensorflow_graphs import functions_of, ordered, skip_identities
from onnxport.converters.to_onnx.tensorflow_refused import way_out
from onnxport.converters.to_onnx.tensorflow_sources import Sources
from onnxport.converters.to_onnx.tensorflow_state import State
from onnxport.converters.to_onnx.tensorflow_v1 import ControlFlow, GraphPart, LoopFrame, branch
from onnxport.converters.to_onnx.tensorflow_v1 import ordered as ordered_with_flow
from onnxport.converters.to_onnx.tensorflow_writes import Writes
from onnxport.errors import InvalidModelError, MapEntryError, UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.passes.batch_norm import RecogniseBatchNormPass
from onnxport.graph.passes.gelu import RecogniseGeluPass
from onnxport.graph.passes.layer_norm import RecogniseLayerNormPass, RecogniseRmsNormPass
from onnxport.graph.passes.layout import PushTransposesPass
from onnxport.graph.passes.pads import MergePadsPass
from onnxport.graph.passes.products import RecogniseProductsPass
from onnxport.graph.passes.reshapes import MergeReshapesPass
from onnxport.graph.passes.transpose_quantised import TransposeQuantisedPass
from onnxport.graph.provenance import Source
from onnxport.graph.result_types import Expected
from onnxport.model import OnnxModel
from onnxport.opset_maps.lowerings.complex_numbers import PART_TYPES, mark_complex
from onnxport.opset_maps.maps import tensorflow as table
from onnxport.opset_maps.registry import Entry, Undefined
from onnxport.opset_maps.to_onnx.tensorflow.program import constant
from onnxport.opset_maps.to_onnx.tensorflow.values import Function, NeedsState, ResourceHandle, VariableHandle
from onnxport.progress import stage
from onnxport.request import Request
from onnxport.tracing.tensorflow import trace
from onnxport.tracing.tensorflow_program import WEIGHTS, Parameter, Port, Program, Variable, array_of, dtype_of
from onnxport.tracing.tensorflow_signs import free_form


def export(model: Any, request: Request) -> OnnxModel:
    """The ONNX model of a TensorFlow model: a SavedModel, function, module, frozen GraphDef or callable.

    Raises:
        UnsupportedOperator: operators without an ONNX form, all of them at once.
        TracingError: TensorFlow can't trace the model.
        InvalidInputError: inputs, names or signature do not fit.
    """
    return export_traced(model, request, partial(trace, signature=request.signature))


def export_traced(model: Any, request: Request, trace: Callable[..., Program]) -> OnnxModel:
    """The ONNX model of the program that `trace` gives of a model.

    Raises:
        UnsupportedOperator: operators without an ONNX form, all of them at once.
        TracingError: the model can't be traced.
        InvalidInputError: inputs or names do not fit.
    """
    with _collector_paused():
        stage("tracing")
        program = trace(
            model,
            inputs=request.inputs,
            kwargs=request.kwargs,
            dynamic_shapes=request.dynamic_shapes,
            input_names=request.input_names,
            output_names=request.output_names,
        )
        return _lowered(program, request)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection in the block: the thousands of new nodes would set off walks over all of TensorFlow."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _lowered(program: Program, request: Request) -> OnnxModel:
    stage("lowering")
    op = OpBuilder(request.opset, ml_opset=request.ml_opset)
    inputs = {port.tensor.name: _graph_input(op, port) for port in program.inputs}
    called = [op.names.unique(port.name) for port in program.outputs]  # an input's name too: a numbered variant
    lowering = _Lowering(op, program)
    outputs = lowering.graph(op, inputs, [port.tensor for port in program.outputs])
    for port, output in zip(program.outputs, outputs, strict=True):
        lowering.has_no_form(port.tensor, output)
    lowering.refused.extend(lowering.writes.refused())
    lowering.refused.raise_all()
    names = op.names
    recognise = (
        RecogniseGeluPass,
        RecogniseLayerNormPass,
        RecogniseRmsNormPass,
        RecogniseBatchNormPass,
        RecogniseProductsPass,
    )
    rewrites = (
        *(each(names) for each in recognise),
        RemoveUnusedNodesPass(),  # what was recognised reads its operands no more
        PushTransposesPass(names),
        TransposeQuantisedPass(names),
        MergeReshapesPass(names),
        RemoveUnusedNodesPass(),  # transposes that were pushed on
        MergePadsPass(),
    )
    notes = list(lowering.writes.notes())
    model = finish(op, outputs, called, rewrites=rewrites, runtime=request.runtime, notes=notes)
    return OnnxModel(model, notes=tuple(notes), runtime=request.runs_in)


def _graph_input(op: OpBuilder, port: Port) -> ir.Value:
    """A graph input; a complex one is a pair of real numbers along a last axis."""
    if port.dtype not in PART_TYPES:
        return op.input(port.name, port.dtype, port.shape)
    shape = None if port.shape is None else [*port.shape, 2]
    value = op.input(port.name, PART_TYPES[port.dtype], shape)
    mark_complex(value)
    return value


_STATIC = 64  # operators at most that are run to have the number that they give
_REFUSED = object()  # stands for the results of an operator that was refused; what uses them is only looked up


class _Lowering:
    """Lowers the graphs of one program, and keeps what was refused."""

    def __init__(self, op: OpBuilder, program: Program) -> None:
        self.program = program
        self.refused = Refusals("tensorflow")
        self._root = op
        self._captured: dict[str, Any] = {}
        self._surveyed: set[str] = set()
        self._source = Sources()
        self.writes = Writes(program, self._source)
        self._state = State(program)
        self._flows: dict[int, ControlFlow] = {}
        self._parts: dict[str, GraphPart] = {}
        op.on_call(self.call)

    def call(self, op: OpBuilder, function: Function, arguments: Sequence[Any]) -> list[Any]:
        """The results of a library function on `arguments`, its nodes written into `op`.

        Raises:
            UnsupportedOperator: a result was refused; what and why is noted already.
        """
        if function.name in self._parts:
            return self._part_results(op, self._parts[function.name], arguments)
        implemented = self.program.implements(function.name)
        composite = table.find(implemented) if implemented else None
        if composite is not None:
            return [composite.function(op, *arguments)]
        types = self.program.argument_types(function.name)
        shapes = [_tf_shape(item, dtype) for item, dtype in zip(arguments, types, strict=True)]
        graph = self.program.function(function.name, shapes)
        bound = {tensor.name: item for tensor, item in zip(graph.inputs, arguments, strict=True)}
        before = len(self.refused)
        try:
            results = self.graph(op, bound, graph.outputs, self._state.left_behind(graph))
        except NeedsState:
            self.refused.forget_since(before)  # it is lowered once more
            raise
        self._surveyed.add(function.name)  # what it holds is noted, and not to be counted again
        if any(item is _REFUSED for item in results):
            raise UnsupportedOperator(
                f"a result of {function.name} was refused", self.refused.since(before) or self.refused.since(before - 1)
            )
        return results

    def _function(self, name: str) -> Function:
        """A function attribute as entries see it."""

        def describe() -> tuple[int | None, ...]:
            graph = self.program.function(name)
            places = {id(tensor): i for i, tensor in enumerate(graph.inputs)}
            return tuple(places.get(id(skip_identities(tensor))) for tensor in graph.outputs)

        return Function(name, describe)

    def _survey(self, name: str) -> None:
        """Notes what a function holds that has no entry, without lowering it."""
        if name in self._surveyed:
            return
        self._surveyed.add(name)
        for node in ordered(self.program.function(name).outputs):
            if node.type != "Placeholder" and self._entry(node) is None:
                self.refused.add(node.type, way_out(node.type), self._source(node).where)
            for inner in functions_of(node):
                self._survey(inner)

    def graph(
        self, op: OpBuilder, bound: dict[str, Any], targets: Sequence[Any], writes: Sequence[Any] = ()
    ) -> list[Any]:
        """The values of `targets` in a graph whose arguments are `bound` by tensor name, its `writes` done too."""
        values = dict(bound)
        flow = self._flow(targets)
        roots = [*(tensor.op for tensor in targets), *writes]
        for node in ordered_with_flow(roots, bound, flow, self._state.before):
            if any(tensor.name in values for tensor in node.outputs):
                continue
            frame = flow.frame(node)
            if frame is not None:
                values.update(self._loop(op, frame, node, values))
                continue
            if node.type in ("Merge", "RefMerge"):
                values.update(self._branches(op, node, values))
                continue
            if node.type == "TensorListStack" and op.is_main and self._is_static(node):
                array = array_of(self.program.evaluated(node.outputs[0]))
                values[node.outputs[0].name] = constant(op, array, node.name)
                continue
            if node.type in self._state.WRITES:
                self._state.write(op, node, [values[tensor.name] for tensor in node.inputs], self.writes)
                continue
            results = self._node(op, node, [values[tensor.name] for tensor in node.inputs])
            values.update((tensor.name, item) for tensor, item in zip(node.outputs, results, strict=True))
        return [values[tensor.name] for tensor in targets]

    def _is_static(self, node: Any) -> bool:
        """Whether a node computes from constants alone, as TensorFlow's own code does with axes."""
        nodes = ordered([node.outputs[0]])
        return len(nodes) < _STATIC and not any(item.op_def.is_stateful or item.type == "Placeholder" for item in nodes)

    def _flow(self, targets: Sequence[Any]) -> ControlFlow:
        graph = targets[0].graph if targets else self.program.graph
        if id(graph) not in self._flows:
            self._flows[id(graph)] = ControlFlow(graph)
        return self._flows[id(graph)]

    def _part_results(self, op: OpBuilder, part: GraphPart, arguments: Sequence[Any]) -> list[Any]:
        before = len(self.refused)
        bound = {tensor.name: item for tensor, item in zip(part.inputs, arguments, strict=True)}
        results = self.graph(op, bound, part.outputs)
        if any(item is _REFUSED for item in results):
            raise UnsupportedOperator(f"a result of {part.name} was refused", self.refused.since(before))
        return results

    def _as_function(self, part: GraphPart) -> Function:
        self._parts[part.name] = part
        return Function(part.name, part.passed)

    def _loop(self, op: OpBuilder, frame: LoopFrame, node: Any, values: dict[str, Any]) -> dict[str, Any]:
        """The results of a loop of TensorFlow 1, as those of the While that it stands for."""
        from onnxport.opset_maps.to_onnx.tensorflow.control_flow import while_

        entering = [values[tensor.name] for tensor in frame.entering]
        source = self._source(node)
        if frame.condition is None or frame.body is None or any(item is _REFUSED for item in entering):
            return dict.fromkeys(frame.exits, _REFUSED)
        parts = self._as_function(frame.condition), self._as_function(frame.body)
        try:
            with op.at(source, [_expected(tensor) for tensor in frame.merged]):
                results = while_(op, entering, cond=parts[0], body=parts[1])
        except UnsupportedOperator as error:
            if not error.operators:
                self.refused.add("while_loop", str(error), source.where)
            return dict.fromkeys(frame.exits, _REFUSED)
        return {name: results[place] for name, place in frame.exits.items()}

    def _branches(self, op: OpBuilder, merge: Any, values: dict[str, Any]) -> dict[str, Any]:
        """The result of a branch of TensorFlow 1, as that of an If: its false side comes first."""
        from onnxport.opset_maps.to_onnx.tensorflow.control_flow import branched

        source = self._source(merge)
        name = merge.outputs[0].name
        try:
            predicate, switches = branch(merge)
            sides = [
                GraphPart(f"{merge.name} {side}", [switch.outputs[side] for switch in switches], [merge.inputs[side]])
                for side in (0, 1)
            ]
            arguments = [values[switch.inputs[0].name] for switch in switches]
            if any(item is _REFUSED for item in (values[predicate.name], *arguments)):
                return {name: _REFUSED}
            with op.at(source, [_expected(merge.outputs[0])]):
                (result,) = branched(
                    op,
                    values[predicate.name],
                    lambda b: self._part_results(b, sides[1], arguments),
                    lambda b: self._part_results(b, sides[0], arguments),
                )
        except UnsupportedOperator as error:
            if not error.operators:
                self.refused.add("Merge", str(error), source.where)
            return {name: _REFUSED}
        return {name: self._typed(op, _expected(merge.outputs[0]), result, source)}

    def _node(self, op: OpBuilder, node: Any, operands: list[Any]) -> Sequence[Any]:
        if node.type == "Placeholder":
            return [self._capture(node)]
        if node.type == WEIGHTS:
            captured = self.program.captured
            known = (captured.get(tensor.name) for tensor in node.outputs)
            return [None if item is None else self._materialise(item, item.name) for item in known]
        source = self._source(node)
        if node.type in self._state.SOURCES:
            return [self._materialise(self.program.evaluated(node.outputs[0]), node.name)]
        entry = self._entry(node)
        if entry is None:
            why = "no form for complex numbers" if table.find(node.type) else way_out(node.type)
            self.refused.add(node.type, why, source.where)
            return [_REFUSED] * len(node.outputs)
        if any(item is _REFUSED for item in operands):
            for name in functions_of(node):
                self._survey(name)
            return [_REFUSED] * len(node.outputs)
        if any(self.has_no_form(tensor, item) for tensor, item in zip(node.inputs, operands, strict=True)):
            return [_REFUSED] * len(node.outputs)
        try:
            expected = [_expected(tensor) for tensor in node.outputs]
            entry.require_opset(op.opset)
            with op.at(source, expected):
                results = call_entry(entry, op, node, operands, self._function)
        except UnsupportedOperator as error:
            if not error.operators:
                self.refused.add(node.type, str(error), source.where)
            for name in functions_of(node):
                self._survey(name)
            return [_REFUSED] * len(node.outputs)
        except MapEntryError as error:
            raise MapEntryError(f"{node.type} ({source.where}): {error}") from error
        return [self._typed(op, known, item, source) for known, item in zip(expected, results, strict=True)]

    def has_no_form(self, tensor: Any, item: Any) -> bool:
        """Whether a result that is used has no ONNX form, which is noted."""
        if item is not None and not isinstance(item, Undefined):
            return False
        reason = item.reason if item else f"its result {tensor.value_index} has no ONNX form"
        self.refused.add(tensor.op.type, reason, self._source(tensor.op).where)
        return True

    def _typed(self, op: OpBuilder, expected: Expected | None, value: Any, source: Source) -> Any:
        if expected is None or not isinstance(value, ir.Value):
            return value
        shape = expected.shape
        if shape is not None and value.shape is not None and value.shape.rank() == len(shape):
            shape = tuple(known if given is None else given for known, given in zip(value.shape, shape, strict=True))
        if value.producer() is None and value.shape is not None:
            shape = None  # an input or parameter passed through keeps its own shape
        try:
            return op.typed(value, expected.dtype, shape)
        except MapEntryError as error:
            raise MapEntryError(f"{source.op} ({source.where}): {error}") from error

    def _entry(self, node: Any) -> Entry | None:
        """The map's entry for a node; an operator type that is the name of a library function is a call of it."""
        is_complex = any(tensor.dtype in _COMPLEX for tensor in (*node.inputs, *node.outputs))
        name = None if is_complex else free_form(node)
        result = table.find(name or node.type, accepts_complex=is_complex)
        if result is None and self.program.has_function(node.type):
            return Entry(node.type, lambda op, *operands, **_: op.call(self._function(node.type), operands))
        return result

    def _capture(self, node: Any) -> Any:
        name = node.outputs[0].name
        if name not in self.program.captured:
            raise InvalidModelError(
                f"the placeholder {name!r} is no input: name it in input_names, or choose other outputs"
            )
        if name not in self._captured:
            self._captured[name] = self._materialise(self.program.captured[name], node.name)
        return self._captured[name]

    def _materialise(self, captured: Any, name: str) -> Any:
        if isinstance(captured, Parameter):
            return _parameter(self._root, captured)
        if isinstance(captured, Variable):
            return self._variable(captured)
        if captured.dtype in (dtypes.resource, dtypes.variant):
            return self._resource(captured)
        return constant(self._root, array_of(captured), name)

    def _variable(self, variable: Variable) -> VariableHandle:
        result: list[ir.Value] = []

        def initial() -> ir.Value:
            self.writes.note_read(variable.name)
            if not result:
                result.append(_parameter(self._root, variable))
            return result[0]

        def read() -> ir.Value:
            written = self._state.written(variable.name)
            return initial() if written is None else written

        self._state.initial[variable.name] = initial
        return VariableHandle(variable.name, read, variable.dtype, variable.shape)

    def _resource(self, tensor: Any) -> VariableHandle | ResourceHandle:
        """A resource of unknown owner: a variable if its handle gives the type that it holds, else left to the entries."""
        from tensorflow import raw_ops

        data = getattr(tensor, "_handle_data", None)
        if data is None or not data.is_set or tensor.dtype != dtypes.resource or len(data.shape_and_type) != 1:
            return ResourceHandle(tensor)
        dtype = dtypes.as_dtype(data.shape_and_type[0].dtype)
        shape = tuple(dim.size for dim in data.shape_and_type[0].shape.dim)
        read = partial(raw_ops.ReadVariableOp, resource=tensor, dtype=dtype)
        return self._variable(Variable(f"variable_{len(self._captured)}", read, dtype_of(dtype), shape))


def _parameter(op: OpBuilder, variable: Variable) -> ir.Value:
    """The variable's present value as an initializer, on the variable's own storage."""
    array = array_of(variable.read())
    if variable.dtype == ir.DataType.STRING or variable.dtype in PART_TYPES:
        return constant(op, array, variable.name)
    return op.initializer(variable.name, ir.Tensor(array, dtype=variable.dtype))


# Looked up by hash: comparing types of TensorFlow is slow.
_HANDLES = frozenset({dtypes.resource, dtypes.variant})
_COMPLEX = frozenset({dtypes.complex64, dtypes.complex128})


def _expected(tensor: Any) -> Expected | None:
    """The type of a tensor in TensorFlow; a complex one is a pair of real ones along a last axis."""
    if tensor.dtype in _HANDLES:
        return None
    known = tensor.shape
    shape = tuple(known.as_list()) if known.rank is not None else None
    dtype = dtype_of(tensor.dtype)
    if dtype in PART_TYPES:
        return Expected(PART_TYPES[dtype], (*shape, 2) if shape is not None else None)
    return Expected(dtype, shape)


def _tf_shape(value: Any, dtype: Any) -> Any:
    """The shape of an argument, without the parts of a complex one."""
    from tensorflow import TensorShape

    if not isinstance(value, ir.Value) or value.shape is None:
        return TensorShape([]) if not isinstance(value, ir.Value) else TensorShape(None)
    sizes = [dim if isinstance(dim, int) else None for dim in value.shape]
    return TensorShape(sizes[:-1] if dtype.is_complex else sizes)
