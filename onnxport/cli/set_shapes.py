"""``onnxport set-shapes``: sizes for the dimensions of an ONNX file's inputs."""

from __future__ import annotations

from typing import Annotated

import typer

from onnxport.cli import console
from onnxport.cli.editing import EditOptions, ModelArgument, in_words_of_the_command, one_of, opened
from onnxport.cli.options import Words, with_options


@with_options
def set_shapes(
    model: ModelArgument,
    sizes: Annotated[
        Words, typer.Argument(help="A dimension by its name, batch=1; all of an input, x=1x3x224x224; or one, x:0=4.")
    ] = None,
    *,
    given: EditOptions,
) -> None:
    """Fixes dimensions of the inputs, or names them with a word for a size; shapes inside follow."""
    from onnxport.converters.convert import convert
    from onnxport.converters.workbench import read_sizes
    from onnxport.graph.workbench.naming import pairs

    with given.outcome(f"setting shapes of {model}"), console.failure_page(given.html, str(model)):
        wanted = read_sizes(opened(model), pairs(one_of(sizes, "sizes as NAME=SIZE"), "NAME=SIZE"))
        with in_words_of_the_command({"dynamic_shapes": ""}):
            result = convert(
                str(model),
                inputs=given.examples(model),
                dynamic_shapes=wanted,
                output=given.output,
                validate=given.validate,
            )
    given.finish(result, model)
