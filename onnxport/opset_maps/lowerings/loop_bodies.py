"""The body of a Loop: what it computes, and what of it does not change from turn to turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.origins import behind, is_successor, number

_ACTIVATIONS = frozenset({"Sigmoid", "Tanh", "Relu"})


@dataclass(frozen=True)
class Linear:
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


class LoopBody:
    """The body of a loop, asked what it computes."""

    def __init__(self, op: OpBuilder, body: ir.Graph, states: Sequence[ir.Value]) -> None:
        self.op = op
        self.body = body
        self.before = list(body.inputs)[2:]
        self.after = [skip_identities(value) for value in list(body.outputs)[1 : 1 + len(states)]]
        self.scans = [skip_identities(value) for value in list(body.outputs)[1 + len(states) :]]
        self.lifted: dict[ir.Value, ir.Value] = {}
        self.counters = {i for i, state in enumerate(states) if self._counts(i, state)}

    def _counts(self, i: int, initial: ir.Value) -> bool:
        start = number(self.op, initial)
        inside = self.producer(self.after[i], "Add") is not None
        return inside and start == 0 and isinstance(start, int) and is_successor(self.op, self.after[i], self.before[i])

    def producer(self, value: ir.Value | None, *op_types: str) -> ir.Node | None:
        """The node of the body that computes `value`, if it is one of these operators."""
        node = skip_identities(value).producer() if value is not None else None
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
            result = self.op.node(node.op_type, *inputs, outputs=len(node.outputs), **attributes)
            result = result if isinstance(result, tuple) else (result,)
            self.lifted.update(zip(node.outputs, result, strict=True))
        return self.lifted[value]

    # -- parts of cells ------------------------------------------------------------------------------------------------

    def step_of(self, value: ir.Value) -> ir.Value | None:
        """The sequence whose element at the loop's counter `value` is."""
        node = self.producer(value, "Gather")
        if node is None or (node.attributes["axis"].as_int() if "axis" in node.attributes else 0) != 0:
            return None
        sequence, index = node.inputs
        counters = [self.before[i] for i in self.counters] + [self.body.inputs[0]]
        if (
            sequence is None
            or index is None
            or behind(index, "Identity", "Cast") not in counters
            or not self.is_outer(sequence)
        ):
            return None
        return sequence

    def linear(self, value: ir.Value, h: ir.Value | None) -> Linear | None:
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
            elif skip_identities(left) is h and recurrence is None:
                recurrence = right
            else:
                return None
        return Linear(weight, recurrence, tuple(biases), x)

    def _terms(self, value: ir.Value) -> Iterator[ir.Value]:
        node = self.producer(value, "Add")
        if node is None or self.is_outer(value):
            yield skip_identities(value)
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
        value = skip_identities(value)
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
        width = whole.shape[-1] if whole is not None and whole.shape is not None and len(whole.shape) == 2 else None
        if whole is None or len(node.inputs) != 5 or not isinstance(width, int) or width % count:
            return None
        numbers = [int(item) for value in node.inputs[1:] if (item := number(self.op, value)) is not None]
        if len(numbers) != 4:
            return None
        start, end, axis, step = numbers
        hidden = width // count
        if axis not in (1, -1) or step != 1 or start % hidden or start < 0 or min(end, width) != start + hidden:
            return None
        return whole, start // hidden


def skip_identities(value: ir.Value) -> ir.Value:
    """The value that `value` is the identity of, over any number of Identity nodes."""
    return behind(value, "Identity")
