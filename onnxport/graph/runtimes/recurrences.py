"""Recurrent layers in double precision, step by step: onnxruntime has them in float32 alone."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.defect import Defect, Written, dims, operand, optional

_USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_WRITTEN = frozenset({"Sigmoid", "Tanh", "Relu"})
_FORMS = frozenset({"direction", "hidden_size", "activations", "linear_before_reset", "layout", "input_forget"})


class _Direction:
    """One direction of a layer over `x`, [time, batch, inputs]."""

    def __init__(self, op: OpBuilder, node: ir.Node, number: int) -> None:
        self._op, self._node, self._number = op, node, number
        self._weight, self._recurrence = (self._part(index) for index in (1, 2))
        self._hidden = (dims(self._recurrence) or [None])[-1] or 0
        count = len(_USUAL[node.op_type])
        named = node.attributes.get_strings("activations", ())
        self._activations = list(named[number * count :][:count]) or _USUAL[node.op_type]
        self._linear_first = bool(node.attributes.get_int("linear_before_reset", 0))
        size = _GATES[node.op_type] * self._hidden
        self._biases = op.split(self._part(3), [size, size], 0) if optional(node, 3) is not None else None

    def _part(self, index: int) -> ir.Value:
        """The direction's own part of an operand."""
        op = self._op
        return op.Squeeze(op.Slice(operand(self._node, index), [self._number], [self._number + 1], [0]), op.axes(0))

    def write(self, *, backwards: bool) -> tuple[ir.Value, ...]:
        """The outputs, [time, batch, hidden], and the last states, [batch, hidden]."""
        op, x = self._op, operand(self._node, 0)
        terms = op.MatMul(x, op.Transpose(self._weight, perm=[1, 0]))
        if self._biases is not None:
            terms = op.Add(terms, self._biases[0])
        count = 2 if self._node.op_type == "LSTM" else 1
        zeros = op.Expand(op.const(0, x.dtype), op.shape_vector([op.dim(x, 1), self._hidden]))
        initial = [zeros if optional(self._node, 5 + i) is None else self._part(5 + i) for i in range(count)]
        lengths = optional(self._node, 4)
        walked = [terms]
        if lengths is not None:  # behind a sequence's end the states stay, and the output is 0
            times = op.Unsqueeze(op.Range(0, op.Squeeze(op.dim(x, 0), op.axes(0)), 1), op.axes(1, 2))
            walked.append(op.Less(times, op.Unsqueeze(op.cast(lengths, ir.DataType.INT64), op.axes(1))))
        batch = (dims(x) or [None, None])[1]

        def build(b: OpBuilder) -> list[ir.Value]:
            states = [b.input("state", x.dtype or ir.DataType.DOUBLE, [batch, self._hidden]) for _ in initial]
            part = b.input("terms", x.dtype or ir.DataType.DOUBLE, [batch, _GATES[self._node.op_type] * self._hidden])
            following = list(getattr(self, f"_{self._node.op_type.lower()}")(b, part, states))
            output = following[0]
            if lengths is not None:
                inside = b.input("inside", ir.DataType.BOOL, [batch, 1])
                output = b.Where(inside, output, b.const(0, x.dtype))
                following = [b.Where(inside, new, old) for new, old in zip(following, states, strict=True)]
            return [b.Identity(item) for item in (*following, output)]

        result = op.Scan(
            *initial,
            *walked,
            body=op.body(build),
            num_scan_inputs=len(walked),
            scan_input_directions=[int(backwards)] * len(walked),
            scan_output_directions=[int(backwards)],
            outputs=count + 1,
        )
        return result[-1], *result[:-1]

    def _gates(self, b: OpBuilder, terms: ir.Value) -> tuple[ir.Value, ...]:
        return b.split(terms, [self._hidden] * _GATES[self._node.op_type], -1)

    def _recurred(self, b: OpBuilder, h: ir.Value) -> ir.Value:
        """The states' part of all gates."""
        result = b.MatMul(h, self._op.Transpose(self._recurrence, perm=[1, 0]))
        return result if self._biases is None else b.Add(result, self._biases[1])

    def _rnn(self, b: OpBuilder, terms: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        return [b.node(self._activations[0], b.Add(terms, self._recurred(b, states[0])))]

    def _lstm(self, b: OpBuilder, terms: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        f, g, last = self._activations
        i, o, forget, c = self._gates(b, b.Add(terms, self._recurred(b, states[0])))
        kept = b.Mul(b.node(f, forget), states[1])
        cell = b.Add(kept, b.Mul(b.node(f, i), b.node(g, c)))
        return [b.Mul(b.node(f, o), b.node(last, cell)), cell]

    def _gru(self, b: OpBuilder, terms: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        f, g = self._activations
        h = states[0]
        update, reset, new = self._gates(b, terms)
        of_update, of_reset, of_new = self._gates(b, self._recurred(b, h))
        z, r = b.node(f, b.Add(update, of_update)), b.node(f, b.Add(reset, of_reset))
        if not self._linear_first:
            of_new = self._gates(b, self._recurred(b, b.Mul(r, h)))[2]
        inner = b.node(g, b.Add(new, b.Mul(r, of_new) if self._linear_first else of_new))
        return [b.Add(b.Mul(b.Sub(1.0, z), inner), b.Mul(z, h))]


def step_by_step(op: OpBuilder, node: ir.Node) -> Written:
    """A Scan for each direction."""
    direction = node.attributes.get_string("direction", "forward")
    both = [direction == "reverse"] if direction != "bidirectional" else [False, True]
    parts = [_Direction(op, node, i).write(backwards=backwards) for i, backwards in enumerate(both)]
    axes = [1, *[0] * (len(parts[0]) - 1)]
    stacks = (op.Concat(*(op.Unsqueeze(item, op.axes(axis)) for item in items), axis=axis)
              for axis, items in zip(axes, zip(*parts, strict=True), strict=True))  # fmt: skip
    return tuple(stacks)[: len(node.outputs)]


def _is_plain(node: ir.Node) -> bool:
    """Whether it has activations without numbers of their own, no peepholes, no bounds, and time first."""
    sizes = [dims(operand(node, index)) for index in (1, 2)]
    named = node.attributes.get_strings("activations", ())
    return (
        all(size is not None and None not in size for size in sizes)
        and set(named) <= _WRITTEN
        and set(node.attributes) <= _FORMS
        and not any(node.attributes.get_int(name, 0) for name in ("layout", "input_forget"))
        and optional(node, 7) is None
    )


RECURRENCES = (
    Defect(
        ("LSTM", "GRU", "RNN"),
        step_by_step,
        "Scan",
        dtypes=frozenset({ir.DataType.DOUBLE}),
        operands=(0,),
        applies=_is_plain,
    ),
)
