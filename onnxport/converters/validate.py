"""`onnxport.validate`: two models of any frameworks, live or in files, run against each other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnxport import frameworks
from onnxport.argument_types import check_switches
from onnxport.converters import weights_apart
from onnxport.converters.convert import file_name, load
from onnxport.converters.isolation import isolated
from onnxport.converters.watching import watched
from onnxport.errors import InvalidInputError, InvalidModelError
from onnxport.frameworks import Framework
from onnxport.model import OnnxModel
from onnxport.options import check_keywords, check_sides, check_tolerances
from onnxport.validation.details import with_details
from onnxport.validation.parties import Party, Tolerance
from onnxport.validation.proof import compare
from onnxport.validation.runners import Binding
from onnxport.validation.values import leaves_of
from onnxport.validation.witnesses.engine import chosen_engines

if TYPE_CHECKING:
    from onnxport.validation.report import Report


def validate(
    source: object,
    converted: object,
    inputs: object = None,
    *,
    kwargs: Mapping[str, object] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    signature: str | None = None,
    methods: Sequence[str] | None = None,
    seed: int = 0,
    allow_pickle: bool = False,
    allow_code: bool = False,
    runtimes: Sequence[str] | None = None,
    details: bool = False,
) -> Report:
    """Whether `converted` gives what `source` gives; a mismatch raises nothing, it stands in the report.

    Args:
        source: the model that counts as right: live, or the path of a file or SavedModel directory.
        converted: the model under test, likewise; called with the source's inputs in order.
        inputs: a tuple of positional inputs, a dict by name, or for scikit-learn a table. By default they are drawn from the
            signature of the side that is ONNX.
        kwargs: keyword inputs.
        rtol: relative tolerance; by default the budget is derived from the model's own float64 error.
        atol: absolute tolerance, likewise.
        signature: which signature of a SavedModel.
        methods: which methods of an estimator.
        seed: for inputs that are drawn.
        allow_pickle: allow either side to be a pickle file or to hold pickled parts, which run code when they are loaded.
        allow_code: allow either side to be a file that runs code of its own.
        runtimes: names of other engines that run the converted ONNX model too, each judged against the source likewise; what
            they give stands in ``report.witnesses`` and changes nothing of the verdict.
        details: also run every layer by itself and keep samples of the outputs, for ``report.to_html`` to draw.

    Raises:
        InvalidModelError: a file is corrupt or of another kind.
        InvalidInputError: the inputs do not fit the source.
        UntrustedFileError: a side is a file that would run code, and the consent that the error names is not given.
        MissingDependencyError: a framework, or an engine of `runtimes`, is not installed.
    """
    check_tolerances(rtol, atol)
    check_keywords(kwargs)
    check_switches({"allow_pickle": allow_pickle, "allow_code": allow_code})
    engines = chosen_engines(() if runtimes is None else runtimes)
    examples = leaves_of(inputs, kwargs)
    named = any(isinstance(model, (str, os.PathLike)) for model in (source, converted))
    given = {
        "kwargs": kwargs or None,
        "signature": signature,
        "methods": methods,
        "allow_pickle": True if allow_pickle and named else None,
        "allow_code": True if allow_code and named else None,
    }
    sides = [frameworks.get(frameworks.of_object(model, examples)) for model in (source, converted)]
    names = [name for name, value in given.items() if value is not None]
    check_sides(names, sides[0].kind_of(source), sides[1].kind_of(converted))
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InvalidInputError(f"seed={seed!r}: a whole number, 0 or more")
    if engines and not sides[1].is_hub:
        raise InvalidInputError(
            f"runtimes: other engines run ONNX models, and the converted side is {sides[1].title}'s"
        )
    for framework in sides:
        frameworks.require(framework)
    with isolated():
        for framework in sides:
            framework.register_inputs(inputs, kwargs)
        pairs = zip((source, converted), sides, strict=True)
        left, right = (_party(model, framework, allow_pickle, allow_code) for model, framework in pairs)
        graphs = [party.model for party in (left, right) if isinstance(party.model, OnnxModel)]
        hub = graphs[-1] if graphs else None  # the converted one where both are
        graph, notes = (hub.plain, hub.notes) if hub is not None else (None, ())
        for party, side in zip((left, right), sides, strict=True):
            notes = (*notes, *(note for note in side.notes_of(party.model) if note not in notes))
        binding = Binding(inputs, kwargs, signature=signature, methods=methods)
        gathering = with_details() if details else nullcontext()
        with watched(graphs if named else [], drawn=inputs is None and not kwargs), gathering:
            tolerance = Tolerance(rtol, atol)
            report = compare(
                left,
                right,
                binding,
                graph=graph,
                tolerance=tolerance,
                seed=seed,
                notes=notes,
                witnesses=engines,
            )
        if report.verdict == "failed" and isinstance(right.model, OnnxModel):
            apart = weights_apart.note(left.model, sides[0], right.model)
            report = replace(report, notes=(*report.notes, apart)) if apart else report
        return report


def _party(model: object, framework: Framework, allow_pickle: bool, allow_code: bool) -> Party:
    live = load(model, framework.name, allow_pickle=allow_pickle, allow_code=allow_code)
    if live is None:
        raise InvalidModelError(f"{model!r} holds no model")
    file = Path(model) if isinstance(model, (str, os.PathLike)) else None
    return Party(live, framework.name, file_name(model), file)
