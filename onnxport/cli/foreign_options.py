"""Options of tf2onnx on the alias of its name: those with a meaning here are taken as spelled there, the others are answered."""

from __future__ import annotations

import typer
from typer.core import TyperCommand

# By option of tf2onnx: how the same is written here; "" where its value is the source itself.
_HERE = {
    "--saved-model": "",
    "--graphdef": "",
    "--tflite": "",
    "--input": "",
    "--signature-def": "--signature",
    "--rename-inputs": "--input-names",
    "--rename-outputs": "--output-names",
    "--outputs": "--output-names",
    "--extra-opset": "--extra-opset",
    "--debug": "--verbose",
    "--fp16": "--dtype=float16",
}
# Options that ask for what happens anyway.
_NEEDLESS = ("--large-model", "--continue-on-error", "--use-graph-names")
_INSTEAD = {
    "--keras": "use onnxport keras2onnx MODEL.keras",
    "--checkpoint": "a checkpoint holds no graph of its own: save the model with tf.saved_model.save and name that folder",
    "--concrete-function": "name the function by --signature, or let package.module:factory return it",
    "--tag": "the tag serve is taken, or the only one",
    "--tfjs": "convert the SavedModel that it comes from",
    "--target": "say what the graph is for with --runtime",
    "--custom-ops": "register the operator with onnxport.register_to_onnx",
    "--load-op-libraries": "let package.module:factory load the library and return the model",
    "--shape-override": "give sizes by --dynamic x:0=4, or in the example inputs",
    "--inputs-as-nchw": "inputs keep their layout: transpose them before the model, or in package.module:factory",
    "--outputs-as-nchw": "outputs keep their layout: transpose them after the model, or in package.module:factory",
    "--dequantize": "quantised operators are written as ONNX's own",
}


def translated(arguments: list[str]) -> list[str]:
    """The arguments of tf2onnx's command as they are written here.

    >>> translated(["--saved-model", "folder", "--signature_def", "f", "--opset=17", "--large_model"])
    ['folder', '--signature', 'f', '--opset=17']

    Raises:
        typer.BadParameter: an option means nothing here; the message has the way out.
    """
    result: list[str] = []
    for argument in arguments:
        name, sign, value = argument.partition("=")
        option = name.replace("_", "-") if name.startswith("--") else ""
        if option in _INSTEAD:
            raise typer.BadParameter(f"{name} is tf2onnx's: {_INSTEAD[option]}")
        if option in _NEEDLESS:
            continue
        here = _HERE.get(option)
        result += [argument] if here is None else [*([here + sign + value] if here else [value] if sign else [])]
    return result


class ForeignOptions(TyperCommand):
    """A command that takes tf2onnx's spellings too."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        """Parses what `translated` gives."""
        return super().parse_args(ctx, translated(list(args)))
