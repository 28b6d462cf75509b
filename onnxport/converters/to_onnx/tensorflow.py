"""TensorFlow -> ONNX: the traced graph is read as it is and lowered node by node through the map."""

from __future__ import annotations

import gc
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

import onnx_ir as ir
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import dtypes, tensor_util

from onnxport.converters.to_onnx.finish import finish
from onnxport.errors import InvalidModelError, MapEntryError, Unsupported, UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.passes.batch_norm import RecogniseBatchNormPass
from onnxport.graph.passes.layout import PushTransposesPass
from onnxport.graph.provenance import Source, relative_path
from onnxport.graph.result_types import Expected
from onnxport.model import OnnxModel
from onnxport.opset_maps.maps import tensorflow as table
from onnxport.opset_maps.registry import Entry
from onnxport.opset_maps.to_onnx.tensorflow.program import constant
from onnxport.opset_maps.to_onnx.tensorflow.values import Function, NeedsState, ResourceHandle, VariableHandle
from onnxport.request import Request
from onnxport.tracing.tensorflow import trace
from onnxport.tracing.tensorflow_program import Program, Variable, array_of, dtype_of

WAY_OUT = "add a mapping with onnxport.register_to_onnx('tensorflow', '<operator>')"

# Attributes that say nothing about the result: hints to TensorFlow's kernels, debugging, and legacy spellings.
_HINTS = frozenset(
    "use_cudnn_on_gpu parallel_iterations validate_indices grad_a grad_b config config_proto executor_type shape_type "
    "incompatible_shape_error container shared_name stateful_parallelism use_inter_op_parallelism".split()
)
# Operators that are run for their effect; they have no result that an output depends on.
_EFFECTS = frozenset("NoOp Assert Print PrintV2 WriteSummary StringFormat CheckNumerics CheckNumericsV2".split())


def export(model: Any, request: Request) -> OnnxModel:
    """The ONNX model of a TensorFlow model: a SavedModel, function, module, frozen GraphDef or callable.

    Raises:
        UnsupportedOperator: operators without an ONNX form, all of them at once.
        TracingError: TensorFlow can't trace the model.
        InvalidInputError: inputs, names or signature do not fit.
    """
    with collector_paused():
        program = trace(
            model,
            inputs=request.inputs,
            kwargs=request.kwargs,
            dynamic_shapes=request.dynamic_shapes,
            signature=request.signature,
            input_names=request.input_names,
            output_names=request.output_names,
        )
        return lower(program, request)


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection in the block: the thousands of nodes made here would set off walks over all of TensorFlow."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def lower(program: Program, request: Request) -> OnnxModel:
    """The ONNX model of a traced program.

    Raises:
        UnsupportedOperator: operators without an ONNX form, all of them at once.
    """
    op = OpBuilder(request.opset)
    for port in (*program.inputs, *program.outputs):
        _check_port(port.name, port.dtype)
    inputs = {port.tensor.name: op.input(port.name, port.dtype, port.shape) for port in program.inputs}
    names = _output_names(op, program)
    lowering = _Lowering(op, program)
    lowering.find_writes()
    outputs = lowering.graph(op, program.graph, inputs, [port.tensor for port in program.outputs])
    lowering.raise_refused()
    rewrites = (RecogniseBatchNormPass(op.names), PushTransposesPass(op.names))
    notes = list(lowering.notes())
    model = finish(op, outputs, names, rewrites=rewrites, runtime=request.runtime, notes=notes)
    return OnnxModel(model, notes=tuple(notes), runtime=request.runs_in)


def _check_port(name: str, dtype: ir.DataType) -> None:
    if dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
        raise UnsupportedOperator(
            f"{name!r} is {dtype.name}: runtimes take no complex tensors; pass real and imaginary part"
        )


def _output_names(op: OpBuilder, program: Program) -> list[str]:
    """The outputs' names, reserved; one that is an input's name too gets a numbered variant."""
    return [op.names.unique(port.name) for port in program.outputs]


class _Refused:
    """Stands for the results of an operator that was refused; what uses them is only looked up."""


_REFUSED = _Refused()


