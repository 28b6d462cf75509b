"""Loops that are recurrent layers: a Loop whose body is an LSTM, GRU or simple cell becomes the operator of that name.

The body is compared with the cells' defining equations (ONNX LSTM, GRU and RNN specifications). Everything that it computes must
be accounted for; otherwise it stays a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder

_ACTIVATIONS = frozenset({"Sigmoid", "Tanh", "Relu"})


@dataclass(frozen=True)
class _Linear:
    """The sum ``x W + h R + b + ...`` before it is split into gates.

    Attributes:
        weight: W, from outside the loop; None where x is not in the sum.
        recurrence: R, from outside; None where h is not in the sum.
        biases: vectors from outside.
        x: the sequence that x is a step of; None where it is not in the sum.
    """

    weight: ir.Value | None
    recurrence: ir.Value | None
    biases: tuple[ir.Value, ...]
    x: ir.Value | None


@dataclass(frozen=True)
class _Cell:
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
    match = _Match(op, body, states)
    for cell in match.cells():
        plan = match.plan(cell)
        if plan is not None:
            return _written(op, cell, match, plan, states, trips)
    return None


class _Match:
    """The body of a loop, asked what it computes."""

    def __init__(self, op: OpBuilder, body: ir.Graph, states: Sequence[ir.Value]) -> None:
        self.op = op
        self.body = body
        self.before = list(body.inputs)[2:]
        self.after = [_plain(value) for value in list(body.outputs)[1 : 1 + len(states)]]
        self.scans = [_plain(value) for value in list(body.outputs)[1 + len(states) :]]
        self.lifted: dict[ir.Value, ir.Value] = {}
        self.counters = {i for i, state in enumerate(states) if self._counts(i, state)}

    def _counts(self, i: int, initial: ir.Value) -> bool:
        start, node = self.op.constant(initial), self.producer(self.after[i], "Add")
        if start is None or start.size != 1 or start.dtype.kind != "i" or int(start.reshape(())) != 0 or node is None:
            return False
        steps = [self.op.constant(b) for a, b in _pairs(node) if a is self.before[i]]
        return any(step is not None and step.size == 1 and int(step.reshape(())) == 1 for step in steps)

    def producer(self, value: ir.Value | None, *op_types: str) -> ir.Node | None:
        """The node of the body that computes `value`, if it is one of these operators."""
        node = _plain(value).producer() if value is not None else None
        inside = node is not None and node.graph is self.body and node.domain == ""
        return node if inside and node is not None and node.op_type in op_types else None

    def is_outer(self, value: ir.Value) -> bool:
        """Whether a value does not change from turn to turn: it, or all that it is computed from, comes from outside."""
        if value in self.lifted or self.op.constant(value) is not None:
            return True
        if value in self.body.inputs:
            return False
        node = value.producer()
        if node is None or node.graph is not self.body:
            return True
        return all(item is None or self.is_outer(item) for item in node.inputs)

    def lift(self, value: ir.Value) -> ir.Value:
        """`value`, which does not change from turn to turn, computed outside."""
        node = value.producer()
        if node is None or node.graph is not self.body:
            return value
        if value not in self.lifted:
            inputs = [self.lift(item) if item is not None else None for item in node.inputs]
            attributes = {name: item.value for name, item in node.attributes.items()}
            made = self.op.node(node.op_type, *inputs, outputs=len(node.outputs), **attributes)
            made = made if isinstance(made, tuple) else (made,)
            self.lifted.update(zip(node.outputs, made, strict=True))
        return self.lifted[value]

    # -- parts of cells ------------------------------------------------------------------------------------------------

    def step_of(self, value: ir.Value) -> ir.Value | None:
        """The sequence whose element at the loop's counter `value` is."""
        node = self.producer(value, "Gather")
        if node is None or (node.attributes["axis"].as_int() if "axis" in node.attributes else 0) != 0:
            return None
        sequence, index = node.inputs
        counters = [self.before[i] for i in self.counters] + [self.body.inputs[0]]
        if sequence is None or index is None or _uncast(index) not in counters or not self.is_outer(sequence):
            return None
        return sequence

    def linear(self, value: ir.Value, h: ir.Value | None) -> _Linear | None:
        """`value` as ``x W + h R + b``, with x a step of a sequence."""
        weight = recurrence = x = None
        biases: list[ir.Value] = []
        for term in self._terms(value):
            node = self.producer(term, "MatMul")
            if node is None:
                if not self.is_outer(term) or term.shape is None or len(term.shape) != 1:
                    return None
                biases.append(term)
                continue
            left, right = node.inputs
            if left is None or right is None or not self.is_outer(right):
                return None
            sequence = self.step_of(left)
            if sequence is not None and weight is None:
                weight, x = right, sequence
            elif _plain(left) is h and recurrence is None:
                recurrence = right
            else:
                return None
        return _Linear(weight, recurrence, tuple(biases), x)

    def _terms(self, value: ir.Value) -> Iterator[ir.Value]:
        node = self.producer(value, "Add")
        if node is None or self.is_outer(value):
            yield _plain(value)
            return
        for item in node.inputs:
            if item is not None:
                yield from self._terms(item)

    def activated(self, value: ir.Value | None) -> tuple[str, ir.Value] | None:
        """An activation and its operand."""
        node = self.producer(value, *_ACTIVATIONS)
        return (node.op_type, node.inputs[0]) if node is not None and node.inputs[0] is not None else None

    def gate(self, value: ir.Value | None, count: int) -> tuple[ir.Value, int] | None:
        """The value that `value` is one of `count` equal pieces of along the last axis, and which one."""
        if value is None:
            return None
        value = _plain(value)
        node = self.producer(value, "Split", "Slice")
        if node is not None and node.op_type == "Slice":
            return self._sliced_gate(node, count)
        if node is None or len(node.outputs) != count or node.inputs[0] is None:
            return None
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
        sizes = {piece.shape[-1] if piece.shape is not None else None for piece in node.outputs}
        if axis not in (1, -1) or len(sizes) != 1 or not isinstance(next(iter(sizes)), int):
            return None
        return node.inputs[0], list(node.outputs).index(value)

    def _sliced_gate(self, node: ir.Node, count: int) -> tuple[ir.Value, int] | None:
        whole = node.inputs[0]
        numbers = [self.op.constant(item) if item is not None else None for item in node.inputs[1:]]
        width = whole.shape[-1] if whole is not None and whole.shape is not None and len(whole.shape) == 2 else None
        if whole is None or len(numbers) != 4 or not isinstance(width, int) or width % count:
            return None
        if any(item is None or item.size != 1 for item in numbers):
            return None
        start, end, axis, step = (int(item.reshape(())) for item in numbers if item is not None)
        hidden = width // count
        if axis not in (1, -1) or step != 1 or start % hidden or start < 0 or min(end, width) != start + hidden:
            return None
        return whole, start // hidden

    # -- cells ---------------------------------------------------------------------------------------------------------

    def cells(self) -> Iterator[_Cell]:
        """What the states' updates may be, the most particular first."""
        for i, h in enumerate(self.before):
            for j, c in enumerate(self.before):
                if i != j and (found := self._lstm(i, h, j, c)) is not None:
                    yield found
        for i, h in enumerate(self.before):
            for found in (self._gru(i, h), self._rnn(i, h)):
                if found is not None:
                    yield found

    def _lstm(self, i: int, h: ir.Value, j: int, c: ir.Value) -> _Cell | None:
        """h' = o g(c'), c' = f c + i g(z), all gates pieces of one sum."""
        product, total = self.producer(self.after[i], "Mul"), self.producer(self.after[j], "Add")
        if product is None or total is None:
            return None
        for out_gate, squashed in _pairs(product):
            last = self.activated(squashed)
            if last is None or _plain(last[1]) is not self.after[j]:
                continue
            for kept, added in _pairs(total):
                found = self._lstm_gates(i, h, j, c, out_gate, kept, added, last[0])
                if found is not None:
                    return found
        return None

    def _lstm_gates(
        self, i: int, h: ir.Value, j: int, c: ir.Value, out_gate: ir.Value, kept: ir.Value, added: ir.Value, last: str
    ) -> _Cell | None:
        forget, entry = self.producer(kept, "Mul"), self.producer(added, "Mul")
        if forget is None or entry is None:
            return None
        for f, state in _pairs(forget):
            if _plain(state) is not c:
                continue
            for a, b in _pairs(entry):
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
                return _Cell(
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

    def _gru(self, i: int, h: ir.Value) -> _Cell | None:
        """h' = z h + (1 - z) n."""
        total = self.producer(self.after[i], "Add")
        for kept, renewed in _pairs(total) if total is not None else ():
            keep, renew = self.producer(kept, "Mul"), self.producer(renewed, "Mul")
            if keep is None or renew is None:
                continue
            for z, state in _pairs(keep):
                for rest, new in _pairs(renew):
                    if _plain(state) is h and self._is_complement(rest, z):
                        found = self._gru_gates(i, h, z, new)
                        if found is not None:
                            return found
        return None

    def _is_complement(self, value: ir.Value, z: ir.Value) -> bool:
        node = self.producer(value, "Sub")
        if node is None or node.inputs[0] is None or node.inputs[1] is None or _plain(node.inputs[1]) is not _plain(z):
            return False
        one = self.op.constant(node.inputs[0])
        return one is not None and one.size == 1 and float(one.reshape(())) == 1.0

    def _gru_gates(self, i: int, h: ir.Value, z: ir.Value, new: ir.Value) -> _Cell | None:
        update, candidate = self.activated(z), self.activated(new)
        if update is None or candidate is None:
            return None
        outer = self.producer(update[1], "Add")
        inner = self.producer(candidate[1], "Add")
        if outer is None or inner is None:
            return None
        for xz, hz in _pairs(outer):
            for xn, rest in _pairs(inner):
                pieces = self.gate(xz, 3), self.gate(xn, 3)
                if pieces[0] is None or pieces[1] is None or pieces[0][0] is not pieces[1][0]:
                    continue
                found = self._gru_reset(i, h, pieces[0], pieces[1][1], hz, rest, update[0], candidate[0])
                if found is not None:
                    return found
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
    ) -> _Cell | None:
        """The reset gate and where it acts: on h R + b (`linear_before_reset`), or on h before the product."""
        source = self.linear(xz[0], None)
        if source is None or source.weight is None or source.x is None or len(source.biases) > 1:
            return None
        bias = source.biases[0] if source.biases else None
        after = self.producer(rest, "Mul")
        for r, hn in _pairs(after) if after is not None else ():
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
            return _Cell("GRU", source.x, source.weight, inner.recurrence, biases, order, (gate, last), (i,), True)
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
        source: _Linear,
        bias: ir.Value | None,
    ) -> _Cell | None:
        scaled, piece = self.producer(gated, "Mul"), self.gate(hz, 2)
        if scaled is None or piece is None or not self.is_outer(matrix) or source.weight is None or source.x is None:
            return None
        inner = self.linear(piece[0], h)
        if inner is None or inner.recurrence is None or inner.weight is not None or inner.biases:
            return None
        for r, state in _pairs(scaled):
            place = self._reset_place(r, xz[0], piece[0], gate, 2)
            if _plain(state) is h and (xz[1], piece[1], place, n_place) == (0, 0, 1, 2):
                both = self.op.Concat(self.lift(inner.recurrence), self.lift(matrix), axis=1)
                return _Cell("GRU", source.x, source.weight, both, (bias, None), (0, 1, 2), (gate, last), (i,))
        return None

    def _reset_place(self, r: ir.Value, x: ir.Value, h: ir.Value | None, gate: str, count: int) -> int | None:
        """Which gate the reset gate is: the activation of a piece of x's sum plus the same piece of h's."""
        found = self.activated(r)
        total = self.producer(found[1], "Add") if found is not None and found[0] == gate else None
        for a, b in _pairs(total) if total is not None else ():
            first, second = self.gate(a, 3), self.gate(b, count)
            if first is not None and second is not None and first[0] is x and second[0] is h and first[1] == second[1]:
                return first[1]
        return None

    def _rnn(self, i: int, h: ir.Value) -> _Cell | None:
        """h' = g(x W + h R + b)."""
        found = self.activated(self.after[i])
        linear = self.linear(found[1], h) if found is not None else None
        if found is None or linear is None or linear.weight is None or linear.recurrence is None or linear.x is None:
            return None
        if len(linear.biases) > 2:
            return None
        biases = (*linear.biases, None, None)[:2]
        return _Cell("RNN", linear.x, linear.weight, linear.recurrence, (biases[0], biases[1]), (0,), (found[0],), (i,))

    # -- everything accounted for --------------------------------------------------------------------------------------

    def plan(self, cell: _Cell) -> _Plan | None:
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
        if node is None or node.inputs[0] is None or _plain(node.inputs[0]) is not h:
            return False
        axes = self.op.constant(node.inputs[1]) if node.inputs[1] is not None else None
        return axes is not None and axes.ravel().tolist() == [0]


