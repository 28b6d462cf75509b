"""PyTorch to ONNX: walks the exported graph once and lowers each node through the ATen map."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor, from_torch_dtype
from torch.export.graph_signature import InputKind, OutputKind

from onnxport.converters.to_onnx.finish import finish
from onnxport.converters.to_onnx.pytorch_aliases import (
    HIDDEN_STATE,
    Cell,
    Inexpressible,
    Ref,
    functional_name,
    is_view,
    mutates,
    written_arguments,
)
from onnxport.converters.to_onnx.pytorch_decompose import decompose
from onnxport.errors import (
    InvalidInputError,
    MapEntryError,
    OnnxportError,
    TracingError,
    Unsupported,
    UnsupportedOperator,
)
from onnxport.graph.builder import Expected, OpBuilder
from onnxport.graph.provenance import Source, relative_path
from onnxport.model import OnnxModel
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.registry import Entry
from onnxport.opset_maps.to_onnx.common.complex import is_complex, mark_complex
from onnxport.request import Request
from onnxport.tracing.pytorch import Traced, trace, trace_static

_WAY_OUT = "add a mapping with onnxport.register_to_onnx('pytorch', '<operator>')"
# Constants that tracing lifted out of the code, up to this many elements, take part in constant folding.
_FOLDABLE = 1024


def export(model: Any, request: Request) -> OnnxModel:
    """`model` as ONNX, not validated.

    Inputs that the model writes to come out as further outputs, ``<input>.updated``; buffers that it writes to are
    refused by name, since an ONNX graph has no state.

    Args:
        model: `torch.nn.Module`, `torch.export.ExportedProgram` or a callable of tensors.
        request: example inputs and options.

    Raises:
        TracingError: torch.export can't trace the model.
        UnsupportedOperator: operators without an ONNX form, all of them.
        InvalidInputError: inputs, names or dynamic shapes do not fit.
    """
    traced = trace(
        model,
        request.inputs,
        request.kwargs,
        dynamic_shapes=request.dynamic_shapes,
        input_names=request.input_names,
    )
    try:
        return _lowered(traced, request)
    except UnsupportedOperator as refusal:
        if request.dynamic_shapes is not None or not traced.symbols or isinstance(model, torch.export.ExportedProgram):
            raise
        reason = f"with a dynamic dimension 0 {refusal.operators[0].op} has no form"
        try:
            return _lowered(trace_static(model, request.inputs, request.kwargs, reason), request)
        except (TracingError, UnsupportedOperator):
            raise refusal from None


def _lowered(traced: Traced, request: Request) -> OnnxModel:
    try:
        return _write(traced, request)
    except Inexpressible as reason:
        return _write(traced.functional(str(reason)), request)


def _write(traced: Traced, request: Request) -> OnnxModel:
    op = OpBuilder(request.target_opset)
    lowering = Lowering(op, traced)
    notes = list(traced.notes)
    inputs = _named([path for _, path in traced.inputs], request.input_names, "input")
    program = traced.program
    signature = program.graph_signature
    leaves = dict(zip(_user_outputs(program), traced.outputs, strict=True))
    finals = list(program.graph.output_node().args[0])
    kept = [i for i in leaves if _is_output(finals[i])]
    dropped = [leaves[i] for i in leaves if i not in kept]
    if dropped:
        notes.append(f"outputs that are no tensors are left out: {', '.join(dropped)}")
    outputs = _named([leaves[i] for i in kept], request.output_names, "output")
    op_names = set(inputs)
    for name in inputs:
        if inputs.count(name) > 1:
            raise InvalidInputError(f"the input name {name!r} is given twice")
    lowering.bind_inputs(dict(zip([name for name, _ in traced.inputs], inputs, strict=True)))
    outputs = _reserved(op, outputs, op_names, notes)
    lowering.bind_parameters()
    results = lowering.run(op, program.graph_module, lowering.arguments)
    values = [lowering.output(op, results[i]) for i in kept]
    updated = [(name, ref.read()) for name, ref in lowering.written_inputs()]
    for index, spec in enumerate(signature.output_specs):
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            updated.append((lowering.input_names[spec.target], lowering.output(op, results[index])))
        elif spec.kind is OutputKind.BUFFER_MUTATION:
            lowering.refuse_buffer(str(spec.target))
    lowering.raise_refused()
    for name, value in updated:
        values.append(value)
        outputs.append(op.names.unique(f"{name}.updated"))
        notes.append(f"the model writes to its input {name!r}: the new value is the output {outputs[-1]!r}")
    return OnnxModel(finish(op, values, outputs), notes=tuple(notes))


def _user_outputs(program: torch.export.ExportedProgram) -> list[int]:
    specs = program.graph_signature.output_specs
    return [i for i, spec in enumerate(specs) if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)]


def _is_output(item: Any) -> bool:
    return isinstance(item, (torch.fx.Node, bool, int, float))


def _named(names: list[str], said: Sequence[str] | None, what: str) -> list[str]:
    if said is None:
        return names
    if len(said) != len(names):
        raise InvalidInputError(
            f"{len(said)} {what} names are given, the model has {len(names)} {what}s: {', '.join(names)}"
        )
    return list(said)


def _reserved(op: OpBuilder, outputs: list[str], inputs: set[str], notes: list[str]) -> list[str]:
    """The output names, taken in the naming authority; one that an input has already gets a number."""
    final: list[str] = []
    for name in outputs:
        free = op.names.unique(name)
        if free != name:
            notes.append(
                f"the output {name!r} is called {free!r}: the name is taken{' by an input' if name in inputs else ''}"
            )
        final.append(free)
    return final


class Lowering:
    """The lowering of one traced program into one builder.

    Attributes:
        arguments: what each placeholder of the main graph stands for, in order.
        input_names: name of the graph input by placeholder.
    """

    def __init__(self, op: OpBuilder, traced: Traced) -> None:
        self.op = op
        self.program = traced.program
        self.arguments: list[Any] = []
        self.input_names: dict[str, str] = {}
        self._symbols = traced.symbols
        self._bound: dict[str, Any] = {}
        self._input_cells: dict[str, Ref] = {}
        self._buffers: dict[int, str] = {}
        self._texts: dict[Any, str] = {}
        self._refused: list[Unsupported] = []
        self._depth = 0
        op.on_call(self._call)

    # -- the graph's boundary ------------------------------------------------------------------------------------------

    def bind_inputs(self, names: Mapping[str, str]) -> None:
        """Declares the graph's inputs, named by placeholder."""
        self.input_names = dict(names)
        values = {node.name: node.meta.get("val") for node in self.program.graph.nodes if node.op == "placeholder"}
        for placeholder, name in names.items():
            expected = self.expected(values[placeholder])
            if expected is None or expected.shape is None:
                raise InvalidInputError(f"the input {name!r} is no tensor")
            dtype, shape = _stored(expected)
            value = self.op.input(name, dtype, shape)
            if dtype != expected.dtype:
                mark_complex(value)
            self._bound[placeholder] = value

    def bind_parameters(self) -> None:
        """Makes an initializer of every parameter, buffer and constant that the graph uses, tied ones once."""
        used = {node.name for node in self.program.graph.nodes if node.op == "placeholder" and node.users}
        names: dict[tuple[Any, ...], str] = {}
        shared: dict[tuple[Any, ...], Any] = {}
        for spec in self.program.graph_signature.input_specs:
            placeholder = spec.arg.name
            if spec.kind is InputKind.USER_INPUT:
                self.arguments.append(self._bound.get(placeholder, getattr(spec.arg, "value", None)))
                continue
            tensor = self._tensor(spec)
            key = _identity(tensor)
            name = names.setdefault(key, str(spec.target))
            if placeholder in used and key not in shared:
                shared[key] = self._initializer(name, tensor, spec.kind)
            if spec.kind is InputKind.BUFFER and placeholder in used:
                self._buffers[id(shared[key])] = str(spec.target)
            self.arguments.append(shared[key] if placeholder in used else None)

    def _tensor(self, spec: Any) -> Any:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and spec.target in self.program.state_dict:
            return self.program.state_dict[spec.target]
        return self.program.constants[spec.target]

    def _initializer(self, name: str, tensor: Any, kind: InputKind) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        tensor = tensor.detach()
        if tensor.device.type == "meta":
            raise InvalidInputError(f"the parameter {name!r} is on the meta device and has no values")
        complex_valued = tensor.is_complex()
        if complex_valued:
            tensor = torch.view_as_real(tensor.resolve_conj())
        if kind is InputKind.CONSTANT_TENSOR and tensor.numel() <= _FOLDABLE and tensor.dtype in _NUMPY:
            value = self.op.const(tensor.cpu().numpy(), name=name)
        else:
            value = self.op.initializer(_free(self.op, name), TorchTensor(tensor, name=name))
        if complex_valued:
            mark_complex(value)
        return value

    def written_inputs(self) -> list[tuple[str, Ref]]:
        """Graph inputs that were written to, by name."""
        return [(self.input_names[key], ref) for key, ref in self._input_cells.items() if ref.cell.version]

    def output(self, op: OpBuilder, item: Any) -> ir.Value:
        """A result of the graph as a value."""
        item = item.read() if isinstance(item, Ref) else item
        return item if isinstance(item, ir.Value) else op.const(item)

    # -- what was refused ----------------------------------------------------------------------------------------------

    def refuse_buffer(self, name: str, source: Source | None = None, reason: str = "") -> None:
        """Records that the model writes to one of its buffers."""
        self._refused.append(
            Unsupported(
                "pytorch",
                f"buffer {name!r}",
                reason
                or "the model writes to it, an ONNX graph has no state: make it an input, written inputs come out as outputs",
                source.where if source else "",
            )
        )

    def raise_refused(self) -> None:
        """Raises one error for everything that was refused, if anything was."""
        if self._refused:
            raise UnsupportedOperator.of(self._refused, way_out=_WAY_OUT)

    # -- walking -------------------------------------------------------------------------------------------------------

    def run(self, op: OpBuilder, module: torch.fx.GraphModule, arguments: Sequence[Any]) -> list[Any]:
        """Lowers a graph into `op` and gives its results; `arguments` stand for its placeholders in order."""
        graph = module.graph
        tracked = any(node.op == "call_function" and mutates(node.target) for node in graph.nodes)
        main = module is self.program.graph_module
        env: dict[torch.fx.Node, Any] = {}
        given = iter(arguments)
        results: list[Any] = []
        placeholders: list[tuple[torch.fx.Node, Ref]] = []
        for node in graph.nodes:
            if node.op == "call_function":
                env[node] = self._node(op, node, env, tracked)
            elif node.op == "placeholder":
                value = next(given)
                if tracked and isinstance(value, ir.Value):
                    ref = Ref(Cell(value))
                    placeholders.append((node, ref))
                    value = ref
                env[node] = value
            elif node.op == "get_attr":
                env[node] = self._attribute(op, module, str(node.target))
            elif node.op == "output":
                said = node.args[0]
                said = said if isinstance(said, (list, tuple)) else [said]
                results = [env[item] if isinstance(item, torch.fx.Node) else item for item in said]
            else:
                raise MapEntryError(f"the exported graph holds a node of kind {node.op!r}")
        for node, ref in placeholders:
            if not ref.cell.version:
                continue
            if not main:
                raise Inexpressible("a branch or body writes to a tensor from outside")
            name = self._buffers.get(id(ref.cell.first))
            if node.name in self.input_names:
                self._input_cells[node.name] = ref
            elif name is not None:
                self.refuse_buffer(name, ref.cell.writer)
            else:
                self.refuse_buffer(node.name, ref.cell.writer)
        if not main:
            results = [item.read() if isinstance(item, Ref) else item for item in results]
        return results

    def _attribute(self, op: OpBuilder, module: torch.fx.GraphModule, target: str) -> Any:
        item: Any = module
        for part in target.split("."):
            item = getattr(item, part)
        if isinstance(item, torch.Tensor):
            item = item.detach()
            return (
                op.const(item.cpu().numpy())
                if item.dtype in _NUMPY
                else op.initializer(_free(op, target), TorchTensor(item))
            )
        return item

    def _call(self, op: OpBuilder, target: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """``op.call`` of an entry: lowers a graph module (a branch, a body) into `op`."""
        if kwargs or not isinstance(target, torch.fx.GraphModule):
            raise MapEntryError(f"{type(target).__name__} is no graph that can be lowered")
        root = self.op._root
        before = root.source, root.metadata, root.results
        results = self.run(op, target, args)
        root.source, root.metadata, root.results = before
        return results

    def _node(self, op: OpBuilder, node: torch.fx.Node, env: dict[torch.fx.Node, Any], tracked: bool) -> Any:
        target = node.target
        if target is operator.getitem and isinstance(node.args[0], torch.fx.Node):
            return self._item(op, node, env, tracked)
        name = operator_name(target)
        if name in _DROPPED:
            return None
        if name == "higher_order::wrap_with_autocast" and node.args[2]:
            raise Inexpressible("a region under torch.autocast")
        source = self._source(node, name)
        if tracked and isinstance(target, torch._ops.OpOverload):
            written = written_arguments(target)
            if written:
                return self._in_place(op, node, name, env, source, written)
            if is_view(node):
                parent = env[node.args[0]]
                if isinstance(parent, Ref) and not isinstance(node.meta["val"], (list, tuple)):
                    relower = self._relower(op, node, name, env, source)
                    return parent.view(relower, self._writer(op, node, env, source))
        if name in HIDDEN_STATE:
            self._check_hidden_state(node, name, env, source)
        args, kwargs = self._arguments(node, env)
        result = self._lower(op, node, name, args, kwargs, source)
        return self._owned(result) if tracked else result

    @staticmethod
    def _owned(result: Any) -> Any:
        if isinstance(result, ir.Value):
            return Ref(Cell(result))
        if isinstance(result, (list, tuple)):
            return tuple(Ref(Cell(item)) if isinstance(item, ir.Value) else item for item in result)
        return result

    def _item(self, op: OpBuilder, node: torch.fx.Node, env: dict[torch.fx.Node, Any], tracked: bool) -> Any:
        origin, index = node.args
        item = env[origin][index]
        if not tracked or not is_view(origin):
            return item
        parent = env[origin.args[0]]
        name = operator_name(origin.target)
        source = self._source(origin, name)
        relower = self._relower(op, origin, name, env, source)
        return parent.view(lambda value: relower(value)[index], self._writer(op, origin, env, source, index))

    def _relower(
        self, op: OpBuilder, node: torch.fx.Node, name: str, env: dict[torch.fx.Node, Any], source: Source
    ) -> Callable[[ir.Value], Any]:
        def again(value: ir.Value) -> Any:
            args, kwargs = self._arguments(node, env)
            return self._lower(op, node, name, [value, *args[1:]], kwargs, source)

        return again

    def _writer(
        self,
        op: OpBuilder,
        node: torch.fx.Node,
        env: dict[torch.fx.Node, Any],
        source: Source,
        index: int | None = None,
    ) -> Callable[[ir.Value, ir.Value], ir.Value]:
        from onnxport.converters.to_onnx.pytorch_aliases import write_back

        def write(base: ir.Value, new: ir.Value) -> ir.Value:
            args, kwargs = self._arguments(node, env)
            origin = node.args[0].meta["val"]
            with op.at(source, [self.expected(origin)]):
                made = write_back(op, operator_name(node.target), base, new, args[1:], kwargs, index)
                return op.typed(made, base.dtype, tuple(base.shape) if base.shape is not None else None)

        return write

    def _in_place(
        self,
        op: OpBuilder,
        node: torch.fx.Node,
        name: str,
        env: dict[torch.fx.Node, Any],
        source: Source,
        written: tuple[int, ...],
    ) -> Any:
        if written != (0,):
            raise Inexpressible(f"{name} writes to other arguments than its first")
        ref = env[node.args[0]]
        if not isinstance(ref, Ref):
            raise Inexpressible(f"{name} writes to a value that is not tracked")
        args, kwargs = self._arguments(node, env)
        result = self._lower(op, node, functional_name(name), args, kwargs, source)
        ref.write(result, source)
        return ref

    def _check_hidden_state(
        self, node: torch.fx.Node, name: str, env: dict[torch.fx.Node, Any], source: Source
    ) -> None:
        mean_at, training_at = HIDDEN_STATE[name]
        args = node.args
        mean = env.get(args[mean_at]) if len(args) > mean_at and isinstance(args[mean_at], torch.fx.Node) else None
        mean = mean.cell.first if isinstance(mean, Ref) else mean
        if mean is not None and len(args) > training_at and args[training_at]:
            buffer = self._buffers.get(id(mean), "running_mean")
            self.refuse_buffer(
                buffer, source, "training updates these statistics and an ONNX graph has no state; call model.eval()"
            )

    # -- one node ------------------------------------------------------------------------------------------------------

    def _arguments(self, node: torch.fx.Node, env: dict[torch.fx.Node, Any]) -> tuple[list[Any], dict[str, Any]]:
        args = [_argument(item, env) for item in node.args]
        kwargs = {key: _argument(item, env) for key, item in node.kwargs.items() if key not in _DROPPED_ARGUMENTS}
        return args, kwargs

    def _lower(
        self, op: OpBuilder, node: torch.fx.Node, name: str, args: list[Any], kwargs: dict[str, Any], source: Source
    ) -> Any:
        value = node.meta.get("val")
        results = self._results(value)
        complex_valued = any(item is not None and item.dtype in _COMPLEX for item in results) or _holds_complex(
            args, kwargs
        )
        entry = aten.find(name, accepts_complex=complex_valued)
        refusal: UnsupportedOperator | None = None
        if entry is not None:
            try:
                return self._enter(op, entry, name, args, kwargs, source, results, value)
            except UnsupportedOperator as error:
                refusal = error
        made, inner = self._decomposed(op, node, name, args, kwargs)
        if made is not None:
            items = made if isinstance(value, (list, tuple)) else made[0]
            with op.at(source, results):
                return self._checked(op, name, items, results, value, source)
        no_complex = complex_valued and aten.find(name) is not None
        reason = str(refusal) if refusal else "no form for complex numbers" if no_complex else inner
        self._refused.append(Unsupported("pytorch", name, reason.removeprefix(f"{name}: "), source.where))
        return self._stand_in(results, value)

    def _enter(
        self,
        op: OpBuilder,
        entry: Entry,
        name: str,
        args: list[Any],
        kwargs: dict[str, Any],
        source: Source,
        results: Sequence[Expected | None],
        value: Any,
    ) -> Any:
        with op.at(source, results):
            try:
                made = entry.function(op, *args, **kwargs)
                return self._checked(op, name, made, results, value, source)
            except (Inexpressible, UnsupportedOperator):
                raise
            except OnnxportError as error:
                raise MapEntryError(f"{name} (at {source.where}): {error}") from error
            except (TypeError, ValueError, AttributeError, IndexError, KeyError, AssertionError) as error:
                raise MapEntryError(f"{name} (at {source.where}): {type(error).__name__}: {error}") from error

    def _checked(
        self, op: OpBuilder, name: str, made: Any, results: Sequence[Expected | None], value: Any, source: Source
    ) -> Any:
        """The entry's results with the source's types on them."""
        if isinstance(value, (list, tuple)):
            items = list(made) if isinstance(made, (list, tuple)) else [made]
            if len(items) < len(results):
                raise MapEntryError(
                    f"{name} (at {source.where}): the entry gives {len(items)} results of {len(results)}"
                )
            return tuple(_typed(op, item, said) for item, said in zip(items, results, strict=False))
        if isinstance(made, (list, tuple)):
            made = made[0]
        return _typed(op, made, results[0] if results else None)

    def _decomposed(
        self, op: OpBuilder, node: torch.fx.Node, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any] | None, str]:
        """The node through torch's own decomposition, or None and why not, where torch has none or it is not supported."""
        if not isinstance(node.target, torch._ops.OpOverload) or self._depth > 8:
            return None, ""
        small = decompose(node, name)
        if small is None:
            return None, ""
        module, leaves = small
        refused = len(self._refused)
        self._depth += 1
        try:
            made = self.run(op, module, leaves(args, kwargs))
        except Inexpressible as error:
            return None, f"torch's decomposition of it can't be followed: {error}"
        finally:
            self._depth -= 1
        if len(self._refused) > refused:
            inner = self._refused[refused]
            del self._refused[refused:]
            return None, f"torch's decomposition of it needs {inner.op}{f': {inner.reason}' if inner.reason else ''}"
        return [item if i in _used(node) else None for i, item in enumerate(made)], ""

    def _stand_in(self, results: Sequence[Expected | None], value: Any) -> Any:
        """Values of the right type in place of a refused operator's, so that the walk goes on and finds the others."""
        made: list[ir.Value | None] = []
        for said in results:
            if said is None:
                made.append(None)
                continue
            dtype, shape = _stored(said)
            stand_in = ir.Value(
                name=self.op.names.unique("refused"), type=ir.TensorType(dtype), shape=ir.Shape(shape or ())
            )
            if dtype != said.dtype:
                mark_complex(stand_in)
            made.append(stand_in)
        return tuple(made) if isinstance(value, (list, tuple)) else made[0] if made else None

    # -- types, shapes, places -----------------------------------------------------------------------------------------

    def _results(self, value: Any) -> tuple[Expected | None, ...]:
        if isinstance(value, (list, tuple)):
            return tuple(self.expected(item) for item in value)
        return (self.expected(value),)

    def expected(self, value: Any) -> Expected | None:
        """Type and shape of what torch traced."""
        if isinstance(value, torch.Tensor):
            return Expected(from_torch_dtype(value.dtype), tuple([self._dim(size) for size in value.shape]))
        if isinstance(value, (bool, torch.SymBool)):
            return Expected(ir.DataType.BOOL, ())
        if isinstance(value, (int, torch.SymInt)):
            return Expected(ir.DataType.INT64, ())
        if isinstance(value, (float, torch.SymFloat)):
            return Expected(ir.DataType.DOUBLE, ())
        return None

    def _dim(self, size: Any) -> int | str:
        if type(size) is int:
            return size
        expression = size.node.expr
        text = self._texts.get(expression)
        if text is None:
            text = re.sub(r"\b[su]\d+\b", lambda match: self._symbols.get(match[0], match[0]), str(expression))
            self._texts[expression] = text
        return int(text) if text.isdigit() else text

    def _source(self, node: torch.fx.Node, name: str) -> Source:
        stack = node.meta.get("nn_module_stack")
        module = module_path(next(reversed(stack.values()))[0]) if stack else ""
        file, line = place(node.meta.get("stack_trace") or "")
        return Source(name, f"{module}/{node.name}" if module else node.name, module, file, line)


