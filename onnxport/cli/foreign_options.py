"""Options of tf2onnx on the alias of its name: those with a meaning here are taken as spelled there, the others are answered."""

from __future__ import annotations

import re

import typer
from typer.core import TyperCommand

# By option of tf2onnx: how the same is written here; "" where its value is the source itself.
_HERE = {
    "--saved-model": "",
    "--graphdef": "",
    "--tflite": "",
    "--checkpoint": "",
    "--tag": "--tag",
    "--concrete-function": "--concrete-function",
    "--load-op-libraries": "--load-op-libraries",
    "--input": "",
    "--signature-def": "--signature",
    "--rename-inputs": "--input-names",
    "--rename-outputs": "--output-names",
    "--outputs": "--output-names",
    "--extra-opset": "--extra-opset",
    "--inputs-as-nchw": "--inputs-as-nchw",
    "--outputs-as-nchw": "--outputs-as-nchw",
    "--debug": "--verbose",
    "--fp16": "--dtype=float16",
    "--dequantize": "--dtype=float32",
}
_TENSOR = re.compile(r"([\w./-]+:\d+)(\[[-\d, ]*\])?")  # its name, and sizes that it is given
# Options that ask for what happens anyway.
_NEEDLESS = ("--large-model", "--continue-on-error", "--use-graph-names")
_INSTEAD = {
    "--keras": "use onnxport keras2onnx MODEL.keras",
    "--tfjs": "convert the SavedModel that it comes from",
    "--target": "say what the graph is for with --runtime",
    "--custom-ops": "register the operator with onnxport.register_to_onnx",
    "--shape-override": "give sizes by --dynamic x:0=4, or in the example inputs",
}


def translated(arguments: list[str]) -> list[str]:
    """The arguments of tf2onnx's command as they are written here.

    >>> translated(["--saved-model", "folder", "--signature_def", "f", "--opset=17", "--large_model"])
    ['folder', '--signature', 'f', '--opset=17']

    Raises:
        typer.BadParameter: an option means nothing here; the message has the way out.
    """
    result: list[str] = []
    graph = any(item.partition("=")[0] in ("--graphdef", "--checkpoint") for item in arguments)
    for argument in _fed(arguments) if graph else arguments:
        name, sign, value = argument.partition("=")
        option = name.replace("_", "-") if name.startswith("--") else ""
        if option in _INSTEAD:
            raise typer.BadParameter(f"{name} is tf2onnx's: {_INSTEAD[option]}")
        if option in _NEEDLESS:
            continue
        here = _HERE.get(option)
        result += [argument] if here is None else [*([here + sign + value] if here else [value] if sign else [])]
    return result


def _fed(arguments: list[str]) -> list[str]:
    """The arguments with the tensors to feed, and their sizes, where ``--inputs`` names such.

    >>> _fed(["--inputs", "x:0[-1,3],n:0"])
    ['--input-names', 'x:0,n:0', '--dynamic', 'x:1=3']
    """
    result: list[str] = []
    for argument in arguments:
        value = argument.removeprefix("--inputs=") if argument.startswith("--inputs=") else argument
        tensors = _TENSOR.findall(value)
        if (value is not argument or result[-1:] == ["--inputs"]) and ",".join(map("".join, tensors)) == value:
            result = [item for item in result if item != "--inputs"]
            result += ["--input-names", ",".join(name for name, _ in tensors)]
            for name, sizes in tensors:
                for axis, size in enumerate(sizes.strip("[]").split(",") if sizes else ()):
                    if not size.strip().startswith("-"):
                        result += ["--dynamic", f"{name.rpartition(':')[0]}:{axis}={size.strip()}"]
        else:
            result.append(argument)
    return result


class ForeignOptions(TyperCommand):
    """A command that takes tf2onnx's spellings too."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        """Parses what `translated` gives."""
        return super().parse_args(ctx, translated(list(args)))
