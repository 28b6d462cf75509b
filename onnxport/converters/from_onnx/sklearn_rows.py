"""Rows as scikit-learn's users bring them, as the inputs of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_array

from onnxport.graph import rows
from onnxport.validation.runners.base import InputSpec


def feeds_of(X: Any, specs: Sequence[InputSpec], *, least: int = 0) -> dict[str, np.ndarray]:
    """The inputs of a graph by name.

    Args:
        X: an array or sparse matrix of all columns, a DataFrame, a dict or a list of dictionaries with a column for each
            input, a list of strings, or a tuple of arrays in the order of the inputs.
        specs: the graph's inputs.
        least: rows that there must be.

    Raises:
        ValueError: columns or types do not fit.
    """
    named = rows.columns_of(X) if not (isinstance(X, Mapping) and len(specs) == 1 and specs[0].name in X) else dict(X)
    if isinstance(X, tuple):
        if len(X) != len(specs):
            raise ValueError(f"the model takes {len(specs)} inputs, {len(X)} were given")
        parts: Mapping[str, Any] = {spec.name: part for spec, part in zip(specs, X, strict=True)}
    elif named is not None and (len(specs) > 1 or set(named) == {specs[0].name}):
        missing = [spec.name for spec in specs if spec.name not in named]
        if missing:
            raise ValueError(f"columns are missing: {', '.join(missing)}; the model takes {', '.join(_names(specs))}")
        parts = named
    elif len(specs) == 1:
        parts = {specs[0].name: X}
    else:
        parts = _split(_checked(X, least), specs)
    feeds = {spec.name: _fitted(parts[spec.name], spec, least) for spec in specs}
    counts = {len(item) for item in feeds.values() if item.ndim}
    if len(counts) > 1:
        raise ValueError(f"the inputs have different numbers of rows: {sorted(counts)}")
    return feeds


def blocks(feeds: Mapping[str, np.ndarray], size: int) -> Iterator[tuple[dict[str, np.ndarray], int]]:
    """Runs of `size` rows, the last filled up with its last row, and how many rows of each are meant."""
    count = len(next(iter(feeds.values())))
    for start in range(0, count, size):
        meant = min(size, count - start)
        places = np.minimum(np.arange(start, start + size), count - 1)
        yield {name: item[places] for name, item in feeds.items()}, meant


def _names(specs: Sequence[InputSpec]) -> list[str]:
    return [spec.name for spec in specs]


def width_of(spec: InputSpec) -> int | None:
    """How many columns an input has: 1 of a vector; None where that varies, or where it is no table."""
    if spec.kind != "tensor" or spec.dims is None or not 1 <= len(spec.dims) <= 2:
        return None
    last = spec.dims[1] if len(spec.dims) == 2 else 1
    return last if isinstance(last, int) else None


def is_matrix(spec: InputSpec) -> bool:
    """Whether an input is a table of numbers."""
    numeric = spec.dtype is not None and spec.dtype.kind in "fiub"
    return numeric and spec.kind == "tensor" and spec.dims is not None and len(spec.dims) == 2


def fits(rows: Any, spec: InputSpec) -> bool:
    """Whether rows are an array of the input's own type and width, with which nothing is to be done."""
    same = type(rows) is np.ndarray and rows.dtype == spec.dtype and is_matrix(spec) and rows.ndim == 2
    return same and spec.dims is not None and rows.shape[1] == spec.dims[1]


def _checked(X: Any, least: int) -> Any:
    """A matrix as scikit-learn checks it, its element type kept."""
    return check_array(
        X, accept_sparse=True, dtype=None, ensure_all_finite=False, ensure_min_samples=least, ensure_min_features=1
    )


def _split(matrix: Any, specs: Sequence[InputSpec]) -> dict[str, Any]:
    """The columns of a matrix, to the inputs in order."""
    widths = [width_of(spec) for spec in specs]
    if any(width is None for width in widths) or sum(width or 0 for width in widths) != matrix.shape[1]:
        raise ValueError(
            f"X has {matrix.shape[1]} features, but the model takes the inputs {', '.join(_names(specs))}: give a DataFrame, "
            "or a dict or tuple of arrays"
        )
    ends = np.cumsum([width or 0 for width in widths])
    dense = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    return dict(zip(_names(specs), np.split(dense, ends[:-1], axis=1), strict=True))


def _fitted(part: Any, spec: InputSpec, least: int) -> np.ndarray:
    """One input in its type and rank."""
    rank = len(spec.dims) if spec.dims is not None else 2
    text = spec.dtype is not None and spec.dtype.kind == "O"
    if hasattr(part, "toarray"):
        part = part.toarray()
    elif not text and rank == 2 and np.ndim(part) < 2 and width_of(spec) != 1:
        _checked(part, least)  # scikit-learn's own words for one row or one column
    array = rows.padded(part) if rows.is_lists(part) else rows.plain(part)
    if len(array) < least:
        raise ValueError(f"Found array with {len(array)} sample(s) while a minimum of {least} is required.")
    if array.ndim == 1 and rank == 2 and width_of(spec) == 1:
        array = array.reshape(-1, 1)
    if array.ndim == 2 and rank == 1 and array.shape[1] == 1:
        array = array.reshape(-1)
    if array.ndim == 2 and rank > 2 and spec.dims is not None and all(isinstance(n, int) for n in spec.dims[1:]):
        sizes = [int(n) for n in spec.dims[1:] if isinstance(n, int)]
        array = array.reshape(-1, *sizes) if array.shape[1] == np.prod(sizes) else array  # an image in a row
    if text and array.dtype.kind != "O":
        raise ValueError(f"the input {spec.name!r} takes strings, {array.dtype} was given")
    if spec.dims is not None and array.ndim != rank:
        raise ValueError(f"the input {spec.name!r} has {rank} dimensions, {array.ndim} were given")
    return _typed(array, spec)


def _typed(array: np.ndarray, spec: InputSpec) -> np.ndarray:
    wanted = spec.dtype
    if wanted is None or array.dtype == wanted:
        return array
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{array}\n")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"the input {spec.name!r} takes {wanted}: could not convert strings to numbers")
    with np.errstate(all="ignore"):
        typed = array.astype(wanted)
        if wanted.kind in "iub" and not np.array_equal(typed.astype(array.dtype), array):
            raise ValueError(f"the input {spec.name!r} takes {wanted}, and some of the numbers given are none")
    return typed
