"""The walk over an ONNX model that all importers share: each node is computed in the framework's array namespace.

    walk = Walk(model, namespace, native)
    outputs = walk.run(inputs)           # while the framework traces

What is known at import never becomes a tensor operation: constants fold, shape arithmetic stays on the Python side
(`from_onnx/host.py`), an If whose condition is known is its branch. Model-local functions are walked with their
arguments; an operator without an entry is walked by its schema's own function body. All operators that have no form in
the framework are collected and refused in one error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.defs import OpSchema

from onnxport.converters.from_onnx.blame import blame, bounded, label, title
from onnxport.converters.from_onnx.inference import infer
from onnxport.errors import InvalidModelError, OnnxportError, Unsupported, UnsupportedOperator
from onnxport.graph import folding, limits
from onnxport.graph import schema as schemas
from onnxport.graph.bodies import every_node
from onnxport.graph.external_data import weight_bytes
from onnxport.graph.passes.linear_models import write_linear_models
from onnxport.graph.passes.weight_moves import with_source_weights
from onnxport.graph.runtimes.pools import without_questions
from onnxport.opset_maps import maps
from onnxport.opset_maps.from_onnx import host
from onnxport.opset_maps.from_onnx.namespace import Call, Namespace, signature, to_tensor
from onnxport.opset_maps.from_onnx.operands import Operand, Refused, Weight, as_host, tensor_value
from onnxport.opset_maps.from_onnx.primitives.control import Body
from onnxport.opset_maps.from_onnx.primitives.tensors import Context
from onnxport.opset_maps.from_onnx.values import HostValue, Tensor, UnknownUntilRun
from onnxport.opset_maps.registry import Semantics, SemanticsEntry

_WAY_OUT = "add a mapping with onnxport.register_from_onnx({framework!r}, domain, op_type)"


@dataclass
class _Frame:
    """One graph being walked: its values, the opsets in force, the attributes of the function call it is the body of."""

    opsets: dict[str, int]
    values: dict[ir.Value, Operand] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    place: str = ""
    outer: _Frame | None = None

    def __getitem__(self, value: ir.Value) -> Operand:
        frame: _Frame | None = self
        while frame is not None:
            if value in frame.values:
                return frame.values[value]
            frame = frame.outer
        raise InvalidModelError(f"the graph uses the value {value.name!r}, which nothing gives")


class _GraphBody(Body):
    def __init__(self, walk: Walk, graph: ir.Graph, frame: _Frame) -> None:
        self.walk, self.graph, self.frame = walk, graph, frame
        self.inputs, self.outputs = tuple(graph.inputs), tuple(graph.outputs)

    def __call__(self, *inputs: Operand) -> tuple[Tensor, ...]:
        frame = _Frame(self.frame.opsets, attributes=self.frame.attributes, place=self.frame.place, outer=self.frame)
        return tuple(to_tensor(self.walk.xp, item) for item in self.walk.graph(self.graph, inputs, frame))


class Walk:
    """One import of a model: `model` is a copy with the types that ONNX's inference finds.

    `native` has the operators that the framework has natively, asked before the shared semantics. `inputs` are the graph's,
    without those that have an initializer.
    """

    def __init__(self, model: ir.Model, xp: Namespace, native: Semantics) -> None:
        moved = without_questions(with_source_weights(model))
        self.model = moved if moved is not model else model.clone()
        infer(self.model)
        write_linear_models(self.model)
        self.xp = xp
        self.native = native
        self._unsupported: list[Unsupported] = []
        self._spare = limits.MAX_COMPUTED_BYTES + 4 * weight_bytes(model)
        self._bodies: dict[tuple[Any, ...], ir.Function] = {}
        initialized = self.model.graph.initializers
        self.inputs = [value for value in self.model.graph.inputs if value.name not in initialized]
        self.outputs = list(self.model.graph.outputs)

    def run(self, inputs: Sequence[Operand]) -> list[Operand]:
        """The graph's outputs for its inputs, in graph order.

        Raises:
            UnsupportedOperator: all operators that have no form in the framework, at once.
        """
        self._unsupported = []
        frame = _Frame({"": 1, **self.model.graph.opset_imports})
        frame.values.update(zip(self.inputs, inputs, strict=True))
        outputs = self._nodes(self.model.graph, frame)
        if self._unsupported:
            raise UnsupportedOperator.of(self._unsupported, mapping=_WAY_OUT.format(framework=self.xp.framework))
        return [to_tensor(self.xp, item) for item in outputs]

    def check_operators(self) -> None:
        """Meets all operators without computing any, where that has to wait for the inputs.

        Raises:
            UnsupportedOperator: those that have no entry and no function body, all at once.
        """
        missing: list[Unsupported] = []
        graphs: list[ir.Graph | ir.Function] = [self.model.graph, *self.model.functions.values()]
        for body in graphs:
            opsets = {"": 1, **self.model.graph.opset_imports, **body.opset_imports}
            for node in every_node(body):
                domain = "" if node.domain == "ai.onnx" else node.domain
                schema = schemas.find_schema(domain, node.op_type, opsets.get(domain, 1))
                bodied: Any = schema  # the stubs know nothing of function bodies
                version = schema.since_version if schema is not None else opsets.get(domain, 1)
                known = node.op_identifier() in self.model.functions or any(
                    self._entries(domain, node.op_type, version)
                )
                if not known and not (schema and (bodied.has_function or bodied.has_context_dependent_function)):
                    missing.append(Unsupported("onnx", title(node), "", label(node)))
        if missing:
            raise UnsupportedOperator.of(missing, mapping=_WAY_OUT.format(framework=self.xp.framework))

    def graph(self, graph: ir.Graph | ir.Function, inputs: Sequence[Operand], frame: _Frame) -> list[Operand]:
        """The outputs of a subgraph or function body for `inputs`."""
        frame.values.update(zip(graph.inputs, inputs, strict=False))
        frame.values.update((value, None) for value in graph.inputs[len(inputs) :])
        return self._nodes(graph, frame)

    def _nodes(self, graph: ir.Graph | ir.Function, frame: _Frame) -> list[Operand]:
        if isinstance(graph, ir.Graph):
            frame.values.update((value, Weight(value)) for value in graph.initializers.values())
        for node in graph:
            operands = [None if value is None or value.name == "" else frame[value] for value in node.inputs]
            results = self._guarded(node, operands, frame)
            for value, result in zip(node.outputs, results, strict=False):
                if value.name:
                    frame.values[value] = result
            for value in node.outputs[len(results) :]:
                frame.values[value] = None
        return [frame[value] for value in graph.outputs]

    def _guarded(self, node: ir.Node, operands: list[Operand], frame: _Frame) -> Sequence[Operand]:
        if any(isinstance(item, Refused) for item in operands):
            return [Refused()] * len(node.outputs)
        before = len(self._unsupported)
        try:
            return self._node(node, operands, frame)
        except UnsupportedOperator as error:
            name = title(node)
            reason = str(error).removeprefix(f"{name}: ")
            self._unsupported.append(Unsupported("onnx", name, reason, f"{frame.place}{label(node)}"))
            return [Refused()] * len(node.outputs)
        except OnnxportError:
            raise
        except Exception as error:  # of the framework, the semantics, or the file
            if len(self._unsupported) > before:  # a body that holds what is refused gives the framework no values
                return [Refused()] * len(node.outputs)
            raise blame(node, operands, frame.opsets, frame.place, error) from error

    def _node(self, node: ir.Node, operands: list[Operand], frame: _Frame) -> Sequence[Operand]:
        function = self.model.functions.get(node.op_identifier())
        if function is not None:
            return self._function(node, function, operands, frame)
        domain = "" if node.domain == "ai.onnx" else node.domain
        opset = frame.opsets.get(domain, frame.opsets.get("ai.onnx", 1) if not domain else 1)
        schema = schemas.find_schema(domain, node.op_type, opset)
        attributes = self._attributes(node, frame)
        if domain == "":
            settled = self._on_host(node, operands, attributes, opset)
            if settled is not None:
                return settled
            self._spare -= bounded(node, operands, opset, frame.place, self._spare)
        context = self._context(node, schema, operands, opset)
        entries = self._entries(domain, node.op_type, context.version)
        calls = [Call(entry, _accepted(entry, attributes, schema), context) for entry in entries]
        results = self._results(calls, node, operands)
        if results is not NotImplemented:
            return [self.xp.refine(item, value) for item, value in zip(results, node.outputs, strict=False)]
        body = self._schema_body(node, schema, operands, attributes, opset)
        if body is None:
            raise UnsupportedOperator(
                "" if schema is not None or domain else f"ONNX opset {opset} has no such operator"
            )
        return self._function(node, body, operands, frame, schema)

    def _entries(self, domain: str, op_type: str, version: int) -> Iterator[SemanticsEntry]:
        for table in (self.native, maps.onnx):
            result = table.find(domain, op_type, version)
            if result is not None:
                yield result

    def _results(self, calls: Sequence[Call], node: ir.Node, operands: list[Operand]) -> Any:
        """The results of the first call that neither declines nor has to wait; else the first that waits is put off."""
        waiting: list[tuple[Call, UnknownUntilRun]] = []
        for call in calls:
            mark = self.xp.mark()
            try:
                results = call(self.xp, operands)
            except UnknownUntilRun as error:
                waiting.append((call, error))
                self.xp.rollback(mark)
                continue
            if results is not NotImplemented:
                return results if isinstance(results, tuple) else (results,)
            self.xp.rollback(mark)
        if not waiting:
            return NotImplemented
        chain = waiting[-1][0]
        for call, _ in reversed(waiting[:-1]):
            chain = replace(call, otherwise=chain)
        tensors = [to_tensor(self.xp, item) for item in operands]
        results = self.xp.defer(chain, tensors, node.outputs, waiting[-1][1])
        return results if isinstance(results, tuple) else (results,)

    def _context(self, node: ir.Node, schema: OpSchema | None, operands: list[Operand], opset: int) -> Context:
        outputs = list(node.outputs)
        while outputs and not outputs[-1].name:
            outputs.pop()
        return Context(
            version=schema.since_version if schema is not None else opset,
            opset=opset,
            output_count=len(outputs),
            wanted=tuple(bool(value.name) for value in outputs),
            input_dtypes=tuple(self._dtype(item, value) for item, value in zip(operands, node.inputs, strict=True)),
            output_dtypes=tuple(value.dtype for value in node.outputs),
        )

    def _dtype(self, operand: Operand, value: ir.Value | None) -> ir.DataType | None:
        if operand is None or value is None:
            return None
        if isinstance(operand, Weight):
            return ir.DataType(operand.value.const_value.dtype)
        if isinstance(operand, HostValue):
            return operand.dtype
        if value.dtype is not None:
            return value.dtype
        if not self.xp.is_tensor(operand):
            return None
        try:
            return self.xp.dtype(operand)
        except UnknownUntilRun:
            return None

    def _attributes(self, node: ir.Node, frame: _Frame) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, item in node.attributes.items():
            if item.is_ref():
                if item.ref_attr_name in frame.attributes:
                    result[name] = frame.attributes[item.ref_attr_name]
            else:
                result[name] = self._attribute(item, frame)
        return result

    def _attribute(self, item: ir.Attr, frame: _Frame) -> Any:
        match item.type:
            case ir.AttributeType.GRAPH:
                return _GraphBody(self, item.as_graph(), frame)
            case ir.AttributeType.TENSOR:
                return tensor_value(item.as_tensor())
            case ir.AttributeType.INTS | ir.AttributeType.FLOATS | ir.AttributeType.STRINGS:
                return tuple(item.value)
        return item.value

    def _on_host(
        self, node: ir.Node, operands: list[Operand], attributes: dict[str, Any], opset: int
    ) -> Sequence[Operand] | None:
        if node.op_type == "Constant":
            return None
        values = [as_host(item) if _foldable(item) else None for item in operands]
        pairs = zip(values, operands, strict=True)
        if not operands or any(value is None and item is not None for value, item in pairs):
            return None
        if any(isinstance(item, Body) for item in attributes.values()):
            return None
        if all(value is None or value.is_static for value in values):
            if any(item.is_ref() for item in node.attributes.values()):
                return None
            arrays = [None if value is None else value.array for value in values]
            if sum(array.size for array in arrays if array is not None) > folding.MAX_ELEMENTS:
                return None
            if not all(value is None or value.dtype in _FOLDED for value in values):
                return None
            folded = folding.fold(node, arrays, opset)
            if folded is None or sum(array.size for array in folded) > folding.MAX_ELEMENTS:
                return None
            if any(array.dtype == object or not isinstance(array, np.ndarray) for array in folded):
                return None
            return [HostValue(array, ir.DataType.from_numpy(array.dtype)) for array in folded]
        settled = host.evaluate(self.xp, node.op_type, values, attributes)
        return None if settled is None else [settled]

    def _function(
        self,
        node: ir.Node,
        function: ir.Function,
        operands: list[Operand],
        frame: _Frame,
        schema: OpSchema | None = None,
    ) -> list[Operand]:
        given = (item for item in function.attributes.values() if item.value is not None)
        attributes = {item.name: self._attribute(item, frame) for item in given}
        if schema is not None:
            attributes.update(_defaults(schema))
        attributes.update(self._attributes(node, frame))
        place = f"{frame.place}{node.name or node.op_type}/"
        inner = _Frame({**frame.opsets, **function.opset_imports}, attributes=attributes, place=place)
        return self.graph(function, operands, inner)

    def _schema_body(
        self, node: ir.Node, declared: OpSchema | None, operands: list[Operand], attributes: dict[str, Any], opset: int
    ) -> ir.Function | None:
        if declared is None:
            return None
        schema: Any = declared  # the stubs know nothing of function bodies
        if schema.has_context_dependent_function:
            proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain, name=node.name or "")
            proto.input.extend(value.name or "" if value is not None else "" for value in node.inputs)
            proto.output.extend(value.name or "" for value in node.outputs)
            proto.attribute.extend(_attribute_proto(node, name, item) for name, item in attributes.items())
            types = [self._type_proto(item, value) for item, value in zip(operands, node.inputs, strict=True)]
            if any(item is None for item in types):
                raise UnsupportedOperator("its function body depends on input types that are not known")
            encoded = [item.SerializeToString() for item in types if item is not None]
            versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
            version = max(versions, default=schema.since_version)
            try:
                text = proto.SerializeToString()
                body = schema.get_context_dependent_function_with_opset_version(version, text, encoded)
            except RuntimeError as error:  # onnx 1.20 writes names of values into text, which it then can't read
                raise UnsupportedOperator("ONNX can't write its function body for these names or values") from error
            if not body:
                raise UnsupportedOperator("its function body depends on sizes that the model does not say")
            return _deserialized(body)
        if schema.has_function:
            key = (schema.domain, schema.name, schema.since_version, opset)
            if key not in self._bodies:
                versions = [v for v in schema.function_opset_versions if v <= opset]
                text = schema.get_function_with_opset_version(max(versions, default=schema.since_version))
                self._bodies[key] = _deserialized(text)
            return self._bodies[key]
        return None

    def _type_proto(self, operand: Operand, value: ir.Value | None) -> onnx.TypeProto | None:
        if operand is None or value is None:
            return onnx.TypeProto()
        dtype = self._dtype(operand, value)
        if value.type is not None and value.dtype is not None:
            return schemas.type_proto(value)
        if dtype is None:
            return None
        return onnx.helper.make_tensor_type_proto(dtype.value, None)


def _attribute_proto(node: ir.Node, name: str, value: object) -> onnx.AttributeProto:
    if isinstance(value, Body):
        return ir.serde.serialize_attribute(node.attributes[name])
    if isinstance(value, HostValue):
        value = onnx.numpy_helper.from_array(value.array)
    return onnx.helper.make_attribute(name, value)


def _deserialized(text: bytes) -> ir.Function:
    """A schema's function body; outputs that the node does not ask for may be declared and not computed."""
    proto = onnx.FunctionProto.FromString(text)
    computed = {name for node in proto.node for name in node.output} | set(proto.input)
    outputs = list(proto.output)
    while outputs and outputs[-1] not in computed:
        outputs.pop()
    del proto.output[:]
    proto.output.extend(outputs)
    return ir.serde.deserialize_function(proto)


