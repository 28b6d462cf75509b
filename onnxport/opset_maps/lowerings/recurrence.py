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


@dataclass(frozen=True)
class ProjectedLstm:
    """An LSTM whose output and recurrent state are a projection of its hidden state, gates in ONNX's order, both by direction.

    ONNX's LSTM has no projection: with R' = R P it computes the hidden states m of the same recurrence, and h = P m. An initial
    h, which is no projection of an m, enters at a sequence's first step as further inputs whose weights are R.

    Attributes:
        weights: W, [4 * hidden, inputs].
        recurrences: R, [4 * hidden, projected].
        projections: P, [projected, hidden].
        biases: [directions, 8 * hidden]; None for zeros.
        hidden: the size of the hidden state.
    """

    weights: Sequence[ir.Value]
    recurrences: Sequence[ir.Value]
    projections: Sequence[ir.Value]
    biases: ir.Value | None
    hidden: int

    def write(
        self, op: OpBuilder, x: ir.Value, h: ir.Value, c: ir.Value, lengths: ir.Value | None
    ) -> tuple[ir.Value, ...]:
        """[time, directions, batch, projected] and the last states of `x`, time first, from the initial `h` and `c`."""
        directions, weights = len(self.weights), list(self.weights)
        if not _is_zeros(op, h):
            x, weights = self._with_initial(op, x, h, lengths)
        pairs = zip(self.recurrences, self.projections, strict=True)
        steps, last, cells = op.LSTM(
            x,
            stacked(op, weights),
            stacked(op, [op.MatMul(recurrence, projection) for recurrence, projection in pairs]),
            self.biases,
            lengths,
            None,
            c,
            hidden_size=self.hidden,
            direction="bidirectional" if directions == 2 else "forward",
            outputs=3,
        )
        across = stacked(op, [op.Transpose(projection, perm=[1, 0]) for projection in self.projections])
        return op.MatMul(steps, across), op.MatMul(last, across), cells

    def _with_initial(
        self, op: OpBuilder, x: ir.Value, h: ir.Value, lengths: ir.Value | None
    ) -> tuple[ir.Value, list[ir.Value]]:
        """`x` with the initial states at each sequence's first step, backwards its last one, and the weights of both."""
        count = op.Squeeze(op.dim(x, 0), op.axes(0))
        step = op.Unsqueeze(op.Range(0, count, 1), op.axes(1))
        ends = count if lengths is None else op.Cast(lengths, to=ir.DataType.INT64)
        firsts = [op.const(0), op.Sub(ends, 1)][: len(self.weights)]
        states = op.split(h, [1] * len(firsts), 0)
        given = [
            op.Where(op.Unsqueeze(op.Equal(step, first), op.axes(2)), state, op.const(0.0, x.dtype))
            for first, state in zip(firsts, states, strict=True)
        ]
        none = [op.Mul(recurrence, op.const(0.0, x.dtype)) for recurrence in self.recurrences]
        weights = [
            op.Concat(weight, *(self.recurrences[i] if i == j else none[i] for j in range(len(firsts))), axis=1)
            for i, weight in enumerate(self.weights)
        ]
        return op.Concat(x, *given, axis=2), weights


def stacked(op: OpBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    """The directions' matrices as one tensor."""
    stacked = [op.Unsqueeze(item, op.axes(0)) for item in parts]
    return stacked[0] if len(stacked) == 1 else op.Concat(*stacked, axis=0)


def _is_zeros(op: OpBuilder, x: ir.Value) -> bool:
    """Whether `x` is known to hold zeros alone."""
    node = x.producer()
    while node is not None and node.op_type in ("Slice", "Expand") and node.inputs[0] is not None:
        x, node = node.inputs[0], node.inputs[0].producer()
    array = op.constant(x)
    return array is not None and not array.any()
