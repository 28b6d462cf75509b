"""Every operator of a converted model by itself, on the set of inputs that tells most."""

from __future__ import annotations

from onnxport.errors import InvalidInputError
from onnxport.frameworks.warned import warnings_kept
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.input_sets.plan import SourceCannotRun, source_runs
from onnxport.validation.operators import Inquiry, inquiry_on
from onnxport.validation.parties import Comparison, Party, Tolerance
from onnxport.validation.proof import bound, run_converted
from onnxport.validation.runners import Binding


@warnings_kept()
def inquire(source: Party, converted: Party, binding: Binding, seed: int = 0) -> Inquiry:
    """Runs every operator of the converted ONNX model on the source's own values.

    Raises:
        InvalidInputError: the source runs on no inputs, or tells of none of its inner values.
    """
    parties = bound(source, converted, binding, graph=converted.model.model, tolerance=Tolerance())
    item, failed = _telling_set(parties, seed)
    return inquiry_on(parties, item, failed=failed)


def _telling_set(parties: Comparison, seed: int) -> tuple[InputSet, bool]:
    """The first set of inputs on which the outputs differ, else the first; and whether they do."""
    first: InputSet | None = None
    try:
        for run in source_runs(parties, seed, []):
            report = run_converted(parties, run.inputs, run.outputs, run.seconds, [])
            if report is not None and report.failed:
                return run.inputs, True
            first = first or run.inputs
    except SourceCannotRun as error:
        raise InvalidInputError(str(error)) from error
    assert first is not None
    return first, False
