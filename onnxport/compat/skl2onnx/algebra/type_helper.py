"""``skl2onnx.algebra.type_helper``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx.common.data_types import DataType, guess_data_type
from onnxport.errors import InvalidInputError

__getattr__ = refusing(__name__)


def guess_initial_types(
    X: Any, initial_types: Sequence[tuple[str, DataType]] | None = None
) -> list[tuple[str, DataType]]:
    """Names and types of the inputs of rows, unless they are given: ``X`` of a matrix, its columns of a table.

    Raises:
        InvalidInputError: there are neither rows nor types, or an element type is none of those that are known.
    """
    if initial_types is not None:
        return list(initial_types)
    if X is None:
        raise InvalidInputError("skl2onnx.guess_initial_types: X is missing, a few rows, or initial_types=")
    if isinstance(X, list):
        return X
    types = guess_data_type(X)
    if hasattr(X, "columns"):
        return [(name, type(kind)([None, 1])) for name, kind in types]
    return [("X", types[0][1])]
