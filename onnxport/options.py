"""Which option means something for which source and target: declared once, for `onnxport.convert` and the command line."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from onnxport.errors import InvalidInputError
from onnxport.frameworks import Framework

# A framework's models do not all take the same options: an exported program is traced already, a frozen graph has no signatures.
Kind = Literal["onnx", "pytorch", "program", "tensorflow", "graph_def", "keras", "sklearn"]

KINDS: dict[Framework, tuple[Kind, ...]] = {
    "onnx": ("onnx",),
    "pytorch": ("pytorch", "program"),
    "tensorflow": ("tensorflow", "graph_def"),
    "keras": ("keras",),
    "sklearn": ("sklearn",),
}
TARGETS: tuple[Framework, ...] = ("onnx", "pytorch", "tensorflow", "keras", "sklearn")

_TITLES: dict[Kind, str] = {
    "onnx": "an ONNX model",
    "pytorch": "a PyTorch module or function",
    "program": "an exported program of PyTorch",
    "tensorflow": "a TensorFlow model",
    "graph_def": "a frozen graph of TensorFlow",
    "keras": "a Keras model",
    "sklearn": "an estimator",
}
_TARGET_TITLES: dict[Framework, str] = {
    "onnx": "ONNX",
    "pytorch": "PyTorch",
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "sklearn": "scikit-learn",
}

_LIVE: tuple[Kind, ...] = ("pytorch", "program", "tensorflow", "graph_def", "keras", "sklearn")
_TENSORS: tuple[Kind, ...] = ("onnx", "pytorch", "program", "tensorflow", "graph_def", "keras")


@dataclass(frozen=True)
class Option:
    """An option of a conversion that does not mean something everywhere.

    Attributes:
        name: the argument of `onnxport.convert`.
        targets: by kind of source, the targets for which it means something; a kind that is not here does not take it.
        instead: what to do where it means nothing.
    """

    name: str
    targets: Mapping[Kind, tuple[Framework, ...]]
    instead: str

    def means(self, kind: Kind, target: Framework) -> bool:
        """Whether it changes what becomes of a source of this kind on the way to the target."""
        return target in self.targets.get(kind, ())


# How an option reads where the user wrote it.
Spelling = Callable[[str], str]


def _as_argument(name: str) -> str:
    return f"{name}="


def _of(kinds: Iterable[Kind], targets: tuple[Framework, ...] = TARGETS) -> dict[Kind, tuple[Framework, ...]]:
    return dict.fromkeys(kinds, targets)


# Options that are not here (inputs, input_names, output, validate, rtol, atol, optimize) mean something everywhere.
OPTIONS: tuple[Option, ...] = (
    Option("kwargs", _of(_TENSORS), "an estimator takes one table of samples: pass it as inputs"),
    Option("dynamic_shapes", _of(_TENSORS), "the number of samples varies always, the columns never do"),
    Option(
        "target_opset",
        # On the way from a live model to another framework it is the opset of the ONNX graph in between.
        {**_of(_LIVE), **_of(["onnx"], ("onnx",))},
        "the graph is read at its own opset; convert it to ONNX at another one first",
    ),
    Option(
        "output_names",
        # Of a frozen graph they choose the tensors to convert, whatever the target.
        {**_of(("onnx", *_LIVE), ("onnx", "tensorflow")), **_of(["graph_def"])},
        "its results have no names: they come in the order of the graph's outputs",
    ),
    Option("runtime", _of(_LIVE), "its graph is there already, and no runtime's defects are written around in it"),
    Option("cut_inputs", _of(["onnx"]), "convert to ONNX first, then cut the ONNX model"),
    Option("cut_outputs", _of(["onnx"]), "convert to ONNX first, then cut the ONNX model"),
    Option("signature", _of(["tensorflow"]), "only SavedModels and modules of TensorFlow have several"),
    Option("methods", _of(["sklearn"]), "only estimators of scikit-learn have several inference methods"),
    Option("options", _of(["sklearn"]), "they say which outputs an estimator of scikit-learn has"),
    # Consents: of a framework's files, some can hold what they allow.
    Option(
        "allow_pickle",
        _of(["program", "pytorch", "keras", "sklearn"]),
        "nothing in such a file is a pickle: leave it out",
    ),
    Option("allow_code", _of(_LIVE), "nothing in such a file runs: leave it out"),
)


def kind_of(model: Any, framework: Framework) -> Kind:
    """The kind of a source: a live model of the framework, or the path of a file of it.

    >>> kind_of("model.pt2", "pytorch")
    'program'
    """
    path = isinstance(model, (str, os.PathLike))
    if framework == "pytorch":
        return "program" if path or type(model).__name__ == "ExportedProgram" else "pytorch"
    if framework == "tensorflow":
        frozen = Path(model).suffix.lower() == ".pb" and Path(model).stem != "saved_model" if path else False
        return "graph_def" if frozen or type(model).__name__ == "GraphDef" else "tensorflow"
    return framework


def takes(name: str, source: Framework, target: Framework | None = None) -> bool:
    """Whether some model of the framework takes the option on the way to `target`; to any, where that is None."""
    row = next((option for option in OPTIONS if option.name == name), None)
    goals = TARGETS if target is None else (target,)
    return row is None or any(row.means(kind, goal) for kind in KINDS[source] for goal in goals)


def check(given: Iterable[str], kind: Kind, target: Framework, spelled: Spelling = _as_argument) -> None:
    """Refuses options that mean nothing for the source and target, all at once.

    Args:
        given: names of the options that the user set.
        kind: the kind of the source.
        target: the framework to convert to.
        spelled: how the user wrote an option.

    Raises:
        InvalidInputError: an option means nothing here.
    """
    names = set(given)
    refused = [option for option in OPTIONS if option.name in names and not option.means(kind, target)]
    if refused:
        route = f"{_TITLES[kind]} to {_TARGET_TITLES[target]}"
        lines = [f"{spelled(option.name)} means nothing for {route}: {option.instead}" for option in refused]
        raise InvalidInputError("\n".join(lines))


def check_sides(given: Iterable[str], source: Kind, converted: Kind, spelled: Spelling = _as_argument) -> None:
    """Refuses options of a validation that mean nothing for its two sides; keyword inputs are the source's.

    Raises:
        InvalidInputError: an option means nothing here.
    """
    names = set(given)
    lines = []
    for option in OPTIONS:
        sides = (source,) if option.name == "kwargs" else (source, converted)
        if option.name in names and not any(side in option.targets for side in sides):
            shown, titles = spelled(option.name), " and ".join(_TITLES[side] for side in sides)
            lines.append(f"{shown} means nothing for {titles}: {option.instead}")
    if lines:
        raise InvalidInputError("\n".join(lines))


def check_tolerances(
    rtol: float | None, atol: float | None, *, validate: bool = True, spelled: Spelling = _as_argument
) -> None:
    """Refuses tolerances that no number can meet or that nothing is compared with.

    Raises:
        InvalidInputError: one is negative, infinite or no number, or is given though nothing is validated.
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is None:
            continue
        shown = spelled(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            raise InvalidInputError(f"{shown} is {value!r}: a tolerance is a finite number, 0 or more")
        if not validate:
            raise InvalidInputError(f"{shown} means nothing without a validation: leave one of the two out")
