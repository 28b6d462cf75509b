"""Loops that are recurrent layers: a Loop whose body is an LSTM, GRU or simple cell becomes the operator of that name.

The body is compared with the cells' defining equations (ONNX LSTM, GRU and RNN specifications). Everything that it computes must
be accounted for; otherwise it stays a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.loop_bodies import Linear, LoopBody, operand_pairs, skip_identities
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
    if trips is None:
        return None
    match = _CellSearch(op, body, states)
    for cell in match.cells():
        plan = match.plan(cell)
        if plan is not None:
            return _written(op, cell, match, plan, states, trips)
    return None


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
                linear = self.linear(pieces[0][0], h) if pieces[0] is not None else None
                if (
                    linear is None
                    or linear.weight is None
                    or linear.recurrence is None
                    or linear.x is None
                    or len(linear.biases) > 2
                ):
                    continue
                biases = (*linear.biases, None, None)[:2]
                activations = (names[0], names[3], last)
                return Cell(
                    "LSTM",
                    linear.x,
                    linear.weight,
                    linear.recurrence,
                    (biases[0], biases[1]),
                    order,
                    activations,
                    (i, j),
                )
        return None

    def _gru(self, i: int, h: ir.Value) -> Cell | None:
        """h' = z h + (1 - z) n."""
        total = self.producer(self.after[i], "Add")
        for kept, renewed in operand_pairs(total) if total is not None else ():
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
        if (
            node is None
            or node.inputs[0] is None
            or node.inputs[1] is None
            or skip_identities(node.inputs[1]) is not skip_identities(z)
        ):
            return False
        one = self.op.constant(node.inputs[0])
        return one is not None and one.size == 1 and float(one.reshape(())) == 1.0

    def _gru_gates(self, i: int, h: ir.Value, z: ir.Value, new: ir.Value) -> Cell | None:
        update, candidate = self.activated(z), self.activated(new)
        if update is None or candidate is None:
            return None
        outer = self.producer(update[1], "Add")
        inner = self.producer(candidate[1], "Add")
        if outer is None or inner is None:
            return None
        for xz, hz in operand_pairs(outer):
            for xn, rest in operand_pairs(inner):
                pieces = self.gate(xz, 3), self.gate(xn, 3)
                if pieces[0] is None or pieces[1] is None or pieces[0][0] is not pieces[1][0]:
                    continue
                result = self._gru_reset(i, h, pieces[0], pieces[1][1], hz, rest, update[0], candidate[0])
                if result is not None:
                    return result
        return None

    def _gru_reset(
        self,
        i: int,
        h: ir.Value,
        xz: tuple[ir.Value, int],
        n_place: int,
        hz: ir.Value,
        rest: ir.Value,
        gate: str,
        last: str,
    ) -> Cell | None:
        """The reset gate and where it acts: on h R + b (`linear_before_reset`), or on h before the product."""
        source = self.linear(xz[0], None)
        if source is None or source.weight is None or source.x is None or len(source.biases) > 1:
            return None
        bias = source.biases[0] if source.biases else None
        after = self.producer(rest, "Mul")
        for r, hn in operand_pairs(after) if after is not None else ():
            pieces = self.gate(hz, 3), self.gate(hn, 3)
            place = self._reset_place(r, xz[0], pieces[0][0] if pieces[0] is not None else None, gate, 3)
            if place is None or pieces[0] is None or pieces[1] is None or pieces[0][0] is not pieces[1][0]:
                continue
            order = (xz[1], place, n_place)
            if order != (pieces[0][1], place, pieces[1][1]) or sorted(order) != [0, 1, 2]:
                continue
            inner = self.linear(pieces[0][0], h)
            if inner is None or inner.recurrence is None or inner.weight is not None or len(inner.biases) > 1:
                continue
            biases = (bias, inner.biases[0] if inner.biases else None)
            return Cell("GRU", source.x, source.weight, inner.recurrence, biases, order, (gate, last), (i,), True)
        product = self.producer(rest, "MatMul")
        if product is None or product.inputs[0] is None or product.inputs[1] is None:
            return None
        return self._gru_before(i, h, xz, n_place, hz, product.inputs[0], product.inputs[1], gate, last, source, bias)

    def _gru_before(
        self,
        i: int,
        h: ir.Value,
        xz: tuple[ir.Value, int],
        n_place: int,
        hz: ir.Value,
        gated: ir.Value,
        matrix: ir.Value,
        gate: str,
        last: str,
        source: Linear,
        bias: ir.Value | None,
    ) -> Cell | None:
        scaled, piece = self.producer(gated, "Mul"), self.gate(hz, 2)
        if scaled is None or piece is None or not self.is_outer(matrix) or source.weight is None or source.x is None:
            return None
        inner = self.linear(piece[0], h)
        if inner is None or inner.recurrence is None or inner.weight is not None or inner.biases:
            return None
        for r, state in operand_pairs(scaled):
            place = self._reset_place(r, xz[0], piece[0], gate, 2)
            if skip_identities(state) is h and (xz[1], piece[1], place, n_place) == (0, 0, 1, 2):
                both = self.op.Concat(self.lift(inner.recurrence), self.lift(matrix), axis=1)
                return Cell("GRU", source.x, source.weight, both, (bias, None), (0, 1, 2), (gate, last), (i,))
        return None

    def _reset_place(self, r: ir.Value, x: ir.Value, h: ir.Value | None, gate: str, count: int) -> int | None:
        """Which gate the reset gate is: the activation of a piece of x's sum plus the same piece of h's."""
        result = self.activated(r)
        total = self.producer(result[1], "Add") if result is not None and result[0] == gate else None
        for a, b in operand_pairs(total) if total is not None else ():
            first, second = self.gate(a, 3), self.gate(b, count)
            if first is not None and second is not None and first[0] is x and second[0] is h and first[1] == second[1]:
                return first[1]
        return None

    def _rnn(self, i: int, h: ir.Value) -> Cell | None:
        """h' = g(x W + h R + b)."""
        result = self.activated(self.after[i])
        linear = self.linear(result[1], h) if result is not None else None
        if result is None or linear is None or linear.weight is None or linear.recurrence is None or linear.x is None:
            return None
        if len(linear.biases) > 2:
            return None
        biases = (*linear.biases, None, None)[:2]
        return Cell("RNN", linear.x, linear.weight, linear.recurrence, (biases[0], biases[1]), (0,), (result[0],), (i,))

    # -- everything accounted for --------------------------------------------------------------------------------------

    def plan(self, cell: Cell) -> _Plan | None:
        """What each output of the loop is in terms of the cell, or None where one is something else."""
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
        if any(value is not new_h for value in self.scans):
            return None
        return _Plan(outputs, len(self.scans))

    def _is_stacked(self, value: ir.Value, h: ir.Value) -> bool:
        """Whether a state is a list whose only element is h."""
        node = self.producer(value, "Unsqueeze")
        if node is None or node.inputs[0] is None or skip_identities(node.inputs[0]) is not h:
            return False
        axes = self.op.constant(node.inputs[1]) if node.inputs[1] is not None else None
        return axes is not None and axes.ravel().tolist() == [0]


