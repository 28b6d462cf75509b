"""Elements by their places, in operations of Keras, where sizes are known only when the model runs.

Each function takes what is known of the sizes and a primitive's arguments, and gives None where that is not possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from onnxport.opset_maps.from_onnx.keras.sizes import (
    MOVED,
    Sizes,
    as_int64,
    int_arithmetic,
    is_recorded_tensor,
    type_name,
)
from onnxport.opset_maps.from_onnx.values import Int, known


def _take_along_axis(sizes: Sizes, x: Any, indices: Any, axis: int) -> Any:
    """Of as many rows as there are of indices; of a matrix from its elements in one row, which is one look-up."""
    if type_name(x) not in MOVED or type_name(indices) not in ("int32", "int64") or x.shape is None:
        return None
    rows = [(i, n, m) for i, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True)) if i != axis]
    same = sizes.rows(x) if is_recorded_tensor(x) and sizes.rows(x) == sizes.rows(indices) else None
    if not all(n == m if known(n) and known(m) else i == 0 and same is not None and n is m for i, n, m in rows):
        return None
    if len(x.shape) != 2 or axis != 1 or not x.shape[1] or not isinstance(x, keras.KerasTensor):
        return keras.ops.take_along_axis(x, indices, axis=int(axis))
    first = sizes.starts(x)
    if first is None:
        return keras.ops.take_along_axis(x, indices, axis=int(axis))
    # Keras' sum takes indices of no rows for a bias; it would be the same number.
    places = keras.ops.subtract(indices if type_name(indices) == "int64" else keras.ops.cast(indices, "int64"), first)
    result = keras.ops.take(sizes.flat(x), as_int64(places), axis=0)
    if same is not None:
        sizes.mark(result, same)
    return result


def _gather_nd(sizes: Sizes, x: Any, indices: Any, batch_dims: int = 0) -> Any:
    """At index tuples of all axes but the last ones: a look-up by their places in row-major order."""
    depth = indices.shape[-1] if indices.shape else None
    if batch_dims or not known(depth) or not depth or type_name(x) not in MOVED or not isinstance(x, keras.KerasTensor):
        return None
    rest = x.shape[depth:]
    inner = [sizes.length(x, axis) for axis in range(1, depth)]
    if not all(known(n) and n for n in rest) or any(n is None for n in inner) or not is_recorded_tensor(indices):
        return None
    if indices.dtype not in ("int32", "int64"):
        return None
    indices = as_int64(indices)
    place = indices[..., 0]
    for i, n in enumerate(inner, 1):
        below = np.asarray(-n) if isinstance(n, np.ndarray) else keras.ops.negative(n)
        place = keras.ops.subtract(indices[..., i], as_int64(keras.ops.multiply(place, below)))
    flat = keras.ops.reshape(x, (-1, *rest)) if depth > 1 else x
    return keras.ops.take(flat, place, axis=0)


def _reshape(sizes: Sizes, x: Any, shape: Sequence[Int]) -> Any:
    """Elements of a matrix as one of other sizes, both known only when the model runs: a look-up in row-major order."""
    if not is_recorded_tensor(x) or x.shape is None or len(x.shape) > 2 or len(shape) != 2 or x.dtype not in MOVED:
        return None
    rows, columns = shape
    # The one that is not -1 is a number of rows: any other number may be -1 or 0 itself when the model runs.
    asked, left_over = (columns, rows) if known(rows) else (rows, columns)
    if known(asked) or not known(left_over) or left_over != -1 or sizes.rows_of(asked) is None:
        return None
    lengths = [sizes.length(x, axis) for axis in range(len(x.shape))]
    if any(n is None for n in lengths):
        return None
    total = lengths[0] if len(lengths) == 1 else as_int64(keras.ops.multiply(*lengths))
    # Sizes that do not fit ask for an element that is not there.
    given = as_int64(keras.ops.maximum(columns if known(rows) else rows, np.asarray(1)))
    left = int_arithmetic(sizes, "ceil_div", total, given)
    across, down = (left if known(columns) else columns), (left if known(rows) else rows)
    lines = sizes.line(down), sizes.line(across)
    if any(line is None for line in lines):
        return None
    first, second = (keras.ops.subtract(keras.ops.cumsum(line, axis=0), np.asarray(1)) for line in lines)
    starts = keras.ops.multiply(keras.ops.reshape(first, (-1, 1)), keras.ops.negative(across))
    places = keras.ops.subtract(keras.ops.reshape(second, (1, -1)), as_int64(starts))
    result = keras.ops.take(sizes.flat(x), as_int64(places), axis=0)
    if (marked := sizes.rows_of(down)) is not None:
        sizes.mark(result, marked)
    return result


LOOKUPS: dict[str, Callable[..., Any]] = {
    "take_along_axis": _take_along_axis,
    "gather_nd": _gather_nd,
    "reshape": _reshape,
}
