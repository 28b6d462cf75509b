"""``skl2onnx.helpers.integration``: a whole graph written by a converter function."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper, numpy_helper

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx.writing import Container, Operator, Scope

__getattr__ = refusing(__name__)


def add_onnx_graph(scope: Scope, operator: Operator, container: Container, onx: onnx.ModelProto) -> None:
    """Writes the nodes of a message between the inputs and outputs of an operator, under names of their own."""
    graph = onx.graph
    names = {item.name: given.onnx_name for item, given in zip(graph.input, operator.inputs, strict=True)}
    names |= {item.name: given.onnx_name for item, given in zip(graph.output, operator.outputs, strict=True)}
    names[""] = ""

    def own(name: str) -> str:
        if name not in names:
            names[name] = scope.get_unique_variable_name(name)
        return names[name]

    for item in graph.initializer:
        array = numpy_helper.to_array(item)
        container.add_initializer(own(item.name), item.data_type, array.shape, array)
    for node in graph.node:
        attributes: dict[str, Any] = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        taken, given = ([own(name) for name in items] for items in (node.input, node.output))
        container.add_node(node.op_type, taken, given, op_domain=node.domain, **attributes)


def get_tensor_shape(obj: onnx.ValueInfoProto | onnx.TypeProto) -> tuple[int | None, ...]:
    """The sizes of a tensor, None where they vary."""
    kind = obj.type if isinstance(obj, onnx.ValueInfoProto) else obj
    return tuple(item.dim_value or None for item in kind.tensor_type.shape.dim)


def get_tensor_elem_type(obj: onnx.ValueInfoProto | onnx.TypeProto) -> int:
    """The number of a tensor's element type."""
    return (obj.type if isinstance(obj, onnx.ValueInfoProto) else obj).tensor_type.elem_type
