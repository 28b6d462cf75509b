"""``onnxport validate``: does the converted model give the source's numbers?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxport import frameworks
from onnxport.cli import console
from onnxport.cli.options import Methods, ProofOptions, Runtimes, SourceArgument, Words, refuse, with_options
from onnxport.cli.source import resolve
from onnxport.errors import InvalidInputError

if TYPE_CHECKING:
    from onnxport.validation.report import Report


@with_options
def validate(
    source: SourceArgument,
    converted: Annotated[
        str | None,
        typer.Argument(
            help="What it was converted to, named like the source; without it an ONNX file's own test data."
        ),
    ] = None,
    methods: Methods = None,
    runtimes: Runtimes = None,
    *,
    given: ProofOptions,
) -> None:
    """Runs both models on the same inputs and compares; exit code 1 where they differ, 3 where that is unproved.

    Exit code 4: they agree, and an engine of --runtimes differs or does not take the file.
    """
    with given.outcome(f"comparing {source} with {converted or 'its test data'}"):
        engines = console.words(runtimes)
        if converted is None:
            report = _replayed(source, methods, engines, given)
        else:
            from onnxport.converters.validate import validate as compare

            model, other = given.resolve(source), resolve(converted)
            options: dict[str, Any] = {"methods": console.words(methods), **given.tolerances, **given.arguments}
            refuse(options, model, converted=other)
            page = given.html is not None
            report = compare(model.model, other.model, inputs=model.inputs, runtimes=engines, details=page, **options)
            report = model.noted(report)
        if given.html is not None:
            report.to_html(given.html, command=console.typed(), files=(source, *([converted] if converted else [])))
    if given.as_json:
        typer.echo(report.to_json())
    elif not given.quiet:
        console.say(str(report))
    console.settle([report], allow_unproved=given.allow_unproved)


def _replayed(source: str, methods: Words, engines: Words, given: ProofOptions) -> Report:
    """The report of a file on its own test data."""
    from onnxport.converters.test_data import replay_test_data

    owner = frameworks.get(frameworks.of_path(source))
    others = {"inputs": given.inputs, "input_shape": given.input_shape, "weights": given.weights, "methods": methods}
    odd = [name for name, value in {**others, **given.arguments}.items() if value]
    if odd or not owner.is_hub:
        reason = f"--{odd[0].replace('_', '-')} means nothing without" if odd else f"{source!r} is no ONNX file: name"
        raise InvalidInputError(f"{reason} what it was converted to: onnxport validate SOURCE CONVERTED")
    return replay_test_data(source, **given.tolerances, runtimes=engines)