# Element types on which NumPy and ONNX's reference evaluator agree with the frameworks to the last bit or need not.
_FOLDED = frozenset(ir.DataType[name] for name in "BOOL INT8 INT16 INT32 INT64 UINT8 FLOAT DOUBLE".split())


def _foldable(operand: Operand) -> bool:
    """Constants fold; a floating-point initializer is a weight, which stays what it is."""
    if not isinstance(operand, Weight):
        return True
    tensor = operand.value.const_value
    return not ir.DataType(tensor.dtype).is_floating_point() and tensor.size <= folding.MAX_ELEMENTS


@cache
def _declared(schema: OpSchema) -> frozenset[str]:
    """The names of a schema's attributes, which it copies each time that it is asked."""
    return frozenset(schema.attributes)


@cache
def _defaults(schema: OpSchema) -> Mapping[str, Any]:
    defaults = {name: item.default_value for name, item in schema.attributes.items() if item.default_value is not None}
    given = {name: onnx.helper.get_attribute_value(value) for name, value in defaults.items() if value.type}
    return MappingProxyType({name: _text_decoded(value) for name, value in given.items()})


def _text_decoded(value: object) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return tuple(_text_decoded(item) for item in value)
    return value


def _accepted(entry: SemanticsEntry, attributes: dict[str, Any], schema: OpSchema | None) -> dict[str, Any]:
    """Attributes as keyword arguments: the schema's defaults filled in, what the function does not know refused."""
    form = signature(entry.function)
    defaults: Mapping[str, Any] = _defaults(schema) if schema is not None else {}
    result = {**defaults, **attributes}
    if schema is not None and (foreign := attributes.keys() - _declared(schema) - {"consumed_inputs"}):
        raise UnsupportedOperator(f"version {schema.since_version} has no attribute {', '.join(sorted(foreign))}")
    if form.any_attribute:
        return result
    taken = {*form.attributes, "consumed_inputs"}
    default = {name for name, value in attributes.items() if name in defaults and defaults[name] == value}
    unknown = [name for name in attributes if name not in taken and name not in default]
    if unknown:
        raise UnsupportedOperator(f"attribute {', '.join(unknown)} has no mapping")
    return {name: value for name, value in result.items() if name in form.attributes}
