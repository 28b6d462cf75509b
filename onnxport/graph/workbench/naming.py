"""Other names for the values and nodes of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import onnx_ir as ir

from onnxport.errors import InvalidInputError
from onnxport.graph import outputs as produced
from onnxport.graph.passes.rename import every_value


def pairs(words: Iterable[str], form: str) -> dict[str, str]:
    """Names by names, from ``OLD=NEW``; `form` is how one is written, for the error.

    >>> pairs(["x=image"], "OLD=NEW")
    {'x': 'image'}

    Raises:
        InvalidInputError: one has no two names, or a name stands on the left twice.
    """
    given: dict[str, str] = {}
    for text in words:
        old, sign, new = text.partition("=")
        if not sign or not old or not new:
            raise InvalidInputError(f"{text!r}: written as {form}")
        if old in given:
            raise InvalidInputError(f"{old!r} is given twice: {old}={given[old]} and {text}")
        given[old] = new
    return given


def rename_all(model: ir.Model, values: Mapping[str, str], nodes: Mapping[str, str] | None = None) -> None:
    """Gives values of the main graph (inputs, outputs, weights, results) and nodes new names by their old ones; in place.

    Raises:
        InvalidInputError: there is no such value or node, or another one has the new name.
    """
    every = list(every_value(model.graph))
    main = [*model.graph.inputs, *model.graph.initializers.values(), *(v for node in model.graph for v in node.outputs)]
    there = {item.name: item for item in main if item.name}
    sizes = {str(size) for item in model.graph.inputs for size in item.shape or () if isinstance(size, ir.SymbolicDim)}
    if varying := [old for old in values if old in sizes and old not in there]:
        raise InvalidInputError(
            f"{varying[0]!r} is a dimension, no value: set_shapes({{{varying[0]!r}: {values[varying[0]]!r}}}) names it, on the "
            f"command line onnxport set-shapes {varying[0]}={values[varying[0]]}"
        )
    chosen = _chosen("value", there, values)
    _check_free("value", [item.name for item in every if item not in chosen], chosen.values())
    everywhere = list(model.graph.all_nodes())
    named = _chosen("node", {item.name: item for item in everywhere if item.name}, nodes or {})
    _check_free("node", [item.name for item in everywhere if item not in named], named.values())
    ir.convenience.rename_values(list(chosen), list(chosen.values()))
    for node, name in named.items():
        node.name = name
    known = produced.read(model.metadata_props)
    if known:
        renamed = [replace(item, name=values.get(item.name, item.name)) for item in known]
        model.metadata_props[produced.PRODUCED] = produced.written(renamed, [item.name for item in renamed])


def _chosen(kind: str, known: Mapping[str, ir.Value] | Mapping[str, ir.Node], names: Mapping[str, str]) -> dict:
    missing = [old for old in names if old not in known]
    if missing:
        some = ", ".join(list(known)[:8])
        raise InvalidInputError(
            f"the model has no {kind} {missing[0]!r}; it has {some}{' ...' if len(known) > 8 else ''}"
        )
    for old, new in names.items():
        if not isinstance(new, str) or not new:
            raise InvalidInputError(f"the new name of {kind} {old!r} is {new!r}: a string that is not empty")
    return {known[old]: new for old, new in names.items()}


def _check_free(kind: str, others: Iterable[str | None], wanted: Iterable[str]) -> None:
    taken, seen = set(others), set()
    for name in wanted:
        if name in taken or name in seen:
            raise InvalidInputError(f"another {kind} is called {name!r} already")
        seen.add(name)
