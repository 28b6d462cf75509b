"""An ONNX source in float64: every narrower floating-point value of its graph becomes a double.

Operators whose schema takes no double where they had a narrower type keep that type, with casts around them. What onnxruntime
has no kernel for is run by ONNX's reference evaluator, node by node, the rest in pieces as long as possible.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx import TensorProto

from onnxport.errors import InvalidModelError
from onnxport.graph.guard import with_shapes
from onnxport.graph.runtime import Session

NARROW = {
    TensorProto.FLOAT: "tensor(float)",
    TensorProto.FLOAT16: "tensor(float16)",
    TensorProto.BFLOAT16: "tensor(bfloat16)",
}
_DOUBLE = "tensor(double)"
# Attributes that hold an element type.
_TYPES = ("to", "dtype", "output_datatype", "output_dtype", "softmax_precision")
# Products that the reference evaluator is asked for; it takes about a second for 2 ** 30.
_PRODUCTS = 1 << 31
# Operators that look at the bits of their input, which a double does not share.
_BITS = frozenset({"BitCast"})


class WideGraph:
    """The graph of a source in float64, ready to run.

    Args:
        proto: the source; its weights are copied.

    Raises:
        InvalidModelError: the graph has no float64 form.
    """

    def __init__(self, proto: onnx.ModelProto) -> None:
        self._pieces = _Pieces(widened(proto))
        self.output_names = [item.name for item in proto.graph.output]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Outputs in graph order, floating-point ones in float64.

        Raises:
            OnnxportError: a piece does not run on these inputs, or takes too long without a kernel.
        """
        return self._pieces.run({name: _wide(value) for name, value in feeds.items()})


def _wide(value: Any) -> Any:
    if isinstance(value, list):
        return [_wide(item) for item in value]
    narrow = isinstance(value, np.ndarray) and value.dtype.name in ("float32", "float16", "bfloat16")
    return value.astype(np.float64) if narrow else value


def widened(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with double in place of float, float16 and bfloat16.

    Raises:
        InvalidModelError: an operator has no such form.
    """
    found = onnx.inliner.inline_local_functions(proto) if proto.functions else _copy(proto)
    typed = _Types(found)
    versions = {item.domain: item.version for item in found.opset_import}
    _widen_graph(found.graph, versions, typed)
    found.ClearField("functions")
    return found


def _copy(proto: onnx.ModelProto) -> onnx.ModelProto:
    found = onnx.ModelProto()
    found.CopyFrom(proto)
    return found


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
            for attribute in node.attribute:
                for inner in (attribute.g, *attribute.graphs) if attribute.type in _GRAPHS else ():
                    self._read(inner)

    def fresh(self, name: str) -> str:
        self._count += 1
        return f"{name}/wide{self._count}"


_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


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
        elif attribute.type in _GRAPHS:
            for inner in (attribute.g, *attribute.graphs):
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
                raise InvalidModelError(f"the type of {name!r} is not known")
            node.output[place] = typed.fresh(name)
            casts.append(onnx.helper.make_node("Cast", [node.output[place]], [name], to=TensorProto.DOUBLE))
    yield node
    yield from casts


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
    """A model run in pieces: as many nodes at once as onnxruntime has kernels for, single nodes where it has none."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._nodes = list(model.graph.node)
        self._constants = {item.name: item for item in model.graph.initializer}
        self._sessions: dict[tuple[str, int], Session] = {}

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        values = {**{name: onnx.numpy_helper.to_array(item) for name, item in self._constants.items()}, **feeds}
        self._run(self._nodes, values)
        return [values[item.name] for item in self._model.graph.output]

    def _run(self, nodes: list[onnx.NodeProto], values: dict[str, Any]) -> None:
        if not nodes:
            return
        session = self._session(nodes, values)
        given = {name: values[name] for name in session.input_names}
        if session.backend == "onnxruntime":
            values.update(zip(session.output_names, session.run(given), strict=True))
        elif len(nodes) == 1:
            if _products(nodes[0].op_type, given) > _PRODUCTS:
                raise InvalidModelError(f"{nodes[0].op_type} has no kernel for float64 and is too large without")
            values.update(zip(session.output_names, session.run(given), strict=True))
        else:
            found = re.search(r"implementation for (?:[\w.]+[:.])?(\w+)\(\d+\)", session.fallback_reason)
            missing = found[1] if found is not None else ""
            for piece in _around(nodes, missing):
                self._run(piece, values)

    def _session(self, nodes: list[onnx.NodeProto], values: Mapping[str, Any]) -> Session:
        """Takes what the nodes read, gives all that they make."""
        key = (next(name for name in nodes[0].output if name), len(nodes))
        if key not in self._sessions:
            made = {name for node in nodes for name in node.output if name}
            read = dict.fromkeys(name for node in nodes for name in _read(node) if name and name not in made)
            graph = onnx.helper.make_graph(
                nodes,
                "piece",
                [_info(name, values[name]) for name in read if name not in self._constants],
                [onnx.ValueInfoProto(name=name) for name in made],
                [self._constants[name] for name in read if name in self._constants],
            )
            imports, version = self._model.opset_import, self._model.ir_version
            model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=version)
            self._sessions[key] = Session(model, optimize=False)
        return self._sessions[key]


def _around(nodes: list[onnx.NodeProto], missing: str) -> Iterator[list[onnx.NodeProto]]:
    """The nodes cut around those of an operator; in two halves where there is none of it."""
    if not any(node.op_type == missing for node in nodes):
        yield from (nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :])
        return
    current: list[onnx.NodeProto] = []
    for node in nodes:
        if node.op_type == missing:
            yield from (current, [node])
            current = []
        else:
            current.append(node)
    yield current


def _info(name: str, value: Any) -> onnx.ValueInfoProto:
    if isinstance(value, list):
        item = _info(name, value[0]) if value else onnx.helper.make_tensor_value_info(name, TensorProto.DOUBLE, None)
        return onnx.helper.make_value_info(name, onnx.helper.make_sequence_type_proto(item.type))
    array = np.asarray(value)
    kind = TensorProto.STRING if array.dtype == object else onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, None)


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads, values that its bodies capture included."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs) if attribute.type in _GRAPHS else ():
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
