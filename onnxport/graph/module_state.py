"""What a module's state dict has beyond the initializers of its graph: the file holds it for importers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.graph.outputs import COMPACT

STATE = "onnxport.state"  # the metadata key of the file


@dataclass(frozen=True)
class Content:
    """A tensor that no operator of the graph reads: its ONNX type by name, its sizes and its bytes, as a raw initializer's."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def array(self) -> np.ndarray:
        """The tensor.

        >>> Content("INT64", (1, 2), bytes([7] + 7 * [0] + [8] + 7 * [0])).array().tolist()
        [[7, 8]]
        """
        return np.frombuffer(self.data, ir.DataType[self.dtype].numpy()).reshape(self.shape)


@dataclass(frozen=True)
class ModuleState:
    """The state dict of the module that a graph comes from.

    Attributes:
        keys: its keys in order, each with the initializer that holds its content: another name where weights are tied.
        buffers: initializers that are buffers, not parameters.
        transient: initializers that the state dict leaves out.
        numbers: whole numbers of the state dict that the graph does not use, as the batches that a norm has seen.
        contents: small tensors of the state dict that the graph does not use.
        unused: other keys of the state dict whose content the graph does not use, and the file does not hold.
        cached: those of the last two out of which the module made constants of the graph before it was traced, with checksums.
    """

    keys: tuple[tuple[str, str], ...] = ()
    buffers: frozenset[str] = frozenset()
    transient: frozenset[str] = frozenset()
    numbers: tuple[tuple[str, int], ...] = ()
    contents: tuple[tuple[str, Content], ...] = ()
    unused: tuple[str, ...] = ()
    cached: tuple[tuple[str, str], ...] = ()

    def in_order(self, keys: Sequence[str]) -> ModuleState:
        """The state with its keys in the order of `keys`.

        >>> ModuleState((("weight", "weight"), ("mean", "mean"))).in_order(["mean", "weight"]).keys
        (('mean', 'mean'), ('weight', 'weight'))
        """
        places = {key: index for index, key in enumerate(keys)}
        return replace(self, keys=tuple(sorted(self.keys, key=lambda item: places.get(item[0], len(places)))))


def written(state: ModuleState) -> str:
    """The state as text; buffers and numbers that are among the keys by their places there."""
    keys = [key if key == holder else [key, holder] for key, holder in state.keys]
    places: dict[str, int | str] = {key: place for place, key in enumerate(keys) if isinstance(key, str)}
    parts = {
        "keys": keys,
        "buffers": [places.get(name, name) for name in sorted(state.buffers)],
        "transient": sorted(state.transient),
        "numbers": [[places.get(name, name), number] for name, number in state.numbers],
        "contents": {
            key: [item.dtype, list(item.shape), base64.b64encode(item.data).decode()] for key, item in state.contents
        },
        "unused": list(state.unused),
        "cached": dict(state.cached),
    }
    return COMPACT.encode({name: part for name, part in parts.items() if part})


def read(metadata: Mapping[str, str]) -> ModuleState:
    """The state that a file's metadata tells of; nothing where it tells of none, or of something else.

    >>> state = ModuleState((("head.weight", "table.weight"),), numbers=(("norm.count", 3),), unused=("pooler.weight",))
    >>> read({STATE: written(state)}) == state
    True
    >>> read({STATE: '{"keys": 7}'}).keys
    ()
    """
    try:
        parts = json.loads(metadata.get(STATE, "{}"))
        keys = tuple((item, item) if isinstance(item, str) else (item[0], item[1]) for item in parts.get("keys", ()))
        names = {kind: frozenset(_names(parts.get(kind, ()), keys)) for kind in ("buffers", "transient")}
        given = parts.get("numbers", ())
        named = given.items() if isinstance(given, dict) else given  # as files before this form have it
        numbers = tuple((name, int(number)) for item, number in named for name in _names([item], keys))
        unused = tuple(parts.get("unused", ()))
        cached = tuple(parts.get("cached", {}).items())
        contents = tuple(
            (name, Content(dtype, tuple(shape), base64.b64decode(data, validate=True)))
            for name, (dtype, shape, data) in parts.get("contents", {}).items()
        )
    except (TypeError, ValueError, AttributeError, IndexError, KeyError, RecursionError):  # written by someone else
        return ModuleState()
    texts = [*(name for pair in keys for name in pair), *(name for kind in names.values() for name in kind), *unused]
    texts += [text for pair in cached for text in pair] + [name for name, _ in numbers]
    if not all(isinstance(name, str) and name for name in texts) or not all(_is_whole(item) for _, item in contents):
        return ModuleState()
    counts = tuple(item for item in numbers if _is_count(item[1]))
    return ModuleState(keys, names["buffers"], names["transient"], counts, contents, unused, cached)


def _names(items: Sequence[object], keys: Sequence[tuple[str, str]]) -> list[Any]:
    """Names that are written as they are, or by their places among the keys."""
    return [keys[item][0] if type(item) is int and item >= 0 else item for item in items]


def _is_whole(item: Content) -> bool:
    """Whether a content's bytes are those that its type and sizes ask for."""
    try:
        size = ir.DataType[item.dtype].numpy().itemsize
    except (KeyError, TypeError):
        return False
    return all(type(dim) is int and dim >= 0 for dim in item.shape) and prod(item.shape) * size == len(item.data)


def _is_count(number: int) -> bool:
    return abs(number) < 1 << 63