class _Lowering:
    """Lowers the graphs of one program, and keeps what was refused."""

    def __init__(self, op: OpBuilder, program: Program) -> None:
        self.program = program
        self.refused: list[Unsupported] = []
        self._root = op
        self._captured: dict[str, Any] = {}
        self._surveyed: set[str] = set()
        self._source = _Sources()
        self._read: set[str] = set()
        self._writes: list[tuple[str, Unsupported]] = []
        op.on_call(self.call)

    def raise_refused(self) -> None:
        """Raises one error for everything that was refused, a write to a variable that an output depends on included."""
        self.refused.extend(item for name, item in self._writes if not name or name in self._read)
        if self.refused:
            raise UnsupportedOperator.of(self.refused, way_out=WAY_OUT)

    def call(self, op: OpBuilder, function: Function, arguments: Sequence[Any]) -> list[Any]:
        """The results of a library function on `arguments`, its nodes written into `op`.

        Raises:
            UnsupportedOperator: a result was refused; what and why is noted already.
        """
        shapes = [_tf_shape(item) for item in arguments]
        graph = self.program.function(function.name, shapes)
        bound = {tensor.name: item for tensor, item in zip(graph.inputs, arguments, strict=True)}
        before = len(self.refused)
        try:
            results = self.graph(op, graph, bound, graph.outputs)
        except NeedsState:
            del self.refused[before:]  # it is lowered once more
            raise
        if any(item is _REFUSED for item in results):
            raise UnsupportedOperator(
                f"a result of {function.name} was refused", self.refused[before:] or self.refused[-1:]
            )
        return results

    def _function(self, name: str) -> Function:
        """A function attribute as entries see it."""

        def describe() -> tuple[int | None, ...]:
            graph = self.program.function(name)
            places = {id(tensor): i for i, tensor in enumerate(graph.inputs)}
            return tuple(places.get(id(_unchanged(tensor))) for tensor in graph.outputs)

        return Function(name, describe)

    def _survey(self, name: str) -> None:
        """Notes what a function holds that has no entry, without lowering it."""
        if name in self._surveyed:
            return
        self._surveyed.add(name)
        for node in ordered(self.program.function(name).outputs):
            if node.type != "Placeholder" and self._entry(node) is None:
                self._refuse(node.type, "", self._source(node))
            for inner in _functions(node):
                self._survey(inner)

    def graph(self, op: OpBuilder, graph: Any, bound: dict[str, Any], targets: Sequence[Any]) -> list[Any]:
        """The values of `targets` in `graph`, whose arguments are `bound` by tensor name."""
        values = dict(bound)
        for node in ordered(targets):
            if node.outputs and node.outputs[0].name in values:
                continue
            results = self._node(op, node, [values[tensor.name] for tensor in node.inputs], graph)
            values.update((tensor.name, item) for tensor, item in zip(node.outputs, results, strict=True))
        return [values[tensor.name] for tensor in targets]

    def _node(self, op: OpBuilder, node: Any, operands: list[Any], graph: Any) -> Sequence[Any]:
        if node.type == "Placeholder":
            return [self._capture(node, graph)]
        source = self._source(node)
        entry = self._entry(node)
        if entry is None:
            self._refuse(node.type, "no form for complex numbers" if table.find(node.type) else "", source)
            return [_REFUSED] * len(node.outputs)
        if any(item is _REFUSED for item in operands):
            for name in _functions(node):
                self._survey(name)
            return [_REFUSED] * len(node.outputs)
        for tensor, item in zip(node.inputs, operands, strict=True):
            if item is None:
                reason = f"its result {tensor.value_index} has no ONNX form"
                self._refuse(tensor.op.type, reason, self._source(tensor.op))
                return [_REFUSED] * len(node.outputs)
        try:
            expected = [_expected(tensor) for tensor in node.outputs]
            entry.require_opset(op.opset)
            with op.at(source, expected):
                results = _call_entry(entry, op, node, operands, self._function)
        except UnsupportedOperator as error:
            if not error.operators:
                self._refuse(node.type, str(error).removeprefix(f"{node.type}: "), source)
            for name in _functions(node):
                self._survey(name)
            return [_REFUSED] * len(node.outputs)
        except MapEntryError as error:
            raise MapEntryError(f"{node.type} ({source.where}): {error}") from error
        return [self._typed(op, said, item, source) for said, item in zip(expected, results, strict=True)]

    def _typed(self, op: OpBuilder, expected: Expected | None, value: Any, source: Source) -> Any:
        if expected is None or not isinstance(value, ir.Value):
            return value
        shape = expected.shape
        if shape is not None and value.shape is not None and value.shape.rank() == len(shape):
            shape = tuple(known if said is None else said for known, said in zip(value.shape, shape, strict=True))
        if value.producer() is None and value.shape is not None:
            shape = None  # an input or parameter passed through keeps its own shape
        try:
            return op.typed(value, expected.dtype, shape)
        except MapEntryError as error:
            raise MapEntryError(f"{source.op} ({source.where}): {error}") from error

    def _refuse(self, op_type: str, reason: str, source: Source) -> None:
        self.refused.append(Unsupported("tensorflow", op_type, reason, source.where))

    def _entry(self, node: Any) -> Entry | None:
        """The map's entry for a node; an operator type that is the name of a library function is a call of it."""
        found = table.find(node.type, accepts_complex=_is_complex(node))
        if found is None and self.program.has_function(node.type):
            return Entry(node.type, lambda op, *operands, **_: op.call(self._function(node.type), operands))
        return found

    # -- captured values -----------------------------------------------------------------------------------------------

    def _capture(self, node: Any, graph: Any) -> Any:
        name = node.outputs[0].name
        if name not in self.program.captured:
            raise InvalidModelError(
                f"the placeholder {name!r} is no input: name it in input_names, or choose other outputs"
            )
        if name not in self._captured:
            self._captured[name] = self._materialise(self.program.captured[name], node.name)
        return self._captured[name]

    def _materialise(self, captured: Any, name: str) -> Any:
        if isinstance(captured, Variable):
            return self._variable(captured)
        if captured.dtype in (dtypes.resource, dtypes.variant):
            return self._resource(captured)
        return constant(self._root, array_of(captured), name)

    def _variable(self, variable: Variable) -> VariableHandle:
        made: list[ir.Value] = []

        def read() -> ir.Value:
            self._read.add(variable.name)
            if not made:
                made.append(_parameter(self._root, variable))
            return made[0]

        return VariableHandle(variable.name, read, variable.dtype, variable.shape)

    def _resource(self, tensor: Any) -> VariableHandle | ResourceHandle:
        """A resource of unknown owner: a variable if its handle says what it holds, else left to the entries."""
        from tensorflow import raw_ops

        data = getattr(tensor, "_handle_data", None)
        if data is None or not data.is_set or tensor.dtype != dtypes.resource:
            return ResourceHandle(tensor)
        dtype = dtypes.as_dtype(data.shape_and_type[0].dtype)
        shape = tuple(dim.size for dim in data.shape_and_type[0].shape.dim)
        variable = Variable(
            f"variable_{len(self._captured)}",
            lambda: raw_ops.ReadVariableOp(resource=tensor, dtype=dtype),
            dtype_of(dtype),
            shape,
        )
        return self._variable(variable)

    # -- writes --------------------------------------------------------------------------------------------------------

    def notes(self) -> list[str]:
        """What the result leaves out: writes to variables that no output depends on."""
        names = sorted({name for name, _ in self._writes if name not in self._read})
        return [f"left out, since no output depends on them: writes to {', '.join(names)}"] if names else []

    def find_writes(self) -> None:
        """Looks for assignments that run with the program. State that is written and read is refused, never lost."""
        graph = self.program.graph
        if hasattr(graph, "control_outputs"):
            self._find_writes(graph.get_operations(), {})
        else:
            self._find_writes(_executed([port.tensor.op for port in self.program.outputs]), {})

    def _find_writes(self, nodes: Iterable[Any], names: dict[str, str]) -> None:
        """Notes the writes among `nodes`; `names` says which variable an argument of the function is."""
        for node in nodes:
            if _writes_state(node.type):
                name = self._variable_name(node.inputs[0], names) if node.inputs else ""
                written = f"variable {name!r}" if name else "a variable"
                reason = f"writes {written}, which outputs depend on; an ONNX graph has no state"
                self._writes.append((name, Unsupported("tensorflow", node.type, reason, self._source(node).where)))
            for function in _functions(node):
                graph = self.program.function(function)
                operands = list(node.inputs)[-len(graph.inputs) :] if graph.inputs else []
                inner = {
                    argument.name: self._variable_name(operand, names)
                    for argument, operand in zip(graph.inputs, operands, strict=True)
                    if operand.dtype == dtypes.resource
                }
                self._find_writes(graph.get_operations(), inner)

    def _variable_name(self, tensor: Any, names: dict[str, str]) -> str:
        tensor = _unchanged(tensor)
        captured = self.program.captured.get(tensor.name)
        return captured.name if isinstance(captured, Variable) else names.get(tensor.name, "")


