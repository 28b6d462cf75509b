"""How many dimensions ONNX's shape inference writes for a graph: 40 Concats of a value with itself make 2^40 of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

import onnx_ir as ir
from onnx import defs

from onnxport.graph.bodies import bodies

# Dimensions that any graph may take, and more for each node: one takes 70 bytes in onnx 1.20.
_DIMENSIONS, _DIMENSIONS_PER_NODE = 1 << 20, 16
# Operators whose result has the ranks of its operands together, less one.
_ADDING_RANKS = frozenset(("Gather", "GatherND", "OneHot"))
# Operators whose result has as many dimensions as an operand has elements.
_RANK_OF_CONTENT = frozenset(("ConstantOfShape", "Expand", "Reshape", "Tile"))


@dataclass(frozen=True)
class InferenceCost:
    """At most how many dimensions inference writes."""

    shapes: int  # for the shapes of all values
    contents: int  # for the contents of vectors, which it follows with `data_prop`
    nodes: int  # all nodes, those of functions once for each call

    @property
    def bearable(self) -> bool:
        """Whether shapes may be inferred."""
        return self.shapes <= self._allowed

    @property
    def contents_bearable(self) -> bool:
        """Whether contents may be followed too."""
        return self.shapes + self.contents <= self._allowed

    @property
    def _allowed(self) -> int:
        return _DIMENSIONS + _DIMENSIONS_PER_NODE * self.nodes


def inference_cost(model: ir.Model) -> InferenceCost:
    """What inference of a model may come to, counted along its nodes."""
    count = _Count(model)
    count.graph(model.graph, {})
    return InferenceCost(count.shapes, count.contents, count.nodes)


@dataclass(frozen=True)
class _Size:
    """A value's rank, and how many elements of it inference follows."""

    rank: int
    content: int
    real: bool = False  # it holds real numbers, which no dimensions follow from


_UNTOLD = _Size(1, 1)


class _Count:
    def __init__(self, model: ir.Model) -> None:
        self._functions = model.functions
        self.nodes = self.shapes = self.contents = 0

    def graph(self, graph: ir.Graph | ir.Function, sizes: dict[ir.Value, _Size]) -> _Size:
        """Adds a graph's values to the sums; the size of its largest output."""
        for value in graph.inputs:
            sizes.setdefault(value, _declared(value))
        if isinstance(graph, ir.Graph):
            sizes.update((value, _initial(value)) for value in graph.initializers.values())
        for node in graph:
            self._node(node, sizes)
        return _largest([sizes.get(value, _UNTOLD) for value in graph.outputs])

    def _node(self, node: ir.Node, sizes: dict[ir.Value, _Size]) -> None:
        self.nodes += 1
        given = [sizes.get(value, _UNTOLD) for value in node.inputs if value is not None]
        function = self._functions.get(node.op_identifier())
        if function is not None:
            size = self.graph(function, dict(zip(function.inputs, given, strict=False)))
        else:
            inner = [self.graph(body, sizes) for body in bodies(node)]
            size = _largest([_result(node, given), *inner])
        for value in node.outputs:
            declared = _declared(value)
            real = size.real if value.dtype is None else declared.real
            known = sizes[value] = _Size(max(size.rank, declared.rank), size.content, real)
            self.shapes += known.rank
            self.contents += known.content


def _result(node: ir.Node, given: list[_Size]) -> _Size:
    if node.op_type == "Constant":
        return _constant(node)
    largest = _largest(given)
    first, second = (*given, _UNTOLD, _UNTOLD)[:2]
    counted = _largest([item for item in given if not item.real]).content
    place = _same_type(node.domain, node.op_type)
    real = place is not None and place < len(given) and given[place].real
    if node.op_type == "Cast":
        real = ir.DataType(node.attributes.get_int("to", 0)).is_floating_point()
    if node.op_type == "Concat":
        return _Size(largest.rank, sum(item.content for item in given), real)
    if node.op_type == "Shape":
        return _Size(1, first.rank)
    if node.op_type == "Unsqueeze":
        axes = node.attributes.get("axes")
        more = second.content if axes is None or axes.is_ref() else len(axes.as_ints())
        return _Size(first.rank + more, first.content, real)
    if node.op_type in _ADDING_RANKS:
        content = second.content if node.op_type == "Gather" else largest.content
        return _Size(sum(item.rank for item in given) - 1, content, real)
    return _Size(
        max(largest.rank, counted) if node.op_type in _RANK_OF_CONTENT else largest.rank, largest.content, real
    )


@cache
def _same_type(domain: str, op_type: str) -> int | None:
    """Which operand has the type of an operator's results; None where none has, or it is not known."""
    if not defs.has(op_type, domain):
        return None
    schema = defs.get_schema(op_type, domain)
    (kind, *others) = {item.type_str for item in schema.outputs}
    return None if others else next((i for i, item in enumerate(schema.inputs) if item.type_str == kind), None)


def _largest(sizes: list[_Size]) -> _Size:
    """The rank and content of the largest; real if all are."""
    rank, content = max((item.rank for item in sizes), default=1), max((item.content for item in sizes), default=1)
    return _Size(rank, content, bool(sizes) and all(item.real for item in sizes))


def _declared(value: ir.Value) -> _Size:
    real = value.dtype is not None and value.dtype.is_floating_point()
    if value.shape is None:
        return _Size(1, 1, real)
    dims = value.shape.dims
    return _Size(len(dims), dims[0] if len(dims) == 1 and isinstance(dims[0], int) else 1, real)


def _initial(value: ir.Value) -> _Size:
    tensor = value.const_value
    return _declared(value) if tensor is None else _size_of(tensor)


def _constant(node: ir.Node) -> _Size:
    for item in node.attributes.values():
        if item.is_ref():
            continue
        if item.type == ir.AttributeType.TENSOR:
            return _size_of(item.as_tensor())
        if item.type in (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS):
            return _Size(1, len(item.value))
    return _UNTOLD


def _size_of(tensor: ir.TensorProtocol) -> _Size:
    shape = tensor.shape.numpy()
    return _Size(len(shape), prod(shape) if len(shape) <= 1 else 1, ir.DataType(tensor.dtype).is_floating_point())
