"""The options that several commands share, as they read on the command line, and which of them mean something where."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from onnxport.cli.console import AllowCode, AllowPickle, AllowUnproved, Html, Json, Quiet, Verbose, outcome
from onnxport.cli.settings import used
from onnxport.cli.source import SourceModel, resolve
from onnxport.errors import InvalidInputError
from onnxport.frameworks import Framework
from onnxport.options import check, check_sides, check_tolerances, of_estimators, takes
from onnxport.validation.witnesses.engine import known_engines

Words = list[str] | None  # what a repeatable option holds

SourceArgument = Annotated[
    str,
    typer.Argument(
        help="A file, a folder (SavedModel, Hugging Face), or package.module:factory (a model, or what makes one)."
    ),
]
Weights = Annotated[
    Path | None, typer.Option(help="Weights for a factory or a folder: .safetensors, .pt or .weights.h5.")
]
Inputs = Annotated[
    str | None, typer.Option(help="Example inputs: .npz, .npy, .csv, .parquet, .txt, or package.module:name of inputs.")
]
InputShape = Annotated[
    Words, typer.Option(help="Draw an example input of this shape: x=1x3x224x224:float32. Repeatable.")
]
Opset = Annotated[
    int | None,
    typer.Option(help="Version of ai.onnx, 13 to 28; 21 by default. An ONNX model keeps its own by default."),
]
Rtol = Annotated[float | None, typer.Option(help="Relative tolerance, instead of the derived budget.")]
Atol = Annotated[float | None, typer.Option(help="Absolute tolerance, instead of the derived budget.")]
Methods = Annotated[Words, typer.Option(help="Inference methods of an estimator. Repeatable.")]
Signature = Annotated[str | None, typer.Option(help="Which signature of a SavedModel.")]
Runtimes = Annotated[
    Words,
    typer.Option(
        help=f"Other engines that run the converted ONNX file too: {', '.join(sorted(known_engines()))}. Repeatable."
    ),
]

_KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How the model that a command is about is read: each field is an option as it reads on the command line."""

    inputs: Inputs = None
    input_shape: InputShape = None
    weights: Weights = None
    signature: Signature = None
    allow_pickle: AllowPickle = False
    allow_code: AllowCode = False
    as_json: Json = False
    verbose: Verbose = False

    def resolve(self, text: str) -> SourceModel:
        """The model that `text` names; see `onnxport.cli.source.resolve`."""
        return resolve(text, weights=self.weights, inputs=self.inputs, input_shapes=self.input_shape or ())

    @property
    def arguments(self) -> dict[str, Any]:
        """What `onnxport.convert` takes of them beside the model and its inputs."""
        return {"signature": self.signature, "allow_pickle": self.allow_pickle, "allow_code": self.allow_code}


class Shown:
    """What commands share that show how their work goes on; their options are its fields."""

    as_json: bool
    verbose: bool
    quiet: bool

    def outcome(self, doing: str) -> AbstractContextManager[None]:
        """What stands around a command's work; see `onnxport.cli.console.outcome`."""
        return outcome(self.as_json, doing, verbose=self.verbose, quiet=self.quiet)


@dataclass(frozen=True, kw_only=True)
class ProofOptions(SourceOptions, Shown):
    """How two models are compared and what of it is shown."""

    rtol: Rtol = None
    atol: Atol = None
    html: Html = None
    allow_unproved: AllowUnproved = False
    quiet: Quiet = False

    @property
    def tolerances(self) -> dict[str, float | None]:
        """The tolerances that the user set."""
        return {"rtol": self.rtol, "atol": self.atol}


def declared(order: type) -> dict[str, inspect.Parameter]:
    """The fields of a dataclass as the parameters of a command, its own before those that it shares with others."""
    types, own = get_type_hints(order, include_extras=True), order.__annotations__
    given = {item.name: inspect.Parameter.empty if item.default is MISSING else item.default for item in fields(order)}
    names = sorted(given, key=lambda name: name not in own)
    return {name: inspect.Parameter(name, _KIND, default=given[name], annotation=types[name]) for name in names}


def show(function: Callable[..., None], options: Sequence[inspect.Parameter]) -> None:
    """Gives a function of keywords the parameters that its command line has."""
    ordered = sorted(options, key=lambda item: item.default is not inspect.Parameter.empty)  # as Python asks
    function.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    function.__annotations__ = {item.name: item.annotation for item in options}


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """A command that has the fields of its argument `given`, a dataclass, as options behind its own."""
    types = get_type_hints(function, include_extras=True)
    own = [item.replace(annotation=types[item.name]) for item in inspect.signature(function).parameters.values()]
    shared = declared(types["given"])

    @wraps(function)
    def command(**values: Any) -> None:
        function(given=types["given"](**{name: values.pop(name) for name in shared}), **values)

    show(command, [*(item for item in own if item.name != "given"), *shared.values()])
    return command


