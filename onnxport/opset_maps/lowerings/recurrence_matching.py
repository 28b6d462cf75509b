"""Loops that are recurrent layers: a Loop whose body is an LSTM, GRU or simple cell becomes the operator of that name.

The body is compared with the cells' defining equations (ONNX LSTM, GRU and RNN specifications). Everything that it computes must
be accounted for; otherwise it stays a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.loop_bodies import Linear, LoopBody, skip_identities
from onnxport.opset_maps.lowerings.origins import number, operand_pairs
from onnxport.opset_maps.lowerings.recurrence import Cell, cell_weights, write_cell


def as_recurrence(
    op: OpBuilder, body: ir.Graph, states: Sequence[ir.Value], trips: ir.Value | None
) -> list[ir.Value] | None:
    """The outputs of a Loop as those of an LSTM, GRU or RNN operator, or None where the loop is none of these.

    Args:
        op: where the operator is written.
        body: the Loop's body.
        states: initial values of the loop's states.
        trips: how often the loop turns, where that is known beforehand.
    """
    if trips is None or any(state.dtype == ir.DataType.DOUBLE for state in states):  # no runtime has them in double
        return None
    match = _CellSearch(op, body, states)
    for cell in match.cells():
        plan = match.plan(cell)
        if plan is not None:
            return _written(op, cell, match, plan, states, trips)
    return None


@dataclass(frozen=True)
class _Gru:
    """A GRU whose reset gate is still to be matched.

    Attributes:
        state: the position of h among the loop's states.
        h: the state before the turn.
        source: the sum x W + b whose pieces are the gates.
        update: the piece of it that is the update gate's, and its place.
        candidate: the place of the candidate's piece.
        hz: what is added to the update gate's piece.
        activations: of the gates and of the candidate.
    """

    state: int
    h: ir.Value
    source: Linear
    update: tuple[ir.Value, int]
    candidate: int
    hz: ir.Value
    activations: tuple[str, str]

    def cell(self, recurrence: ir.Value, bias: ir.Value | None, order: tuple[int, ...], *, after: bool) -> Cell | None:
        """The cell; `after` is ONNX's `linear_before_reset`."""
        if self.source.weight is None or self.source.x is None:
            return None
        biases = (self.source.biases[0] if self.source.biases else None, bias)
        x, weight = self.source.x, self.source.weight
        return Cell("GRU", x, weight, recurrence, biases, order, self.activations, (self.state,), after)


