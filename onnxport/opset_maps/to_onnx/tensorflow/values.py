"""Operands that are no tensors: variables, lookup tables and tensor lists.

TensorFlow passes them as resource and variant tensors. While a graph is lowered they are Python objects that go from
entry to entry; nothing of them reaches the ONNX file but the tensors inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class VariableHandle:
    """A variable.

    Attributes:
        name: its name.
        read: gives its value as an initializer, always the same one.
        dtype: element type.
        shape: its shape.
    """

    name: str
    read: Callable[[], ir.Value]
    dtype: ir.DataType
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ResourceHandle:
    """A resource that is no variable, such as a lookup table.

    Attributes:
        tensor: the eager resource tensor.
    """

    tensor: Any


@dataclass(frozen=True, eq=False)
class TensorList:
    """A list of tensors of one shape, stacked.

    Attributes:
        stack: the elements along a new axis 0; None while none is set and their shape is not known.
        size: number of elements, INT64 scalar.
        dtype: element type.
        shape: the elements' static shape as far as it is known; None where the rank is unknown.
    """

    stack: ir.Value | None
    size: ir.Value
    dtype: ir.DataType
    shape: tuple[int | None, ...] | None
