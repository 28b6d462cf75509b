"""Weights of recurrent calls become those of `torch.nn.LSTM`, `GRU` and `RNN`.

Parameters that are named as such a layer's would be, for each of its depths and directions, stand in one. Weights that a file
holds in ONNX's order, as torch.onnx writes them, are brought into torch's once. The graph calls torch's function on them:
torch.compile makes no one graph of the layers themselves (torch 2.13).
"""

from __future__ import annotations

import operator
import re
from collections import defaultdict
from typing import Any

import torch
from torch import fx, nn

from onnxport.opset_maps.from_onnx.pytorch.layers import WithoutContent
from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder

_KINDS: dict[object, tuple[type[nn.RNNBase], dict[str, str]]] = {
    torch.lstm: (nn.LSTM, {}),
    torch.gru: (nn.GRU, {}),
    torch.rnn_tanh: (nn.RNN, {"nonlinearity": "tanh"}),
    torch.rnn_relu: (nn.RNN, {"nonlinearity": "relu"}),
}
_ROLE = re.compile(r"(?:(.+)\.)?((?:weight|bias)_[ih]h_l(\d+)(?:_reverse)?)")
_MOVES = frozenset(
    {torch.cat, operator.getitem, torch.permute, torch.reshape, torch.unsqueeze, torch.squeeze, torch.split}
)


def recognise(recorder: Recorder) -> None:
    """Gives the recurrent calls of a finished graph their layers."""
    calls = [node for node in recorder.graph.nodes if node.op == "call_function" and node.target in _KINDS]
    named: dict[str, list[fx.Node]] = defaultdict(list)
    for node in calls:
        path = _path_of(node)
        if path is None:
            path = _reordered(recorder, node)
        if path:  # the module itself, whose path is empty, has its parameters already
            named[path].append(node)
    for path, nodes in named.items():
        _hold(recorder, path, nodes)


def _path_of(node: fx.Node) -> str | None:
    """The path of the layer that all weights of a call are named after; empty where it is the whole model."""
    matches = [_ROLE.fullmatch(str(item.target)) if item.op == "get_attr" else None for item in _weights(node)]
    paths = {match[1] or "" if match else None for match in matches}
    return paths.pop() if len(paths) == 1 else None


def _weights(node: fx.Node) -> list[fx.Node]:
    return list(node.args[2])


def _names(node: fx.Node, layer: int = 0) -> list[str]:
    """The names of a call's weights in a layer, in order."""
    roles = ("weight_ih", "weight_hh", "bias_ih", "bias_hh") if node.args[3] else ("weight_ih", "weight_hh")
    directions = ("", "_reverse") if node.args[7] else ("",)
    return [f"{role}_l{layer}{direction}" for direction in directions for role in roles]


def _reordered(recorder: Recorder, node: fx.Node) -> str | None:
    """The path of new parameters in torch's order, where the call's weights are parameters moved about for it alone."""
    chain: set[fx.Node] = set()
    contents = [_content(recorder, item, chain) for item in _weights(node)]
    if any(item is None for item in contents) or any(
        not users <= {*chain, node} for users in (set(item.users) for item in chain)
    ):
        return None
    path = recorder.paths.take(_KINDS[node.target][0].__name__.lower())
    fresh = []
    with torch.no_grad():
        for name, content in zip(_names(node), contents, strict=True):
            parameter = nn.Parameter(content.detach().clone())  # type: ignore[union-attr]
            fresh.append(recorder.attribute(f"{path}.{name}", parameter).node)
    node.update_arg(2, fresh)
    recorder.drop_unused()
    return path


def _content(recorder: Recorder, node: fx.Node, chain: set[fx.Node]) -> torch.Tensor | None:
    """What a weight holds that consists of parameters' elements; its nodes are added to the chain."""
    result: Any = None
    if node.op == "get_attr":
        content = recorder.attributes[str(node.target)]
        result = content if isinstance(content, nn.Parameter) else None
    elif node.op == "call_function" and node.target in _MOVES:
        parts = {item: _content(recorder, item, chain) for item in node.all_input_nodes}
        if all(part is not None for part in parts.values()):
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), parts.__getitem__)
            result = node.target(*args, **kwargs)
    if result is not None:
        chain.add(node)
    return result


def _hold(recorder: Recorder, path: str, nodes: list[fx.Node]) -> None:
    """Sets the layer at a path whose weights are those of the calls, one for each depth."""
    first = nodes[0]
    if any((node.target, *node.args[3:8]) != (first.target, *first.args[3:8]) for node in nodes):
        return
    wanted = {f"{path}.{name}" for depth in range(len(nodes)) for name in _names(first, depth)}
    given = {str(item.target) for node in nodes for item in _weights(node)}
    if given != wanted or any(key not in wanted for key in recorder.attributes.inside(path)):
        return
    kind, options = _KINDS[first.target]
    hidden, size = (recorder.attributes[f"{path}.weight_{role}_l0"].shape[1] for role in ("hh", "ih"))
    form = {"num_layers": len(nodes), "bias": bool(first.args[3]), "bidirectional": bool(first.args[7])}
    with WithoutContent():
        layer = kind(size, hidden, **form, **options)
    for target in wanted:
        name, parameter = target.removeprefix(f"{path}."), recorder.attributes[target]
        if not isinstance(parameter, nn.Parameter) or getattr(layer, name).shape != parameter.shape:
            return
        setattr(layer, name, parameter)
    recorder.holders[path] = layer
