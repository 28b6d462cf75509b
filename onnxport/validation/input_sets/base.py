"""What a set of inputs is, and the inputs that a graph declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from onnxport.validation.runners.base import InputSpec

# Values as usual; those at which models break; NaN and infinities among usual ones.
Kind = Literal["ordinary", "edges", "not finite"]


@dataclass(frozen=True)
class InputSet:
    """Leaves in the order of the graph's inputs, and what kind of set they are."""

    name: str  # "given", "other sizes", ...
    leaves: tuple[Any, ...]  # arrays; lists, dicts and None where the input is a sequence, map or absent optional
    optional: bool = True  # a source that can't run on it has not failed: the set is then left out
    cheap: bool = False  # a row costs next to nothing, so that many of them cost little more than one
    attempt: int = 0  # which of several ways to draw the set it is
    beyond: bool = False  # of sizes that the report excludes: a file that does not run there gives no wrong numbers
    certain: bool = False  # random operators have no choice on it, so that their outputs can be compared by value

    @property
    def drawn_empty(self) -> bool:
        """Whether the user did not give it and an array in it has no elements."""
        return self.optional and any(isinstance(leaf, np.ndarray) and not leaf.size for leaf in self.leaves)


def own_inputs(graph: ir.Model) -> list[ir.Value]:
    """The graph's inputs that have no initializer."""
    return [value for value in graph.graph.inputs if value.name not in graph.graph.initializers]


def specs_of(model: ir.Model) -> tuple[InputSpec, ...]:
    """The graph's inputs that have no initializer, in order."""
    return tuple(spec_of(value) for value in own_inputs(model))


def spec_of(value: ir.Value) -> InputSpec:
    """What a graph declares of one input."""
    kind: Any = value.type
    shape = dims_of(value.shape) if value.shape is not None else None
    words = {"SequenceType": "sequence", "OptionalType": "optional"}
    label = words.get(type(kind).__name__, "tensor")
    while kind is not None and hasattr(kind, "elem_type") and not isinstance(kind, ir.TensorType):
        kind = kind.elem_type
    dtype = numpy_dtype(kind.dtype) if isinstance(kind, ir.TensorType) else None
    return InputSpec(value.name or "", dtype, shape, label)


def dims_of(shape: ir.Shape) -> tuple[int | str | None, ...]:
    """The sizes of a shape, symbolic ones by name."""
    return tuple(dim if isinstance(dim, int) else dim.value for dim in shape)


def numpy_dtype(dtype: ir.DataType) -> np.dtype | None:
    """The NumPy type of an ONNX element type (strings are objects); None where there is none."""
    if dtype == ir.DataType.STRING:
        return np.dtype(object)
    try:
        return np.dtype(dtype.numpy())
    except (TypeError, KeyError):
        return None