class _CellSearch(LoopBody):
    """The cells that a loop's body may be."""

    # -- cells ---------------------------------------------------------------------------------------------------------

    def cells(self) -> Iterator[Cell]:
        """What the states' updates may be, the most particular first."""
        for i, h in enumerate(self.before):
            for j, c in enumerate(self.before):
                if i != j and (result := self._lstm(i, h, j, c)) is not None:
                    yield result
        for i, h in enumerate(self.before):
            for result in (self._gru(i, h), self._rnn(i, h)):
                if result is not None:
                    yield result

    def _lstm(self, i: int, h: ir.Value, j: int, c: ir.Value) -> Cell | None:
        """h' = o g(c'), c' = f c + i g(z), all gates pieces of one sum."""
        product, total = self.producer(self.after[i], "Mul"), self.producer(self.after[j], "Add")
        if product is None or total is None:
            return None
        for out_gate, squashed in operand_pairs(product):
            last = self.activated(squashed)
            if last is None or skip_identities(last[1]) is not self.after[j]:
                continue
            for kept, added in operand_pairs(total):
                result = self._lstm_gates(i, h, j, c, out_gate, kept, added, last[0])
                if result is not None:
                    return result
        return None

    def _lstm_gates(
        self, i: int, h: ir.Value, j: int, c: ir.Value, out_gate: ir.Value, kept: ir.Value, added: ir.Value, last: str
    ) -> Cell | None:
        forget, entry = self.producer(kept, "Mul"), self.producer(added, "Mul")
        if forget is None or entry is None:
            return None
        for f, state in operand_pairs(forget):
            if skip_identities(state) is not c:
                continue
            for a, b in operand_pairs(entry):
                parts = [self.activated(value) for value in (a, out_gate, f, b)]
                if any(part is None for part in parts):
                    continue
                names = [part[0] for part in parts if part is not None]
                pieces = [self.gate(part[1], 4) for part in parts if part is not None]
                order = tuple(piece[1] for piece in pieces if piece is not None)
                if sorted(order) != [0, 1, 2, 3] or len({id(piece[0]) for piece in pieces if piece is not None}) != 1:
                    continue
                if not names[0] == names[1] == names[2] or (
                    a is not b and names[0] == names[3] and order[0] > order[3]
                ):
                    continue
                total = pieces[0][0] if pieces[0] is not None else None
                cell = self._of_one_sum("LSTM", total, h, order, (names[0], names[3], last), (i, j))
                if cell is not None:
                    return cell
        return None

    def _gru(self, i: int, h: ir.Value) -> Cell | None:
        """h' = z h + (1 - z) n."""
        total = self.producer(self.after[i], "Add")
        for kept, renewed in operand_pairs(total):
            keep, renew = self.producer(kept, "Mul"), self.producer(renewed, "Mul")
            if keep is None or renew is None:
                continue
            for z, state in operand_pairs(keep):
                for rest, new in operand_pairs(renew):
                    if skip_identities(state) is h and self._is_complement(rest, z):
                        result = self._gru_gates(i, h, z, new)
                        if result is not None:
                            return result
        return None

    def _is_complement(self, value: ir.Value, z: ir.Value) -> bool:
        node = self.producer(value, "Sub")
        if node is None or node.inputs[1] is None or skip_identities(node.inputs[1]) is not skip_identities(z):
            return False
        return number(self.op, node.inputs[0]) == 1

    def _gru_gates(self, i: int, h: ir.Value, z: ir.Value, new: ir.Value) -> Cell | None:
        update, candidate = self.activated(z), self.activated(new)
        if update is None or candidate is None:
            return None
        outer, inner = self.producer(update[1], "Add"), self.producer(candidate[1], "Add")
        for xz, hz in operand_pairs(outer):
            for xn, rest in operand_pairs(inner):
                pieces = self.gate(xz, 3), self.gate(xn, 3)
                if pieces[0] is None or pieces[1] is None or pieces[0][0] is not pieces[1][0]:
                    continue
                source = self.linear(pieces[0][0], None)
                if source is None or len(source.biases) > 1:
                    continue
                gru = _Gru(i, h, source, pieces[0], pieces[1][1], hz, (update[0], candidate[0]))
                result = self._reset_after(gru, rest) or self._reset_before(gru, rest)
                if result is not None:
                    return result
        return None

    def _reset_after(self, gru: _Gru, rest: ir.Value) -> Cell | None:
        """The reset gate acts on h R + b (`linear_before_reset`)."""
        for r, hn in operand_pairs(self.producer(rest, "Mul")):
            pieces = self.gate(gru.hz, 3), self.gate(hn, 3)
            place = self._reset_place(gru, r, pieces[0][0] if pieces[0] is not None else None, 3)
            if place is None or pieces[0] is None or pieces[1] is None or pieces[0][0] is not pieces[1][0]:
                continue
            order = (gru.update[1], place, gru.candidate)
            if order != (pieces[0][1], place, pieces[1][1]) or sorted(order) != [0, 1, 2]:
                continue
            inner = self.linear(pieces[0][0], gru.h)
            if inner is None or inner.recurrence is None or inner.weight is not None or len(inner.biases) > 1:
                continue
            return gru.cell(inner.recurrence, inner.biases[0] if inner.biases else None, order, after=True)
        return None

    def _reset_before(self, gru: _Gru, rest: ir.Value) -> Cell | None:
        """The reset gate acts on h before the product."""
        product, piece = self.producer(rest, "MatMul"), self.gate(gru.hz, 2)
        gated, matrix = product.inputs if product is not None else (None, None)
        scaled = self.producer(gated, "Mul")
        if scaled is None or piece is None or matrix is None or not self.is_outer(matrix):
            return None
        inner = self.linear(piece[0], gru.h)
        if inner is None or inner.recurrence is None or inner.weight is not None or inner.biases:
            return None
        for r, state in operand_pairs(scaled):
            place = self._reset_place(gru, r, piece[0], 2)
            matches = (gru.update[1], piece[1], place, gru.candidate) == (0, 0, 1, 2)
            if matches and skip_identities(state) is gru.h:
                both = self.op.Concat(self.lift(inner.recurrence), self.lift(matrix), axis=1)
                return gru.cell(both, None, (0, 1, 2), after=False)
        return None

    def _reset_place(self, gru: _Gru, r: ir.Value, h: ir.Value | None, count: int) -> int | None:
        """Which gate the reset gate is: the activation of a piece of x's sum plus the same piece of h's."""
        result = self.activated(r)
        total = self.producer(result[1], "Add") if result is not None and result[0] == gru.activations[0] else None
        for a, b in operand_pairs(total):
            first, second = self.gate(a, 3), self.gate(b, count)
            if first is None or second is None or first[1] != second[1]:
                continue
            if first[0] is gru.update[0] and second[0] is h:
                return first[1]
        return None

    def _rnn(self, i: int, h: ir.Value) -> Cell | None:
        """h' = g(x W + h R + b)."""
        result = self.activated(self.after[i])
        return self._of_one_sum("RNN", result[1], h, (0,), (result[0],), (i,)) if result is not None else None

    def _of_one_sum(
        self,
        operator: str,
        total: ir.Value | None,
        h: ir.Value,
        order: tuple[int, ...],
        activations: tuple[str, ...],
        states: tuple[int, ...],
    ) -> Cell | None:
        """The cell whose gates are pieces of one sum, x W + h R + b."""
        linear = self.linear(total, h) if total is not None else None
        if linear is None or linear.weight is None or linear.recurrence is None or linear.x is None:
            return None
        if len(linear.biases) > 2:
            return None
        first, second = (*linear.biases, None, None)[:2]
        return Cell(operator, linear.x, linear.weight, linear.recurrence, (first, second), order, activations, states)

    # -- everything accounted for --------------------------------------------------------------------------------------

    def plan(self, cell: Cell) -> list[str] | None:
        """What each state of the loop is in terms of the cell, or None where one, or a scan, is something else."""
        new_h = self.after[cell.states[0]]
        outputs: list[str] = []
        for i, value in enumerate(self.after):
            if i in cell.states:
                outputs.append("h" if i == cell.states[0] else "c")
            elif i in self.counters:
                outputs.append("count")
            elif self._is_stacked(value, new_h):
                outputs.append("stacked h")
            else:
                return None
        return outputs if all(value is new_h for value in self.scans) else None

    def _is_stacked(self, value: ir.Value, h: ir.Value) -> bool:
        """Whether a state is a list whose only element is h."""
        node = self.producer(value, "Unsqueeze")
        if node is None or node.inputs[0] is None or skip_identities(node.inputs[0]) is not h:
            return False
        return number(self.op, node.inputs[1]) == 0


