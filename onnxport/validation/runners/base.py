"""What all runners share: the inputs as the user gives them, flat leaves, and outputs by name."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnxport.errors import InvalidInputError
from onnxport.graph.outputs import Output
from onnxport.validation.numerics import Numerics

DEFAULT_LENGTH = 64  # sums are taken to be of this length where nothing is known of the model
# Name and value of each result in the framework's own order of leaves; names may be empty where it gives none.
Outputs = list[tuple[str, Any]]


@dataclass(frozen=True)
class InputSpec:
    """One input of a graph."""

    name: str
    dtype: np.dtype | None  # element type; None for a sequence, map or optional of unknown element type
    # Sizes, symbolic ones by name, unknown ones None; None where the rank is unknown.
    dims: tuple[int | str | None, ...] | None
    kind: str = "tensor"  # "tensor", "sequence", "optional" or "map"


@dataclass(frozen=True)
class Binding:
    """How a model is to be called."""

    # Positional inputs (tuple) or inputs by name (dict), or None: then the leaves are the positional inputs.
    inputs: Any = None
    kwargs: Mapping[str, Any] | None = None  # keyword inputs
    specs: tuple[InputSpec, ...] | None = None  # the inputs of the ONNX graph on either side, where there is one
    output_names: tuple[str, ...] | None = None  # names of the graph's outputs
    # The graph has an output that is no tensor (a sequence, map or optional): results are not flattened.
    structured: bool = False
    signature: str | None = None  # which signature of a SavedModel
    methods: Sequence[str] | None = None  # which methods of an estimator
    produced: tuple[Output, ...] = ()  # the graph's own record of what its outputs are, in order

    @property
    def given(self) -> bool:
        """Whether the user gave inputs."""
        return self.inputs is not None or bool(self.kwargs)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The user's inputs as positional and keyword arguments."""
        return split_arguments(() if self.inputs is None else self.inputs, self.kwargs)

    def names(self, default: list[str]) -> list[str]:
        """Names of the graph's inputs; `default` where there is no graph."""
        return [spec.name for spec in self.specs] if self.specs is not None else default


@dataclass(frozen=True)
class Example:
    """The user's inputs as flat leaves in the order of the framework's pytrees."""

    names: tuple[str, ...] = ()  # path of each leaf (`ids`, `past.0.key`)
    leaves: tuple[Any, ...] = ()  # NumPy arrays; lists, dicts and None where the input is a sequence, map or absent