@dataclass(frozen=True)
class _Plan:
    """What the loop's outputs are: of each state, and how many scans of h."""

    states: list[str] = field(default_factory=list)
    scans: int = 0


def _written(
    op: OpBuilder, cell: Cell, match: _CellSearch, plan: _Plan, states: Sequence[ir.Value], trips: ir.Value
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
        for i, kind in enumerate(plan.states)
    ]
    return [*outputs, *(op.Squeeze(results[0], [1]) for _ in range(plan.scans))]


def _is_length(op: OpBuilder, trips: ir.Value, x: ir.Value) -> bool:
    """Whether `trips` is the size of the first axis of `x`."""
    size = x.shape[0] if x.shape is not None else None
    known = op.constant(trips)
    if known is not None:
        return isinstance(size, int) and int(known.reshape(())) == size
    value: ir.Value | None = trips
    first = True
    while value is not None and (node := value.producer()) is not None:
        if node.op_type == "Shape":
            return (
                first and node.inputs[0] is x and not ("start" in node.attributes and node.attributes["start"].as_int())
            )
        if node.op_type == "Gather":
            index = op.constant(node.inputs[1]) if node.inputs[1] is not None else None
            first &= index is not None and index.size == 1 and int(index.reshape(())) == 0
        elif node.op_type == "Slice":
            start = op.constant(node.inputs[1]) if node.inputs[1] is not None else None
            first &= start is not None and start.ravel().tolist() == [0]
        elif node.op_type not in ("Cast", "Reshape", "Squeeze", "Identity"):
            return False
        value = node.inputs[0]
    return False
