"""``onnxport merge``: two ONNX files as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxport.cli import console
from onnxport.cli.editing import EditOptions, ModelArgument, opened
from onnxport.cli.options import Words, with_options
from onnxport.errors import InvalidInputError


@with_options
def merge(
    first: ModelArgument,
    second: Annotated[Path, typer.Argument(help="The ONNX file that comes behind it.")],
    ends: Annotated[
        Words, typer.Argument(help="Which output feeds which input: OUTPUT=INPUT; by default those of equal names.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Outputs that feed an input stay outputs.")] = False,
    *,
    given: EditOptions,
) -> None:
    """Puts one file behind the other; the result gives what both give one after the other."""
    from onnxport.converters.workbench import Proof, merged
    from onnxport.graph.workbench.naming import pairs

    with given.outcome(f"merging {first} and {second}"), console.failure_page(given.html, str(first), str(second)):
        if given.inputs or given.input_shape:
            raise InvalidInputError(
                "--inputs, --input-shape: the inputs of a merged file are drawn; prove it with validate"
            )
        wanted = pairs(ends or (), "OUTPUT=INPUT")
        result = merged(opened(first), opened(second), wanted, Proof(wanted=given.validate), keep=keep)
        result.save(given.output)
    given.finish(result, first, second)
