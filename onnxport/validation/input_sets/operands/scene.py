"""What a rule sees of a node while its operands are drawn, and what it gives for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

Shape = tuple[int, ...]
Values = Mapping[int, Any]
# Where a sequence is drawn it has this many elements.
SEQUENCE_LENGTH = 3


class Scene(Protocol):
    """What a rule may ask while inputs are drawn."""

    rng: np.random.Generator
    from_end: bool  # whether indices may count from the end, which a source in a framework need not take

    def shape(self, value: ir.Value | None) -> Shape | None:
        """The sizes of a value in this draw; None where they are not known."""

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The numbers of a value that is a constant or drawn before; None else."""


Rule = Callable[[Scene, ir.Node], Values]


def operand(node: ir.Node, index: int) -> ir.Value | None:
    """An input of a node; None where it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def attribute(node: ir.Node, name: str, default: int | float | str | Sequence[int] | None) -> Any:
    """The value of an attribute, or its default."""
    return node.attributes[name].value if name in node.attributes else default


def output_shape(scene: Scene, node: ir.Node, index: int = 0) -> Shape | None:
    """The sizes of an output in this draw; None where they are not known."""
    return scene.shape(node.outputs[index]) if index < len(node.outputs) else None


def element_count(scene: Scene, node: ir.Node, index: int, default: int) -> int:
    """The number of elements of a one-dimensional operand."""
    shape = scene.shape(operand(node, index))
    return prod(shape) if shape is not None else default


def least_index(scene: Scene, size: int) -> int:
    """The least index into an axis."""
    return -size if scene.from_end else 0


def some_from_end(scene: Scene, axes: Sequence[int], rank: int) -> list[int]:
    """Axes of which some count from the end."""
    return [axis - rank if scene.rng.random() < 0.5 else axis for axis in axes]
