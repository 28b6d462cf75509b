"""What the layers of a model give beside the converted graph, from a run of the model itself that needs no trace."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.graph.provenance import PREFIX
from onnxport.graph.slices import values_in_slices
from onnxport.validation.divergence import in_form_of, is_far
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.parties import Comparison
from onnxport.validation.runners.base import InputSpec

Path = tuple[str, ...]
_CALLED_ONCE = "_1"  # what TensorFlow adds to the scope of a layer's only call: the layer was built in one of its name


def agreeing_layers(parties: Comparison, item: InputSet, graph: ir.Model, specs: Sequence[InputSpec]) -> int:
    """How many layers agree, if all do and every node of the graph is part of one; else 0, which shows nothing.

    A layer agrees whose result is that of the last node in its scope. What can't be told so is for a closer look.
    """
    if parties.source.graph is not None:
        return 0
    last = _last_values(graph)
    leaves = _first_row(item.leaves, specs)
    feeds = {spec.name: leaf for spec, leaf in zip(specs, leaves, strict=True)}
    stream = _Stream(values_in_slices(graph, feeds, wanted=set(last.values())))
    near: dict[Path, bool] = {}
    around: set[Path] = set()  # the scopes of what holds layers

    def take(path: Path, result: Any) -> None:
        scope = tuple(f"{name}{_CALLED_ONCE}" for name in path)
        if scope in last and scope not in around:
            # behind one that does not, nothing is run any more
            near[scope] = all(near.values()) and scope not in near and _agrees(stream.value(last[scope]), result)
        around.update(scope[:count] for count in range(1, len(scope)))

    try:
        parties.source.each_layer(parties.source_leaves(leaves), take)
    except Exception:  # of the user's code, which need not take one row, or of a slice that does not run
        return 0
    layers = near.keys() - around
    if all(near[scope] for scope in layers) and all(_innermost(_scope(node), near) in layers for node in graph.graph):
        return len(layers)
    return 0


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
    """The first row of inputs that are all of one batch, which takes less time than all; others as they are."""
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
