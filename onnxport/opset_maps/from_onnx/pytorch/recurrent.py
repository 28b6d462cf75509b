"""RNN, GRU and LSTM as torch's own functions.

torch keeps one weight a direction, its gates in another order than ONNX. Where the operator's weights are an exported
module's parameters moved about, the parameters themselves are used, under their own names.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Unpack

import torch
from torch import fx

from onnxport.opset_maps.from_onnx.pytorch.namespace import TorchNamespace
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor, Traced
from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder
from onnxport.opset_maps.from_onnx.pytorch.worlds import rule
from onnxport.opset_maps.from_onnx.semantics.recurrent import RecurrentAttributes
from onnxport.opset_maps.from_onnx.values import Ints, known, optional
from onnxport.opset_maps.maps import pytorch_native

# ONNX's order of gates in torch's: LSTM has i, o, f, c for torch's i, f, c, o; GRU z, r, h for torch's r, z, h.
_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
_DEFAULTS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}

# Functions that only move elements, so that they tell where an element of a weight came from.
_MOVES = frozenset(
    {torch.split, torch.cat, torch.unsqueeze, torch.squeeze, torch.reshape, torch.permute, operator.getitem}
)


def _origin(recorder: Recorder, node: fx.Node, labels: dict[str, torch.Tensor], seen: dict[fx.Node, Any]) -> Any:
    """A value as the labels of the parameters' elements that it consists of; None where it is computed otherwise."""
    if node in seen:
        return seen[node]
    result: Any = None
    if node.op == "get_attr":
        content = recorder.attributes[str(node.target)]
        if isinstance(content, torch.nn.Parameter):
            start = sum(item.numel() for item in labels.values())
            result = torch.arange(start, start + content.numel()).reshape(content.shape)
            labels[str(node.target)] = result
    elif node.op == "call_function" and node.target in _MOVES:
        parts = {item: _origin(recorder, item, labels, seen) for item in node.all_input_nodes}
        if all(part is not None for part in parts.values()):
            args = fx.node.map_arg(node.args, lambda item: parts[item])
            kwargs = fx.node.map_arg(node.kwargs, lambda item: parts[item])
            result = node.target(*args, **kwargs)
    seen[node] = result
    return result


class _Weights:
    """The weights of a recurrent operator, row blocks in torch's order."""

    def __init__(self, xp: TorchNamespace) -> None:
        self.xp = xp
        self.labels: dict[str, torch.Tensor] = {}
        self.seen: dict[fx.Node, Any] = {}

    def torch_rows(self, x: TorchTensor, direction: int, order: Ints, hidden: int, first: int = 0) -> TorchTensor:
        """Gate blocks `first`, first + 1, ... of one direction of a weight, in torch's order."""
        blocks = [(first + gate) * hidden for gate in order]
        recorder = self.xp.recorder
        if isinstance(x, Traced) and recorder is not None and x.recorder is recorder:
            labels = _origin(recorder, x.node, self.labels, self.seen)
            if labels is not None:
                wanted = torch.cat([labels[direction, start : start + hidden] for start in blocks])
                for target, own in self.labels.items():
                    if own.shape == wanted.shape and torch.equal(own, wanted):
                        return recorder.attribute_again(target)
        rows = self.xp.call(operator.getitem, x, direction)
        parts = [self.xp.call(operator.getitem, rows, slice(start, start + hidden)) for start in blocks]
        return parts[0] if len(parts) == 1 else self.xp.call(torch.cat, parts)


def _flat_weights(
    xp: TorchNamespace, kind: str, w: TorchTensor, r: TorchTensor, b: TorchTensor | None, directions: int, hidden: int
) -> list[TorchTensor]:
    order = _GATES[kind]
    weights = _Weights(xp)
    result = []
    for direction in range(directions):
        result += [weights.torch_rows(item, direction, order, hidden) for item in (w, r)]
        if b is not None:
            result += [weights.torch_rows(b, direction, order, hidden, first) for first in (0, len(order))]
    return result


