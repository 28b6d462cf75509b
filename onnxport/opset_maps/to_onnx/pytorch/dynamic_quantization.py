"""Dynamically quantised layers, by the operators that tracing has for them (`tracing/pytorch_quantized.py`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch import Tensor, nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32
from onnxport.opset_maps.lowerings import dynamic_quantization
from onnxport.opset_maps.maps import aten


def _quantised(make: Callable[[], nn.Module], qconfig: Any = None) -> Callable[[], nn.Module]:
    """Makes the layer with its weights in 8 bits."""

    def quantise() -> nn.Module:
        from torch.ao.quantization import default_dynamic_qconfig, quantize_dynamic

        layer = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch deprecates this way to quantise
            result: nn.Module = quantize_dynamic(
                nn.Sequential(layer), {type(layer): qconfig or default_dynamic_qconfig}
            )
        return result

    return quantise


def _per_channel() -> Any:
    from torch.ao.quantization import per_channel_dynamic_qconfig

    return per_channel_dynamic_qconfig


def _asymmetric() -> Any:
    from torch.ao.quantization import MinMaxObserver, QConfig, default_dynamic_quant_observer

    weight = MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_affine)
    return QConfig(activation=default_dynamic_quant_observer, weight=weight)


@aten.lower(
    "onnxport::linear_dynamic",
    cases=[
        built(_quantised(lambda: nn.Linear(7, 5)), f32(4, 7), dynamic=True),
        built(_quantised(lambda: nn.Linear(7, 5, bias=False), _per_channel()), f32(2, 3, 7)),
        built(_quantised(lambda: nn.Linear(7, 5), _asymmetric()), f32(4, 7, low=0.2, high=1.0)),
        built(_quantised(lambda: nn.Linear(7, 5)), f32(4, 7, low=-1e-6, high=2e-6)),
    ],
)
def linear_dynamic(
    op: OpBuilder,
    x: ir.Value,
    weight: ir.Value,
    scale: ir.Value,
    zero: ir.Value | None,
    bias: ir.Value | None,
    steps: int,
) -> ir.Value:
    """MatMulInteger between the roundings of PyTorch's kernel."""
    if x.dtype != ir.DataType.FLOAT:
        raise UnsupportedOperator("a dynamically quantised product of another type than float32")
    return dynamic_quantization.linear(
        op, x, dynamic_quantization.prepared(op, weight, scale, zero, bias, steps), steps
    )


class _WithStates(nn.Module):
    """A quantised LSTM with initial states."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = _quantised(lambda: nn.LSTM(3, 4, 2, bidirectional=True))()[0]

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Any:
        return self.lstm(x, (h, c))


@aten.lower(
    "onnxport::lstm_dynamic",
    "onnxport::gru_dynamic",
    cases=[
        built(_quantised(lambda: nn.LSTM(3, 4, batch_first=True)), f32(2, 5, 3), dynamic=True),
        built(_WithStates, f32(5, 2, 3), f32(4, 2, 4), f32(4, 2, 4)),
        built(_quantised(lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True)), f32(5, 2, 3)),
        built(_quantised(lambda: nn.GRU(3, 4, batch_first=True), _per_channel()), f32(2, 5, 3), dynamic=True),
    ],
)
def recurrent(
    op: OpBuilder,
    x: ir.Value,
    states: Sequence[ir.Value],
    params: Sequence[ir.Value],
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
    steps: int,
) -> tuple[ir.Value, ...]:
    """A Scan of each direction of each layer; `params` hold weight, scale and bias for the input, then for the state."""
    x = op.Transpose(x, perm=[1, 0, 2]) if batch_first else x
    directions = 2 if bidirectional else 1
    weights = [
        dynamic_quantization.prepared(op, params[i], params[i + 1], None, params[i + 2], steps)
        for i in range(0, len(params), 3)
    ]
    finals: list[list[ir.Value]] = [[] for _ in states]
    for layer in range(num_layers):
        results = []
        for direction in range(directions):
            place = layer * directions + direction
            initial = [op.Gather(state, op.const(place), axis=0) for state in states]
            pair = weights[2 * place : 2 * place + 2]
            result, last = dynamic_quantization.recurrent(op, x, pair, initial, steps, reverse=direction == 1)
            results.append(result)
            for final, state in zip(finals, last, strict=True):
                final.append(op.Unsqueeze(state, op.axes(0)))
        x = results[0] if directions == 1 else op.Concat(*results, axis=2)
    x = op.Transpose(x, perm=[1, 0, 2]) if batch_first else x
    return (x, *(items[0] if len(items) == 1 else op.Concat(*items, axis=0) for items in finals))
