"""Typed facts about values of a graph, beside their type and shape.

A room declares each of its facts once, as a constant: ``COMPLEX: Fact[bool] = Fact("complex")``. A fact stays with its value and
goes over to the value's clones; no file holds it.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import onnx_ir as ir

T = TypeVar("T")


class Fact(Generic[T]):
    """One thing that may be known of a value.

    >>> unit: Fact[str] = Fact("unit")
    >>> x = ir.Value(name="x")
    >>> unit.of(x) is None
    True
    >>> unit.set(x, "metres")
    >>> unit.of(x)
    'metres'
    """

    def __init__(self, name: str) -> None:
        self._key = f"onnxport.{name}"

    def of(self, value: ir.Value) -> T | None:
        """What is known of the value, None where nothing is."""
        content: T | None = value.meta.get(self._key)
        return content

    def set(self, value: ir.Value, content: T) -> None:
        """Records what is known of the value, in place of what was."""
        value.meta[self._key] = content
