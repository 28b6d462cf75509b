"""One look over an ONNX model before anything reads it: what would break a reader is refused by name and place.

ONNX's own checker reads a file again from disk, stops at what runs nowhere else either, and lets through tensors without data,
cycles of functions and unknown attribute types; it is also recursive in C++. This pass is linear, and checks

1. versions, and that every operator's domain is imported,
2. that each graph's values are given once, before they are used,
3. operands and attributes against the operator's schema (`onnx_schema`),
4. the element types of operands, as far as the schemas alone tell them (`onnx_types`),
5. tensors (`onnx_tensors`), and types of inputs, outputs and values,
6. functions: that none calls itself, how deep they nest and how many nodes they come to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from graphlib import CycleError, TopologicalSorter

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, defs

from onnxport.errors import InvalidModelError
from onnxport.graph.limits import EXPANSION, MAX_DEPTH, MIN_EXPANDED
from onnxport.tracing.trust.onnx_order import UnknownOperand
from onnxport.tracing.trust.onnx_schema import check_attributes, check_operands, normal_domain, signature_of, where
from onnxport.tracing.trust.onnx_tensors import MOST_ELEMENTS, DataFolder, check_tensor, check_text, dense
from onnxport.tracing.trust.onnx_types import UNKNOWN, check_declared, element_type, result_types

_FIELD_OF = {
    AttributeProto.GRAPH: "g",
    AttributeProto.TENSOR: "t",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
}
_KINDS = frozenset(AttributeProto.AttributeType.values()) - {AttributeProto.UNDEFINED}
_ELEMENT_TYPES = frozenset(onnx.TensorProto.DataType.values()) - {0}
_Key = tuple[str, str, str]
# Of a function: its nodes, how deep its graphs lie, and what it calls at which depth.
_Summary = tuple[int, int, list[tuple[_Key, int]]]


def check_model(
    proto: onnx.ModelProto, folder: DataFolder | None, apart: Mapping[int, int] | None = None
) -> list[Callable[[], None]]:
    """Checks a model; `folder` is where external data may lie, None for a message that came from no file.

    `apart` holds the bytes of data, by positions of the main graph's initializers, that were read apart from the message.

    Returns:
        What to do to the message before it is read: sparse initializers become dense ones, dimensions below 0, which some
        exporters write, unknown ones.

    Raises:
        InvalidModelError: what is wrong, with its place.
    """
    check = _Check(proto, folder, apart or {})
    check.run()
    return check.changes


@dataclass(frozen=True)
class _Scope:
    """Where nodes stand."""

    opsets: dict[str, int]  # versions by domain
    # The element types of the values that are given so far by name, of each graph around and of the graph itself.
    values: tuple[dict[str, int], ...] = ()
    place: str = ""  # the graphs around, for errors
    attributes: frozenset[str] | None = None  # of the function around; None outside of one
    depth: int = 0  # how many graphs lie around the nodes, their own included

    def knows(self, name: str) -> bool:
        """Whether a value is given."""
        return name in self.values[-1] or any(name in names for names in self.values[:-1])

    def kind(self, name: str) -> int:
        """The element type of a value; `UNKNOWN` where it is not told."""
        return next((names[name] for names in reversed(self.values) if name in names), UNKNOWN)


class _Check:
    def __init__(self, proto: onnx.ModelProto, folder: DataFolder | None, apart: Mapping[int, int]) -> None:
        self.proto, self.folder, self.apart = proto, folder, apart
        self.changes: list[Callable[[], None]] = []
        self.functions: dict[_Key, FunctionProto] = {}
        self.nodes = 0
        # Of the function or main graph that is looked at: what it calls at which depth, and how deep its graphs lie.
        self.calls: list[tuple[_Key, int]] = []
        self.deepest = 0

    def run(self) -> None:
        if self.proto.ir_version < 1 or self.proto.ir_version > max(onnx.IR_VERSION, 15):
            raise InvalidModelError(f"IR version {self.proto.ir_version} is none that ONNX {onnx.__version__} knows")
        model = self.proto
        _check_names((model.producer_name, model.producer_version, model.domain, model.doc_string), "the model")
        _check_metadata(model.metadata_props, "the model")
        opsets = _opsets(self.proto.opset_import, "the model")
        if not opsets and self.proto.ir_version < 3:
            opsets = {"": 1}
        for function in self.proto.functions:
            key = (normal_domain(function.domain), function.name, function.overload)
            if key in self.functions:
                raise InvalidModelError(f"the function {function.domain}::{function.name} is defined twice")
            self.functions[key] = function
        summaries = {key: self._function(function, opsets) for key, function in self.functions.items()}
        own = self._counted(lambda: self._graph(self.proto.graph, _Scope(opsets)))
        self._expansion(summaries, own)

    def _counted(self, check: Callable[[], None]) -> _Summary:
        before, self.calls, self.deepest = self.nodes, [], 0
        check()
        return self.nodes - before, self.deepest, self.calls

    def _function(self, function: FunctionProto, outer: dict[str, int]) -> _Summary:
        place = f"function {function.domain}::{function.name}"
        words = (function.domain, function.overload, *function.input, *function.output, *function.attribute)
        _check_words(function, place, *words)
        opsets = {**outer, **_opsets(function.opset_import, place)}
        known = dict.fromkeys(_distinct(function.input, f"{place}: input"), UNKNOWN)
        scope = _Scope(opsets, (known,), f"{place}: ", depth=1)
        for item in function.attribute_proto:
            self._attribute(item, scope, f"{place}: attribute {item.name!r}")
        attributes = frozenset((*function.attribute, *(item.name for item in function.attribute_proto)))

        def check() -> None:
            self._nodes(function.node, replace(scope, attributes=attributes))
            for name in function.output:
                if name not in known:
                    raise InvalidModelError(f"{place}: nothing gives the output {name!r}")

        return self._counted(check)

    def _graph(self, graph: GraphProto, outer: _Scope) -> None:
        place = outer.place
        _check_words(graph, f"{place}graph")
        _distinct((item.name for item in graph.input), f"{place}input")
        known = {item.name: element_type(item.type) for item in graph.input}
        for item in (*graph.input, *graph.output, *graph.value_info):
            _check_words(item, f"{place}value")
            if item.HasField("type"):
                self._type(item.type, f"{place}{item.name!r}")
        initialized: dict[str, int] = {}
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            sparse_place = f"{place}sparse initializer {name!r}"
            check_tensor(sparse.values, sparse_place, self.folder)
            check_tensor(sparse.indices, f"{sparse_place}, its indices", self.folder)
            self.changes.append(partial(graph.initializer.append, dense(sparse, sparse_place)))
            initialized[name] = sparse.values.data_type
        if initialized:
            self.changes.append(partial(graph.ClearField, "sparse_initializer"))
        apart = {} if outer.depth else self.apart
        for position, tensor in enumerate(graph.initializer):
            _check_words(tensor, f"{place}initializer")
            if not tensor.name or tensor.name in initialized:
                raise InvalidModelError(f"{place}the initializer {tensor.name!r} is given twice or has no name")
            initialized[tensor.name] = tensor.data_type
            check_tensor(tensor, f"{place}initializer {tensor.name!r}", self.folder, apart.get(position))
        known |= initialized
        scope = replace(outer, values=(*outer.values, known), depth=outer.depth + 1)
        self._nodes(graph.node, scope)
        for item in graph.output:
            if not scope.knows(item.name):
                raise InvalidModelError(f"{place}nothing gives the output {item.name!r}")
            check_declared(item, scope.kind(item.name), place)

    def _nodes(self, nodes: Iterable[NodeProto], scope: _Scope) -> None:
        place, known = scope.place, scope.values[-1]
        for node in nodes:
            self.nodes += 1
            _check_words(node, f"{place}node", node.op_type, node.domain, node.overload, *node.input, *node.output)
            for name in node.input:
                if name and not scope.knows(name):
                    raise UnknownOperand(
                        f"{where(node, place)}: its operand {name!r} is given by nothing that stands before it"
                    )
            kinds = self._node(node, scope)
            for name, kind in zip(node.output, kinds, strict=True):
                if not name:
                    continue
                if name in known:
                    raise InvalidModelError(f"{where(node, place)}: its result {name!r} is given twice")
                known[name] = kind

    def _node(self, node: NodeProto, scope: _Scope) -> list[int]:
        """Checks a node, and gives the element types of its results."""
        place = scope.place
        if any(not item.configuration_id for item in node.device_configurations):
            raise InvalidModelError(f"{where(node, place)}: a device configuration of it has no name")
        if not node.op_type:
            raise InvalidModelError(f"{where(node, place)}: it has no operator")
        domain = normal_domain(node.domain)
        function = self.functions.get((domain, node.op_type, node.overload))
        signature = None
        if function is not None:
            self.calls.append(((domain, node.op_type, node.overload), scope.depth))
            if len(node.input) > len(function.input) or len(node.output) > len(function.output):
                raise InvalidModelError(f"{where(node, place)}: it has more operands or results than its function")
        elif domain not in scope.opsets:
            raise InvalidModelError(f"{where(node, place)}: the model imports no opset of its domain")
        else:
            signature = signature_of(domain, node.op_type, scope.opsets[domain])
        if signature is not None:
            check_operands(node, signature, place)
        seen: dict[str, int] = {}
        for item in node.attribute:
            if not item.name or item.name in seen:
                raise InvalidModelError(
                    f"{where(node, place)}: the attribute {item.name!r} stands twice or has no name"
                )
            item_place = f"{where(node, place)}, attribute {item.name!r}"
            _check_names((item.name, item.ref_attr_name), item_place)
            seen[item.name] = item.type
            if item.ref_attr_name and item.ref_attr_name not in (scope.attributes or ()):
                raise InvalidModelError(f"{item_place}: there is no function's attribute {item.ref_attr_name!r} here")
            self._attribute(item, scope, item_place)
        if signature is None:
            return [UNKNOWN] * len(node.output)
        check_attributes(node, seen, signature, place)
        return result_types(node, signature.schema, [scope.kind(name) for name in node.input], where(node, place))

    def _attribute(self, item: AttributeProto, scope: _Scope, place: str) -> None:
        if item.type not in _KINDS:
            raise InvalidModelError(f"{place}: its type {item.type} is none of ONNX's")
        if item.ref_attr_name:
            return
        field = _FIELD_OF.get(item.type)
        if field is not None and not item.HasField(field):
            raise InvalidModelError(f"{place}: it has no value")
        match item.type:
            case AttributeProto.STRING:
                check_text([item.s], place)
            case AttributeProto.STRINGS:
                check_text(list(item.strings), place)
            case AttributeProto.TENSOR | AttributeProto.TENSORS:
                for tensor in (item.t,) if item.type == AttributeProto.TENSOR else item.tensors:
                    check_tensor(tensor, place, self.folder)
            case AttributeProto.SPARSE_TENSOR | AttributeProto.SPARSE_TENSORS:
                raise InvalidModelError(f"{place}: sparse tensors as attributes are not supported")
            case AttributeProto.GRAPH | AttributeProto.GRAPHS:
                self.deepest = max(self.deepest, scope.depth)
                if scope.depth >= MAX_DEPTH:
                    raise InvalidModelError(
                        f"{place}: graphs lie {scope.depth} deep in each other; at most {MAX_DEPTH}"
                    )
                for graph in (item.g,) if item.type == AttributeProto.GRAPH else item.graphs:
                    self._graph(graph, replace(scope, place=f"{place}: "))
            case AttributeProto.TYPE_PROTO | AttributeProto.TYPE_PROTOS:
                for kind in (item.tp,) if item.type == AttributeProto.TYPE_PROTO else item.type_protos:
                    self._type(kind, place)

    def _type(self, kind: onnx.TypeProto, place: str) -> None:
        while (form := kind.WhichOneof("value")) in ("sequence_type", "optional_type", "map_type"):
            inner = getattr(kind, form)
            if form == "map_type" and inner.key_type not in _ELEMENT_TYPES:
                raise InvalidModelError(f"{place}: a map's key type {inner.key_type} is none of ONNX's")
            kind = inner.value_type if form == "map_type" else inner.elem_type
        if form == "sparse_tensor_type":
            raise InvalidModelError(f"{place}: sparse tensors as values are not supported")
        tensor = kind.tensor_type
        if tensor.elem_type and tensor.elem_type not in _ELEMENT_TYPES:
            raise InvalidModelError(f"{place}: element type {tensor.elem_type} is none of ONNX's")
        count = 1
        for dim in tensor.shape.dim if tensor.HasField("shape") else ():
            _check_names((dim.dim_param, dim.denotation), place)
            count *= max(dim.dim_value, 1)
            if count >= MOST_ELEMENTS:
                raise InvalidModelError(f"{place}: its dimensions are more than any memory holds")
            if dim.HasField("dim_value") and dim.dim_value < 0:
                self.changes.append(partial(dim.ClearField, "dim_value"))

    def _expansion(self, summaries: dict[_Key, _Summary], own: _Summary) -> None:
        """How many nodes the functions' calls come to, and how deep they nest."""
        totals: dict[_Key, tuple[int, int]] = {}
        callees = {key: [callee for callee, _ in calls] for key, (_, _, calls) in summaries.items()}
        try:
            for key in TopologicalSorter(callees).static_order():
                totals[key] = _total(summaries[key], totals)
        except CycleError as error:
            raise InvalidModelError(f"the function {'::'.join(error.args[1][0][:2])} calls itself") from None
        count, depth = _total(own, totals)
        most = max(MIN_EXPANDED, EXPANSION * self.nodes)
        if count > most:
            raise InvalidModelError(
                f"the model's functions come to {count:,} nodes when they are called; at most {most:,}"
            )
        if depth > MAX_DEPTH:
            raise InvalidModelError(f"functions and graphs lie {depth} deep in each other; at most {MAX_DEPTH}")