@dataclass(frozen=True)
class _Plan:
    """What the loop's outputs are: of each state, and how many scans of h."""

    states: list[str] = field(default_factory=list)
    scans: int = 0


def _written(
    op: OpBuilder, cell: _Cell, match: _Match, plan: _Plan, states: Sequence[ir.Value], trips: ir.Value
) -> list[ir.Value] | None:
    """The operator, and the loop's outputs in the loop's order."""
    hidden = cell.recurrence.shape[0] if cell.recurrence.shape is not None else None
    if not isinstance(hidden, int) or cell.x.shape is None or len(cell.x.shape) != 3:
        return None
    gates = len(cell.order)
    weight, recurrence = (_matrix(op, match.lift(item), hidden, cell.order) for item in (cell.weight, cell.recurrence))
    dtype = cell.recurrence.dtype or ir.DataType.FLOAT
    biases = [_bias(op, match.lift(item), hidden, cell.order) if item is not None else None for item in cell.biases]
    if any(item is not None for item in biases):
        zeros = op.const(np.zeros(gates * hidden), dtype)
        bias = op.Unsqueeze(op.Concat(*(item if item is not None else zeros for item in biases), axis=0), [0])
    else:
        bias = None
    x = match.lift(cell.x)
    if not _is_length(op, trips, x):
        x = op.Slice(x, [0], op.Reshape(trips, [1]), [0])
    initial = [op.Unsqueeze(states[i], [0]) for i in cell.states]
    attributes: dict[str, Any] = {}
    if cell.operator == "GRU":
        attributes["linear_before_reset"] = int(cell.linear_before_reset)
    made = op.node(
        cell.operator,
        x,
        weight,
        recurrence,
        bias,
        None,
        *initial,
        hidden_size=hidden,
        activations=list(cell.activations),
        outputs=1 + len(initial),
        **attributes,
    )
    last = [op.Squeeze(item, [0]) for item in made[1:]]
    named = {"h": lambda: last[0], "c": lambda: last[1], "stacked h": lambda: made[1]}
    outputs = [
        op.Add(states[i], op.cast_like(trips, states[i])) if kind == "count" else named[kind]()
        for i, kind in enumerate(plan.states)
    ]
    return [*outputs, *(op.Squeeze(made[0], [1]) for _ in range(plan.scans))]


