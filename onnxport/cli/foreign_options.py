"""Options of other tools: on the alias of tf2onnx's name they are taken as spelled there, elsewhere they are answered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

import typer

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
    "--ignore-default": "a default that is fed is an input, any other a constant",
    "--use-default": "give the value in the function that is converted",
    "--output-frozen-graph": "the graph is read as it is, none is frozen",
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
    names = [item.partition("=")[0] for item in arguments]
    graph = "--graphdef" in names or "--checkpoint" in names or "--input" in names
    if "--outputs" in names and "--rename-outputs" in names:
        raise typer.BadParameter(
            "--outputs and --rename-outputs both name the outputs, in order; to keep some of them convert all, then cut the "
            "file: onnxport convert model.onnx --cut-outputs NAME"
        )
    if not graph:
        _check_inputs(arguments)
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


def _check_inputs(arguments: list[str]) -> None:
    """Refuses tensors by name where a signature has the names: ``--inputs`` is a file of example inputs there."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        value = argument.partition("=")[2] if argument.startswith("--inputs=") else argument
        tensors = _TENSOR.findall(value)
        if (before == "--inputs" or value is not argument) and tensors and ",".join(map("".join, tensors)) == value:
            raise typer.BadParameter(
                f"--inputs {value}: a signature names its inputs itself; sizes are given by --input-shape x=1x224x224x3"
            )


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


_DIMENSIONS = "--dynamic x:0=batch, once for each dimension that varies"
_OUTPUT = "-o model.onnx"
_MODEL = "the model is the first argument: onnxport convert MODEL"
_PROOF = "the proof runs unless --no-validate says otherwise"
_BESIDE = "weights beyond 2 GB go to a file beside the model by themselves"
# By option of another tool, or keyword of an API: how the same is written here.
_WRITTEN = {
    **dict.fromkeys(("map", "io-map"), "OUTPUT=INPUT behind the two files"),
    **dict.fromkeys(("dynamic-shapes", "dynamic-axes", "dynamic-dims", "dynamic-shape", "dynamic-batch"), _DIMENSIONS),
    **dict.fromkeys(("opset-version", "target-opset", "target-opsets", "onnx-opset"), "--opset 17"),
    **dict.fromkeys(("input-shapes", "overwrite-input-shape", "shape", "shapes"), "--input-shape x=1x3x224x224"),
    **dict.fromkeys(
        ("input-signature", "dummy-input", "example-inputs", "args"), "--inputs example.npz, or --input-shape x=1x3"
    ),
    **dict.fromkeys(("initial-types", "input-data"), "--inputs rows.csv, a few rows of a table"),
    **dict.fromkeys(("do-validation", "verify", "check-n", "validation", "compare"), _PROOF),
    **dict.fromkeys(("no-validation", "skip-validation", "no-verify", "no-check"), "--no-validate"),
    **dict.fromkeys(("output-path", "output-file", "output-model", "onnx-file-path", "out", "f", "save-path"), _OUTPUT),
    **dict.fromkeys(
        ("model", "model-path", "input-model", "saved-model", "input-path", "keras", "graphdef", "tflite"), _MODEL
    ),
    **dict.fromkeys(("fp16", "half", "float16"), "--dtype float16, with --keep-io-types for float32 at the ends"),
    **dict.fromkeys(("int8", "quantize", "quantise"), "--dtype int8, for the weights of products"),
    **dict.fromkeys(("external-data", "use-external-data-format", "large-model", "save-as-external-data"), _BESIDE),
    **dict.fromkeys(("simplify", "onnxsim"), "onnxport slim model.onnx -o slim.onnx, after the conversion"),
    **dict.fromkeys(("do-constant-folding", "enable-onnx-checker", "export-params"), "this happens anyway"),
    **dict.fromkeys(("training", "eval", "train"), "models are converted as they are for inference"),
    **dict.fromkeys(("device", "gpu", "cuda", "cpu"), "conversions run on the processor; the file runs on any device"),
    **dict.fromkeys(("framework", "source-framework"), "--from pytorch"),
    **dict.fromkeys(("target", "target-framework"), "--to keras, or the suffix of --output"),
    **dict.fromkeys(("input-name", "rename-inputs"), "--input-names a,b"),
    **dict.fromkeys(("output-name", "rename-outputs", "final-types"), "--output-names a,b"),
    **dict.fromkeys(("outputs", "output-nodes"), "--cut-outputs of an ONNX file, or --output-names"),
    **dict.fromkeys(("signature-def", "signature-key", "tag-set"), "--signature serving_default"),
    **dict.fromkeys(
        ("batch-size", "sequence-length", "batch"), "--input-shape x=8x128, or --dynamic x:0=8 in an ONNX file"
    ),
    **dict.fromkeys(
        ("trust-remote-code", "weights-only"), "--allow-code, or --allow-pickle for a file that is pickled"
    ),
    **dict.fromkeys(("zipmap", "options"), "--option zipmap=true"),
    **dict.fromkeys(("custom-opsets", "extra-opsets"), "--extra-opset com.acme:1"),
    **dict.fromkeys(("debug", "log-level"), "--verbose"),
    **dict.fromkeys(
        ("tolerance", "tol", "rtol-atol"), "--rtol and --atol; without them the budget follows from the source"
    ),
    "state-dict": "--weights net.safetensors",
    "checkpoint": "--weights net.pt for a factory; the files of a checkpoint of TensorFlow are a source of their own",
    "channels-last": "--inputs-as-nchw x, --outputs-as-nchw y",
}
_ENDS = {
    **dict.fromkeys(("outputs", "output-names", "cut-outputs", "end", "end-nodes", "output-nodes"), "--to NAME"),
    **dict.fromkeys(("input-names", "cut-inputs", "start", "begin", "input-nodes"), "--from NAME"),
}
_SIZES = dict.fromkeys(
    ("input-shape", "input-shapes", "overwrite-input-shape", "shape", "dynamic", "batch-size", "dim-param"),
    "x=1x3x224x224, x:0=1 or batch=1 behind the file",
)
# By command: options that are written otherwise there than in a conversion.
_WRITTEN_OF = {
    "extract": _ENDS,
    "set-shapes": _SIZES,
    "rename": dict.fromkeys(
        ("input-names", "output-names", "rename-inputs", "rename-outputs", "input", "name"), "OLD=NEW behind the file"
    ),
}


def answer(option: str, command: str, near: Sequence[str], others: Sequence[str] = ()) -> str:
    """How an option that a command has not is written here, or the nearest that it has; `others` are commands that have it."""
    name = option.lstrip("-").replace("_", "-").lower()
    here = _WRITTEN_OF.get(command.rpartition(" ")[2], {}).get(name, _WRITTEN.get(name))
    if here is not None:
        return f"{option} is no option of {command}{'; here it is written' if here.startswith('-') else ':'} {here}"
    near = [item for item in near if get_close_matches(item.lstrip("-"), [option.lstrip("-")])]
    meant = f"did you mean {' or '.join(near)}?" if near else f"{command} --help lists all"
    if len(others) != 1:
        return f"{option} is no option of {command}{':' if near else ';'} {meant}"
    return f"{option} is no option of {command}, but of onnxport {others[0]}{f'; {meant}' if near else ''}"
