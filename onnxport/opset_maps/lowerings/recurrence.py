"""Recurrent cells, and the operators LSTM, GRU and RNN that hold their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder


@dataclass(frozen=True)
class Cell:
    """A recognised cell: the operator, its weights in ONNX's shapes but not yet its gate order, and its states.

    Attributes:
        operator: ``"LSTM"``, ``"GRU"`` or ``"RNN"``.
        x: the sequence, time first.
        weight: [inputs, gates * hidden].
        recurrence: [hidden, gates * hidden].
        biases: input bias and recurrent bias, [gates * hidden] each; None for zeros.
        order: which gate of the weights comes first, second, ... in ONNX.
        activations: names, in ONNX's order.
        states: positions of h, and of c for an LSTM, among the loop's states.
        linear_before_reset: GRU's attribute.
    """

    operator: str
    x: ir.Value
    weight: ir.Value
    recurrence: ir.Value
    biases: tuple[ir.Value | None, ir.Value | None]
    order: tuple[int, ...]
    activations: tuple[str, ...]
    states: tuple[int, ...]
    linear_before_reset: bool = False

    @property
    def hidden(self) -> int | None:
        """The size of the state; None where it is dynamic."""
        size = self.recurrence.shape[0] if self.recurrence.shape is not None else None
        return size if isinstance(size, int) else None


Weights = tuple[ir.Value, ir.Value, ir.Value | None]


def cell_weights(op: OpBuilder, cell: Cell, lift: Callable[[ir.Value], ir.Value]) -> Weights:
    """W, R and B as the operator takes them: [1, gates * hidden, inputs], gates in ONNX's order; B None where it is zero.

    Args:
        op: the builder.
        cell: the cell, its hidden size static.
        lift: gives a weight outside of the loop.
    """
    weight, recurrence = (
        op.Unsqueeze(op.Transpose(ordered_gates(op, lift(item), cell.order, 1), perm=[1, 0]), [0])
        for item in (cell.weight, cell.recurrence)
    )
    biases = [ordered_gates(op, lift(item), cell.order, 0) if item is not None else None for item in cell.biases]
    if all(item is None for item in biases):
        return weight, recurrence, None
    zeros = op.const(np.zeros(len(cell.order) * (cell.hidden or 0)), cell.recurrence.dtype or ir.DataType.FLOAT)
    return (
        weight,
        recurrence,
        op.Unsqueeze(op.Concat(*(item if item is not None else zeros for item in biases), axis=0), [0]),
    )


def write_cell(
    op: OpBuilder, cell: Cell, x: ir.Value, weights: Weights, initial: Sequence[ir.Value]
) -> tuple[ir.Value, ...]:
    """The results of the operator over `x`, time first: [time, 1, batch, hidden] and each last state [1, batch, hidden]."""
    results: tuple[ir.Value, ...] = op.node(
        cell.operator,
        x,
        *weights,
        None,
        *initial,
        hidden_size=cell.hidden,
        activations=list(cell.activations),
        outputs=1 + len(initial),
        linear_before_reset=int(cell.linear_before_reset) if cell.operator == "GRU" else None,
    )
    return results


def ordered_gates(op: OpBuilder, x: ir.Value, order: Sequence[int], axis: int) -> ir.Value:
    """`x`, which holds equally many elements of each gate along `axis`, with gate `order[i]` in place i.

    Raises:
        UnsupportedOperator: the axis has a dynamic size.
    """
    if list(order) == list(range(len(order))):
        return x
    size = x.shape[axis] if x.shape is not None else None
    if not isinstance(size, int):
        raise UnsupportedOperator("a recurrent layer with weights of dynamic size")
    gates = op.split(x, [size // len(order)] * len(order), axis)
    return op.Concat(*(gates[i] for i in order), axis=axis)
