"""Lists of JSON values that are mostly alike, written once with what differs among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_PLACE = "?"  # stands in a pattern for a value that differs; no record has such a key


def folded(items: Sequence[Any]) -> Any:
    """The items as a pattern and for each the values that differ; as they are where they have little in common.

    >>> folded([{"a": 1, "b": [2, 3]}, {"a": 1, "b": [2, 4]}])
    {'pattern': {'a': 1, 'b': [2, {'?': 0}]}, 'each': [[3], [4]]}
    >>> folded([{"a": 1}, {"b": 1}])
    [{'a': 1}, {'b': 1}]
    """
    if len(items) < 2 or not all(isinstance(item, dict) for item in items) or any(map(_is_folded, items)):
        return list(items)
    columns: list[Sequence[Any]] = []
    pattern = _common(items, columns)
    if _PLACE in pattern:
        return list(items)
    return {"pattern": pattern, "each": [list(row) for row in zip(*columns, strict=True)] or [[]] * len(items)}


def _common(items: Sequence[Any], columns: list[Sequence[Any]]) -> Any:
    first = items[0]
    if all(type(item) is type(first) for item in items):
        if isinstance(first, dict) and all(list(item) == list(first) for item in items):
            return {key: _common([item[key] for item in items], columns) for key in first}
        if isinstance(first, list) and all(len(item) == len(first) for item in items):
            return [_common(part, columns) for part in zip(*items, strict=True)]
        if isinstance(first, float):
            alike = len({repr(item) for item in items}) == 1  # 0.0 and -0.0 are equal
        else:
            alike = not isinstance(first, (dict, list)) and all(item == first for item in items)
        if alike:
            return first
    columns.append(items)
    return {_PLACE: len(columns) - 1}


def _is_folded(item: Any) -> bool:
    """Whether a value holds a pattern: its places would be taken for those of the pattern around it."""
    if isinstance(item, dict):
        return "pattern" in item or any(map(_is_folded, item.values()))
    return isinstance(item, list) and any(map(_is_folded, item))


def unfolded(given: Any, most: int) -> Iterator[Any]:
    """The items again, one after the other.

    Raises:
        ValueError: they hold more than `most` values.
    """
    if isinstance(given, list):
        yield from given
        return
    pattern, rows = given["pattern"], given["each"]
    if _size(pattern) * len(rows) > most:
        raise ValueError("a record of too many values")
    for row in rows:
        yield _filled(pattern, row)


def _filled(pattern: Any, row: Sequence[Any]) -> Any:
    if isinstance(pattern, dict):
        if _PLACE in pattern:
            return row[pattern[_PLACE]]
        return {key: _filled(item, row) for key, item in pattern.items()}
    return [_filled(item, row) for item in pattern] if isinstance(pattern, list) else pattern


def _size(item: Any) -> int:
    if isinstance(item, dict):
        return 1 + sum(map(_size, item.values()))
    return 1 + sum(map(_size, item)) if isinstance(item, list) else 1
