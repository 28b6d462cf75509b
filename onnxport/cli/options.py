"""The options that several commands share, as they read on the command line, and which of them mean something where."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from onnxport.cli.source import Source
from onnxport.frameworks import Framework
from onnxport.options import check, check_sides, check_tolerances, takes

SourceArgument = Annotated[
    str, typer.Argument(help="A file, a SavedModel directory, or package.module:factory (a model, or what makes one).")
]
Weights = Annotated[Path | None, typer.Option(help="Weights for a factory: .safetensors, .pt or .weights.h5.")]
Inputs = Annotated[
    str | None,
    typer.Option(help="Example inputs: .npz, .npy, .csv, .parquet, .txt, or package.module:name of inputs."),
]
InputShape = Annotated[
    list[str] | None, typer.Option(help="Draw an example input of this shape: x=1x3x224x224:float32. Repeatable.")
]
Opset = Annotated[
    int | None,
    typer.Option(help="Version of ai.onnx, 13 to 28; 21 by default. An ONNX model keeps its own by default."),
]
Rtol = Annotated[float | None, typer.Option(help="Relative tolerance, instead of the derived budget.")]
Atol = Annotated[float | None, typer.Option(help="Absolute tolerance, instead of the derived budget.")]
Methods = Annotated[list[str] | None, typer.Option(help="Inference methods of an estimator. Repeatable.")]
Signature = Annotated[str | None, typer.Option(help="Which signature of a SavedModel.")]

# The parameters of commands whose names are not those of the arguments of `onnxport.convert`.
_ARGUMENTS = {"opset": "target_opset", "dynamic": "dynamic_shapes", "option": "options"}


def shown(parameter: str, source: Framework | None, target: Framework | None) -> bool:
    """Whether a command from a framework to another has the parameter; all have it where the source is open."""
    if source is None:
        return True
    if parameter == "weights":  # they go into what a factory returns; a file holds its own
        return source.files.load_weights is not None
    return takes(_ARGUMENTS.get(parameter, parameter), source, target)


def refuse(given: Mapping[str, object], source: Source, target: Framework) -> None:
    """Refuses parameters of a conversion that the user set and that mean nothing for this source and target.

    Raises:
        InvalidInputError: there are such; the message names them as they read on the command line.
    """
    check(_set(given), source.kind, target, _flag)
    _check_tolerances(given)


def refuse_between(given: Mapping[str, object], source: Source, converted: Source) -> None:
    """Refuses parameters of a comparison that the user set and that mean nothing for its sides.

    Raises:
        InvalidInputError: there are such.
    """
    check_sides(_set(given), source.kind, converted.kind, _flag)
    _check_tolerances(given)


def _check_tolerances(given: Mapping[str, object]) -> None:
    rtol, atol = (value if isinstance(value, float) else None for value in (given.get("rtol"), given.get("atol")))
    check_tolerances(rtol, atol, validate=given.get("validate") is not False, spelled=_flag)


def _set(given: Mapping[str, object]) -> list[str]:
    return [_ARGUMENTS.get(name, name) for name, value in given.items() if value not in (None, False, [])]


def _flag(argument: str) -> str:
    """How an argument of `onnxport.convert` reads on the command line."""
    parameter = next((name for name, known in _ARGUMENTS.items() if known == argument), argument)
    return f"--{parameter.replace('_', '-')}"
