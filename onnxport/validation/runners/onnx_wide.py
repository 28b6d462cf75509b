"""An ONNX source in float64: every narrower floating-point value of its graph becomes a double.

Operators whose schema takes no double where they had a narrower type keep that type, with casts around them. What onnxruntime
has no kernel for is run by ONNX's reference evaluator, node by node, the rest in pieces as long as possible.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx import TensorProto

from onnxport.errors import InvalidModelError
from onnxport.graph.guard.bounds import Guard, current
from onnxport.graph.guard.requests import RemoteModel, stored, with_shapes
from onnxport.graph.runtime import Session
from onnxport.validation.runners.base import nested
from onnxport.validation.runners.onnx_unfused import unfuse

NARROW = {getattr(TensorProto, name.upper()): f"tensor({name})" for name in ("float", "float16", "bfloat16")}
_DOUBLE = "tensor(double)"
_TYPES = ("to", "dtype", "output_datatype", "output_dtype", "softmax_precision")  # attributes that hold an element type
_PRODUCTS = 1 << 31  # products that the reference evaluator is asked for; it takes about a second for 2 ** 30
_BITS = frozenset({"BitCast"})  # operators that look at the bits of their input, which a double does not share


class WideGraph:
    """The graph of a source in float64, ready to run; its weights are copied.

    `threads` are those of each piece; 0 leaves it to the runtime.

    Raises:
        InvalidModelError: the graph has no float64 form.
    """

    def __init__(self, proto: onnx.ModelProto, threads: int = 0) -> None:
        self._pieces = _Pieces(widened(proto), threads)
        self.output_names = [item.name for item in proto.graph.output]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Outputs in graph order, floating-point ones in float64.

        Raises:
            OnnxportError: a piece does not run on these inputs, or takes too long without a kernel.
        """
        return self._pieces.run({name: nested(value, _wide) for name, value in feeds.items()})

    def run_prepared(self, feeds: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        """The outputs named, as `Session.run_prepared` gives them."""
        outputs = dict(zip(self.output_names, self.run(feeds), strict=True))
        return [outputs[name] for name in names]

    def about(self) -> dict[str, Any]:
        """As `Session.about`."""
        return {"output_names": self.output_names}


class RemoteWideGraph:
    """The same in the process in which the guard runs the source: what its pieces hand on stays there.

    Raises:
        InvalidModelError: the graph has no float64 form, or none within the guard's bounds.
    """

    def __init__(self, proto: onnx.ModelProto, guard: Guard) -> None:
        path = stored(lambda place: onnx.save(proto, place))
        self._remote = RemoteModel(path, {"opener": f"{__name__}:opened"}, guard)

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """As `WideGraph.run`."""
        return self._remote.run(feeds, self._remote.about["output_names"])


def opened(path: str) -> WideGraph:
    """The graph of a file in float64; every thread of every piece would count against the guard's memory."""
    return WideGraph(onnx.load(path), threads=1)


def wide_graph(proto: onnx.ModelProto) -> WideGraph | RemoteWideGraph:
    """A source in float64, where its other runs are."""
    guard = current()
    return WideGraph(proto) if guard is None else RemoteWideGraph(proto, guard)


def _wide(value: Any) -> Any:
    narrow = isinstance(value, np.ndarray) and value.dtype.name in ("float32", "float16", "bfloat16")
    return value.astype(np.float64) if narrow else value


def widened(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with double in place of float, float16 and bfloat16.

    Raises:
        InvalidModelError: an operator has no such form.
    """
    inlined = onnx.inliner.inline_local_functions(proto) if proto.functions else copy.deepcopy(proto)
    versions = {item.domain: item.version for item in inlined.opset_import}
    unfuse(inlined.graph, versions.get("", 1))
    typed = _Types(inlined)
    _widen_graph(inlined.graph, versions, typed)
    inlined.ClearField("functions")
    return inlined


class _Types:
    """Element types of values by name, as far as shape inference tells, and fresh names."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.of: dict[str, int] = {}
        self._count = 0
        with suppress(Exception):  # without it the declared types are all there is
            model = with_shapes(model)
        self._read(model.graph)

    def _read(self, graph: onnx.GraphProto) -> None:
        for info in (*graph.input, *graph.output, *graph.value_info):
            if info.type.HasField("tensor_type"):
                self.of[info.name] = info.type.tensor_type.elem_type
        self.of.update({item.name: item.data_type for item in graph.initializer})
        for node in graph.node:
            for inner in _bodies(node):
                self._read(inner)

    def fresh(self, name: str) -> str:
        self._count += 1
        return f"{name}/wide{self._count}"


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            yield from attribute.graphs or [attribute.g]


def _widen_graph(graph: onnx.GraphProto, versions: Mapping[str, int], typed: _Types) -> None:
    for info in (*graph.input, *graph.output, *graph.value_info):
        _widen_type(info.type)
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        graph.node.extend(_widen_node(node, versions, typed))


def _widen_type(kind: onnx.TypeProto) -> None:
    if kind.HasField("tensor_type") and kind.tensor_type.elem_type in NARROW:
        kind.tensor_type.elem_type = TensorProto.DOUBLE
    for field in ("sequence_type", "optional_type"):
        if kind.HasField(field):
            _widen_type(getattr(kind, field).elem_type)
    if kind.HasField("map_type"):
        _widen_type(kind.map_type.value_type)


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type not in NARROW:
        return
    array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def _widen_node(node: onnx.NodeProto, versions: Mapping[str, int], typed: _Types) -> Iterator[onnx.NodeProto]:
    if node.op_type in _BITS:
        raise InvalidModelError(f"{node.op_type} reads the bits of its input: it has no float64 form")
    schema = _schema(node, versions)
    allowed = {item.type_param_str: set(item.allowed_type_strs) for item in schema.type_constraints}
    for place, name in enumerate(node.input):
        kind = typed.of.get(name)
        formal = _formal(schema.inputs, place)
        if name and kind in NARROW and formal is not None and _DOUBLE not in allowed.get(formal, {formal}):
            node.input[place] = typed.fresh(name)
            yield onnx.helper.make_node("Cast", [name], [node.input[place]], to=kind)
    for attribute in node.attribute:
        if attribute.name in _TYPES and attribute.i in NARROW:
            attribute.i = TensorProto.DOUBLE
        elif attribute.type == onnx.AttributeProto.TENSOR and node.domain == "":
            _widen_tensor(attribute.t)
    for inner in _bodies(node):
        _widen_graph(inner, versions, typed)
    if node.op_type == "Constant":
        _widen_constant(node)
    casts = []
    for place, name in enumerate(node.output):
        kind = typed.of.get(name)
        formal = _formal(schema.outputs, place)
        if name and formal is not None and kind in (None, *NARROW):
            types = allowed.get(formal, {formal})
            if _DOUBLE in types or not types.intersection(NARROW.values()):
                continue
            if kind is None:
                kind = typed.of[name] = _only(types, name)
            node.output[place] = typed.fresh(name)
            casts.append(onnx.helper.make_node("Cast", [node.output[place]], [name], to=TensorProto.DOUBLE))
    yield node
    yield from casts


def _only(types: Set[str], name: str) -> int:
    """The one narrow type that an operator can give; shape inference leaves out what is read as a map alone."""
    kinds = [kind for kind, text in NARROW.items() if {text} == types]
    if not kinds:
        raise InvalidModelError(f"the type of {name!r} is not known")
    return kinds[0]


def _widen_constant(node: onnx.NodeProto) -> None:
    """A constant given as Python numbers is of float32."""
    for attribute in node.attribute:
        if attribute.name in ("value_float", "value_floats"):
            values = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            tensor = onnx.numpy_helper.from_array(np.asarray(values, np.float64))
            attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))


