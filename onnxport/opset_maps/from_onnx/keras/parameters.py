"""Weights of the model that no Keras layer holds yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import keras
import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.values import Array, Ints, carrier


@dataclass(frozen=True, eq=False)
class Parameter:
    """A weight that no layer holds yet: it becomes part of a layer, or a `Weight` where a primitive needs it.

    Attributes:
        value: the model's initializer.
        steps: what has been done to its shape since: a name of `_RESHAPERS` and its argument.
        shape: its shape after them.
    """

    value: ir.Value
    shape: tuple[int, ...]
    steps: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def name(self) -> str:
        """Its name in the ONNX model."""
        return self.value.name or ""

    @property
    def dtype(self) -> ir.DataType:
        """Its ONNX element type."""
        assert self.value.const_value is not None
        return ir.DataType(self.value.const_value.dtype)

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others."""
        return (self.value, self.steps)

    def array(self) -> Array:
        """Its content in the element type that Keras holds."""
        assert self.value.const_value is not None
        content = self.value.const_value.numpy()
        for step, argument in self.steps:
            content = _RESHAPERS[step](content, argument)
        held = carrier(self.dtype)
        return content if held == "string" or content.dtype.name == held else content.astype(held)

    def after(self, step: str, argument: Ints) -> Parameter:
        """The parameter after another step."""
        taken = tuple(int(item) for item in argument)
        shape = _RESHAPERS[step](np.broadcast_to(np.int8(0), self.shape), taken).shape
        return replace(self, shape=shape, steps=(*self.steps, (step, taken)))


_RESHAPERS: dict[str, Callable[[Array, tuple[int, ...]], Array]] = {
    "permute_dims": np.transpose,
    "reshape": np.reshape,
    "expand_dims": np.expand_dims,
    "squeeze": np.squeeze,
}


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The shape of an initializer."""
    assert value.const_value is not None
    return tuple(int(n) for n in value.const_value.shape.numpy())


# What Keras' namespace computes with.
KerasValue: TypeAlias = keras.KerasTensor | Parameter
