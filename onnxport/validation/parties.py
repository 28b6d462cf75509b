"""The two sides of a comparison, bound to their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxport.validation.input_sets.certain import has_certain_sets
from onnxport.validation.runners.base import InputSpec, Runner


@dataclass(frozen=True)
class Party:
    """One side of a comparison: a live model, its framework, what to call it in the report (a file's name), and the file."""

    model: Any
    framework: str
    title: str = ""
    file: Path | None = None


@dataclass(frozen=True)
class Tolerance:
    """What the user allows; None leaves it to the derived budget."""

    rtol: float | None = None
    atol: float | None = None

    @property
    def given(self) -> bool:
        """Whether the user gave one."""
        return self.rtol is not None or self.atol is not None


@dataclass(frozen=True)
class Comparison:
    """Both sides bound to their inputs, ready to run."""

    source: Runner  # the side that counts as right
    converted: Runner  # the side under test
    # For each graph input the source's leaf that feeds it; None where the source takes leaves in graph order.
    order: tuple[int, ...] | None
    specs: tuple[InputSpec, ...] | None  # the inputs of the ONNX graph, where there is one
    graph: ir.Model | None  # the ONNX graph that is one of the sides or lies between them; None where there is none
    tolerance: Tolerance  # what the user allows

    @property
    def chances(self) -> ir.Model | None:
        """The graph whose random operators are the source's: its own where it is one, else that which it became."""
        return self.source.graph or self.graph

    @cached_property
    def has_certain_sets(self) -> bool:
        """Whether there are inputs on which its random operators leave nothing to chance."""
        return has_certain_sets(self.chances)

    def source_leaves(self, leaves: Sequence[object]) -> list[Any]:
        """Leaves in graph order put into the source's order; leaves that the graph does not take stay as given."""
        if self.order is None or self.source.example is None:
            return list(leaves)
        own = list(self.source.example.leaves)
        for leaf, index in zip(leaves, self.order, strict=True):
            own[index] = leaf
        return own
