"""Rows that users bring, as arrays: DataFrames, dictionaries of features, lists of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from onnxport.errors import InvalidInputError


def is_frame(rows: object) -> bool:
    """Whether `rows` is a DataFrame, of pandas or polars."""
    return hasattr(rows, "columns") and hasattr(rows, "to_numpy")


def is_records(rows: object) -> bool:
    """Whether `rows` is a list of dictionaries."""
    return isinstance(rows, list) and bool(rows) and all(isinstance(row, Mapping) for row in rows)


def is_lists(rows: object) -> bool:
    """Whether `rows` is a list of lists of strings, which may be of different lengths."""
    lists = (list, tuple, set, frozenset)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, lists) for row in rows):
        return False
    return any(row for row in rows) and all(isinstance(item, str) for row in rows for item in row)


def columns_of(rows: Any) -> dict[str, np.ndarray] | None:
    """The columns of rows by name, each of shape [N, 1]; None where the rows have no names.

    >>> columns_of([{"size": 2}, {"colour": "red"}])
    {'colour': array([[''],
           ['red']], dtype=object), 'size': array([[2.],
           [0.]])}
    """
    if is_frame(rows):
        return {str(name): plain(rows[name]).reshape(-1, 1) for name in rows.columns}
    if isinstance(rows, Mapping):
        return {str(name): as_column(values) for name, values in rows.items()}
    if is_records(rows):
        odd = next((name for row in rows for name in row if not isinstance(name, str)), None)
        if odd is not None:
            raise InvalidInputError(
                f"features are inputs by their names: {odd!r} is no string; fit and give rows of str(name)"
            )
        return {name: _feature(rows, name).reshape(-1, 1) for name in sorted({name for row in rows for name in row})}
    return None


def has_no_type(values: np.ndarray) -> bool:
    """Whether values are dates, durations, lists or dictionaries, which ONNX has no element type for."""
    if values.dtype.kind == "O":
        return any(isinstance(item, (list, tuple, set, frozenset, Mapping, np.ndarray)) for item in values.ravel())
    return values.dtype.kind in "mM"


def as_column(values: object) -> np.ndarray:
    """A vector as a column, anything else as it is."""
    array = plain(values)
    return array.reshape(-1, 1) if array.ndim == 1 else array


def _feature(rows: Sequence[Mapping[Any, Any]], name: Any) -> np.ndarray:
    """One feature of all rows: where a row lacks it "" among strings and 0 among numbers, as scikit-learn counts it."""
    values = [row[name] for row in rows if name in row]
    if all(isinstance(value, str) for value in values):
        return np.array([row.get(name, "") for row in rows], object)
    if all(isinstance(value, Number) for value in values):
        return np.array([row.get(name, 0.0) for row in rows], np.float64)
    raise InvalidInputError(f"the feature {name!r} holds strings in some rows, numbers or other things in others")


def padded(rows: Sequence[Any]) -> np.ndarray:
    """Lists of strings as one matrix of strings, "" beyond the end of a list.

    >>> padded([["a"], ["b", "c"]])
    array([['a', ''],
           ['b', 'c']], dtype=object)

    Raises:
        InvalidInputError: the lists are of different lengths and one of them has "" itself.
    """
    width = max((len(row) for row in rows), default=0)
    if any(len(row) != width and "" in row for row in rows):
        raise InvalidInputError(
            'lists of strings of different lengths have "" beyond their end, so that none may have it itself'
        )
    table = np.full((len(rows), width), "", object)
    for index, row in enumerate(rows):
        items = sorted(row) if isinstance(row, (set, frozenset)) else list(row)
        table[index, : len(items)] = items
    return table


def plain(values: object) -> np.ndarray:
    """An array or a column of a frame with an element type that a graph has: objects as strings, booleans or float64."""
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype.kind != "O":
        return array
    known = [item for item in array.ravel().tolist() if not _is_missing(item)]
    if known and all(isinstance(item, (bool, np.bool_)) for item in known) and len(known) == array.size:
        return array.astype(bool)
    if known and all(isinstance(item, Number) for item in known):
        numbers = [np.nan if _is_missing(item) else item for item in array.ravel()]
        return np.array(numbers, np.float64).reshape(array.shape)
    return array


def _is_missing(item: object) -> bool:
    return item is None or type(item).__name__ == "NAType" or (isinstance(item, float) and item != item)
