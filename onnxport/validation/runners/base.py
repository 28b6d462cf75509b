"""What all runners share: the inputs as the user gives them, flat leaves, and outputs by name."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from onnxport.errors import InvalidInputError
from onnxport.frameworks import Framework

# Name and value of each result in the framework's own order of leaves; names may be empty where it gives none.
Outputs = list[tuple[str, Any]]


@dataclass(frozen=True)
class InputSpec:
    """One input of a graph.

    Attributes:
        name: its name.
        dtype: element type; None for a sequence, map or optional of unknown element type.
        dims: sizes, symbolic ones by name, unknown ones None; None where the rank is unknown.
        kind: ``"tensor"``, ``"sequence"``, ``"optional"`` or ``"map"``.
    """

    name: str
    dtype: np.dtype | None
    dims: tuple[int | str | None, ...] | None
    kind: str = "tensor"


@dataclass(frozen=True)
class Binding:
    """How a model is to be called.

    Attributes:
        inputs: positional inputs (tuple) or inputs by name (dict), or None: then the leaves are the positional inputs.
        kwargs: keyword inputs.
        specs: the inputs of the ONNX graph on either side, where there is one.
        output_names: names of the graph's outputs.
        output_dtypes: their element types.
        signature: which signature of a SavedModel.
        methods: which methods of an estimator.
    """

    inputs: Any = None
    kwargs: Mapping[str, Any] | None = None
    specs: tuple[InputSpec, ...] | None = None
    output_names: tuple[str, ...] | None = None
    output_dtypes: tuple[np.dtype | None, ...] | None = None
    signature: str | None = None
    methods: Sequence[str] | None = None


@dataclass(frozen=True)
class Example:
    """The user's inputs as flat leaves in the order of the framework's pytrees.

    Attributes:
        names: path of each leaf (``ids``, ``past.0.key``).
        leaves: NumPy arrays; lists, dicts and None where the input is a sequence, map or absent.
    """

    names: tuple[str, ...] = ()
    leaves: tuple[Any, ...] = ()


class Runner(ABC):
    """A model bound to the structure of its inputs: arrays in, arrays out."""

    framework: ClassVar[Framework]
    # Element types that this side gives need not be the other's (scikit-learn computes in float64 whatever it gets).
    own_dtypes: ClassVar[bool] = False
    # Columns of an output mean different things, so that each has its own scale.
    tabular: ClassVar[bool] = False
    runtime: str = ""

    def __init__(self, title: str, example: Example | None) -> None:
        self.title = title
        self.example = example

    @abstractmethod
    def run(self, leaves: Sequence[Any]) -> Outputs:
        """The outputs for leaves in the order of `example`, or of the graph's inputs where that is None."""

    def run_float64(self, leaves: Sequence[Any]) -> Outputs | None:
        """The same in float64, or None where the model can't."""
        return None

    def undecided(
        self, leaves: Sequence[Any], name: str, outputs: Mapping[str, Any], slack: float
    ) -> np.ndarray | None:
        """Elements of the output `name` that the model itself can't tell within `slack`, relative to its scores' scale."""
        return None


@dataclass
class Structure:
    """Arguments taken apart into leaves, and the way back.

    Attributes:
        flatten: gives all leaves of nested arguments with their paths, in the framework's own order.
        unflatten: puts leaves back into arguments of the same structure.
        is_tensor: whether a leaf varies (arrays and tensors) or belongs to the program (numbers, strings, None).
        to_numpy: a tensor as an array.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    paths: list[tuple[Any, ...]]
    flat: list[Any]
    rebuild: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]]
    positions: list[int] = field(default_factory=list)

    def example(self, parameters: Sequence[str], to_numpy: Callable[[Any], np.ndarray]) -> Example:
        """The leaves as arrays, named by their paths with positional arguments named after `parameters`."""
        names = []
        for position in self.positions:
            kind, first, *rest = self.paths[position]
            if kind == "args":
                first = parameters[first] if first < len(parameters) else f"input_{first}"
            names.append(".".join(str(part) for part in (first, *rest)))
        return Example(tuple(names), tuple(to_numpy(self.flat[i]) for i in self.positions))

    def arguments(
        self, leaves: Sequence[Any], like: Callable[[Any, Any], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call's arguments with the varying leaves replaced; ``like(array, original)`` makes a tensor."""
        flat = list(self.flat)
        for position, leaf in zip(self.positions, leaves, strict=True):
            flat[position] = like(leaf, self.flat[position])
        return self.rebuild(flat)


def split_arguments(inputs: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of `inputs`: a tuple is positional, a dict by name, anything else one argument."""
    named = dict(kwargs or {})
    if isinstance(inputs, Mapping):
        return (), {**inputs, **named}
    if isinstance(inputs, tuple):
        return inputs, named
    return (inputs,), named


def parameter_names(call: Callable[..., Any]) -> list[str]:
    """Names of the positional parameters of a callable; empty where it can't be asked."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [item.name for item in parameters if item.kind in kinds and item.name != "self"]


def graph_order(example: Example, specs: Sequence[InputSpec]) -> list[int]:
    """For each graph input the index of the example's leaf that feeds it: by name where all names agree, else by position.

    Raises:
        InvalidInputError: their numbers differ and names do not tell.
    """
    index = {name: i for i, name in enumerate(example.names)}
    wanted = [spec.name for spec in specs]
    if len(index) == len(example.names) and all(name in index for name in wanted):
        return [index[name] for name in wanted]
    if len(wanted) == len(example.names):
        return list(range(len(wanted)))
    raise InvalidInputError(
        f"the graph takes {len(wanted)} inputs ({', '.join(wanted) or 'none'}), the example inputs hold {len(example.names)} "
        f"arrays ({', '.join(example.names) or 'none'})"
    )


def is_array(leaf: Any) -> bool:
    """Whether a leaf is a NumPy array or scalar."""
    return isinstance(leaf, (np.ndarray, np.generic))
