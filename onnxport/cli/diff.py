"""``onnxport diff``: in what two ONNX files differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxport.cli import console
from onnxport.cli.console import MISMATCH
from onnxport.cli.editing import ModelArgument, opened
from onnxport.cli.options import ProofOptions, with_options
from onnxport.cli.source import resolve
from onnxport.errors import OnnxportError

if TYPE_CHECKING:
    from onnxport.validation.report import Report

_SHOWN = 40  # differences that are listed as text


@with_options
def diff(
    first: ModelArgument,
    second: Annotated[Path, typer.Argument(help="The other ONNX file.")],
    numbers: Annotated[bool, typer.Option(help="Run both on the same inputs and compare what they give.")] = True,
    *,
    given: ProofOptions,
) -> None:
    """Compares two files: versions, inputs, outputs, nodes, weights, and what both give; exit code 1 where anything differs."""
    report: Report | None = None
    trouble = ""
    with given.outcome(f"comparing {first} with {second}"):
        from onnxport.graph.workbench.differences import differences, same_up_to_names

        models = opened(first), opened(second)
        changes = differences(models[0].model, models[1].model)
        same = not changes or same_up_to_names(models[0].model, models[1].model)
        if numbers:
            try:
                report = _compared(first, second, given)
            except OnnxportError as error:  # other inputs or outputs: that is a difference, too
                trouble = str(error)
        if given.html is not None and report is not None:
            report.to_html(given.html, command=console.typed(), files=(str(first), str(second)))
    if given.as_json:
        proof = report.to_dict() if report else None
        console.print_json(
            {
                "differences": [vars(item) for item in changes],
                "same_up_to_names": same,
                "outputs": trouble or proof,
            }
        )
    elif not given.quiet:
        _show([str(item) for item in changes], same, str(report) if report else trouble)
    if changes or trouble:
        raise typer.Exit(MISMATCH)
    console.settle([report], allow_unproved=given.allow_unproved)


def _compared(first: Path, second: Path, given: ProofOptions) -> Report:
    from onnxport.converters.validate import validate

    inputs = given.resolve(str(first)).inputs
    return validate(str(first), resolve(str(second)).model, inputs=inputs, rtol=given.rtol, atol=given.atol)


def _show(changes: list[str], same: bool, numbers: str) -> None:
    for line in changes[:_SHOWN]:
        console.say(line)
    if len(changes) > _SHOWN:
        console.say(f"and {len(changes) - _SHOWN} others: --json lists them")
    if not changes:
        console.say("no difference in versions, inputs, outputs, nodes and weights")
    elif same:
        console.say("the same graph under other names")
    if numbers:
        console.say(numbers)
