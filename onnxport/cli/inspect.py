"""``onnxport inspect``: what a model is."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from onnxport import frameworks
from onnxport.cli import describe
from onnxport.cli.console import outcome, print_json, say
from onnxport.cli.options import SourceOptions, refuse, with_options
from onnxport.graph.workbench.description import contents, signature, size


@with_options
def inspect(
    model: Annotated[str, typer.Argument(help="An ONNX file; any other model is shown as what it converts to.")],
    *,
    given: SourceOptions,
) -> None:
    """Shows inputs, outputs, opsets, operators, weights and where the model came from."""
    with outcome(given.as_json, f"reading {model}", verbose=given.verbose):
        from onnxport.converters.convert import convert

        source = given.resolve(model)
        refuse(given.arguments, source, frameworks.get(frameworks.HUB))
        hub = convert(source.model, inputs=source.inputs, validate=False, **given.arguments)
        summary = {
            "model": model,
            "framework": source.framework.name,
            "file_bytes": os.path.getsize(model) if os.path.isfile(model) else None,
            **signature(hub.model),
            **contents(hub.model),
        }
    if given.as_json:
        print_json(summary)
        return
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in summary["opsets"].items())
    file = f", file {size(summary['file_bytes'])}" if summary["file_bytes"] is not None else ""
    say(f"{model}  ({source.framework.name}, {opsets}, IR {summary['ir_version']}, {summary['nodes']} nodes{file})")
    describe.show_signature(summary)
    describe.show_contents(summary)
