"""A block: the nodes of one call of a module as a function sees them, and what two blocks must have in common to be one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import onnx_ir as ir

from onnxport.graph.bodies import bodies
from onnxport.graph.scopes import Scope
from onnxport.graph.segments import values_read

_LARGEST_CONSTANT = (
    1024  # bytes of a constant that stands in the function itself, where kernels look for shapes and axes
)


@dataclass(frozen=True)
class Block:
    """Nodes in order, and the values that cross their border."""

    scope: Scope
    nodes: tuple[ir.Node, ...]
    inputs: tuple[ir.Value, ...]  # values in the order in which they are read first, weights behind the others
    constants: tuple[ir.Value, ...]  # initializers that are part of the block
    outputs: tuple[ir.Value, ...]

    @cached_property
    def values(self) -> tuple[ir.Value, ...]:
        """All that the block reads and computes, in an order that equal blocks have in common."""
        return (*self.inputs, *(value for node in self.nodes for value in _computed(node)))

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What equal blocks have in common: all but names and sizes."""
        numbers: dict[ir.Value, object] = {value: index for index, value in enumerate(self.inputs)}
        numbers.update({value: _content(value) for value in self.constants})
        nodes = tuple(_described(node, numbers) for node in self.nodes)
        kinds = tuple(str(value.type) for value in self.inputs)
        return (self.scope.kind, kinds, nodes, tuple(numbers[value] for value in self.outputs))


def block_of(
    scope: Scope,
    nodes: Sequence[ir.Node],
    readers: Mapping[ir.Value, Collection[ir.Node]],
    *,
    parameters: Collection[str | None],
) -> Block:
    """The block of some nodes of a graph; `readers` has the nodes that read a value, the graph's own results included.

    A small initializer that is none of the `parameters` is part of the block.
    """
    members, own = set(nodes), {value for node in nodes for value in node.outputs}
    outputs = [
        value
        for node in nodes
        for value in node.outputs
        if value.is_graph_output() or any(reader not in members for reader in readers.get(value, ()))
    ]
    read = dict.fromkeys(value for node in nodes for value in values_read(node) if value not in own)
    constants = [value for value in read if _is_constant(value, parameters)]
    weights = [value for value in read if value.is_initializer() and value not in constants]
    others = [value for value in read if not value.is_initializer()]
    return Block(scope, tuple(nodes), (*others, *weights), tuple(constants), tuple(outputs))


def nested_nodes(node: ir.Node) -> Iterator[ir.Node]:
    """A node and those of the graphs that it holds."""
    yield node
    for body in bodies(node):
        for inner in body:
            yield from nested_nodes(inner)


def _is_constant(value: ir.Value, parameters: Collection[str | None]) -> bool:
    tensor = value.const_value
    if tensor is None or not value.is_initializer() or value.name in parameters:
        return False
    return tensor.dtype == ir.DataType.STRING or tensor.nbytes <= _LARGEST_CONSTANT


def _computed(node: ir.Node) -> Iterator[ir.Value]:
    yield from node.outputs
    for body in bodies(node):
        yield from body.inputs
        for inner in body:
            yield from _computed(inner)


def _content(value: ir.Value) -> object:
    tensor = value.const_value
    assert tensor is not None
    array = tensor.numpy()
    content = tuple(array.ravel()) if tensor.dtype == ir.DataType.STRING else array.tobytes()
    return (tensor.dtype, tuple(array.shape), content)


def _described(node: ir.Node, numbers: dict[ir.Value, object]) -> tuple[Any, ...]:
    """A node without names; its results get the next numbers."""
    inputs = tuple(None if value is None else numbers.get(value) for value in node.inputs)
    attributes = tuple(_attribute(node.attributes[name], numbers) for name in sorted(node.attributes))
    for value in node.outputs:
        numbers[value] = len(numbers)
    return (node.op_identifier(), inputs, tuple(bool(value.name) for value in node.outputs), attributes)


def _attribute(item: ir.Attr, numbers: dict[ir.Value, object]) -> tuple[Any, ...]:
    if item.is_ref():
        return (item.name, "reference", item.ref_attr_name)
    if item.type == ir.AttributeType.GRAPH:
        return (item.name, _graph(item.as_graph(), numbers))
    if item.type == ir.AttributeType.GRAPHS:
        return (item.name, tuple(_graph(graph, numbers) for graph in item.as_graphs()))
    return (item.name, ir.serde.serialize_attribute(item).SerializeToString(deterministic=True))


def _graph(graph: ir.Graph, numbers: dict[ir.Value, object]) -> tuple[Any, ...]:
    for value in graph.inputs:
        numbers[value] = len(numbers)
    numbers.update({value: _content(value) for value in graph.initializers.values()})
    kinds = tuple(str(value.type) for value in graph.inputs)
    nodes = tuple(_described(node, numbers) for node in graph)
    return (kinds, nodes, tuple(numbers.get(value) for value in graph.outputs))
