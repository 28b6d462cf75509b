"""Lists of JSON values that are mostly alike, written once with what differs among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_PLACE = "?"  # stands in a pattern for a value that differs; no record has such a key


class Fold:
    """A pattern that is written part by part, and the columns of values that differ among its items.

    Args:
        count: number of items.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._columns: list[Sequence[Any]] = []

    def common(self, items: Sequence[Any]) -> Any:
        """What the same part of every item has in common; a place of its own stands for each value that differs."""
        first = items[0]
        if all(type(item) is type(first) for item in items):
            if isinstance(first, dict) and all(list(item) == list(first) for item in items):
                return {key: self.common([item[key] for item in items]) for key in first}
            if isinstance(first, list) and all(len(item) == len(first) for item in items):
                return [self.common(part) for part in zip(*items, strict=True)]
            if isinstance(first, float):
                alike = len({repr(item) for item in items}) == 1  # 0.0 and -0.0 are equal
            else:
                alike = not isinstance(first, (dict, list)) and all(item == first for item in items)
            if alike:
                return first
        self._columns.append(items)
        return {_PLACE: len(self._columns) - 1}

    def record(self, pattern: Any) -> dict[str, Any]:
        """The pattern with the number of items and the columns; of one that counts up only its first number."""
        return {"pattern": pattern, "count": self._count, "columns": [_counting(column) for column in self._columns]}


def _counting(column: Sequence[Any]) -> Any:
    first = column[0]
    counts = all(type(item) is int for item in column) and list(column) == list(range(first, first + len(column)))
    return first if counts else list(column)


def folded(items: Sequence[Any]) -> Any:
    """The items as a pattern and for each the values that differ; as they are where they have little in common.

    >>> folded([{"a": 1, "b": [2, 3]}, {"a": 1, "b": [2, 7]}])
    {'pattern': {'a': 1, 'b': [2, {'?': 0}]}, 'count': 2, 'columns': [[3, 7]]}
    >>> folded([{"a": 1, "b": 5}, {"a": 1, "b": 6}])
    {'pattern': {'a': 1, 'b': {'?': 0}}, 'count': 2, 'columns': [5]}
    >>> folded([{"a": 1}, {"b": 1}])
    [{'a': 1}, {'b': 1}]
    """
    if len(items) < 2 or not all(isinstance(item, dict) for item in items) or any(map(is_folded, items)):
        return list(items)
    fold = Fold(len(items))
    pattern = fold.common(items)
    return list(items) if _PLACE in pattern else fold.record(pattern)


def is_folded(item: Any) -> bool:
    """Whether a value holds a pattern: its places would be taken for those of the pattern around it."""
    if isinstance(item, dict):
        return "pattern" in item or any(map(is_folded, item.values()))
    return isinstance(item, list) and any(map(is_folded, item))


def unfolded(given: Any, most: int) -> Iterator[Any]:
    """The items again, one after the other.

    Raises:
        ValueError: they hold more than `most` values.
    """
    if isinstance(given, list):
        yield from given
        return
    pattern, count = given["pattern"], given["count"]
    if _size(pattern) * count > most:
        raise ValueError("a record of too many values")
    columns = [range(item, item + count) if isinstance(item, int) else item for item in given["columns"]]
    for place in range(count):
        yield _filled(pattern, columns, place)


def _filled(pattern: Any, columns: Sequence[Sequence[Any]], place: int) -> Any:
    if isinstance(pattern, dict):
        if _PLACE in pattern:
            return columns[pattern[_PLACE]][place]
        return {key: _filled(item, columns, place) for key, item in pattern.items()}
    return [_filled(item, columns, place) for item in pattern] if isinstance(pattern, list) else pattern


def _size(item: Any) -> int:
    if isinstance(item, dict):
        return 1 + sum(map(_size, item.values()))
    return 1 + sum(map(_size, item)) if isinstance(item, list) else 1
