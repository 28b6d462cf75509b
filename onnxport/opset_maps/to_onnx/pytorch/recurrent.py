"""Recurrent layers: torch's own operators, and those that tracing keeps whole (`tracing/pytorch_recurrent.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor, nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.recurrence import ProjectedLstm, ordered_gates, stacked
from onnxport.opset_maps.maps import aten

# By torch's name: ONNX's operator, its gates in ONNX's order as positions in torch's, the activation that it names. torch's
# gates are i f g o and r z n, ONNX's i o f c and z r h.
_LAYERS: dict[str, tuple[str, tuple[int, ...], str | None]] = {
    "lstm": ("LSTM", (0, 3, 1, 2), None),
    "gru": ("GRU", (1, 0, 2), None),
    "rnn_tanh": ("RNN", (0,), "Tanh"),
    "rnn_relu": ("RNN", (0,), "Relu"),
}

_MKLDNN_LSTM = 2  # torch's number of the kind of layer in ATen's rnn_mode


class _WithStates(nn.Module):
    """A projected LSTM with initial states."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Any:
        return self.lstm(x, (h, c))


@aten.lower(
    *(f"aten::{name}.input" for name in _LAYERS),
    *(f"onnxport::{name}" for name in _LAYERS),
    cases=[
        built(lambda: nn.LSTM(3, 4, batch_first=True), f32(2, 5, 3), dynamic=True),
        built(lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True), f32(5, 2, 3)),
        built(lambda: nn.LSTM(3, 4, bias=False), f32(5, 3)),
        built(lambda: nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True), f32(2, 5, 3), dynamic=True),
        built(lambda: nn.LSTM(3, 4, proj_size=2, bias=False), f32(5, 2, 3)),
        built(_WithStates, f32(5, 2, 3), f32(4, 2, 2), f32(4, 2, 4)),
        built(lambda: nn.GRU(3, 4, batch_first=True), f32(2, 5, 3), dynamic=True),
        built(lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True), f32(5, 2, 3), f32(4, 2, 4)),
        built(lambda: nn.GRU(3, 4, bias=False), f32(5, 2, 3)),
        built(lambda: nn.RNN(3, 4, batch_first=True), f32(2, 5, 3), dynamic=True),
        built(lambda: nn.RNN(3, 4, nonlinearity="relu", bidirectional=True, num_layers=2), f32(5, 2, 3)),
    ],
)
def recurrent(
    op: OpBuilder,
    x: ir.Value,
    hx: ir.Value | Sequence[ir.Value],
    params: Sequence[ir.Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    lengths: ir.Value | None = None,
) -> tuple[ir.Value, ...]:
    """LSTM, GRU (the reset gate after the matrix product, as torch has it) or RNN with tanh or relu, layer by layer.

    Each direction's weights stand in `params` as w_ih, w_hh and, where there are biases, b_ih, b_hh. With `lengths` [batch]
    the steps behind a sequence's length are zeros.
    """
    if train and dropout and num_layers > 1:
        raise UnsupportedOperator("dropout between layers has no ONNX form; call model.eval()")
    kind, order, activation = _LAYERS[op.name.partition("::")[2].partition(".")[0]]
    states = [hx] if isinstance(hx, ir.Value) else hx
    directions, each = 2 if bidirectional else 1, 4 if has_biases else 2
    projected = len(params) != num_layers * directions * each
    each += projected
    last = params[each - 1 if projected else 1]
    hidden = last.shape[1] if last.shape is not None else None
    if not isinstance(hidden, int):
        raise UnsupportedOperator("a recurrent layer of dynamic size")
    if batch_first:
        x = op.Transpose(x, perm=[1, 0, 2])
    if lengths is not None:
        lengths = op.Cast(lengths, to=ir.DataType.INT32)
    finals: list[list[ir.Value]] = [[] for _ in states]
    for layer in range(num_layers):
        first = layer * directions
        groups = [params[(first + d) * each :][:each] for d in range(directions)]
        weights, recurrences = ([ordered_gates(op, group[i], order, 0) for group in groups] for i in (0, 1))
        bias = None
        if has_biases:
            parts = ((ordered_gates(op, item, order, 0) for item in group[2:4]) for group in groups)
            bias = stacked(op, [op.Concat(*part, axis=0) for part in parts])
        initial = [op.Slice(state, [first], [first + directions], [0]) if num_layers > 1 else state for state in states]
        if projected:
            lstm = ProjectedLstm(weights, recurrences, [group[-1] for group in groups], bias, hidden)
            result = lstm.write(op, x, initial[0], initial[1], lengths)
        else:
            result = op.node(
                kind,
                x,
                stacked(op, weights),
                stacked(op, recurrences),
                bias,
                lengths,
                *initial,
                hidden_size=hidden,
                direction="bidirectional" if bidirectional else "forward",
                outputs=1 + len(states),
                activations=[activation] * directions if activation is not None else None,
                linear_before_reset=1 if kind == "GRU" else None,
            )
        for final, state in zip(finals, result[1:], strict=True):
            final.append(state)
        if bidirectional:
            x = op.Reshape(op.Transpose(result[0], perm=[0, 2, 1, 3]), [0, 0, -1])
        else:
            x = op.Squeeze(result[0], op.axes(1))
    if batch_first:
        x = op.Transpose(x, perm=[1, 0, 2])
    return (x, *(items[0] if len(items) == 1 else op.Concat(*items, axis=0) for items in finals))


class _OneLayer(nn.Module):
    """One direction of an LSTM by the kernel that torch takes for it on a processor."""

    def __init__(self, reverse: bool, layers: int = 1) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4)
        self.reverse, self.layers = reverse, layers  # the layer is one of so many

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Any:
        kernel = torch.ops.aten.mkldnn_rnn_layer.default
        weights = [weight.detach() for weight in self.lstm.parameters()]
        return kernel(x, *weights, h, c, self.reverse, [], _MKLDNN_LSTM, 4, self.layers, True, False, False, False)[:3]