def _total(summary: _Summary, totals: dict[_Key, tuple[int, int]]) -> tuple[int, int]:
    count, deepest, calls = summary
    for key, depth in calls:
        count += totals[key][0]
        deepest = max(deepest, depth + totals[key][1])
    return count, deepest


def _opsets(imports: Iterable[onnx.OperatorSetIdProto], place: str) -> dict[str, int]:
    versions: dict[str, int] = {}
    for item in imports:
        _check_names((item.domain,), f"{place}, an opset that it imports")
        domain = normal_domain(item.domain)
        newest = defs.onnx_opset_version() if not domain else 1 << 31
        if not 1 <= item.version <= newest:
            raise InvalidModelError(
                f"{place} imports opset {item.version} of {domain or 'ai.onnx'!r}; ONNX {onnx.__version__} knows 1 to {newest}"
            )
        versions[domain] = max(item.version, versions.get(domain, 0))
    return versions


def _check_names(names: Iterable[str], place: str) -> None:
    """Protobuf gives a string that is not UTF-8 as bytes."""
    for name in names:
        if not isinstance(name, str):
            raise InvalidModelError(f"{place}: the name {bytes(name[:40])!r} is not UTF-8")


def _check_words(
    message: FunctionProto | GraphProto | NodeProto | onnx.TensorProto | onnx.ValueInfoProto, place: str, *more: str
) -> None:
    """Checks a message's name, description and metadata, and more names of it."""
    _check_names((message.name, message.doc_string, *more), place)
    _check_metadata(message.metadata_props, place)


def _check_metadata(entries: Iterable[onnx.StringStringEntryProto], place: str) -> None:
    for entry in entries:
        _check_names((entry.key, entry.value), f"{place}, its metadata")


def _distinct(names: Iterable[str], place: str) -> set[str]:
    distinct: set[str] = set()
    for name in names:
        if name in distinct or not name:
            raise InvalidModelError(f"{place} {name!r} stands twice or has no name")
        distinct.add(name)
    return distinct