def _written(
    op: OpBuilder, cell: Cell, match: _CellSearch, plan: list[str], states: Sequence[ir.Value], trips: ir.Value
) -> list[ir.Value] | None:
    """The operator, and the loop's outputs in the loop's order."""
    if cell.hidden is None or cell.x.shape is None or len(cell.x.shape) != 3:
        return None
    weights = cell_weights(op, cell, match.lift)
    x = match.lift(cell.x)
    if not _is_length(op, trips, x):
        x = op.Slice(x, [0], op.Reshape(trips, [1]), [0])
    results = write_cell(op, cell, x, weights, [op.Unsqueeze(states[i], [0]) for i in cell.states])
    last = [op.Squeeze(item, [0]) for item in results[1:]]
    named = {"h": lambda: last[0], "c": lambda: last[1], "stacked h": lambda: results[1]}
    outputs = [
        op.Add(states[i], op.cast_like(trips, states[i])) if kind == "count" else named[kind]()
        for i, kind in enumerate(plan)
    ]
    return [*outputs, *(op.Squeeze(results[0], [1]) for _ in match.scans)]


def _is_length(op: OpBuilder, trips: ir.Value, x: ir.Value) -> bool:
    """Whether `trips` is the size of the first axis of `x`."""
    size = x.shape[0] if x.shape is not None else None
    if (known := number(op, trips)) is not None:
        return known == size
    value: ir.Value | None = trips
    first = True
    while value is not None and (node := value.producer()) is not None:
        if node.op_type == "Shape":
            return (
                first and node.inputs[0] is x and not ("start" in node.attributes and node.attributes["start"].as_int())
            )
        if node.op_type in ("Gather", "Slice"):
            first &= number(op, node.inputs[1]) == 0
        elif node.op_type not in ("Cast", "Reshape", "Squeeze", "Identity"):
            return False
        value = node.inputs[0]
    return False