@aten.lower(
    "aten::mkldnn_rnn_layer",
    cases=[
        built(lambda: _OneLayer(False), f32(5, 2, 3), f32(1, 2, 4), f32(1, 2, 4)),
        built(lambda: _OneLayer(True), f32(5, 2, 3), f32(1, 2, 4), f32(1, 2, 4)),
        built(lambda: _OneLayer(False, layers=2), f32(5, 2, 3), f32(2, 4), f32(2, 4)),
    ],
)
def mkldnn_layer(
    op: OpBuilder,
    x: ir.Value,
    weight0: ir.Value,
    weight1: ir.Value,
    weight2: ir.Value,
    weight3: ir.Value,
    hx_: ir.Value,
    cx_: ir.Value,
    reverse: bool,
    batch_sizes: Sequence[int],
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    *_: object,
) -> tuple[ir.Value, ...]:
    """One layer and direction, of `num_layers`, of an LSTM over [time, batch, features]: `nn.LSTM` behind `torch.vmap`."""
    if mode != _MKLDNN_LSTM or batch_sizes:
        raise UnsupportedOperator(f"mode {mode}, batch sizes {batch_sizes}: only a padded LSTM has a form")
    alone = rank(hx_) == 2  # a layer's state within those of several
    hx_, cx_ = (op.Unsqueeze(item, op.axes(0)) if alone else item for item in (hx_, cx_))
    # Without biases their operands are zeros of the weights' shapes.
    operands = (weight0, weight1, *((weight2, weight3) if has_biases else ()))
    weights, recurrences, *biases = (ordered_gates(op, item, _LAYERS["lstm"][1], 0) for item in operands)
    y, h, c = op.node(
        "LSTM",
        x,
        stacked(op, [weights]),
        stacked(op, [recurrences]),
        stacked(op, [op.Concat(*biases, axis=0)]) if has_biases else None,
        None,
        hx_,
        cx_,
        hidden_size=hidden_size,
        direction="reverse" if reverse else "forward",
        outputs=3,
    )
    h, c = (op.Squeeze(item, op.axes(0)) if alone else item for item in (h, c))
    workspace = op.const(np.zeros(0, np.uint8))  # the fourth result is for the gradient, which no file asks for
    return op.Squeeze(y, op.axes(1)), h, c, workspace


@aten.lower(
    *(f"aten::{name}.data" for name in _LAYERS),
    cases=[built(lambda: nn.LSTM(3, 4), f32(5, 2, 3), name="unpacked")],
)
def packed(op: OpBuilder, *_: object) -> ir.Value:
    """Refused: sequences packed by length have no ONNX form."""
    raise UnsupportedOperator("a packed sequence has no ONNX form; pass the padded tensor and its mask")