def _parameter(op: OpBuilder, variable: Variable) -> ir.Value:
    """The variable's present value as an initializer, on the variable's own storage."""
    array = array_of(variable.read())
    if variable.dtype == ir.DataType.STRING:
        return constant(op, array, variable.name)
    return op.initializer(variable.name, ir.Tensor(array, dtype=variable.dtype))


def _unchanged(tensor: Any) -> Any:
    """The tensor that `tensor` is the identity of."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _functions(node: Any) -> list[str]:
    """Names of the functions in a node's attributes."""
    found: list[str] = []
    for proto in node.node_def.attr.values() if node.type in _CALLS else ():
        found.extend([proto.func.name] if proto.HasField("func") else [item.name for item in proto.list.func])
    return found


_CALLS = frozenset(
    "PartitionedCall StatefulPartitionedCall If StatelessIf Case StatelessCase While StatelessWhile".split()
)


def ordered(targets: Iterable[Any]) -> list[Any]:
    """The nodes that `targets` are computed from, each after its inputs; control edges do not count."""
    done: set[int] = set()
    order: list[Any] = []
    stack: list[tuple[Any, bool]] = [(tensor.op, False) for tensor in reversed(list(targets))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
            continue
        if id(node) in done:
            continue
        done.add(id(node))
        stack.append((node, True))
        stack.extend((tensor.op, False) for tensor in reversed(node.inputs) if id(tensor.op) not in done)
    return order


def _executed(roots: Iterable[Any]) -> list[Any]:
    """The nodes that run when `roots` run, over data and control edges."""
    seen: dict[int, Any] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        stack.extend(tensor.op for tensor in node.inputs)
        stack.extend(node.control_inputs)
    return list(seen.values())


def _writes_state(op_type: str) -> bool:
    return (
        op_type.startswith(("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter", "ScatterNdUpdate_"))
        or op_type in ("LookupTableInsertV2", "LookupTableRemoveV2", "StackPushV2", "StackPopV2")
        or op_type
        in ("RngReadAndSkip", "RngSkip", "StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal")
    )


# -- what an entry receives --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Definition:
    """What the lowering needs of an operator's definition.

    Attributes:
        arguments: per input argument the attribute that counts it, or None for a single tensor.
        implied: attributes that follow from the inputs and results.
        defaults: default values.
    """

    arguments: tuple[str | None, ...]
    implied: frozenset[str]
    defaults: dict[str, Any]


_definitions: dict[str, _Definition] = {}


def _definition(node: Any) -> _Definition:
    found = _definitions.get(node.type)
    if found is None:
        proto = node.op_def
        implied: set[str] = set()
        for item in (*proto.input_arg, *proto.output_arg):
            implied.update((item.type_attr, item.number_attr, item.type_list_attr))
        found = _definitions[node.type] = _Definition(
            tuple(item.number_attr or item.type_list_attr or None for item in proto.input_arg),
            frozenset(implied),
            {item.name: decode(item.default_value) for item in proto.attr if item.HasField("default_value")},
        )
    return found


def _call_entry(
    entry: Entry, op: OpBuilder, node: Any, operands: list[Any], function: Callable[[str], Function]
) -> Sequence[Any]:
    definition = _definition(node)
    accepted, anything = _accepted(entry.function)
    attributes: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for name, proto in node.node_def.attr.items():
        if name in definition.arguments:
            counts[name] = len(proto.list.type) if proto.HasField("list") else proto.i
        if name in accepted or (anything and not name.startswith("_")):
            attributes[name] = decode(proto, function)
        elif name not in definition.implied and name not in _HINTS and not name.startswith("_"):
            value = decode(proto)
            if name not in definition.defaults or value != definition.defaults[name]:
                raise UnsupportedOperator(f"{node.type}: {name}={value!r} has no ONNX form")
    grouped: list[Any] = []
    rest = iter(operands)
    for count in definition.arguments:
        grouped.append(next(rest) if count is None else [next(rest) for _ in range(counts[count])])
    results = entry.function(op, *grouped, **attributes)
    return results if isinstance(results, (tuple, list)) else (results,)


@cache
def _accepted(function: Callable[..., Any]) -> tuple[frozenset[str], bool]:
    parameters = inspect.signature(function).parameters.values()
    names = frozenset(item.name for item in parameters if item.kind == item.KEYWORD_ONLY)
    return names, any(item.kind == item.VAR_KEYWORD for item in parameters)


def decode(proto: attr_value_pb2.AttrValue, function: Callable[[str], Any] = str) -> Any:
    """An attribute as a Python value: types as ONNX element types, shapes as tuples, functions as `function` of their names."""
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    if kind == "list":
        for field in ("s", "i", "f", "b", "type", "shape", "tensor", "func"):
            items = getattr(proto.list, field)
            if items:
                return tuple(_decode_one(field, item, function) for item in items)
        return ()
    return _decode_one(kind, getattr(proto, kind), function)


def _decode_one(kind: str, item: Any, function: Callable[[str], Any]) -> Any:
    match kind:
        case "s":
            try:
                return item.decode()
            except UnicodeDecodeError:
                return item
        case "type":
            dtype = dtypes.as_dtype(item)
            return None if dtype in (dtypes.resource, dtypes.variant) else dtype_of(dtype)
        case "shape":
            return None if item.unknown_rank else tuple(None if dim.size < 0 else dim.size for dim in item.dim)
        case "tensor":
            return tensor_util.MakeNdarray(item)
        case "func":
            return function(item.name)
    return item


_COMPLEX = {ir.DataType.COMPLEX64: ir.DataType.FLOAT, ir.DataType.COMPLEX128: ir.DataType.DOUBLE}


def _is_complex(node: Any) -> bool:
    return any(tensor.dtype.is_complex for tensor in node.inputs) or any(
        tensor.dtype.is_complex for tensor in node.outputs
    )


def _expected(tensor: Any) -> Expected | None:
    """What TensorFlow says of a tensor; a complex one is a pair of real ones along a last axis."""
    if tensor.dtype in (dtypes.resource, dtypes.variant):
        return None
    shape = tuple(tensor.shape.as_list()) if tensor.shape.rank is not None else None
    dtype = dtype_of(tensor.dtype)
    if dtype in _COMPLEX:
        return Expected(_COMPLEX[dtype], (*shape, 2) if shape is not None else None)
    return Expected(dtype, shape)


def _tf_shape(value: Any) -> Any:
    from tensorflow import TensorShape

    if not isinstance(value, ir.Value) or value.shape is None:
        return TensorShape([]) if not isinstance(value, ir.Value) else TensorShape(None)
    return TensorShape([dim if isinstance(dim, int) else None for dim in value.shape])


class _Sources:
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
        found = _user_line(recorded) if hasattr(recorded, "get_user_frames") else ("", None)
        if scope and found[1] is None:
            self._without_user.add(layer)
        return found


# Operators that write no node.
_SILENT = frozenset({"Const", "Identity", "ReadVariableOp", "Placeholder"})


def _user_line(recorded: Any) -> tuple[str, int | None]:
    for frame in reversed(list(recorded.get_user_frames())):
        owner = _owner(frame.filename)
        if owner == "onnxport":
            break  # beyond it is who called the conversion, not who made the node
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
