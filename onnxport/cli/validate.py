"""``onnxport validate``: does the converted model give the source's numbers?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onnxport.cli import console
from onnxport.cli.console import AllowCode, AllowPickle, AllowUnproved, Html, Json, Quiet, Verbose
from onnxport.cli.options import Atol, Inputs, InputShape, Methods, Rtol, Signature, SourceArgument, Weights, refuse
from onnxport.cli.source import resolve


def validate(
    source: SourceArgument,
    converted: Annotated[str, typer.Argument(help="What it was converted to, named like the source.")],
    inputs: Inputs = None,
    input_shape: InputShape = None,
    weights: Weights = None,
    signature: Signature = None,
    methods: Methods = None,
    rtol: Rtol = None,
    atol: Atol = None,
    html: Html = None,
    allow_pickle: AllowPickle = False,
    allow_code: AllowCode = False,
    allow_unproved: AllowUnproved = False,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Runs both models on the same inputs and compares; exit code 1 where they differ, 3 where that is unproved."""
    with console.outcome(as_json, f"comparing {source} with {converted}", verbose=verbose, quiet=quiet):
        from onnxport.converters.validate import validate as compare

        model = resolve(source, weights=weights, inputs=inputs, input_shapes=input_shape or ())
        other = resolve(converted)
        options: dict[str, Any] = {"signature": signature, "rtol": rtol, "atol": atol}
        options["methods"] = console.words(methods)
        options |= {"allow_pickle": allow_pickle, "allow_code": allow_code}
        refuse(options, model, converted=other)
        report = compare(model.model, other.model, inputs=model.inputs, **options)
        if html is not None:
            report.to_html(html, command=console.typed(), files=(source, converted))
    if as_json:
        typer.echo(report.to_json())
    elif not quiet:
        console.say(str(report))
    console.settle([report], allow_unproved=allow_unproved)
