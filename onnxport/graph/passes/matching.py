"""Reading a graph backwards: what computed a value, as passes that recognise operators ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from onnxport.graph.bodies import every_node

_FEW = 64


def arithmetic_nodes(model: ir.Model, *op_types: str) -> list[ir.Node]:
    """The nodes of these operators in all graphs of a model."""
    return [node for node in every_node(model.graph) if node.op_type in op_types and node.domain == ""]


def producer(value: ir.Value | None, *op_types: str) -> ir.Node | None:
    """The node that computes a value, where it is one of these operators."""
    node = value.producer() if value is not None else None
    return node if node is not None and node.op_type in op_types and node.domain == "" else None


def factors_of(node: ir.Node | None) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The two operands of a commutative node, both ways round; none of none."""
    if node is None:
        return
    a, b = node.inputs
    if a is not None and b is not None:
        yield a, b
        yield b, a


def scalar(value: ir.Value | None) -> float | None:
    """The number of a constant of one element."""
    tensor = value.const_value if value is not None else None
    if value is None or tensor is None or tensor.size != 1 or not value.is_initializer():
        return None
    return float(tensor.numpy().reshape(()))


def small_numbers(value: ir.Value | None) -> list[int] | None:
    """The whole numbers of a small constant."""
    tensor = value.const_value if value is not None else None
    if value is None or tensor is None or not value.is_initializer() or tensor.size > _FEW:
        return None
    return [int(item) for item in tensor.numpy().ravel()]


def without_reshape(value: ir.Value) -> ir.Value | None:
    """What a value is a reshape of."""
    node = producer(value, "Reshape", "Unsqueeze")
    return node.inputs[0] if node is not None else None


def equal_sizes(ours: Sequence[int | ir.SymbolicDim], others: Sequence[int | ir.SymbolicDim]) -> bool:
    """Whether two shapes of as many elements surely agree: but for one axis at most both are known and equal.

    >>> equal_sizes([ir.SymbolicDim("n"), 3], [2, 3]), equal_sizes([ir.SymbolicDim("n"), 3], [3, ir.SymbolicDim("n")])
    (True, False)
    """
    pairs = list(zip(ours, others, strict=True))
    known = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
    return len(known) >= len(pairs) - 1 and all(a == b and a != 0 for a, b in known)
