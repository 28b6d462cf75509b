"""``onnxport upgrade``: an ONNX file at another opset."""

from __future__ import annotations

from typing import Annotated

import typer

from onnxport.cli import console
from onnxport.cli.editing import EditOptions, ModelArgument, opened
from onnxport.cli.options import with_options
from onnxport.errors import InvalidInputError

_DEFAULT = 21  # what deployed runtimes load
Opset = Annotated[
    int | None, typer.Option(help=f"Version of ai.onnx, 13 to 28; {_DEFAULT} for a file of an older one.")
]


@with_options
def upgrade(model: ModelArgument, opset: Opset = None, *, given: EditOptions) -> None:
    """Brings a file to another version of ai.onnx, newer or older, operator by operator; names stay."""
    from onnxport.converters.convert import convert

    with given.outcome(f"bringing {model} to opset {opset or _DEFAULT}"), console.failure_page(given.html, str(model)):
        own = opened(model).model.opset_imports.get("", _DEFAULT)
        if opset is None and own >= _DEFAULT:
            raise InvalidInputError(f"nothing to do: {model} is at opset {own}: give another with --opset")
        result = convert(
            str(model),
            inputs=given.examples(model),
            target_opset=opset or _DEFAULT,
            output=given.output,
            validate=given.validate,
        )
    given.finish(result, model)