def _matrix(op: OpBuilder, matrix: ir.Value, hidden: int, order: Sequence[int]) -> ir.Value:
    """[inputs, gates * hidden] as ONNX's [1, gates * hidden, inputs], the gates in ONNX's order."""
    return op.Unsqueeze(op.Transpose(_ordered(op, matrix, hidden, order, 1), perm=[1, 0]), [0])


def _bias(op: OpBuilder, bias: ir.Value, hidden: int, order: Sequence[int]) -> ir.Value:
    return _ordered(op, bias, hidden, order, 0)


def _ordered(op: OpBuilder, x: ir.Value, hidden: int, order: Sequence[int], axis: int) -> ir.Value:
    if list(order) == list(range(len(order))):
        return x
    pieces = op.split(x, [hidden] * len(order), axis)
    return op.Concat(*(pieces[i] for i in order), axis=axis)


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


def _pairs(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Both orders of the operands of a node with two."""
    a, b = node.inputs
    if a is not None and b is not None:
        yield a, b
        yield b, a


def _plain(value: ir.Value) -> ir.Value:
    """What `value` is the identity of."""
    while (node := value.producer()) is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        value = node.inputs[0]
    return value


def _uncast(value: ir.Value) -> ir.Value:
    """What `value` is a cast or identity of."""
    while (
        (node := value.producer()) is not None and node.op_type in ("Identity", "Cast") and node.inputs[0] is not None
    ):
        value = node.inputs[0]
    return value
