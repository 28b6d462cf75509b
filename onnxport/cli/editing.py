"""What the commands that edit an ONNX file share: where they write, how the edit is proved, what they print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxport.cli import console, describe
from onnxport.cli.console import AllowUnproved, Html, Json, Quiet, Verbose
from onnxport.cli.options import Inputs, InputShape, Shown
from onnxport.cli.source import resolve
from onnxport.errors import InvalidInputError, InvalidModelError
from onnxport.frameworks import registered
from onnxport.graph.workbench.description import signature

if TYPE_CHECKING:
    from onnxport.converters.workbench import Proof
    from onnxport.model import OnnxModel

ModelArgument = Annotated[Path, typer.Argument(help="An ONNX file.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="ONNX file to write.")]


@dataclass(frozen=True, kw_only=True)
class EditOptions(Shown):
    """How an edit is proved and what of it is shown: each field is an option as it reads on the command line."""

    output: Output
    inputs: Inputs = None
    input_shape: InputShape = None
    validate: Annotated[bool, typer.Option(help="Run the file before and after, and compare.")] = True
    html: Html = None
    allow_unproved: AllowUnproved = False
    as_json: Json = False
    quiet: Quiet = False
    verbose: Verbose = False

    def examples(self, model: Path) -> Any:
        """The inputs that the user gave for the proof; None where they are to be drawn."""
        return resolve(str(model), inputs=self.inputs, input_shapes=self.input_shape or ()).inputs

    def proof(self, model: Path) -> Proof:
        """How the edit of a file is proved."""
        from onnxport.converters.workbench import Proof

        return Proof(self.examples(model), self.validate, model.name)

    def finish(self, result: OnnxModel, *sources: Path) -> None:
        """Writes the page, prints what was written and ends the command with the proof's exit code."""
        report = result.report
        if self.html is not None and report is not None:
            report.to_html(self.html, command=console.typed(), files=[*map(str, sources), str(self.output)])
        summary = {"output": str(self.output), "nodes": sum(1 for _ in result.model.graph.all_nodes())}
        if self.as_json:
            proof = report.to_dict() if report else None
            console.print_json({**summary, **signature(result.model), "validation": proof})
        elif not self.quiet:
            console.say(f"{self.output}  ({summary['nodes']} nodes)")
            describe.show_signature(signature(result.model))
            console.say(str(report) if report else "not validated")
        console.settle([report], allow_unproved=self.allow_unproved)


@contextmanager
def in_words_of_the_command(words: Mapping[str, str]) -> Iterator[None]:
    """Errors about an argument of `onnxport.convert` begin with what stands for it on the command line.

    Raises:
        InvalidInputError: as raised inside.
    """
    try:
        yield
    except InvalidInputError as error:
        for argument, typed in words.items():
            if str(error).startswith(f"{argument}: "):
                raise InvalidInputError(typed + str(error).removeprefix(f"{argument}: ")) from error
        raise


def opened(path: Path) -> OnnxModel:
    """The model in an ONNX file.

    Raises:
        InvalidModelError: it is missing or no ONNX model.
    """
    from onnxport.model import OnnxModel

    try:
        return OnnxModel.load(path)
    except InvalidModelError as error:
        owners = [item for item in registered() if not item.is_hub and path.suffix.lower() in item.files.reads]
        if not owners or not path.is_file():
            raise
        raise InvalidModelError(
            f"{str(path)!r} is a file of {owners[0].title}, no ONNX model: onnxport convert {path} -o model.onnx makes one of it"
        ) from error


def one_of(words: list[str] | None, what: str) -> list[str]:
    """The words, of which there is one at least.

    Raises:
        InvalidInputError: there is none.
    """
    if not words:
        raise InvalidInputError(f"nothing to do: give {what}")
    return words
