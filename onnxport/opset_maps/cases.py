"""Example cases: the evidence that a map entry carries.

A case is what the source framework computes, and the inputs; the suite converts it, runs both sides and
compares (`tests/pytorch/test_entries.py`, `tests/*/test_export_cases.py`), and the support tables list what the cases
prove. Inputs are drawn from a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Array:
    """A random array: dtype, shape and the range its values are drawn from."""

    dtype: str  # NumPy dtype name
    shape: tuple[int, ...]
    low: float = -3.0  # least value, inclusive
    high: float = 3.0  # greatest value, exclusive for integers

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """The array, from `rng`."""
        if self.dtype == "bool":
            return rng.random(self.shape) < 0.5
        kind = np.dtype(self.dtype).kind
        if kind in "iu":
            low = max(self.low, 0) if kind == "u" else self.low
            return rng.integers(int(low), int(self.high), self.shape).astype(self.dtype)
        if kind == "c":
            parts = rng.uniform(self.low, self.high, (2, *self.shape))
            return (parts[0] + 1j * parts[1]).astype(self.dtype)
        return rng.uniform(self.low, self.high, self.shape).astype(self.dtype)


def f32(*shape: int, low: float = -3.0, high: float = 3.0) -> Array:
    """A float32 array."""
    return Array("float32", shape, low, high)


def f64(*shape: int, low: float = -3.0, high: float = 3.0) -> Array:
    """A float64 array."""
    return Array("float64", shape, low, high)


def i64(*shape: int, low: int = -5, high: int = 6) -> Array:
    """An int64 array."""
    return Array("int64", shape, low, high)


def i32(*shape: int, low: int = -5, high: int = 6) -> Array:
    """An int32 array."""
    return Array("int32", shape, low, high)


def boolean(*shape: int) -> Array:
    """A bool array."""
    return Array("bool", shape)


@dataclass(frozen=True)
class Case:
    """One example of an operator in use."""

    # Builds what is converted: a function of tensors, or (`factory`) a function that returns a module, layer or fitted
    # estimator. It may import its framework, since it runs only in tests.
    call: Callable[..., Any]
    inputs: tuple[Any, ...]  # arrays, as `Array` or as literal NumPy arrays; anything else is passed as it is
    factory: bool = False  # `call()` returns the model, instead of being it
    min_opset: int = 13  # least target opset at which the entry has a form
    dynamic: bool = False  # also converted with a dynamic first dimension and run at another size
    name: str = ""  # shown in test ids
    holds: tuple[str, ...] = ()  # operators that the written graph must have, so that no fallback hides

    def draw(self, seed: int = 0) -> tuple[Any, ...]:
        """The inputs, the same for the same seed."""
        rng = np.random.default_rng(seed)
        return tuple(item.draw(rng) if isinstance(item, Array) else item for item in self.inputs)


def case(call: Callable[..., Any], *inputs: Any, **options: Any) -> Case:
    """A case that converts the function `call` itself; `options` are fields of `Case`."""
    return Case(call, inputs, **options)


def built(call: Callable[[], Any], *inputs: Any, **options: Any) -> Case:
    """A case that converts what `call()` returns: a module, a layer, a fitted estimator; `options` are fields of `Case`."""
    return Case(call, inputs, factory=True, **options)
