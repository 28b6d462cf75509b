"""``onnxport extract``: a part of an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxport.cli import console
from onnxport.cli.editing import EditOptions, ModelArgument, in_words_of_the_command, one_of
from onnxport.cli.options import Words, with_options
from onnxport.errors import InvalidInputError


@with_options
def extract(
    model: ModelArgument,
    begin: Annotated[
        Words, typer.Option("--from", help="Values that become inputs; by default the file's own.")
    ] = None,
    end: Annotated[Words, typer.Option("--to", help="Values that become outputs; by default the file's own.")] = None,
    *,
    given: EditOptions,
) -> None:
    """Writes the part of a file between tensors, by their names; it gives the values that the whole gives there."""
    from onnxport.converters.convert import convert

    with given.outcome(f"cutting {model}"), console.failure_page(given.html, str(model)):
        begin, end = console.words(begin), console.words(end)
        if given.inputs is not None and ":" not in given.inputs and not Path(given.inputs).exists():
            raise InvalidInputError(f"no file {given.inputs!r} with example inputs; where the part begins is --from")
        one_of([*(begin or ()), *(end or ())], "--from, --to or both")
        with in_words_of_the_command({"cut_inputs": "--from: ", "cut_outputs": "--to: "}):
            result = convert(
                str(model),
                inputs=given.examples(model),
                cut_inputs=begin,
                cut_outputs=end,
                output=given.output,
                validate=given.validate,
            )
    given.finish(result, model)
