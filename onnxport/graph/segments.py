"""A part of a graph as a model of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.graph.bodies import bodies
from onnxport.graph.constants import element_type
from onnxport.graph.walks import operands_first


def segment(value: ir.Value, known: Collection[str]) -> tuple[list[ir.Node], list[ir.Value]]:
    """The nodes that compute `value` from known values and initializers, in order, and those values."""
    inputs: dict[ir.Value, None] = {}

    def producers(values: Iterable[ir.Value]) -> list[ir.Node]:
        nodes = []
        for item in values:
            producer = item.producer()
            if producer is None or item.name in known:
                inputs[item] = None
            else:
                nodes.append(producer)
        return nodes

    target = value.producer()
    nodes = operands_first([] if target is None else [target], lambda node: producers(values_read(node)))
    return nodes, list(inputs)


def values_read(node: ir.Node) -> Iterator[ir.Value]:
    """What a node reads, values that its bodies capture included."""
    yield from (value for value in node.inputs if value is not None)
    for graph in bodies(node):
        own = {*graph.inputs, *graph.initializers.values(), *(value for inner in graph for value in inner.outputs)}
        for inner in graph:
            yield from (value for value in values_read(inner) if value not in own)
        yield from (value for value in graph.outputs if value not in own)


def segment_model(
    model: ir.Model, nodes: list[ir.Node], inputs: list[ir.Value], values: list[ir.Value], feeds: Mapping[str, Any]
) -> onnx.ModelProto:
    """A model of some nodes alone, whose outputs are `values`; inputs that are not fed are constants."""
    infos = [_info(item, feeds[item.name or ""]) for item in inputs if item.name in feeds]
    weights = []
    for item in inputs:
        if item.name not in feeds and item.const_value is not None:
            weights.append(ir.serde.serialize_tensor(_in_memory(item.const_value)))
            weights[-1].name = item.name or ""
    outputs = [onnx.ValueInfoProto(name=value.name or "") for value in values]
    protos = [ir.serde.serialize_node(node) for node in nodes]
    graph = onnx.helper.make_graph(protos, "segment", infos, outputs, weights)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in model.graph.opset_imports.items()]
    functions = [ir.serde.serialize_function(function) for function in model.functions.values()]
    return onnx.helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=model.ir_version)


def _info(value: ir.Value, fed: Any) -> onnx.ValueInfoProto:
    """The declaration of an input: of the fed array's own type where an inner value is fed, without a size."""
    if isinstance(fed, np.ndarray) and value.producer() is not None:
        return onnx.helper.make_tensor_value_info(value.name or "", element_type(fed).value, None)
    info = ir.serde.serialize_value(value)
    if info.type.HasField("tensor_type"):
        info.type.tensor_type.ClearField("shape")
    return info


def _in_memory(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """A weight of a data file as one of the model itself: a part stands in no folder."""
    return ir.Tensor(tensor.numpy(), dtype=tensor.dtype) if isinstance(tensor, ir.ExternalTensor) else tensor