def _used(node: torch.fx.Node) -> Container[int]:
    """Which results of a node are used: torch's decompositions take no care of the others."""
    if not isinstance(node.meta.get("val"), (list, tuple)):
        return (0,)
    return {user.args[1] for user in node.users if user.target is operator.getitem}


_COMPLEX = frozenset((ir.DataType.COMPLEX64, ir.DataType.COMPLEX128))
_PARTS = {ir.DataType.COMPLEX64: ir.DataType.FLOAT, ir.DataType.COMPLEX128: ir.DataType.DOUBLE}
_NUMPY = frozenset(
    (
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.float32,
        torch.float64,
    )
)
# Where tensors lie in memory has no meaning in ONNX.
_DROPPED_ARGUMENTS = frozenset(("device", "layout", "pin_memory", "memory_format", "non_blocking"))
# Checks on sizes and values, which the trace made while it ran.
_DROPPED = frozenset(
    (
        "aten::_assert_async.msg",
        "aten::_assert_async.default",
        "aten::_assert_scalar.default",
        "aten::_linalg_check_errors.default",
        "aten::_assert_tensor_metadata.default",
        "aten::sym_constrain_range.default",
        "aten::sym_constrain_range_for_size.default",
    )
)


def _stored(said: Expected) -> tuple[ir.DataType, tuple[Any, ...] | None]:
    """How a result stands in the graph: a complex one as its real and imaginary parts along a last axis of 2."""
    part = _PARTS.get(said.dtype)
    if part is None or said.shape is None:
        return said.dtype, said.shape
    return part, (*said.shape, 2)


