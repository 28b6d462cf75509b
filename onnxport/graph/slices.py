"""Every value of a graph, run as it is written, a slice of its nodes at a time: what no later node reads is let go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.graph.runtime import Session
from onnxport.graph.segments import segment_model, values_read

_FIRST = 8  # nodes of the first slice, of which nothing is known yet
_VALUE_BYTES = 32 << 20  # what the values of one slice should take
_WEIGHT_BYTES = 64 << 20  # weights with which a slice ends


def values_in_slices(
    model: ir.Model, feeds: Mapping[str, Any], *, wanted: Collection[str] | None = None
) -> Iterator[tuple[str, Any]]:
    """Every tensor of the main graph by name, or every one that is wanted, in the order of its nodes.

    In memory are the values of one slice and what later slices read: the slices grow or shrink with what they hold.

    Raises:
        InvalidInputError: a slice can't run on these inputs.
        InvalidModelError: no runtime loads a slice.
    """
    nodes = list(model.graph)
    last = {value.name: place for place, node in enumerate(nodes) for value in values_read(node)}
    held: dict[str, Any] = dict(feeds)
    place, count = 0, _FIRST
    while place < len(nodes):
        part = _weighed(nodes[place : place + count])
        place += len(part)
        later = (name for name, reader in last.items() if name is not None and reader >= place)
        asked = None if wanted is None else {*wanted, *later}
        results = _run(model, part, held, asked)
        for value in (value for node in part for value in node.outputs if value.name in results):
            name = value.name or ""
            if last.get(name, -1) >= place:
                held[name] = results[name]
            if isinstance(results[name], np.ndarray) and (wanted is None or name in wanted):
                yield name, results[name]
        taken = sum(item.nbytes for item in results.values() if isinstance(item, np.ndarray))
        del results
        count = 2 * len(part) if 2 * taken <= _VALUE_BYTES else max(1, len(part) * _VALUE_BYTES // (2 * taken))
        held = {name: item for name, item in held.items() if last.get(name, -1) >= place}


def _weighed(nodes: Sequence[ir.Node]) -> list[ir.Node]:
    """The first of the nodes, up to the one whose weights come beyond the bound with those before."""
    part: list[ir.Node] = []
    held: set[ir.Value] = set()
    total = 0
    for node in nodes:
        for value in values_read(node):
            if value.const_value is not None and value not in held:
                held.add(value)
                total += value.const_value.nbytes
        if part and total > _WEIGHT_BYTES:
            break
        part.append(node)
    return part


def _run(
    model: ir.Model, nodes: list[ir.Node], held: Mapping[str, Any], asked: Collection[str] | None
) -> dict[str, Any]:
    """All that the nodes give, or what of it is asked for, by name."""
    own = {value for node in nodes for value in node.outputs}
    results = [
        value for node in nodes for value in node.outputs if value.name and (asked is None or value.name in asked)
    ]
    if not results:
        return {}
    inputs = [value for value in _read_first(nodes) if value not in own]
    feeds = {value.name or "": held[value.name or ""] for value in inputs if value.name in held}
    session = Session(segment_model(model, nodes, inputs, results, feeds), optimize=False)
    names = [value.name or "" for value in results]
    return dict(zip(names, session.run(feeds, names), strict=True))


def _read_first(nodes: Iterable[ir.Node]) -> list[ir.Value]:
    return list(dict.fromkeys(value for node in nodes for value in values_read(node)))
