"""Recurrent layers while tracing, so that batch and time stay dynamic.

torch runs LSTM, GRU and RNN on its traced (fake) tensors step by step, which fixes the number of steps. Inside `kept_whole`
the layers call an operator of our own instead that computes the same and has its shapes without running. The cells fix the
batch, in a check; there they are computed from their formulas (torch.nn.LSTMCell, GRUCell, RNNCell).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from onnxport.tracing.pytorch_packed import Packing

_Option: TypeAlias = list[Tensor] | bool | int | float | Tensor | None  # Parameters, options of the layer, lengths
_OPTIONS = 7
_KINDS = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))
# Of torch.lstm, torch.gru, torch.rnn_tanh and torch.rnn_relu: the states are a list here for all of them.
_SCHEMA = (
    "(Tensor x, Tensor[] states, Tensor[] params, bool has_biases, SymInt num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first, Tensor? lengths=None) -> Tensor[]"
)


@cache
def _operator(kind: str) -> Callable[..., Any]:
    """Defined at the first layer of its kind: a definition takes torch some milliseconds."""

    def run(x: Tensor, states: list[Tensor], *options: _Option) -> list[Tensor]:
        given = states if kind == "lstm" else states[0]
        if isinstance(options[-1], Tensor):
            return _run_packed(kind, x, given, options[-1], options[:-1])
        return [item.clone() for item in getattr(torch, kind)(x, given, *options[:_OPTIONS])]

    def shapes(x: Tensor, states: list[Tensor], *options: _Option) -> list[Tensor]:
        bidirectional = options[5]
        width = states[0].shape[-1] * (2 if bidirectional else 1)
        return [x.new_empty((*x.shape[:-1], width)), *(torch.empty_like(state) for state in states)]

    operator = torch.library.custom_op(f"onnxport::{kind}", run, mutates_args=(), schema=_SCHEMA)
    operator.register_fake(shapes)
    return operator


def _run_packed(
    kind: str, x: Tensor, states: list[Tensor] | Tensor, lengths: Tensor, options: Sequence[_Option]
) -> list[Tensor]:
    """The layer on sequences of these lengths, falling; the steps behind them are zeros."""
    *options, batch_first = options
    data, sizes = torch._pack_padded_sequence(x, lengths, bool(batch_first))
    steps, *finals = getattr(torch, kind)(data, sizes, states, *options)
    total = x.shape[1 if batch_first else 0]
    return [torch._pad_packed_sequence(steps, sizes, bool(batch_first), 0.0, total)[0], *finals]


def _gates(
    x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    return F.linear(x, w_ih, b_ih), F.linear(h, w_hh, b_hh)


def lstm_step(of_input: Tensor, of_state: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The next h and c of the sums of an LSTM's gates."""
    i, f, g, o = (of_input + of_state).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_step(of_input: Tensor, of_state: Tensor, h: Tensor) -> Tensor:
    """The next h of the sums of a GRU's gates."""
    (r, z, n), (hr, hz, hn) = of_input.chunk(3, 1), of_state.chunk(3, 1)
    new = torch.tanh(n + torch.sigmoid(r + hr) * hn)
    return (h - new) * torch.sigmoid(z + hz) + new


def _lstm_cell(x: Tensor, hx: Sequence[Tensor], *params: Tensor) -> tuple[Tensor, Tensor]:
    return lstm_step(*_gates(x, hx[0], *params), hx[1])


def _gru_cell(x: Tensor, h: Tensor, *params: Tensor) -> Tensor:
    return gru_step(*_gates(x, h, *params), h)


def _rnn_cell(activation: Callable[[Tensor], Tensor], x: Tensor, h: Tensor, *params: Tensor) -> Tensor:
    of_input, of_state = _gates(x, h, *params)
    return activation(of_input + of_state)


_CELLS: dict[str, Callable[..., Any]] = {
    "lstm_cell": _lstm_cell,
    "gru_cell": _gru_cell,
    "rnn_tanh_cell": partial(_rnn_cell, torch.tanh),
    "rnn_relu_cell": partial(_rnn_cell, torch.relu),
}


def is_recurrent(module: torch.nn.Module) -> bool:
    """Whether the module is a layer or cell that `kept_whole` knows."""
    return isinstance(module, (torch.nn.RNNBase, torch.nn.RNNCellBase))


class kept_whole(TorchFunctionMode):
    """While it is active, recurrent layers are traced as one operator each, cells as their formulas.

    Attributes:
        packing: the packed sequences of the trace.
    """

    def __init__(self) -> None:
        super().__init__()
        self.packing = Packing()

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Passes every call on; a recurrent one to what stands in for it."""
        kind = getattr(func, "__name__", "")
        if kind == "_pack_padded_sequence":
            return self.packing.pack(*args)
        if kind == "_pad_packed_sequence":
            return self.packing.pad(*args)
        if kind in _CELLS and not kwargs:
            return _CELLS[kind](*args)
        if kind not in _KINDS or kwargs or len(args) != 9 or not isinstance(args[2], (list, tuple)):
            return func(*args, **(kwargs or {}))
        x, hx, params, *rest = args
        states = list(hx) if kind == "lstm" else [hx]
        return tuple(_operator(kind)(x, states, list(params), *rest, self.packing.lengths))
