"""Nested inputs, whatever the framework."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import Any

import numpy as np


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


def as_table(rows: object) -> Any:
    """Maps of numbers, one a row and all of the same keys, as an array [rows, keys] in the order of the keys; else what is given.

    >>> as_table([{"b": 0.75, "a": 0.25}, {"a": 1.0, "b": 0.0}])
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    """
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return rows
    keys = sorted(rows[0], key=str)
    if any(len(row) != len(keys) or not all(isinstance(row.get(key), Number) for key in keys) for row in rows):
        return rows
    return np.array([[row[key] for key in keys] for row in rows])
