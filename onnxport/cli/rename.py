"""``onnxport rename``: other names for what is in an ONNX file."""

from __future__ import annotations

from typing import Annotated

import typer

from onnxport.cli import console
from onnxport.cli.editing import EditOptions, ModelArgument, one_of, opened
from onnxport.cli.options import Words, with_options


@with_options
def rename(
    model: ModelArgument,
    names: Annotated[Words, typer.Argument(help="Inputs, outputs, weights or inner values: OLD=NEW; several.")] = None,
    node: Annotated[Words, typer.Option(help="A node: OLD=NEW. Repeatable.")] = None,
    *,
    given: EditOptions,
) -> None:
    """Gives inputs, outputs, weights, values and nodes new names, and changes nothing else."""
    from onnxport.converters.workbench import renamed
    from onnxport.graph.workbench.naming import pairs

    with given.outcome(f"renaming in {model}"), console.failure_page(given.html, str(model)):
        one_of([*(names or ()), *(node or ())], "names as OLD=NEW")
        values, nodes = pairs(names or (), "OLD=NEW"), pairs(node or (), "OLD=NEW")
        result = renamed(opened(model), values, nodes, given.proof(model))
        result.save(given.output)
    given.finish(result, model)
