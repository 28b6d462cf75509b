"""Columns of pandas categories as the codes by which gradient boosting libraries know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.tables.categories import codes
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table, count, numbers, select


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
