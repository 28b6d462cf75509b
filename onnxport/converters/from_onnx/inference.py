"""The types and shapes of a model's values, as ONNX's inference gives them within its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager

import onnx
import onnx_ir as ir

from onnxport.converters.from_onnx.inference_cost import InferenceCost, inference_cost
from onnxport.errors import InvalidModelError
from onnxport.graph.bodies import bodies
from onnxport.graph.guard.requests import with_shapes
from onnxport.graph.protos import has_map, to_proto
from onnxport.graph.settled import settled_sizes

# Weights up to this size are part of the model that type inference sees, so that it can follow shapes held in them.
_INFERENCE_ELEMENTS = 1 << 10


def inferred(model: ir.Model) -> ir.Model:
    """A copy of the model, its weights shared, with the types and shapes that ONNX's inference finds."""
    copy = model.clone()
    infer(copy)
    return copy


def infer(model: ir.Model) -> None:
    """Gives the model's values the types and shapes that ONNX's inference finds, and sizes of inputs that weights settle.

    Raises:
        InvalidModelError: an initializer has no content.
    """
    empty = [name for name, value in model.graph.initializers.items() if value.const_value is None]
    if empty:
        raise InvalidModelError(f"the initializer {empty[0]!r} has no content")
    if _is_complete(model.graph):
        return
    cost = inference_cost(model)
    if not cost.bearable:
        return
    _infer(model, cost)
    if _settle_sizes(model.graph):
        _infer(model, cost)


def _is_complete(graph: ir.Graph) -> bool:
    """Whether all values have types and sizes that inference can add nothing to: numbers, or the names of inputs' sizes."""
    names: set[str | None] = set()
    for value in graph.inputs:
        if value.type is None or value.shape is None:
            return False
        names.update(size.value for size in value.shape if not isinstance(size, int))
    names.discard(None)
    return all(_is_known(node, names) for node in graph) and not settled_sizes(graph)


def _is_known(node: ir.Node, names: Set[str | None]) -> bool:
    """Whether a node holds no graphs, and its outputs have types and sizes that are numbers or of `names`."""
    return not bodies(node) and all(
        value.type is not None
        and value.shape is not None
        and all(isinstance(size, int) or size.value in names for size in value.shape)
        for value in node.outputs
        if value.name
    )


def _settle_sizes(graph: ir.Graph) -> bool:
    """Gives inputs the sizes that weights leave them; whether there are any."""
    settled = settled_sizes(graph)
    for value in graph.inputs if settled else ():
        if value.shape is not None:
            value.shape = ir.Shape([_settled(size, settled) for size in value.shape])
    return bool(settled)


def _settled(size: int | ir.SymbolicDim, settled: Mapping[str, int]) -> int | ir.SymbolicDim:
    return size if isinstance(size, int) or size.value is None else settled.get(size.value, size)


def _infer(model: ir.Model, cost: InferenceCost) -> None:
    try:
        with _without_large_weights(model.graph):
            light = to_proto(model)
        proto = with_shapes(light, contents=cost.contents_bearable)
    except Exception:  # inference raises errors of many types on models that run; what it would tell is then missing
        return
    for mine, theirs in zip(_graphs(model), _proto_graphs(proto.graph), strict=True):
        types = {item.name: item.type for item in (*theirs.value_info, *theirs.output, *theirs.input)}
        for value in (*mine.inputs, *(value for node in mine for value in node.outputs)):
            known = types.get(value.name or "")
            if known is None or not value.name or has_map(known) or known.WhichOneof("value") is None:
                continue
            if value.type is None:
                value.type = ir.serde.deserialize_type_proto_for_type(known)
            shape = ir.serde.deserialize_type_proto_for_shape(known)
            value.shape = shape if shape is not None else value.shape


@contextmanager
def _without_large_weights(graph: ir.Graph) -> Iterator[None]:
    """In the block large weights are inputs of their types and shapes."""
    initializers = dict(graph.initializers)
    large = [
        (value, value.type, value.shape, value.const_value)
        for value in initializers.values()
        if value.const_value is not None and value.const_value.size > _INFERENCE_ELEMENTS
    ]
    inputs = list(graph.inputs)
    given = set(inputs)
    try:
        for value, _, _, tensor in large:
            value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
            graph.initializers.pop(value.name or "")
        graph.inputs.extend(value for value, *_ in large if value not in given)
        yield
    finally:
        del graph.inputs[len(inputs) :]
        graph.initializers.clear()
        for value, kind, shape, _ in large:
            value.type, value.shape = kind, shape
        graph.initializers.update(initializers)


def _proto_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """In the order of `_graphs`."""
    stack = [graph]
    while stack:
        graph = stack.pop()
        yield graph
        for node in graph.node:
            for item in node.attribute:
                if item.type == onnx.AttributeProto.GRAPH:
                    stack.append(item.g)
                elif item.type == onnx.AttributeProto.GRAPHS:
                    stack.extend(item.graphs)


def _graphs(model: ir.Model) -> Iterator[ir.Graph]:
    stack = [model.graph]
    while stack:
        graph = stack.pop()
        yield graph
        for node in graph:
            stack.extend(bodies(node))
