"""``onnxport inspect``: what a model is."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from onnxport import frameworks
from onnxport.cli import describe
from onnxport.cli.console import AllowCode, AllowPickle, Json, Verbose, outcome, print_json, say
from onnxport.cli.options import Inputs, InputShape, Signature, Weights, refuse
from onnxport.cli.source import resolve


def inspect(
    model: Annotated[str, typer.Argument(help="An ONNX file; any other model is shown as what it converts to.")],
    inputs: Inputs = None,
    input_shape: InputShape = None,
    weights: Weights = None,
    signature: Signature = None,
    allow_pickle: AllowPickle = False,
    allow_code: AllowCode = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Shows inputs, outputs, opsets, operators, weights and where the model came from."""
    with outcome(as_json, f"reading {model}", verbose=verbose):
        from onnxport.converters.convert import convert

        source = resolve(model, weights=weights, inputs=inputs, input_shapes=input_shape or ())
        options: dict[str, Any] = {"signature": signature, "allow_pickle": allow_pickle, "allow_code": allow_code}
        refuse(options, source, frameworks.get(frameworks.HUB))
        hub = convert(source.model, inputs=source.inputs, validate=False, **options)
        contents = {
            "model": model,
            "framework": source.framework.name,
            "file_bytes": os.path.getsize(model) if os.path.isfile(model) else None,
            **describe.signature(hub),
            **describe.contents(hub),
        }
    if as_json:
        print_json(contents)
        return
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in contents["opsets"].items())
    file = f", file {describe.size(contents['file_bytes'])}" if contents["file_bytes"] is not None else ""
    say(f"{model}  ({source.framework.name}, {opsets}, IR {contents['ir_version']}, {contents['nodes']} nodes{file})")
    describe.show_signature(contents)
    describe.show_contents(contents)
