"""Names of what goes in and out, by the structure that holds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

import tensorflow as tf

from onnxport.graph.names import component_names


def output_name(path: tuple[str, ...]) -> str:
    """The name of an output at a path of the result's structure.

    >>> output_name(()), output_name(("1",)), output_name(("past", "0", "key"))
    ('output', 'output_1', 'past.0.key')
    """
    if not path:
        return "output"
    return ".".join((f"output_{path[0]}" if path[0].isdigit() else path[0], *path[1:]))


def paths(structure: object, prefix: tuple[str, ...] = ()) -> Iterable[tuple[tuple[str, ...], Any]]:
    """The leaves of a nested structure in tf.nest's order (mappings sorted by key), each with its path."""
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            yield from paths(structure[key], (*prefix, str(key)))
    elif isinstance(structure, tuple) and hasattr(structure, "_fields"):
        for key in structure._fields:
            yield from paths(getattr(structure, key), (*prefix, key))
    elif isinstance(structure, (list, tuple)):
        for index, item in enumerate(structure):
            yield from paths(item, (*prefix, str(index)))
    elif is_dataclass(structure) and hasattr(structure, "__tf_flatten__"):
        _, components = structure.__tf_flatten__()
        for index, item in enumerate(components):
            yield from paths(item, (*prefix, str(index)))
    else:
        yield prefix, structure


def tensors_of(structure: object, prefix: tuple[str, ...] = ()) -> Iterable[tuple[tuple[str, ...], Any]]:
    """The leaves of a nested structure, ragged and sparse tensors (or their specs) as the tensors that they consist of."""
    for path, leaf in paths(structure, prefix):
        kind = type(leaf).__name__.removesuffix("Spec")
        parts = tf.nest.flatten(leaf, expand_composites=True)
        names = component_names(kind, len(parts))
        yield from (
            [(path, leaf)] if names is None else [((*path, n), part) for n, part in zip(names, parts, strict=True)]
        )