def _covered(kind: str, xp: TorchNamespace, x: TorchTensor, attributes: RecurrentAttributes, directions: int) -> bool:
    """Whether torch's function means the same; its GRU resets after the product with the recurrent weight."""
    names = [str(name).lower() for name in attributes.get("activations") or _DEFAULTS[kind] * directions]
    usual = names == list(_DEFAULTS[kind]) * directions or (kind == "RNN" and names == ["relu"] * directions)
    special = attributes.get("clip") is not None or attributes.get("input_forget") or attributes.get("layout")
    reset = kind != "GRU" or attributes.get("linear_before_reset", 0) == 1
    return usual and not special and reset and xp.dtype(x).is_floating_point()


def _state(xp: TorchNamespace, x: TorchTensor, directions: int, hidden: int) -> TorchTensor:
    """An initial state with its sizes known: torch (2.13) reads memory that is not its own where the directions differ.

    Its elements stand in order, as cuDNN wants them: an expanded one is copied.
    """
    if not all(known(n) and n == wanted for n, wanted in zip(xp.shape(x)[::2], (directions, hidden), strict=True)):
        x = xp.reshape(x, (directions, -1, hidden))
    return xp.call(torch.Tensor.contiguous, x)


def _native(kind: str) -> Callable[..., Any]:
    """torch's function of one of the operators; torch has no peepholes."""

    def operator(xp: TorchNamespace, *operands: Any, **attributes: Unpack[RecurrentAttributes]) -> Any:
        x, w, r, b, lengths, first, second, peepholes = optional(operands, 8)
        if lengths is not None or peepholes is not None:
            return NotImplemented
        given = (first, second) if kind == "LSTM" else (first,)
        directions = {"bidirectional": 2}.get(attributes.get("direction", "forward"), 1)
        hidden = xp.shape(r)[2]
        if not known(hidden) or not _covered(kind, xp, x, attributes, directions):
            return NotImplemented
        backward = attributes.get("direction") == "reverse"
        steps, batch, _ = xp.shape(x)
        started = [
            xp.zeros((directions, batch, hidden), xp.dtype(x)) if item is None else _state(xp, item, directions, hidden)
            for item in given
        ]
        flat = _flat_weights(xp, kind, w, r, b, directions, hidden)
        x = xp.flip(x, (0,)) if backward else x
        common = (flat, b is not None, 1, 0.0, False, directions == 2, False)
        if kind == "LSTM":
            y, *lasts = xp.call(torch.lstm, x, tuple(started), *common)
        else:
            relu = str((attributes.get("activations") or ("tanh",))[0]).lower() == "relu"
            function = torch.gru if kind == "GRU" else torch.rnn_relu if relu else torch.rnn_tanh
            y, *lasts = xp.call(function, x, started[0], *common)
        y = xp.flip(y, (0,)) if backward else y
        if directions == 1:
            y = xp.expand_dims(y, [1])
        else:
            y = xp.permute_dims(xp.reshape(y, (steps, batch, directions, hidden)), (0, 2, 1, 3))
        return (y, *lasts)[: xp.output_count] if xp.output_count > 1 else y

    operator.__doc__ = f"torch's {kind.lower()}."
    return operator


def _sizes(fresh: int, x: torch.Tensor, state: Any, *_: object) -> tuple[torch.Tensor, ...]:
    """What the functions give on tensors without content, where torch itself computes each step."""
    several = isinstance(state, (tuple, list))
    (steps, batch, _), (directions, _, hidden) = x.shape, (state[0] if several else state).shape
    lasts = [x.new_empty((directions, batch, hidden)) for _ in (state if several else (state,))]
    return (x.new_empty((steps, batch, directions * hidden)), *lasts)


for _function in (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu):
    rule(_function, _sizes)

for _kind in _GATES:
    pytorch_native.op(_kind, versions=(7, 14, 22))(_native(_kind))
