"""Recurrent layers while tracing: one opaque operator each, so that the time axis stays dynamic.

torch runs LSTM, GRU and RNN on its traced (fake) tensors step by step, which fixes the number of steps. Inside `kept_whole`
the layers call an operator of our own instead that computes the same and says its shapes without running.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_STATE_COUNT = {"lstm": 2, "gru": 1, "rnn_tanh": 1, "rnn_relu": 1}


def _native(kind: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(torch, kind)
    return function


def _define(kind: str) -> Callable[..., Any]:
    def run(
        x: Tensor,
        states: list[Tensor],
        params: list[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> list[Tensor]:
        hx = states if kind == "lstm" else states[0]
        made = _native(kind)(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        return [item.clone() for item in made]

    def shapes(
        x: Tensor,
        states: list[Tensor],
        params: list[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> list[Tensor]:
        width = states[0].shape[-1] * (2 if bidirectional else 1)
        return [x.new_empty((*x.shape[:-1], width)), *(torch.empty_like(state) for state in states)]

    operator = torch.library.custom_op(f"onnxport::{kind}", run, mutates_args=())
    operator.register_fake(shapes)
    return operator


_OPERATORS = {kind: _define(kind) for kind in _STATE_COUNT}


class kept_whole(TorchFunctionMode):
    """While it is active, recurrent layers on padded tensors are traced as one operator each."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Passes every call on; a recurrent one to the operator of our own."""
        kind = getattr(func, "__name__", "")
        if kind not in _OPERATORS or kwargs or len(args) != 9 or not isinstance(args[2], (list, tuple)):
            return func(*args, **(kwargs or {}))
        x, hx, params, *rest = args
        states = list(hx) if kind == "lstm" else [hx]
        return tuple(_OPERATORS[kind](x, states, list(params), *rest))
