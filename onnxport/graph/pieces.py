"""Running a model whose weights do not fit in memory: piece by piece in onnxruntime, each with its own weights alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.graph.segments import values_read

_EMBEDDED = 1024  # bytes up to which a weight stands in the piece itself, where kernels look for shapes and axes
_DEFAULT_BOUND = 64 << 20
_WIDENINGS = frozenset(
    [
        ("bfloat16", "float32"),
        ("float16", "float32"),
        *((name, "float64") for name in ("bfloat16", "float16", "float32")),
    ]
)


@dataclass(frozen=True)
class _Piece:
    nodes: tuple[ir.Node, ...]
    weights: tuple[ir.Value, ...]
    inputs: tuple[ir.Value, ...]  # results of earlier pieces and inputs of the graph
    outputs: tuple[ir.Value, ...]  # what later pieces or the user need


def run_in_pieces(
    model: ir.Model, feeds: Mapping[str, np.ndarray], *, bound: int = _DEFAULT_BOUND
) -> dict[str, np.ndarray]:
    """The outputs of a model by name; a piece ends once its weights take `bound` bytes.

    A weight is in memory while its piece runs, or what the piece makes of it by a wider type and another order of axes.
    """
    graph = model.graph
    values: dict[str, Any] = {name: _as_value(array) for name, array in feeds.items()}
    pieces = list(_pieces(graph, bound))
    last: dict[str, int] = {}
    for index, piece in enumerate(pieces):
        last.update({value.name or "": index for value in piece.inputs})
    kept = {value.name or "" for value in graph.outputs}
    for index, piece in enumerate(pieces):
        values.update(_run(model, piece, values))
        for name in [name for name, until in last.items() if until == index and name not in kept]:
            values.pop(name, None)
    return {value.name or "": _result(value, values) for value in graph.outputs}


def _result(value: ir.Value, values: Mapping[str, Any]) -> np.ndarray:
    if value.const_value is not None:
        return np.asarray(value.const_value.numpy())
    return _as_array(values[value.name or ""])


def _pieces(graph: ir.Graph, bound: int) -> Iterator[_Piece]:
    """The nodes in order, cut where enough weights have come together."""
    groups: list[list[ir.Node]] = [[]]
    held: dict[ir.Value, None] = {}
    for node in graph:
        large = [value for value in values_read(node) if _nbytes(value) > _EMBEDDED and _is_weight(value)]
        # Only another weight begins a piece: what is computed from one alone, as its cast, does not go from piece to piece.
        if groups[-1] and any(value not in held for value in large) and sum(map(_nbytes, held)) >= bound:
            groups.append([])
            held.clear()
        groups[-1].append(node)
        held.update(dict.fromkeys(large))
    places = {value: i for i, nodes in enumerate(groups) for node in nodes for value in node.outputs}
    needed: dict[ir.Value, int] = dict.fromkeys(graph.outputs, len(groups))
    for i, nodes in enumerate(groups):
        for node in nodes:
            for value in values_read(node):
                needed[value] = max(needed.get(value, i), i)
    for i, nodes in enumerate(groups):
        read = dict.fromkeys(value for node in nodes for value in values_read(node))
        weights = [value for value in read if _is_weight(value)]
        inputs = [value for value in read if not _is_weight(value) and places.get(value) != i]
        results = [value for node in nodes for value in node.outputs if value.name and needed.get(value, -1) > i]
        if results:
            yield _Piece(tuple(nodes), tuple(weights), tuple(inputs), tuple(results))


def _is_weight(value: ir.Value) -> bool:
    return value.const_value is not None and value.producer() is None


def _nbytes(value: ir.Value) -> int:
    return 0 if value.const_value is None else int(value.const_value.nbytes)


def _run(model: ir.Model, piece: _Piece, values: Mapping[str, Any]) -> dict[str, Any]:
    import onnxruntime as ort

    small = [value for value in piece.weights if _nbytes(value) <= _EMBEDDED]
    large = [value for value in piece.weights if _nbytes(value) > _EMBEDDED]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.intra_op_num_threads = 1  # each further thread reserves address space, which may be bounded
    ready = _prepared(piece, large)
    done = {item.node for item in ready}
    piece = replace(piece, nodes=tuple(node for node in piece.nodes if node not in done))
    read = {value for node in piece.nodes for value in values_read(node)}
    given = [value for value in large if value in read or value in piece.outputs]
    wanted = [item for item in ready if item.value in read]
    proto = _proto(model, piece, small, [*piece.inputs, *given, *(item.value for item in wanted)])
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {value.name or "": values[value.name or ""] for value in piece.inputs}
    feeds |= {
        value.name or "": _as_value(value.const_value.numpy()) for value in given if value.const_value is not None
    }
    feeds |= {item.value.name or "": _as_value(item.array()) for item in wanted}
    names = [value.name or "" for value in piece.outputs]
    return dict(zip(names, session.run_with_ort_values(names, feeds), strict=True))


@dataclass(frozen=True)
class _Prepared:
    """What a node makes of a weight alone: its numbers in a wider type, in another order of axes."""

    node: ir.Node
    value: ir.Value
    weight: ir.Value
    axes: tuple[int, ...]
    dtype: np.dtype

    def array(self) -> np.ndarray:
        """The numbers; the weight itself is let go of."""
        assert self.weight.const_value is not None
        return self.weight.const_value.numpy().transpose(self.axes).astype(self.dtype, order="C")


def _prepared(piece: _Piece, large: Sequence[ir.Value]) -> list[_Prepared]:
    """What the piece's Cast and Transpose nodes make of large weights, and nobody needs behind the piece.

    In onnxruntime each such step would stand in memory beside the weight.
    """
    known: dict[ir.Value, _Prepared] = {}
    for node in piece.nodes:
        source, result = (node.inputs[0] if node.inputs else None), node.outputs[0]
        if node.domain or node.op_type not in ("Cast", "Transpose") or source is None:
            continue
        if result in piece.outputs or result.type is None:
            continue
        before = known.get(source)
        if before is None and (source not in large or source.const_value is None):
            continue
        weight = source if before is None else before.weight
        assert weight.const_value is not None
        rank = len(weight.const_value.shape)
        axes = tuple(range(rank)) if before is None else before.axes
        dtype = weight.const_value.dtype.numpy() if before is None else before.dtype
        if node.op_type == "Transpose":
            order = node.attributes.get_ints("perm", list(reversed(range(rank))))
            axes = tuple(axes[axis] for axis in order)
        else:
            wider = ir.DataType(node.attributes.get_int("to")).numpy()
            if (dtype.name, wider.name) not in _WIDENINGS:
                continue
            dtype = wider
        known[result] = _Prepared(node, result, weight, axes, dtype)
    return list(known.values())


def _proto(model: ir.Model, piece: _Piece, small: Sequence[ir.Value], inputs: Sequence[ir.Value]) -> onnx.ModelProto:
    infos = [ir.serde.serialize_value(value) for value in inputs]
    for info in infos:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    weights = [ir.serde.serialize_tensor(value.const_value) for value in small if value.const_value is not None]
    for tensor, value in zip(weights, small, strict=True):
        tensor.name = value.name or ""
    nodes = [ir.serde.serialize_node(node) for node in piece.nodes]
    results = [onnx.ValueInfoProto(name=value.name or "") for value in piece.outputs]
    graph = onnx.helper.make_graph(nodes, "piece", infos, results, weights)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in model.graph.opset_imports.items()]
    functions = [ir.serde.serialize_function(function) for function in model.functions.values()]
    return onnx.helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=model.ir_version)


def _as_value(array: np.ndarray) -> Any:
    """An array as onnxruntime's own value, whatever its element type; its memory is shared where the type is NumPy's."""
    import onnxruntime as ort

    if array.dtype.isbuiltin == 1:
        return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
    bits = np.ascontiguousarray(array).view(np.uint8 if array.dtype.itemsize == 1 else np.uint16)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, ir.DataType.from_numpy(array.dtype).value)


def _as_array(value: Any) -> np.ndarray:
    """The other way round."""
    import ctypes

    kind = ir.DataType(value.element_type())
    if kind.numpy().isbuiltin == 1:
        return np.asarray(value.numpy())
    shape = tuple(value.shape())
    memory = ctypes.string_at(value.data_ptr(), math.prod(shape) * kind.numpy().itemsize)
    return np.frombuffer(memory, kind.numpy()).reshape(shape).copy()