class Runner(ABC):
    """A model bound to the structure of its inputs: arrays in, arrays out."""

    framework: ClassVar[str]
    # Element types that this side gives need not be the other's (scikit-learn computes in float64 whatever it gets).
    own_dtypes: ClassVar[bool] = False
    tabular: ClassVar[bool] = False  # the inputs are a table of samples
    windows_without_rows: ClassVar[bool] = True  # convolutions and pools of no rows have the shape of those of rows
    rare_types: ClassVar[Mapping[str, str]] = MappingProxyType(
        {}
    )  # those of `RARE_FLOAT8` that it lacks, and what it has
    products_keep_nan: ClassVar[bool] = True  # fused convolutions and products keep NaN
    # An inner value may have its channels last where the graph has them second, or a type of other width.
    inner_forms_vary: ClassVar[bool] = False
    # Inner means of numbers in steps may lie a step apart anywhere.
    inner_means_lie_a_step_apart: ClassVar[bool] = False
    # How the operators are spelled whose results inner values are; a graph may have been traced elsewhere. Empty for any.
    inner_operators: str = ""
    # An inner operator has the same name in each trace. PyTorch numbers its nodes, of which the converted trace may have more.
    names_are_steady: bool = True
    settles_nan: bool = True  # its kernels agree on what comes of NaN
    runtime: str = ""
    graph: ir.Model | None = None  # the model's own ONNX graph, where it is one
    # The runtime that the model is for loads it and runs it on no inputs: another one does, which may take what none should.
    stands_in: bool = False

    def __init__(self, title: str, example: Example | None) -> None:
        self.title = title
        self.example = example

    @property
    def allows_missing(self) -> bool:
        """Whether NaN stands for a missing value in the inputs."""
        return False

    @property
    def adds_up_exactly(self) -> bool:
        """Whether its float64 run computes another way, which loses no digits where its own loses all."""
        return False

    @property
    def categories(self) -> Mapping[tuple[int, int], np.ndarray]:
        """The categories that it knows, by leaf and column in it."""
        return {}

    @property
    def dtypes_vary(self) -> bool:
        """Whether the rows decide if an output holds whole numbers or floating-point ones."""
        return False

    @abstractmethod
    def run(self, leaves: Sequence[Any]) -> Outputs:
        """The outputs for leaves in the order of `example`, or of the graph's inputs where that is None."""

    @property
    def numerics(self) -> Numerics:
        """What is known of the model's arithmetic without running it."""
        return Numerics(DEFAULT_LENGTH)

    def coarse(self, leaves: Sequence[Any]) -> float | None:
        """Epsilon of the coarsest type that the model computes in on these leaves; None where that is its outputs' own."""
        return self.numerics.coarse

    def computes_complex(self, leaves: Sequence[Any]) -> bool:
        """Whether the model computes with complex numbers on these leaves."""
        return False

    @property
    def stopped(self) -> str:
        """The error of a run that took more memory or time than a file may cost; empty where none did."""
        return ""

    def stand_in(self) -> bool:
        """Turns to another runtime where the present one runs on no inputs; whether there is one."""
        return False

    def run_float64(self, leaves: Sequence[Any]) -> Outputs | None:
        """The same in float64, or None where the model can't."""
        return None

    def run_float32(self, leaves: Sequence[Any]) -> Outputs | None:
        """The same in float32, for a model that computes in float64; None where it can't, or `run_float64` gave nothing."""
        return None

    def run_moved(self, leaves: Sequence[Any], units: int, seed: int) -> Outputs | None:
        """The same with the model's weights off by `units` in the last place, up or down at random, where it can."""
        return self.run(leaves)

    @property
    def inner_values_elsewhere(self) -> str:
        """Where the model's inner values are to be had, as the end of a message, if this runner has none of them."""
        return ""

    def intermediates(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Results of the model's inner operators by their names in its trace; empty where it can't be traced."""
        return {}

    def each_intermediate(self, leaves: Sequence[Any], take: Callable[[str, Any], None]) -> None:
        """Hands each of `intermediates` over as soon as it is computed; a runner that can holds none of them."""
        for name, result in self.intermediates(leaves).items():
            take(name, result)

    def each_layer(self, leaves: Sequence[Any], take: Callable[[tuple[str, ...], Any], None]) -> None:  # noqa: B027
        """Hands over what each layer gives while the model itself runs: the names of those around it and its own, and its result.

        Nothing where the model has no layers that the scopes of its trace are named after.
        """

    def refuses(self, error: Exception) -> bool:
        """Whether an error of a run says that the model does not take such inputs, though a graph of it may."""
        return False

    def says_columns(self, name: str) -> bool:
        """Whether the columns of the output `name` mean different things, so that each has its own scale."""
        return False

    def says_probabilities(self, name: str) -> bool:
        """Whether the elements of a row of the output `name` add up to 1."""
        return False

    def says_labels(self, name: str) -> bool:
        """Whether the output `name` holds classes, which are equal or not, also where they are floating-point numbers."""
        return False

    def says_steps(self, name: str) -> bool:
        """Whether the output `name` holds whole numbers that real ones are rounded to."""
        return False

    @property
    def computes_in_steps(self) -> bool:
        """Whether the model rounds real numbers to steps on its way."""
        return False

    def undecided(self, leaves: Sequence[Any], name: str, slack: float) -> np.ndarray | None:
        """Elements of the output `name` that the model itself can't tell within `slack`, relative to its scores' scale."""
        return None

    def hint(self, leaves: Sequence[Any]) -> str:
        """What about these inputs may lie behind a difference, in words; "" where nothing is known to."""
        return ""


# Element types that frameworks lack, and the type that stands for them there.
_TRAVELS_AS = dict.fromkeys(("int4", "int2"), "int8") | dict.fromkeys(("uint4", "uint2"), "uint8")
_TRAVELS_AS |= dict.fromkeys(("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"), "float32")


# Those that only some have.
RARE_FLOAT8 = MappingProxyType(dict.fromkeys(("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"), "float32"))


def lacks(dtype: np.dtype, rare: Mapping[str, str]) -> bool:
    """Whether a framework that lacks the types of `rare` too has no such element type."""
    return dtype.name in _TRAVELS_AS or dtype.name in rare


def travelled(value: object, rare: Mapping[str, str] = MappingProxyType({})) -> Any:
    """An array of a type that a framework lacks, all do or those of `rare`, in the type that stands for it there.

    Sequences element by element.
    """
    if isinstance(value, np.ndarray) and lacks(value.dtype, rare):
        return value.astype({**_TRAVELS_AS, **rare}[value.dtype.name])
    if isinstance(value, list):
        return [travelled(item, rare) for item in value]
    return value


def split_arguments(inputs: object, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
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


def top_level(result: object, to_numpy: Callable[[Any], Any]) -> Outputs:
    """One value an output of the graph: the elements of a tuple, each a tensor, list (sequence), dict (map) or None."""
    values = result if isinstance(result, tuple) else (result,)
    return [("", nested(value, to_numpy)) for value in values]


def nested(value: object, to_numpy: Callable[[Any], Any]) -> Any:
    """Tensors inside lists and dicts as arrays."""
    if isinstance(value, (list, tuple)):
        return [nested(item, to_numpy) for item in value]
    if isinstance(value, Mapping):
        return {key: nested(item, to_numpy) for key, item in value.items()}
    return to_numpy(value)


def arguments_in_order(call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments in the order of the callable's parameters, as exporters take them."""
    names = parameter_names(call)
    order = [*(name for name in names[len(args) :] if name in kwargs), *(name for name in kwargs if name not in names)]
    return {name: kwargs[name] for name in order}
