"""Nested inputs, whatever the framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def leaves_of(inputs: object, kwargs: Mapping[str, object] | None = None) -> list[Any]:
    """All innermost values of nested tuples, lists and dicts.

    >>> leaves_of((1, [2, {"a": 3}]))
    [1, 2, 3]
    """
    leaves: list[Any] = []
    stack: list[Any] = [dict(kwargs or {}), inputs]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            stack.extend(reversed(list(item.values())))
        elif isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        else:
            leaves.append(item)
    return leaves
