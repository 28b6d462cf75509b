"""A defect of a runtime: which nodes it concerns, and what is written instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder

# What stands for a node: one value, or one for each of its outputs.
Written = ir.Value | tuple[ir.Value, ...]
Write = Callable[[OpBuilder, ir.Node], Written]

ALL_OPSETS = range(13, 27)
NO_KERNEL = "onnxruntime has no kernel"


@dataclass(frozen=True)
class Defect:
    """Operators that onnxruntime lacks, or gets wrong, for some element types."""

    operators: tuple[str, ...]  # operator names in `domain`
    write: Write  # writes the replacement of one node; it gives one value, or one for each of the node's outputs
    instead: str  # the replacement in words, for the report
    reason: str = NO_KERNEL  # what goes wrong without it
    dtypes: frozenset[ir.DataType] = frozenset()  # the element types concerned; empty for any
    operands: tuple[int, ...] | None = None  # which inputs are looked at; None for all, and for the outputs too
    opsets: range = ALL_OPSETS  # the opsets concerned
    applies: Callable[[ir.Node], bool] | None = None  # a further condition on the node
    link: str = ""  # where the defect is written down in public
    domain: str = ""  # the operators' domain
    # The operator is loaded and gives other results than its definition: a source with it can't be run there.
    misread: bool = False
    # Only the runtime's optimisations give other results: node by node it is right.
    optimised: bool = False

    def concerns(self, node: ir.Node, opset: int) -> bool:
        """Whether a node of one of the operators meets the other conditions."""
        if opset not in self.opsets:
            return False
        if self.dtypes and self.dtypes.isdisjoint([value.dtype for value in self._values(node)]):
            return False
        return self.applies is None or self.applies(node)

    def _values(self, node: ir.Node) -> list[ir.Value]:
        if self.operands is None:
            return [value for value in (*node.inputs, *node.outputs) if value is not None]
        return [value for index in self.operands if (value := optional(node, index)) is not None]


def operand(node: ir.Node, index: int) -> ir.Value:
    """An input that the schema requires."""
    value = node.inputs[index]
    assert value is not None
    return value


def optional(node: ir.Node, index: int) -> ir.Value | None:
    """An input that may be left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def real(node: ir.Node, name: str, default: float) -> float:
    """An attribute that is a number: a float32, as its default."""
    return node.attributes.get_float(name, float(np.float32(default)))


def wholes(node: ir.Node, name: str, default: Sequence[int]) -> list[int]:
    """An attribute that is a list of integers."""
    return list(node.attributes.get_ints(name, default))


def dims(value: ir.Value | None) -> list[int | None] | None:
    """The sizes of a value's axes, None for one that is not known; None where the rank is not known."""
    if value is None or value.shape is None:
        return None
    return [size if isinstance(size, int) else None for size in value.shape]
