"""Recurrent layers: torch's own operators, and those that tracing keeps whole (`tracing/pytorch_recurrent.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from torch import nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32
from onnxport.opset_maps.lowerings.recurrence import ordered_gates
from onnxport.opset_maps.maps import aten

# The order in which ONNX wants the gates, as positions in torch's: torch's is i f g o and r z n, ONNX's i o f c and z r h.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def _states(hx: ir.Value | Sequence[ir.Value]) -> Sequence[ir.Value]:
    return [hx] if isinstance(hx, ir.Value) else hx


def _directions(op: OpBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    stacked = [op.Unsqueeze(item, op.axes(0)) for item in parts]
    return stacked[0] if len(stacked) == 1 else op.Concat(*stacked, axis=0)


@dataclass(frozen=True)
class _Layers:
    """The arguments that all of torch's recurrent operators end with, in their order."""

    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool


def _layers(
    op: OpBuilder,
    kind: str,
    x: ir.Value,
    states: Sequence[ir.Value],
    params: Sequence[ir.Value],
    layers: _Layers,
    *,
    activation: str | None = None,
    linear_before_reset: int | None = None,
) -> tuple[ir.Value, ...]:
    """All layers; each direction's weights stand in `params` as w_ih, w_hh and, where there are biases, b_ih, b_hh."""
    if layers.train and layers.dropout and layers.num_layers > 1:
        raise UnsupportedOperator("dropout between layers has no ONNX form; call model.eval()")
    directions = 2 if layers.bidirectional else 1
    each = 4 if layers.has_biases else 2
    if len(params) != layers.num_layers * directions * each:
        raise UnsupportedOperator("projections (proj_size) have no ONNX form")
    hidden = params[1].shape[1] if params[1].shape is not None else None
    if not isinstance(hidden, int):
        raise UnsupportedOperator("a recurrent layer of dynamic size")
    if layers.batch_first:
        x = op.Transpose(x, perm=[1, 0, 2])
    finals: list[list[ir.Value]] = [[] for _ in states]
    for layer in range(layers.num_layers):
        groups = [params[(layer * directions + d) * each :][:each] for d in range(directions)]
        weights = _directions(op, [ordered_gates(op, group[0], _GATES[kind], 0) for group in groups])
        recurrent = _directions(op, [ordered_gates(op, group[1], _GATES[kind], 0) for group in groups])
        bias = None
        if layers.has_biases:
            bias = _directions(
                op,
                [
                    op.Concat(*[ordered_gates(op, item, _GATES[kind], 0) for item in group[2:]], axis=0)
                    for group in groups
                ],
            )
        first = layer * directions
        initial = [
            op.Slice(state, [first], [first + directions], [0]) if layers.num_layers > 1 else state for state in states
        ]
        result = op.node(
            kind,
            x,
            weights,
            recurrent,
            bias,
            None,
            *initial,
            hidden_size=hidden,
            direction="bidirectional" if layers.bidirectional else "forward",
            outputs=1 + len(states),
            activations=[activation] * directions if activation is not None else None,
            linear_before_reset=linear_before_reset,
        )
        for final, state in zip(finals, result[1:], strict=True):
            final.append(state)
        if layers.bidirectional:
            x = op.Reshape(op.Transpose(result[0], perm=[0, 2, 1, 3]), [0, 0, directions * hidden])
        else:
            x = op.Squeeze(result[0], op.axes(1))
    if layers.batch_first:
        x = op.Transpose(x, perm=[1, 0, 2])
    return (x, *(items[0] if len(items) == 1 else op.Concat(*items, axis=0) for items in finals))


@aten.lower(
    "aten::lstm.input",
    "onnxport::lstm",
    cases=[
        built(lambda: nn.LSTM(3, 4, batch_first=True), f32(2, 5, 3), dynamic=True),
        built(lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True), f32(5, 2, 3)),
        built(lambda: nn.LSTM(3, 4, bias=False), f32(5, 3)),
        built(lambda: nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True), f32(2, 5, 3), dynamic=True),
    ],
)
def lstm(
    op: OpBuilder, x: ir.Value, hx: Sequence[ir.Value], params: Sequence[ir.Value], *options: Any
) -> tuple[ir.Value, ...]:
    """LSTM, layer by layer."""
    return _layers(op, "LSTM", x, hx, params, _Layers(*options))


@aten.lower(
    "aten::gru.input",
    "onnxport::gru",
    cases=[
        built(lambda: nn.GRU(3, 4, batch_first=True), f32(2, 5, 3), dynamic=True),
        built(lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True), f32(5, 2, 3), f32(4, 2, 4)),
        built(lambda: nn.GRU(3, 4, bias=False), f32(5, 2, 3)),
    ],
)
def gru(
    op: OpBuilder, x: ir.Value, hx: ir.Value | Sequence[ir.Value], params: Sequence[ir.Value], *options: Any
) -> tuple[ir.Value, ...]:
    """GRU with the reset gate after the matrix product, as torch has it."""
    return _layers(op, "GRU", x, _states(hx), params, _Layers(*options), linear_before_reset=1)


@aten.lower(
    "aten::rnn_tanh.input",
    "aten::rnn_relu.input",
    "onnxport::rnn_tanh",
    "onnxport::rnn_relu",
    cases=[
        built(lambda: nn.RNN(3, 4, batch_first=True), f32(2, 5, 3), dynamic=True),
        built(lambda: nn.RNN(3, 4, nonlinearity="relu", bidirectional=True, num_layers=2), f32(5, 2, 3)),
    ],
)
def rnn(
    op: OpBuilder, x: ir.Value, hx: ir.Value | Sequence[ir.Value], params: Sequence[ir.Value], *options: Any
) -> tuple[ir.Value, ...]:
    """RNN with tanh or relu."""
    activation = "Relu" if "relu" in op.name else "Tanh"
    return _layers(op, "RNN", x, _states(hx), params, _Layers(*options), activation=activation)


_PACKED_CASE = built(lambda: nn.LSTM(3, 4), f32(5, 2, 3), name="unpacked")


@aten.lower("aten::lstm.data", "aten::gru.data", "aten::rnn_tanh.data", "aten::rnn_relu.data", cases=[_PACKED_CASE])
def packed(op: OpBuilder, *_: object) -> ir.Value:
    """Refused: sequences packed by length have no ONNX form."""
    raise UnsupportedOperator("a packed sequence has no ONNX form; pass the padded tensor and its mask")
