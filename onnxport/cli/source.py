"""The model that a command is about: a file, a SavedModel directory, or an object of the user's own Python module."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxport import frameworks
from onnxport.errors import InvalidInputError, InvalidModelError
from onnxport.frameworks import Framework
from onnxport.frameworks.descriptor import SourceKind
from onnxport.frameworks.native_log import native_log_kept
from onnxport.graph.provenance import user_line
from onnxport.validation.values import leaves_of

if TYPE_CHECKING:
    from onnxport.validation.report import Report

_REFERENCE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.\w+)*):(?P<name>[A-Za-z_]\w*(?:\.\w+)*)")


@dataclass(frozen=True)
class SourceModel:
    """A model and its example inputs."""

    model: Any  # a live model, or the path of a file that the converters load themselves
    framework: Framework  # whose it is
    inputs: Any  # example inputs, or None where neither the command line nor the model's factory gave any
    name: str  # what files written from it are named after
    note: str = ""  # what was done to the model that its factory gave

    @property
    def kind(self) -> SourceKind:
        """The kind of the model."""
        return self.framework.kind_of(self.model)

    def noted(self, report: Report) -> Report:
        """The report with the model's note."""
        return replace(report, notes=(self.note, *report.notes)) if self.note else report


def resolve(
    text: str, *, weights: Path | None = None, inputs: str | None = None, input_shapes: Sequence[str] = ()
) -> SourceModel:
    """The model that `text` names: a path, or ``package.module:name``, the working directory being on the import path.

    The name is a model, a function of tensors, or a factory: a callable that needs no arguments and gives the model, or the model
    and its example inputs. `weights` are loaded into what a factory returns: ``.safetensors``, ``.pt`` (PyTorch) or
    ``.weights.h5`` (Keras). `inputs` are a file of example inputs, or ``package.module:name`` of inputs or of a function that
    gives them; `input_shapes` those to draw example inputs of.

    Raises:
        InvalidModelError: there is no such file or object, or it is no model.
        InvalidInputError: inputs or weights do not fit.
    """
    if inputs and input_shapes:
        raise InvalidInputError("--inputs and --input-shape exclude each other")
    reference = None if os.path.exists(text) else _REFERENCE.fullmatch(text)
    if reference is None:
        framework = frameworks.get(frameworks.of_path(text))
        if weights is not None and not framework.kind_of(text).takes("weights"):
            raise InvalidInputError(f"--weights belongs to package.module:factory; {text!r} holds its own")
        return SourceModel(text, framework, _examples(inputs, input_shapes, framework), Path(text).resolve().stem)
    model, examples = _called(_object(reference))
    named = _named_inputs(inputs)
    examples = examples if named is None else named
    framework = frameworks.get(frameworks.of_object(model, leaves_of(examples)))
    if weights is not None:
        read_weights(model, framework, weights)
    note = framework.to_inference(model)
    if input_shapes or (inputs is not None and named is None):
        examples = _examples(inputs, input_shapes, framework)
    return SourceModel(model, framework, examples, reference["name"].rpartition(".")[2], note)


def _examples(inputs: str | None, shapes: Sequence[str], framework: Framework) -> Any:
    from onnxport.cli.inputs import draw_inputs, read_inputs  # NumPy takes a third of the time to start

    if shapes:
        drawn = draw_inputs(shapes)
        return drawn[0] if framework.takes_table and isinstance(drawn, tuple) and len(drawn) == 1 else drawn
    named = _named_inputs(inputs)
    if named is not None or inputs is None:
        return named
    return read_inputs(Path(inputs), table=framework.takes_table)


def _named_inputs(inputs: str | None) -> Any:
    """Inputs that ``package.module:name`` holds or gives; None where `inputs` is a file or nothing."""
    reference = None if inputs is None or os.path.exists(inputs) else _REFERENCE.fullmatch(inputs)
    if reference is None:
        return None
    value = _object(reference)
    return _call(value, reference.group()) if callable(value) else value


def _object(reference: re.Match[str]) -> Any:
    """The object that ``package.module:name`` means, imported with the working directory on the path."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = reference["module"]
    if module.endswith(".py"):
        raise InvalidModelError(
            f"{reference.group()!r}: a module is named as Python imports it, from its folder: {module[:-3]}:{reference['name']}"
        )
    try:
        with native_log_kept():
            value: Any = import_module(module)
    except Exception as error:  # whatever the user's module raises when it is imported
        if isinstance(error, ModuleNotFoundError) and error.name in (module, module.partition(".")[0]):
            raise InvalidModelError(
                f"{reference.group()!r}: there is no module {error.name!r} in this folder or on PYTHONPATH; run the command in "
                "the folder from which Python imports it"
            ) from error
        raise InvalidModelError(f"importing {module!r} failed: {_reason(error)}") from error
    for name in reference["name"].split("."):
        if not hasattr(value, name):
            near = get_close_matches(name, [item for item in dir(value) if not item.startswith("_")], 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidModelError(
                f"{reference.group()!r}: {getattr(value, '__name__', value)!r} has no {name!r}{meant}"
            )
        value = getattr(value, name)
    return value


def _called(value: Any) -> tuple[Any, Any]:
    """The model and its example inputs, if any: `value` itself, or what it returns where it is a factory."""
    if inspect.isclass(value) and _needs_arguments(value):
        raise InvalidModelError(
            f"{value.__qualname__!r} is a class that needs arguments: name a function that makes the model, "
            f"def make(): return {value.__qualname__}(...)"
        )
    if inspect.isclass(value) or (inspect.isroutine(value) and not _needs_arguments(value)):
        value = _call(value, getattr(value, "__qualname__", repr(value)))
    if isinstance(value, tuple) and len(value) == 2:
        return value
    return value, None


def _needs_arguments(function: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(item.default is inspect.Parameter.empty and item.kind not in variadic for item in parameters)


def _call(function: Callable[[], Any], name: str) -> Any:
    try:
        with native_log_kept():
            return function()
    except Exception as error:  # whatever the user's function raises
        place = user_line(error)
        raise InvalidModelError(
            f"calling {name!r} failed: {_reason(error)}{f' (at {place})' if place else ''}"
        ) from error


def _reason(error: Exception) -> str:
    """What failed; of a package that is not installed what to do."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    extras = [item.extra for item in frameworks.registered() if item.package and item.package == missing]
    way_out = f": pip install 'onnxport[{extras[0]}]'" if extras else f": pip install {missing}" if missing else ""
    return f"{type(error).__name__}: {error}{way_out}"


def read_weights(model: object, framework: Framework, path: Path) -> None:
    """Loads a file of weights into a live model.

    Raises:
        InvalidModelError: there is no such file, or it does not fit.
        InvalidInputError: the framework has no such files.
    """
    if not path.is_file():
        raise InvalidModelError(f"no weights file {str(path)!r}")
    if framework.files.load_weights is None:
        raise InvalidInputError(f"--weights: {framework.name} models hold their own")
    framework.files.load_weights(model, path)
