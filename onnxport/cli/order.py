"""What a conversion takes on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from onnxport import frameworks
from onnxport.cli import options as shared
from onnxport.cli.options import ProofOptions, Words
from onnxport.errors import InvalidInputError
from onnxport.request import OPSETS

_TARGETS = [item.name for item in frameworks.registered() if item.is_hub or item.build is not None]


@dataclass(frozen=True, kw_only=True)
class Order(ProofOptions):
    """The command line of a conversion: each field is an argument or option as it reads there."""

    source: shared.SourceArgument
    output: Annotated[Path | None, Option("--output", "-o", help="File or directory to write.")] = None
    to: Annotated[
        str | None, Option(help=f"{', '.join(_TARGETS[:-1])} or {_TARGETS[-1]}.", autocompletion=lambda: _TARGETS)
    ] = None
    origin: Annotated[str | None, Option("--from", help="Framework that the model has to be of.")] = None
    task: Annotated[
        str | None,
        Option(help="What a model in a Hugging Face folder is for: text-generation-with-past, fill-mask ..."),
    ] = None
    dtype: Annotated[
        str | None,
        Option(
            help="float16, bfloat16: compute in it what is safe. int8, int4: weights. Of a folder or TFLite file: float32."
        ),
    ] = None
    keep_io_types: Annotated[bool, Option("--keep-io-types", help="Take and give float32 beside --dtype.")] = False
    functions: Annotated[
        Words, Option(help="Classes of PyTorch modules whose calls stay functions, or auto for blocks that repeat.")
    ] = None
    opset: shared.Opset = None
    extra_opset: Annotated[
        Words, Option(help="Version of another domain: ai.onnx.ml:3, or that of operators of your own. Repeatable.")
    ] = None
    input_names: Annotated[Words, Option(help="Names of the graph's inputs, in order.")] = None
    output_names: Annotated[Words, Option(help="Names of the graph's outputs, in order.")] = None
    dynamic: Annotated[
        Words, Option(help="A dimension that may vary: x:0=batch, or one to fix in an ONNX model: x:0=4. Repeatable.")
    ] = None
    static: Annotated[bool, Option("--static", help="Fix every dimension at its size in the example inputs.")] = False
    inputs_as_nchw: Annotated[Words, Option(help="Inputs to take as NCHW, though the source has channels last.")] = None
    outputs_as_nchw: Annotated[Words, Option(help="Outputs to give as NCHW.")] = None
    cut_inputs: Annotated[Words, Option(help="Values of an ONNX graph to begin at: they become its inputs.")] = None
    cut_outputs: Annotated[Words, Option(help="Values of an ONNX graph to end at: they become its outputs.")] = None
    emit_code: Annotated[
        Path | None, Option(help="Write the PyTorch module as plain source too: net.py, and net.safetensors beside it.")
    ] = None
    methods: shared.Methods = None
    runtimes: shared.Runtimes = None
    option: Annotated[
        Words,
        Option(
            help="An estimator's: zipmap=true, label=false, scale.output=true; of int4 weights block_size=64. Repeatable."
        ),
    ] = None
    test_data: Annotated[
        bool,
        Option("--test-data", help="Also write inputs and the source's outputs beside an ONNX file, for validate."),
    ] = False
    check: Annotated[
        bool, Option("--check", help="Only say what would not convert, and where it stands: no proof, no file.")
    ] = False
    validate: Annotated[bool, Option(help="Run both sides and compare.")] = True
    optimize: Annotated[bool, Option(help="Bake batch norms and transposes into the weights.")] = False
    strategy: Annotated[
        str | None, Option(help="trace: freeze branches of Python on values of tensors as the examples take them.")
    ] = None
    states: Annotated[
        str | None, Option(help="io: buffers that the model updates become inputs past.* and outputs present.*.")
    ] = None
    runtime: Annotated[
        str, Option(help="What the graph is written for: onnxruntime, or reference for the most direct graph.")
    ] = "onnxruntime"
    expected: str | None = None  # the framework that the source has to be of; None for any. No option: an alias sets it

    def check_opset(self) -> None:
        """Refuses an opset from before 13.

        Raises:
            InvalidInputError: it is one.
        """
        if self.opset is not None and self.opset < OPSETS.start:
            raise InvalidInputError(
                f"--opset {self.opset}: a version of ai.onnx from {OPSETS.start} to {OPSETS.stop - 1}; onnxport tf2onnx takes "
                f"7 to {OPSETS.start - 1} too"
            )

    def convert(self) -> Callable[..., Any]:
        """What converts: `onnxport.convert`."""
        from onnxport.converters.convert import convert

        return convert
