"""``onnxport validate``: does the converted model give the source's numbers?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onnxport.cli import console
from onnxport.cli.options import Methods, ProofOptions, SourceArgument, refuse, with_options
from onnxport.cli.source import resolve


@with_options
def validate(
    source: SourceArgument,
    converted: Annotated[str, typer.Argument(help="What it was converted to, named like the source.")],
    methods: Methods = None,
    *,
    given: ProofOptions,
) -> None:
    """Runs both models on the same inputs and compares; exit code 1 where they differ, 3 where that is unproved."""
    with given.outcome(f"comparing {source} with {converted}"):
        from onnxport.converters.validate import validate as compare

        model, other = given.resolve(source), resolve(converted)
        options: dict[str, Any] = {"methods": console.words(methods), **given.tolerances, **given.arguments}
        refuse(options, model, converted=other)
        report = compare(model.model, other.model, inputs=model.inputs, **options)
        if given.html is not None:
            report.to_html(given.html, command=console.typed(), files=(source, converted))
    if given.as_json:
        typer.echo(report.to_json())
    elif not given.quiet:
        console.say(str(report))
    console.settle([report], allow_unproved=given.allow_unproved)
