"""What a rule sees of a node while its operands are drawn, and what it gives for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

Shape = tuple[int, ...]
Values = Mapping[int, Any]
SEQUENCE_LENGTH = 3  # where a sequence is drawn it has this many elements


class Draw(Protocol):
    """What a rule may ask while inputs are drawn."""

    rng: np.random.Generator
    from_end: bool  # whether indices may count from the end, which a source in a framework need not take

    def shape(self, value: ir.Value | None) -> Shape | None:
        """The sizes of a value in this draw; None where they are not known."""

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The numbers of a value that is a constant or drawn before; None else."""


@dataclass(frozen=True)
class Scene:
    """A node in a draw."""

    draw: Draw
    node: ir.Node

    @property
    def rng(self) -> np.random.Generator:
        """The draw's random numbers."""
        return self.draw.rng

    def operand(self, index: int) -> ir.Value | None:
        """An input of the node; None where it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def shape(self, index: int) -> Shape | None:
        """The sizes of an operand in this draw; None where they are not known."""
        return self.draw.shape(self.operand(index))

    def constant(self, index: int) -> np.ndarray | None:
        """The numbers of an operand that is a constant or drawn before; None else."""
        return self.draw.constant(self.operand(index))

    def is_floating(self, index: int) -> bool:
        """Whether an operand is of a floating-point type."""
        value = self.operand(index)
        return value is not None and value.dtype is not None and value.dtype.is_floating_point()

    def attribute(self, name: str, default: int | float | str | Sequence[int] | None) -> Any:
        """The value of an attribute, or its default."""
        return self.node.attributes[name].value if name in self.node.attributes else default

    def output_shape(self) -> Shape | None:
        """The sizes of the first output in this draw; None where they are not known."""
        return self.draw.shape(self.node.outputs[0]) if self.node.outputs else None

    def element_count(self, index: int, default: int) -> int:
        """The number of elements of a one-dimensional operand."""
        shape = self.shape(index)
        return prod(shape) if shape is not None else default

    def least_index(self, size: int) -> int:
        """The least index into an axis."""
        return -size if self.draw.from_end else 0

    def some_from_end(self, axes: Sequence[int], rank: int) -> list[int]:
        """Axes of which some count from the end."""
        return [axis - rank if self.rng.random() < 0.5 else axis for axis in axes]


Rule = Callable[[Scene], Values]
Recipe = Callable[..., Values]  # a rule that also takes the shapes of some operands


class Rules(dict[str, Rule]):
    """The rules of a family, by operator.

    A rule gives values for some of a node's inputs by their index. The declared shapes of the node's outputs decide first: a
    `Reshape` is drawn to the shape that its output has.
    """

    def of(self, *operators: str, shapes: Sequence[int] = ()) -> Callable[[Recipe], Recipe]:
        """Enters a rule that takes the scene and the shapes of these operands; it has nothing where one is not known."""

        def enter(rule: Recipe) -> Recipe:
            def where_known(scene: Scene) -> Values:
                known = [scene.shape(index) for index in shapes]
                return {} if None in known else rule(scene, *known)

            self.update(dict.fromkeys(operators, where_known))
            return rule

        return enter
