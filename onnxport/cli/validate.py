"""``onnxport validate``: does the converted model give the source's numbers?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onnxport.cli.console import AllowCode, AllowPickle, AllowUnproved, Json, outcome, say, settle, words
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
    html: Annotated[Path | None, typer.Option(help="Also write the report as an HTML page.")] = None,
    allow_pickle: AllowPickle = False,
    allow_code: AllowCode = False,
    allow_unproved: AllowUnproved = False,
    as_json: Json = False,
) -> None:
    """Runs both models on the same inputs and compares; exit code 1 where they differ, 3 where that is unproved."""
    with outcome(as_json, f"comparing {source} with {converted} ..."):
        from onnxport.converters.validate import validate as compare

        model = resolve(source, weights=weights, inputs=inputs, input_shapes=input_shape or ())
        other = resolve(converted)
        options: dict[str, Any] = {"signature": signature, "methods": words(methods), "rtol": rtol, "atol": atol}
        options |= {"allow_pickle": allow_pickle, "allow_code": allow_code}
        refuse(options, model, converted=other)
        report = compare(model.model, other.model, inputs=model.inputs, **options)
        if html is not None:
            report.to_html(html)
    if as_json:
        typer.echo(report.to_json())
    else:
        say(str(report))
    settle([report], allow_unproved=allow_unproved)
