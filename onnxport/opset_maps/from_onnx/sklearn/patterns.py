"""Shapes of sub-graphs, written as expressions, and where a value of a graph has one.

A shape names what it binds: `Rows` a value that varies, `Constant` an array that the file holds. A name that stands twice in a
shape is the same value both times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import onnx_ir as ir

Bound = Mapping[str, Any]  # what a shape's names stand for: values of the graph and arrays
_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
_COMMUTES = frozenset(("Add", "Mul", "Sum"))
# Functions of constants that a file may hold unfolded.
_FOLDED: dict[str, Callable[..., Any]] = {
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Log": np.log,
    "Transpose": np.transpose,
    "Identity": np.asarray,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
}


@dataclass(frozen=True)
class Rows:
    """A value that varies with the rows."""

    name: str = "rows"


@dataclass(frozen=True)
class Constant:
    """An array that the file holds, or a function of one."""

    name: str


@dataclass(frozen=True)
class Number:
    """A constant of this number alone."""

    value: float


@dataclass(frozen=True)
class Op:
    """What an operator gives for its first inputs; inputs beyond those are constants, as axes are."""

    op_type: str
    inputs: tuple[Shape, ...]
    name: str = ""  # by which the shape's value is bound, where the shape needs it again


Shape = Rows | Constant | Number | Op


def op(op_type: str, *inputs: Shape, name: str = "") -> Op:
    """A shape of an operator."""
    return Op(op_type, inputs, name)


def matched(shape: Shape, value: ir.Value | None) -> Bound | None:
    """What the names of a shape stand for where a value has it; None where it has another."""
    return next(_matches(shape, value, {}), None) if value is not None else None


def matched_all(shapes: Sequence[Shape], values: Sequence[ir.Value]) -> Bound | None:
    """The same for several values, whose shapes share their names."""
    matches: Iterator[Bound] = iter([{}])
    for shape, value in zip(shapes, values, strict=True):
        matches = _each(shape, value, matches)
    return next(matches, None)


def _each(shape: Shape, value: ir.Value | None, before: Iterator[Bound]) -> Iterator[Bound]:
    for bound in before:
        yield from _matches(shape, value, bound)


def _matches(shape: Shape, value: ir.Value | None, bound: Bound) -> Iterator[Bound]:
    if value is None:
        return
    match shape:
        case Constant(name):
            array = constant_of(value)
            if array is not None and (name not in bound or np.array_equal(bound[name], array)):
                yield {**bound, name: array}
        case Number(number):
            array = constant_of(value)
            if array is not None and array.size and np.isclose(array.astype(np.float64), number).all():
                yield bound
        case Rows(name):
            here = carried(value)
            if constant_of(here) is None and bound.get(name, here) is here:
                yield {**bound, name: here}
        case Op():
            yield from _operators(shape, carried(value), bound)


def _operators(shape: Op, value: ir.Value, bound: Bound) -> Iterator[Bound]:
    node = value.producer()
    if node is None or node.op_type != shape.op_type or len(node.inputs) < len(shape.inputs):
        return
    if shape.name and bound.get(shape.name, value) is not value:
        return
    count = len(shape.inputs)
    if any(item is not None and constant_of(item) is None for item in node.inputs[count:]):
        return
    swaps = shape.op_type in _COMMUTES and count == 2
    for inputs in permutations(node.inputs[:count]) if swaps else (tuple(node.inputs[:count]),):
        matches: Iterator[Bound] = iter([{**bound, shape.name: value} if shape.name else bound])
        for part, item in zip(shape.inputs, inputs, strict=True):
            matches = _each(part, item, matches)
        yield from matches


def constant_of(value: ir.Value | None) -> np.ndarray | None:
    """The array of a constant, or of a simple function of one; None where the value varies."""
    if value is None:
        return None
    if value.const_value is not None:
        return value.const_value.numpy()
    node = value.producer()
    if node is None:
        return None
    if node.op_type == "Constant" and "value" in node.attributes:
        return np.asarray(node.attributes["value"].value.numpy())
    if node.op_type == "Concat":
        parts = [constant_of(item) for item in node.inputs]
        known = [part for part in parts if part is not None]
        return np.concatenate(known, int(attribute(node, "axis"))) if len(known) == len(parts) else None
    if node.op_type == "ReduceSum":
        return _summed(node)
    function = _FOLDED.get(node.op_type)
    arrays = [constant_of(item) for item in node.inputs] if function is not None else [None]
    if function is None or any(array is None for array in arrays):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(function(*arrays))


def _summed(node: ir.Node) -> np.ndarray | None:
    """The sum of a constant along axes that may be an attribute or an input."""
    array = constant_of(node.inputs[0])
    listed = constant_of(node.inputs[1]) if len(node.inputs) > 1 else attribute(node, "axes")
    if array is None:
        return None
    axes = None if listed is None else tuple(int(axis) for axis in listed)
    return np.asarray(np.sum(array, axis=axes, keepdims=bool(attribute(node, "keepdims", 1))))


def attribute(node: ir.Node, name: str, default: Any = None) -> Any:
    """An attribute of a node."""
    item = node.attributes.get(name)
    return default if item is None else item.value


def carried(value: ir.Value) -> ir.Value:
    """The value that is handed on: before Identity, a change of the floating-point type, and a form of rows and columns."""
    node = value.producer()
    while node is not None and node.inputs and node.inputs[0] is not None and _hands_on(node):
        value = node.inputs[0]
        node = value.producer()
    return value


def _hands_on(node: ir.Node) -> bool:
    match node.op_type:
        case "Identity" | "Squeeze" | "ZipMap":
            return True
        case "Cast":
            return attribute(node, "to") in _FLOATS
        case "Flatten":
            return int(attribute(node, "axis", 1)) == 1
        case "Reshape":
            sizes = constant_of(node.inputs[1])
            return sizes is not None and 1 <= len(sizes) <= 2 and int(sizes[0]) == -1
    return False


def label_of(value: ir.Value) -> ir.Value:
    """The labels that are handed on, in any type."""
    here = carried(value)
    node = here.producer()
    while node is not None and node.op_type == "Cast" and node.inputs[0] is not None:
        here = carried(node.inputs[0])
        node = here.producer()
    return here
