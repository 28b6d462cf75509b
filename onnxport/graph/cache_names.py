"""Names of the tensors in the cache of transformers' models, as other tools for these write them: ``0.key``, ``0.value``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

# What the attributes of layers are called in names.
_SINGULAR = {"keys": "key", "values": "value", "key_cache": "key", "value_cache": "value"}
_SINGULAR |= {"conv_states": "conv_state", "recurrent_states": "recurrent_state", "ssm_states": "ssm_state"}
_ATTENTION = {"self_attention_cache": "decoder", "cross_attention_cache": "encoder"}


def parts_of(path: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The parts of a tensor's name: its layer, then which attention's, then what it is.

    >>> parts_of(("self_attention_cache", "layers", "0", "keys"), [])
    ('0', 'decoder', 'key')
    """
    parts = [part for part in path if part != "layers"]
    attention = _ATTENTION.get(parts[0])
    if attention is not None:
        del parts[0]
    if len(parts) > 1 and parts[-1].isdigit() and parts[-2] in _SINGULAR:
        if len(parts) == 2:  # a list a kind, with an element a layer
            parts.reverse()
        elif sum(other[:-1] == path[:-1] for other in others) == 1:  # the only state of its kind in a layer
            del parts[-1]
    parts = [_SINGULAR.get(part, part) for part in parts]
    return (parts[0], attention, *parts[1:]) if attention is not None else tuple(parts)


def tensor_path(path: str) -> str:
    """The path of a cache's tensor in our names, where the user has registered the class with names of its own.

    >>> tensor_path("past_key_values.key_cache.3")
    'past_key_values.3.key'
    """
    parts = path.split(".")
    start = next((i for i, part in enumerate(parts) if part in _SINGULAR or part in _ATTENTION), len(parts))
    if start >= len(parts) - 1:
        return path
    return ".".join((*parts[:start], *parts_of(tuple(parts[start:]), [])))


def is_cache(kind: object) -> bool:
    """Whether a class is one of transformers' caches."""
    root = getattr(sys.modules.get("transformers.cache_utils"), "Cache", None)
    return isinstance(kind, type) and isinstance(root, type) and issubclass(kind, root)
