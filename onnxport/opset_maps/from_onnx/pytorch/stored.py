"""A module of a recorded graph that is pickled as its graph.

torch.fx pickles the source of a module's ``forward`` and traces it again where it is loaded. What a program asks of sizes
while it runs (a loop over steps, a branch) can't be traced again, and some constants and names can't be read again.
"""

from __future__ import annotations

import copy
import importlib
import sys
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import fx

from onnxport.frameworks.pytorch_checksums import checksum
from onnxport.opset_maps.from_onnx.pytorch.traced import is_tensor_input, mapped, mark_tensor


class RecordedModule(fx.GraphModule):
    """A torch.fx module whose pickle holds its graph node by node; functions stand in it by their names.

    Attributes:
        onnxport_unused: keys of the state dict that the graph was exported from and does not use: a state dict may hold them.
        onnxport_cached: checksums of those of them out of which the graph has constants: they must have the same content.
        onnxport_fixed: keys whose content the graph holds as numbers of its own, as of a slice: they stay as they are.
    """

    onnxport_unused: tuple[str, ...] = ()
    onnxport_fixed: tuple[str, ...] = ()
    onnxport_cached: tuple[tuple[str, str], ...] = ()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Loads what the graph uses; the module from which it was exported also had `onnxport_unused`, which load as nothing."""
        errors: list[str] = args[-1]
        for key, numbers in self.onnxport_cached:
            given = state_dict.get(f"{prefix}{key}")
            if given is not None and checksum(given) != numbers:
                errors.append(
                    f"{prefix}{key} has other values than at the export, before which the original module had computed constants "
                    "out of it: convert a module that has not run since it was loaded"
                )
        for key in self.onnxport_unused:
            state_dict.pop(f"{prefix}{key}", None)
        for key in self.onnxport_fixed:
            given, own = state_dict.get(f"{prefix}{key}"), attrgetter(key)(self)
            if given is not None and given.shape == own.shape and not torch.equal(given.to(own), own):
                errors.append(
                    f"{prefix}{key} has other values than the file that this module comes from, and its graph is written for "
                    "those: convert the original module again with these values"
                )
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __reduce__(self) -> tuple[Any, ...]:
        """The module's attributes and the lines of its graph."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("_graph", "_code")}
        return restored, (type(self).__name__, state, lines(self.graph))

    def __deepcopy__(self, memo: dict[int, Any]) -> fx.GraphModule:
        """A copy as a pickle gives it: torch.fx's own ties no weights of the module itself and makes its buffers persistent."""
        function, (name, state, stored) = self.__reduce__()
        copied: fx.GraphModule = function(name, copy.deepcopy(state, memo), stored)
        memo[id(self)] = copied
        return copied


@dataclass(frozen=True)
class _Result:
    """The result of another line."""

    line: int


@dataclass(frozen=True)
class _Function:
    """A function that a module has under its name; pickle would look for the qualified name, which some of torch's lack."""

    module: str
    name: str


@dataclass(frozen=True)
class Line:
    """A node as it is stored."""

    op: str
    name: str
    target: Any
    args: Any
    kwargs: Any
    is_tensor: bool  # an input that is a tensor


def lines(graph: fx.Graph) -> list[Line]:
    """The nodes of a graph in order."""
    places = {node: _Result(index) for index, node in enumerate(graph.nodes)}
    return [
        Line(
            node.op,
            node.name,
            _stored(node.target),
            _plain(fx.node.map_arg(node.args, places.__getitem__)),
            _plain(fx.node.map_arg(node.kwargs, places.__getitem__)),
            is_tensor_input(node),
        )
        for node in graph.nodes
    ]


def restored(name: str, state: dict[str, Any], stored: list[Line]) -> RecordedModule:
    """The module of a pickle."""
    module = RecordedModule.__new__(RecordedModule)
    type(module).__name__ = name
    module.__setstate__(state)
    graph = fx.Graph()
    nodes: list[fx.Node] = []
    for line in stored:
        node = graph.create_node(
            line.op, _target(line), _linked(line.args, nodes), _linked(line.kwargs, nodes), line.name
        )
        if line.is_tensor:
            mark_tensor(node)
        nodes.append(node)
    module.graph = graph
    return module


def _stored(target: Any) -> Any:
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", None)
    if callable(target) and module and name and getattr(sys.modules.get(module), name, None) is target:
        return _Function(module, name)
    return target


def _target(line: Line) -> Any:
    target = line.target
    return getattr(importlib.import_module(target.module), target.name) if isinstance(target, _Function) else target


def _plain(value: Any) -> Any:
    """Arguments in Python's own containers: torch.fx has its own, which need not stay as they are."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value)) if type(value) is tuple else value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(_plain(value.start), _plain(value.stop), _plain(value.step))
    return value


def _linked(value: Any, nodes: list[fx.Node]) -> Any:
    return mapped(value, lambda item: nodes[item.line] if isinstance(item, _Result) else item)
