"""What the layers of a model give beside the converted graph, from a run of the model itself that needs no trace."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.graph.provenance import PREFIX
from onnxport.graph.slices import values_in_slices
from onnxport.validation.divergence import in_form_of, is_far
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.parties import Comparison
from onnxport.validation.runners.base import InputSpec

Path = tuple[str, ...]
_CALLED_ONCE = "_1"  # what TensorFlow adds to the scope of a layer's only call: the layer was built in one of its name


def agreeing_layers(parties: Comparison, item: InputSet, graph: ir.Model, specs: Sequence[InputSpec]) -> int:
    """How many layers agree on the first row of a set, as `Layers.agreeing` counts them."""
    layers = Layers(graph, specs, item.leaves)
    try:
        parties.source.each_layer(parties.source_leaves(layers.leaves), layers.take)
    except Exception:  # of the user's code, which need not take one row
        return 0
    return layers.agreeing


class Layers:
    """The layers of a model, as a run of it hands them over, beside the values of the graph.

    A layer agrees whose result is that of the last node in its scope. What can't be told so is for a closer look.

    Attributes:
        leaves: what the graph gets: the first row of inputs that are all of one batch, which takes less time than all.
        seconds: how long the graph and the comparisons have taken.
    """

    def __init__(self, graph: ir.Model, specs: Sequence[InputSpec], leaves: Sequence[Any]) -> None:
        self.leaves = _first_row(leaves, specs)
        self.seconds = 0.0
        self._rows = {len(leaf) for leaf, one in zip(leaves, self.leaves, strict=True) if leaf is not one}
        self._graph = graph
        self._last = _last_values(graph)
        feeds = {spec.name: leaf for spec, leaf in zip(specs, self.leaves, strict=True)}
        self._stream = _Stream(values_in_slices(graph, feeds, wanted=set(self._last.values())))
        self._near: dict[Path, bool] = {}
        self._around: set[Path] = set()  # the scopes of what holds layers

    def take(self, path: Path, result: Any) -> None:
        """Compares what a layer gives, by the names of those around it and its own, of as many rows as the graph gets or more."""
        started = time.perf_counter()
        scope = tuple(f"{name}{_CALLED_ONCE}" for name in path)
        if scope in self._last and scope not in self._around:
            # behind one that does not, nothing is run any more
            sound = all(self._near.values()) and scope not in self._near
            self._near[scope] = sound and self._agrees(self._last[scope], result)
        self._around.update(scope[:count] for count in range(1, len(scope)))
        self.seconds += time.perf_counter() - started

    @property
    def agreeing(self) -> int:
        """How many layers agree, if all do and every node of the graph is part of one; else 0, which shows nothing."""
        layers = self._near.keys() - self._around
        held = all(_innermost(_scope(node), self._near) in layers for node in self._graph.graph)
        return len(layers) if held and all(self._near[scope] for scope in layers) else 0

    def _agrees(self, name: str, result: Any) -> bool:
        if isinstance(result, np.ndarray) and result.ndim and {len(result)} == self._rows:
            result = result[:1]
        try:
            return _agrees(self._stream.value(name), result)
        except OnnxportError:  # a slice that does not run
            return False


class _Stream:
    """Values that come in the order of a graph's nodes, asked for in that of a model's layers."""

    def __init__(self, values: Iterator[tuple[str, Any]]) -> None:
        self._values = values
        self._held: dict[str, Any] = {}

    def value(self, name: str) -> Any:
        """The value of this name, which is given once; None where there is none."""
        while name not in self._held:
            try:
                other, value = next(self._values)
            except StopIteration:
                return None
            self._held[other] = value
        return self._held.pop(name)


def _agrees(own: Any, result: Any) -> bool:
    if not isinstance(own, np.ndarray) or not isinstance(result, np.ndarray) or own.ndim != result.ndim:
        return False
    return not is_far(in_form_of(own, result), own)


def _first_row(leaves: Sequence[Any], specs: Sequence[InputSpec]) -> list[Any]:
    """The first row of inputs that are all of one batch; others as they are."""
    batches = {spec.dims[0] if spec.dims else None for spec in specs}
    one = len(batches) == 1 and isinstance(next(iter(batches)), str)
    if one and all(isinstance(leaf, np.ndarray) for leaf in leaves):
        return [leaf[:1] for leaf in leaves]
    return list(leaves)


def _scope(node: ir.Node) -> Path:
    return tuple(node.metadata_props.get(f"{PREFIX}module", "").split("/"))


def _last_values(graph: ir.Model) -> dict[Path, str]:
    """The result of the last node in each scope, and in those around it."""
    last: dict[Path, str] = {}
    for node in graph.graph:
        scope = _scope(node)
        for count in range(len(scope)):
            last[scope[: count + 1]] = node.outputs[0].name or ""
    return last


def _innermost(scope: Path, layers: Collection[Path]) -> Path:
    """The longest of the scopes around one that is a layer's."""
    return next((scope[:count] for count in range(len(scope), 0, -1) if scope[:count] in layers), ())
