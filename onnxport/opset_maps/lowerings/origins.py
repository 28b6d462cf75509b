"""Where values come from: numbers that are constants, and what stands behind casts and identities."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder


def number(op: OpBuilder, x: ir.Value | None) -> int | float | None:
    """The number that `x` is a constant of; None where it is no constant, or one of several elements or of text."""
    known = op.constant(x)
    return known.item() if known is not None and known.size == 1 and known.dtype.kind in "biuf" else None


def behind(x: ir.Value, *operators: str) -> ir.Value:
    """The value that `x` is computed from by these operators alone, over any number of nodes, as their first operand."""
    while (node := x.producer()) is not None and node.op_type in operators and node.inputs[0] is not None:
        x = node.inputs[0]
    return x


def operand_pairs(node: ir.Node | None) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Both orders of the operands of a node with two; nothing without a node."""
    a, b = node.inputs if node is not None else (None, None)
    if a is not None and b is not None:
        yield a, b
        yield b, a


def is_successor(op: OpBuilder, after: ir.Value, before: ir.Value) -> bool:
    """Whether `after` is computed as before + 1."""
    node = after.producer()
    adds = node if node is not None and node.op_type == "Add" else None
    return any(value is before and number(op, step) == 1 for value, step in operand_pairs(adds))