def _typed(op: OpBuilder, item: Any, said: Expected | None) -> Any:
    if said is None or not isinstance(item, ir.Value):
        return item
    dtype, shape = _stored(said)
    if dtype != said.dtype:
        mark_complex(item)
    return op.typed(item, dtype, shape)


def _holds_complex(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    for item in (*args, *kwargs.values()):
        if isinstance(item, ir.Value):
            if is_complex(item):
                return True
        elif isinstance(item, (list, tuple)) and any(isinstance(part, ir.Value) and is_complex(part) for part in item):
            return True
    return False


def _argument(item: Any, env: dict[torch.fx.Node, Any]) -> Any:
    if isinstance(item, torch.fx.Node):
        found = env[item]
        if isinstance(found, Ref):
            return found.read()
        if isinstance(found, tuple):
            return tuple(part.read() if isinstance(part, Ref) else part for part in found)
        return found
    if isinstance(item, (list, tuple)):
        return [_argument(part, env) for part in item]
    if isinstance(item, torch.dtype):
        return from_torch_dtype(item)
    if isinstance(item, (torch.device, torch.layout, torch.memory_format)):
        return None
    return item


def _identity(tensor: Any) -> tuple[Any, ...]:
    if not isinstance(tensor, torch.Tensor):
        return ("object", id(tensor))
    if tensor.device.type == "meta" or not tensor.numel():
        return ("tensor", id(tensor))
    return ("data", tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _free(op: OpBuilder, name: str) -> str:
    """`name`, or a numbered variant where the user has given it to an input or output."""
    index, free = 0, name
    while free in op.names:
        index += 1
        free = f"{name}_{index}"
    return free


_OPERATOR_NAMES: dict[Any, str] = {}


def operator_name(target: Any) -> str:
    """``aten::add.Tensor``, ``higher_order::cond``, ``operator::mul``: how the map knows what a node calls."""
    name = _OPERATOR_NAMES.get(target)
    if name is None:
        if isinstance(target, torch._ops.OpOverload):
            base = target.name()
            name = base if "." in base else f"{base}.default"
        elif isinstance(target, torch._ops.HigherOrderOperator):
            name = f"higher_order::{target.name()}"
        else:
            module = (getattr(target, "__module__", "") or "").lstrip("_").partition(".")[0]
            name = f"{module}::{getattr(target, '__name__', type(target).__name__)}"
        _OPERATOR_NAMES[target] = name
    return name


@lru_cache(maxsize=4096)
def module_path(text: str) -> str:
    """The module's path in the model's own terms; Dynamo writes it as Python.

    >>> module_path("L['self'].blocks.0.attn"), module_path("blocks.0.attn")
    ('blocks.0.attn', 'blocks.0.attn')
    """
    text = re.sub(r"^L\['self'\]\.?", "", text)
    text = re.sub(r"_modules\['([^']+)'\]", r"\1", text)
    return re.sub(r"\[(\d+)\]", r".\1", text).replace("getattr_L__self___", "")


@lru_cache(maxsize=4096)
def place(trace: str) -> tuple[str, int | None]:
    """File and line of the innermost frame that is not torch's own.

    >>> place('File "/x/model.py", line 3, in forward')
    ('model.py', 3)
    """
    found: tuple[str, int | None] = ("", None)
    end = len(trace)
    while (start := trace.rfind('File "', 0, end)) >= 0:
        stop = trace.find('"', start + 6)
        file = trace[start + 6 : stop]
        number = trace[stop + 8 : trace.find(",", stop + 2)]
        here = (relative_path(file), int(number) if number.isdigit() else None)
        if "/torch/" not in file and not file.startswith("<"):
            return here
        found = found if found[0] else here
        end = start
    return found
