"""What the array namespace's primitives are said over: tensors, sizes, host values, and their names in annotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx_ir as ir

from onnxport.errors import OnnxportError

Tensor: TypeAlias = Any  # the framework's tensor, symbolic or real
Int: TypeAlias = Any  # int, or the framework's dynamic int
Host: TypeAlias = np.ndarray[Any, Any]  # a value known while importing, but for dynamic ints among its elements
Number: TypeAlias = Any  # a Python number where it is known while importing, else a scalar tensor
Known: TypeAlias = Any  # a NumPy array where it is known while importing, else a tensor
Axes: TypeAlias = tuple[int, ...] | None
Pads: TypeAlias = Sequence[tuple[Int, Int]]
Reduction: TypeAlias = Literal["none", "add", "mul", "max", "min"]
PadMode: TypeAlias = Literal["constant", "edge", "reflect", "wrap"]

IntOp: TypeAlias = Literal[
    "add",
    "sub",
    "mul",
    "div",
    "floor_div",
    "ceil_div",
    "mod",
    "min",
    "max",
    "neg",
    "abs",
    "eq",
    "lt",
    "le",
    "and",
    "or",
    "not",
    "where",
]


class InvalidOperand(ValueError):
    """A node is given what its operator's specification rules out."""


class UnknownUntilRun(OnnxportError):
    """An operator needs to know something of its inputs that only the running model has."""


@dataclass(frozen=True)
class HostValue:
    """A small tensor that stays on the Python side: ONNX's shape arithmetic.

    Attributes:
        array: its elements: of the NumPy type of `dtype`, or objects among which are dynamic ints.
        dtype: its ONNX element type.
    """

    array: Host
    dtype: ir.DataType = ir.DataType.INT64

    @classmethod
    def of(cls, elements: Sequence[Int] | Int, dtype: ir.DataType = ir.DataType.INT64) -> HostValue:
        """A vector of `elements`, or a scalar of one."""
        return cls(host_array(elements, dtype.numpy()), dtype)

    @property
    def is_static(self) -> bool:
        """Whether every element is known at import."""
        return self.array.dtype != object or self.dtype == ir.DataType.STRING


def known(n: Int) -> bool:
    """Whether a size is known at import.

    >>> known(3), known("s0")
    (True, False)
    """
    return isinstance(n, (int, np.integer, np.bool_))


def host_array(elements: Any, dtype: Any = np.int64) -> Host:
    """`elements` (a number or a flat sequence) as an array of `dtype` where all are known, else of objects.

    NumPy never gets to look into a framework's symbolic objects, which would try to run them.
    """
    scalar = not isinstance(elements, (list, tuple, np.ndarray))
    items = [elements] if scalar else list(elements)
    if all(isinstance(item, (int, float, np.generic)) for item in items):
        found = np.asarray(items, dtype)
    else:
        found = np.empty(len(items), object)
        for index, item in enumerate(items):
            found[index] = item
    return found.reshape(()) if scalar else found
