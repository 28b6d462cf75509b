"""``onnxport roundtrip``: to a framework and back to ONNX, each leg proved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxport import frameworks
from onnxport.cli import console
from onnxport.cli.options import Opset, ProofOptions, Runtimes, SourceArgument, refuse, with_options
from onnxport.cli.source import SourceModel
from onnxport.errors import InvalidInputError

if TYPE_CHECKING:
    from onnxport.model import OnnxModel
    from onnxport.validation.report import Report


_ENDS = [item.name for item in frameworks.registered() if item.build is not None]

# A copy of the file has nothing to prove before the legs that follow.
_UNPROVED: dict[str, Any] = {"validate": False, "rtol": None, "atol": None}


@with_options
def roundtrip(
    model: SourceArgument,
    through: Annotated[
        str, typer.Option(help=f"{', '.join(_ENDS[:-1])} or {_ENDS[-1]}.", autocompletion=lambda: _ENDS)
    ],
    opset: Opset = None,
    runtimes: Runtimes = None,
    *,
    given: ProofOptions,
) -> None:
    """To ONNX, from there to a framework and back; exit code 1 where a leg changes the numbers, 3 where one is unproved."""
    from onnxport.validation.report import write_pages

    with given.outcome(f"{model} through {through}"):
        source = given.resolve(model)
        options = {"target_opset": opset, **given.tolerances, **given.arguments}
        refuse(options, source, frameworks.get(frameworks.HUB))
        with console.failure_page(given.html, model):
            (first, report), *rest = travel(source, through, options, console.words(runtimes))
            legs = [(first, report and source.noted(report)), *rest]
        if given.html is not None:
            shown = [(leg, report) for leg, report in legs if report]
            write_pages(given.html, shown, command=console.typed(), files=[model])
    if given.as_json:
        reports = [{"leg": leg, "validation": report.to_dict() if report else None} for leg, report in legs]
        console.print_json({"model": model, "through": through, "legs": reports})
    elif not given.quiet:
        for leg, report in legs:
            console.say(f"{leg}: {report if report else 'nothing to convert'}")
    console.settle([report for _, report in legs], allow_unproved=given.allow_unproved)


def travel(
    source: SourceModel, through: str, options: Mapping[str, Any], runtimes: Sequence[str] | None = None
) -> list[tuple[str, Report | None]]:
    """The legs of the round trip with their reports; `options` are arguments of `onnxport.convert` on the first one.

    Other engines, `runtimes`, run the model that comes back.

    Raises:
        ValidationError: a leg changes the numbers.
        OnnxportError: a leg is not possible; see `onnxport.convert`.
    """
    from onnxport.converters.convert import convert
    from onnxport.converters.validate import validate

    try:
        framework = frameworks.get(through)
    except InvalidInputError as error:
        raise InvalidInputError(f"--through: {error}") from None
    if framework.is_hub:
        raise InvalidInputError("--through: name a framework; the trip begins and ends in ONNX")
    opset, tolerances = options["target_opset"], {name: options[name] for name in ("rtol", "atol")}
    untouched = source.framework.is_hub and opset is None
    hub: OnnxModel = convert(source.model, inputs=source.inputs, **{**options, **(_UNPROVED if untouched else {})})
    foreign = convert(hub, framework.name, **tolerances)
    back: OnnxModel = convert(foreign, inputs=_example(source, hub), target_opset=opset, **tolerances)
    report = validate(hub, back, runtimes=runtimes, **tolerances)
    first = [] if source.framework.is_hub else [(f"{source.framework.name} to onnx", hub.report)]
    return [
        *first,
        (f"onnx to {framework.name}", getattr(foreign, "onnxport_report", None)),
        (f"{framework.name} to onnx", back.report),
        ("onnx to onnx", report),
    ]


def _example(source: SourceModel, hub: OnnxModel) -> Any:
    """Positional inputs in graph order: the user's where the source is the graph itself, else drawn from its signature."""
    from onnxport.validation.input_sets.drawn import DrawnInputs

    if source.framework.is_hub and isinstance(source.inputs, tuple):
        return source.inputs
    return next(DrawnInputs(hub.model).first()).leaves
