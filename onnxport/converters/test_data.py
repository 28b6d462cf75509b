"""Test data beside a converted file, and its replay."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnxport import frameworks
from onnxport.converters.convert import file_name, load
from onnxport.converters.isolation import isolated
from onnxport.converters.watching import watched
from onnxport.errors import InvalidInputError
from onnxport.graph import test_vectors
from onnxport.model import OnnxModel
from onnxport.validation.parties import Party, Tolerance
from onnxport.validation.replay import replay, vectors
from onnxport.validation.runners import Binding
from onnxport.validation.values import leaves_of
from onnxport.validation.witnesses.engine import chosen_engines

if TYPE_CHECKING:
    from onnxport.validation.report import Report


def write_test_data(
    model: object,
    hub: OnnxModel,
    path: str | os.PathLike[str],
    binding: Binding,
    *,
    allow_pickle: bool,
    allow_code: bool,
) -> list[Path]:
    """Writes inputs, and what the source `model` gives on them, beside the file of the converted `hub`; gives the folders.

    Raises:
        InvalidInputError: the source runs on no inputs, or leaves an output open on all of them.
        SavingError: a folder can't be written.
    """
    framework = frameworks.get(frameworks.of_object(model, leaves_of(binding.inputs, binding.kwargs)))
    with isolated():
        live = load(model, framework.name, allow_pickle=allow_pickle, allow_code=allow_code)
        with watched([live, hub] if framework.is_hub else [], drawn=not binding.given):
            sets = vectors(Party(live, framework.name, file_name(model)), Party(hub, frameworks.HUB), binding)
    return test_vectors.write(Path(path), sets)


def replay_test_data(
    path: str | os.PathLike[str],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    runtimes: Sequence[str] | None = None,
) -> Report:
    """The report of a file on the test data that stands beside it; `runtimes` are other engines that replay it too.

    Raises:
        InvalidInputError: there is none, or it does not fit.
        MissingDependencyError: an engine is not installed.
        InvalidModelError: the file is no ONNX model.
    """
    engines = chosen_engines(runtimes or ())
    model = OnnxModel.load(path)
    sets = test_vectors.read(Path(path), model.model.graph)
    if not sets:
        raise InvalidInputError(
            f"there is nothing to compare {str(path)!r} with: name what it came from, or write test data with it "
            "(onnxport convert ... --test-data)"
        )
    with watched([model]):
        return replay(model, sets, Tolerance(rtol, atol), file_name(path), witnesses=engines, file=Path(path))
