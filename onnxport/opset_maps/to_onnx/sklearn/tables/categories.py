"""The categories of columns: their places among the fitted ones, spelling as strings of the graph, and pandas' codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.cutting import encoded
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import take
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table, count, numbers, select
from onnxport.opset_maps.to_onnx.sklearn.trees.places import FEW, passed


def text_of(item: object) -> str:
    """A category as a string of the graph: a missing value is spelled as Python prints it.

    ONNX has no missing strings; None and NaN among strings become these words in an array of strings.

    >>> text_of(np.nan), text_of(None), text_of("a")
    ('nan', 'None', 'a')
    """
    if isinstance(item, str):
        return item
    if item is None or item is np.nan or (isinstance(item, float) and np.isnan(item)):
        return str(item)
    if type(item).__name__ == "NAType":
        return "<NA>"
    raise UnsupportedOperator(f"categories of strings and of type {type(item).__name__} in one column")


def codes(
    op: OpBuilder, column: ir.Value, categories: ArrayLike, numbers_of: ArrayLike | None = None, unknown: int = -1
) -> Array:
    """For a column [N, 1] the number of its category (its place, or `numbers_of` it), `unknown` for others: int64 [N, 1]."""
    known = np.asarray(categories)
    places = np.arange(len(known)) if numbers_of is None else np.asarray(numbers_of, np.int64)
    if column.dtype == ir.DataType.STRING:
        if known.dtype.kind not in "OUS" or (len(known) and not any(isinstance(item, str) for item in known)):
            if not all(item is None or item != item for item in known):
                raise UnsupportedOperator(
                    "the encoder was fitted on numbers, the input holds strings; where one matrix has columns of both, pass a "
                    "DataFrame as inputs=, whose columns have types of their own"
                )
        return _label_encoder(Array(op, column), [text_of(item) for item in known], places, unknown)
    if known.dtype.kind in "OUS":
        if any(isinstance(item, str) for item in known):
            raise UnsupportedOperator("the encoder was fitted on strings, the input holds numbers")
        known = np.asarray([np.nan if item is None else item for item in known.tolist()])
    value = Array(op, column)
    if value.dtype.kind in "iub" and known.dtype.kind in "iub":
        return _label_encoder(value.astype(np.int64), known.astype(np.int64), places, unknown)
    if len(known) > FEW and value.dtype.kind == "f":
        return _code_among_many(value, known, places, unknown)
    matches = value == known[None]
    if known.dtype.kind == "f" and np.isnan(known).any() and value.dtype.kind == "f":
        matches = matches | (np.isnan(value) & np.isnan(known)[None])
    return np.sum(matches.astype(np.int64) * (places - unknown), axis=1, keepdims=True) + unknown


def _code_among_many(value: Array, known: np.ndarray, numbers_of: np.ndarray, unknown: int) -> Array:
    """The number of the category that stands where a value would stand among them, if that is the value."""
    known = known.astype(np.float64)
    order = np.argsort(known, kind="stable")[: len(known) - int(np.isnan(known).sum())]
    value = value.astype(np.float64)
    place = np.minimum(passed(value, known[order], equal=False), len(order) - 1)
    result = np.where(take(known[order], place) == value, take(numbers_of[order], place), np.int64(unknown))
    missing = np.flatnonzero(np.isnan(known))
    return np.where(np.isnan(value), np.int64(numbers_of[missing[0]]), result) if len(missing) else result


def _label_encoder(column: Array, keys: Sequence[str] | np.ndarray, places: np.ndarray, unknown: int) -> Array:
    if len(set(keys)) != len(keys):
        raise UnsupportedOperator("two categories have the same text, one of them a missing value")
    if not len(keys):
        return column.of(column.op.Expand(column.op.const(np.int64(unknown)), column.op.shape(column.value)))
    return column.of(encoded(column.op, column.value, dict(zip(keys, places.tolist(), strict=True)), unknown))


def coded_columns(
    op: OpBuilder, x: Table, categories: Mapping[int, Sequence[Any]], dtype: np.dtype | type[np.floating]
) -> Array:
    """The table as a matrix, the columns of categories as their codes, NaN for what is none of them.

    Only a frame holds the categories themselves; a matrix of numbers holds their codes already, as for the libraries.

    Args:
        op: the builder.
        x: the table.
        categories: the fitted categories by column.
        dtype: element type of the result.
    """
    if not categories or not isinstance(x, Frame):
        return numbers(op, x).astype(dtype)
    columns = []
    for index, part in enumerate(select(op, x, range(count(x))).parts):
        if index not in categories:
            columns.append(numbers(op, part).astype(dtype))
            continue
        code = codes(op, part, np.asarray(categories[index]))
        columns.append(np.where(code < 0, np.dtype(dtype).type(np.nan), code.astype(dtype)))
    return np.concatenate(columns, axis=1)