_DYNAMIC = re.compile(r"(?P<input>[^:=]+):(?P<axis>-?\d+)(?:=(?P<name>\w+))?")
# The parameters of commands whose names are not those of the arguments of `onnxport.convert`.
ARGUMENTS = {"opset": "target_opset", "extra_opset": "target_opset", "dynamic": "dynamic_shapes", "option": "options"}


_SOURCE = ".py"


def shown(parameter: str, source: Framework | None, target: Framework | None) -> bool:
    """Whether a command from a framework to another has the parameter; all have it where the source is open."""
    if source is None:
        return True
    if parameter in ("runtimes", "static"):  # of ONNX files
        return target is None or target.is_hub
    if parameter == "emit_code":
        return target is None or _SOURCE in target.files.writes
    if parameter == "option":  # of estimators, or of weights in few bits
        return takes("options", source, target) or takes("dtype", source, target)
    if parameter == "weights":  # they go into what a factory returns; most files hold their own
        return source.files.load_weights is not None or takes(parameter, source, target)
    return takes(ARGUMENTS.get(parameter, parameter), source, target)


def refuse(
    given: Mapping[str, object],
    source: SourceModel,
    target: Framework | None = None,
    *,
    converted: SourceModel | None = None,
) -> None:
    """Refuses arguments that the user set and that mean nothing for a conversion from `source` to `target`, or for a
    comparison of `source` with `converted`.

    Raises:
        InvalidInputError: there are such; the message names them as they read on the command line.
    """
    names = [name for name, value in given.items() if value not in (None, False, [])]
    options = given.get("options")
    if isinstance(options, Mapping) and not of_estimators(options):
        names.remove("options")
    if converted is not None:
        check_sides(names, source.kind, converted.kind, _flag)
    if target is not None:
        check(names, source.kind, target, _flag)
    rtol, atol = (value if isinstance(value, float) else None for value in (given.get("rtol"), given.get("atol")))
    check_tolerances(rtol, atol, validate=given.get("validate") is not False, spelled=_flag)


def _flag(argument: str) -> str:
    """How an argument of `onnxport.convert` reads on the command line."""
    parameter = next((name for name, known in ARGUMENTS.items() if known == argument), argument)
    return f"--{parameter.replace('_', '-')}{used.get().origin(parameter)}"


def opsets(given: Iterable[str]) -> dict[str, int]:
    """Versions by domain, from ``ai.onnx.ml:3``; several may stand behind each other with commas.

    >>> opsets(["ai.onnx.ml:3,com.acme:2"])
    {'ai.onnx.ml': 3, 'com.acme': 2}

    Raises:
        InvalidInputError: one can't be understood.
    """
    versions: dict[str, int] = {}
    for text in ",".join(given).split(","):
        domain, _, version = text.strip().rpartition(":")
        if not domain or not version.isdecimal():
            raise InvalidInputError(f"opset {text!r}: written as DOMAIN:VERSION, such as ai.onnx.ml:3")
        versions[domain] = int(version)
    return versions


def dynamic_shapes(given: Iterable[str] | None) -> dict[str, dict[int, str | int]] | None:
    """Dimensions that may vary, from ``x:0=batch``; the name may be left out, a number is a size that does not vary.

    >>> dynamic_shapes(["x:0=batch", "x:2"])
    {'x': {0: 'batch', 2: 'x_dim_2'}}
    >>> dynamic_shapes(["x:0=4"])
    {'x': {0: 4}}

    Raises:
        InvalidInputError: one can't be understood.
    """
    shapes: dict[str, dict[int, str | int]] = {}
    for text in given or ():
        parts = _DYNAMIC.fullmatch(text)
        if parts is None:
            raise InvalidInputError(f"dynamic dimension {text!r}: written as INPUT:AXIS=NAME, such as x:0=batch")
        axis = int(parts["axis"])
        name = parts["name"] or f"{parts['input']}_dim_{axis}"
        shapes.setdefault(parts["input"], {})[axis] = int(name) if name.isdecimal() else name
    return shapes or None


def estimator_options(given: Iterable[str] | None) -> dict[str, Any] | None:
    """Options of an estimator's conversion, from ``zipmap=true``; one of a step as ``prep.num.output=scaled``.

    >>> estimator_options(["label=false", "labels=ints", "prep.num.output=scaled"])
    {'label': False, 'labels': 'ints', 'prep.num': {'output': 'scaled'}}

    Raises:
        InvalidInputError: one can't be understood.
    """
    options: dict[str, Any] = {}
    for text in given or ():
        name, sign, word = text.partition("=")
        if not sign or not name:
            raise InvalidInputError(f"option {text!r}: written as NAME=VALUE or STEP.NAME=VALUE, such as zipmap=true")
        value = {"true": True, "false": False}.get(word.lower(), word)
        step, _, last = name.rpartition(".")
        if step:
            options.setdefault(step, {})[last] = value
        else:
            options[name] = value
    return options or None
