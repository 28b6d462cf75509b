"""``onnxport upgrade``: an ONNX file at another opset."""

from __future__ import annotations

from onnxport.cli import console
from onnxport.cli.editing import EditOptions, ModelArgument
from onnxport.cli.options import Opset, with_options

_DEFAULT = 21  # what deployed runtimes load


@with_options
def upgrade(model: ModelArgument, opset: Opset = None, *, given: EditOptions) -> None:
    """Brings a file to another version of ai.onnx, newer or older, operator by operator; names stay."""
    from onnxport.converters.convert import convert

    with given.outcome(f"bringing {model} to opset {opset or _DEFAULT}"), console.failure_page(given.html, str(model)):
        result = convert(
            str(model),
            inputs=given.examples(model),
            target_opset=opset or _DEFAULT,
            output=given.output,
            validate=given.validate,
        )
    given.finish(result, model)