def _schema(node: onnx.NodeProto, versions: Mapping[str, int]) -> Any:
    try:
        return onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError as error:
        raise InvalidModelError(f"{node.domain}.{node.op_type} has no schema") from error


def _formal(formals: Sequence[Any], place: int) -> str | None:
    """The type parameter of an operator's formal input or output; None where each of a variadic row has its own."""
    if not formals:
        return None
    formal = formals[min(place, len(formals) - 1)]
    return formal.type_str if formal.is_homogeneous else None


class _Pieces:
    """A model run in pieces: as many nodes at once as onnxruntime has kernels for, single nodes where it has none.

    A piece is the nodes from one place to another. Only what later ones read is kept.
    """

    def __init__(self, model: onnx.ModelProto, threads: int) -> None:
        self._model, self._threads = model, threads
        self._nodes = list(model.graph.node)
        self._constants = {item.name: item for item in model.graph.initializer}
        self._sessions: dict[tuple[int, int], Session] = {}
        self._lacking: set[str] = set()
        self._last = {name: place for place, node in enumerate(self._nodes) for name in _read(node)}
        self._last.update({item.name: len(self._nodes) for item in model.graph.output})

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        values = dict(feeds)
        self._run(0, len(self._nodes), values)
        names = [item.name for item in self._model.graph.output]
        given = {name: onnx.numpy_helper.to_array(self._constants[name]) for name in names if name in self._constants}
        return [given[name] if name in given else values[name] for name in names]

    def _run(self, start: int, end: int, values: dict[str, Any]) -> None:
        results = [name for node in self._nodes[start:end] for name in node.output]
        if not any(self._last.get(name, -1) >= end for name in results):
            return
        if end - start > 1 and any(node.op_type in self._lacking for node in self._nodes[start:end]):
            for piece in self._around(start, end):
                self._run(*piece, values)
            return
        session: Session | None = None
        try:
            session = self._sessions.get((start, end)) or self._session(start, end, values)
            lacks = session.fallback_reason if session.backend != "onnxruntime" else ""
        except InvalidModelError as error:  # ONNX's evaluator lacks an operator too, as it does ZipMap
            lacks = str(error)
            if end - start == 1:
                raise
        if session is None or (lacks and end - start > 1):
            missing = re.search(r"implementation for (?:[\w.]+[:.])?(\w+)\(\d+\)", lacks)
            known = missing is not None and any(node.op_type == missing[1] for node in self._nodes[start:end])
            self._lacking.update([missing[1]] if missing is not None and known else [])
            middle = end if known else (start + end) // 2
            del session  # it holds its weights
            self._run(start, middle, values)
            self._run(middle, end, values)
            return
        self._sessions[start, end] = session
        given = {name: values[name] for name in session.input_names}
        operator = self._nodes[start].op_type
        if session.backend != "onnxruntime" and _products(operator, given) > _PRODUCTS:
            raise InvalidModelError(f"{operator} has no kernel for float64 and is too large without")
        values.update(zip(session.output_names, session.run(given), strict=True))
        for name in [name for name in values if self._last.get(name, -1) < end]:
            del values[name]

    def _session(self, start: int, end: int, values: Mapping[str, Any]) -> Session:
        """Takes what the nodes read, gives what later ones do."""
        nodes = self._nodes[start:end]
        results = {name for node in nodes for name in node.output if name}
        read = dict.fromkeys(name for node in nodes for name in _read(node) if name and name not in results)
        inputs = [_info(name, values[name]) for name in read if name not in self._constants]
        outputs = [onnx.ValueInfoProto(name=name) for name in results if self._last.get(name, -1) >= end]
        weights = [self._constants[name] for name in read if name in self._constants]
        graph = onnx.helper.make_graph(nodes, "piece", inputs, outputs, weights)
        imports, version = self._model.opset_import, self._model.ir_version
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=version)
        return Session(model, optimize=False, threads=self._threads)

    def _around(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The nodes cut around those of operators without a kernel."""
        for place in [place for place in range(start, end) if self._nodes[place].op_type in self._lacking]:
            yield from ((start, place), (place, place + 1))
            start = place + 1
        yield start, end


def _info(name: str, value: object) -> onnx.ValueInfoProto:
    if isinstance(value, list):
        item = _info(name, value[0]) if value else onnx.helper.make_tensor_value_info(name, TensorProto.DOUBLE, None)
        return onnx.helper.make_value_info(name, onnx.helper.make_sequence_type_proto(item.type))
    array = np.asarray(value)
    kind = TensorProto.STRING if array.dtype == object else onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, None)


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads, values that its bodies capture included."""
    yield from node.input
    for graph in _bodies(node):
        own = {item.name for item in (*graph.input, *graph.initializer)}
        own |= {name for inner in graph.node for name in inner.output}
        names = [name for inner in graph.node for name in _read(inner)] + [item.name for item in graph.output]
        yield from (name for name in names if name not in own)


def _products(op_type: str, given: Mapping[str, Any]) -> int:
    """About how many products and calls the reference evaluator makes: large tensors times windows."""
    sizes = sorted((int(np.size(value)) for value in given.values() if isinstance(value, np.ndarray)), reverse=True)
    if not sizes:
        return 0
    if op_type.startswith("Conv") and len(sizes) > 1:
        weight = max((value.shape for value in given.values() if np.ndim(value) > 2), key=len, default=(1,))
        return sizes[0] * sizes[1] // max(weight[0], 1)
    slow = "Pool" in op_type or op_type in ("Resize", "GridSample", "RoiAlign", "DeformConv", "LRN")
    return sizes[0] * (1 << 11 if slow else 1 << 4) + math.prod(sizes[1:2])
