"""Operands that are no tensors: variables, resources, functions and tensor lists.

TensorFlow passes them as resource and variant tensors and as attributes. While a graph is lowered they are Python objects
that go from entry to entry; nothing of them reaches the ONNX file but the tensors inside.
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


@dataclass(frozen=True)
class ArrayHandle:
    """A TensorArray of TensorFlow 1: its elements are a `TensorList` that goes from one operator to the next as its flow.

    Attributes:
        dtype: element type.
        grows: whether a write beyond the end makes it longer.
    """

    dtype: ir.DataType
    grows: bool


@dataclass(frozen=True)
class Function:
    """A function attribute: ``op.call(function, arguments)`` writes it in place.

    Attributes:
        name: its name in the library.
        describe: gives, for every result, the index of the argument that is passed through unchanged, else None.
    """

    name: str
    describe: Callable[[], tuple[int | None, ...]]


class LoopVariable:
    """A list that is written once in every turn of a loop, in order, and never read: it needs no state.

    Attributes:
        element: what is known of the shape of an element, once one was written.
    """

    def __init__(self) -> None:
        self.element: tuple[int | None, ...] | None = None


class NeedsState(Exception):
    """A list that was taken for a `LoopVariable` is used in another way."""

    def __init__(self, variable: LoopVariable) -> None:
        super().__init__(variable)
        self.variable = variable


@dataclass(frozen=True, eq=False)
class Write:
    """The one write to a loop variable's list in a turn.

    Attributes:
        variable: which list.
        index: where; None at the end.
        item: what.
    """

    variable: LoopVariable
    index: ir.Value | None
    item: ir.Value


@dataclass(frozen=True, eq=False)
class TensorList:
    """A list of tensors of one shape, stacked.

    Attributes:
        dtype: element type.
        shape: the elements' static shape as far as it is known; None where the rank is unknown.
        size: number of elements, an INT64 scalar.
        tensor: the elements along a new axis 0; None while none is set.
        blank: `tensor` holds no element yet, and has size 0 along the axes whose size is not known.
        variable: inside a loop, the variable that it stands for, not written yet.
        write: inside a loop, what was written to the variable.
    """

    dtype: ir.DataType
    shape: tuple[int | None, ...] | None
    size: ir.Value
    tensor: ir.Value | None = None
    blank: bool = False
    variable: LoopVariable | None = None
    write: Write | None = None

    @property
    def stack(self) -> ir.Value | None:
        """The elements along a new axis 0; None while none is set.

        Raises:
            NeedsState: it is a loop variable, which has no elements to be read inside the loop.
        """
        if self.variable is not None:
            raise NeedsState(self.variable)
        if self.write is not None:
            raise NeedsState(self.write.variable)
        return self.tensor
