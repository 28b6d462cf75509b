"""Whether a Keras model that was rebuilt on another backend computes what the user's own does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxport.errors import InvalidInputError, first_line
from onnxport.frameworks import HUB
from onnxport.model import OnnxModel
from onnxport.request import Request
from onnxport.tracing.keras_layers import layer_results
from onnxport.validation.comparison import OutputReport
from onnxport.validation.input_sets.plan import SourceCannotRun
from onnxport.validation.parties import Party
from onnxport.validation.proof import first_reports
from onnxport.validation.runners.base import Binding

_SETS = 2  # the user's inputs, and others
_ROUNDING = 2.0**-11.5  # a layer that is off by less may be the victim of one before it


@dataclass(frozen=True)
class Disagreement:
    """Where the rebuilt model gives something else."""

    leaves: Sequence[Any]  # the inputs, in the order of the user's model
    words: str


def disagreement(model: Any, result: OnnxModel, request: Request, remarks: list[str]) -> Disagreement | None:
    """What the rebuilt model's results differ in, on the user's inputs and others; None where they agree.

    Where there are no inputs that the user's model runs on, nothing is compared, and `remarks` say so; a proof says it too.
    """
    binding = Binding(request.inputs, request.kwargs)
    source, converted = Party(model, "keras"), Party(result, HUB)
    try:
        for leaves, report in first_reports(source, converted, binding, graph=result.model, count=_SETS):
            apart = [item for item in report.outputs if item.verdict == "fail" or item.size[0] > 1]
            if report.failed or apart:
                return Disagreement(leaves, report.error or _words(apart))
    except (InvalidInputError, SourceCannotRun) as error:
        remarks.append(f"not compared with the model on its own backend: {first_line(error)}")
    return None


def _words(outputs: Sequence[OutputReport]) -> str:
    """What differs. A proof alone may have no verdict: the copies of the model that it runs are rebuilt as the result is."""
    figures = outputs[0].figures if outputs else None
    return outputs[0].reason if figures is None else f"by up to {figures.max_abs:.2g}, allowed {figures.allowed:.2g}"


def first_other_layer(model: Any, leaves: Sequence[Any], theirs: Sequence[np.ndarray]) -> str | None:
    """Class and name of the first layer whose result is not what the rebuilt one gives; None where none is seen."""
    for (name, own), other in zip(layer_results(model, leaves), theirs, strict=False):
        if own.shape != other.shape:
            return name
        if own.dtype.kind == "f" and own.size:
            gap = np.abs(own.astype(np.float64) - other)
            if np.nanmax(gap) > _ROUNDING * np.nanmax(np.abs(own)):
                return name
        elif own.dtype.kind in "iub" and not np.array_equal(own, other):
            return name
    return None
