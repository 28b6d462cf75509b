"""A part of a graph as a model of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

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
    model: ir.Model, nodes: list[ir.Node], inputs: list[ir.Value], value: ir.Value, feeds: Mapping[str, np.ndarray]
) -> onnx.ModelProto:
    """A model of some nodes alone, whose output is `value`; inputs that are not fed are constants."""
    infos = [onnx.helper.make_tensor_value_info(name, element_type(array).value, None) for name, array in feeds.items()]
    weights = []
    for item in inputs:
        if item.name not in feeds and item.const_value is not None:
            weights.append(ir.serde.serialize_tensor(item.const_value))
            weights[-1].name = item.name or ""
    output = onnx.ValueInfoProto(name=value.name or "")
    protos = [ir.serde.serialize_node(node) for node in nodes]
    graph = onnx.helper.make_graph(protos, "segment", infos, [output], weights)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in model.graph.opset_imports.items()]
    functions = [ir.serde.serialize_function(function) for function in model.functions.values()]
    return onnx.helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=model.ir_version)
