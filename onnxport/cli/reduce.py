"""``onnxport reduce``: the smallest part of an ONNX file on which a command fails."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxport.cli import console
from onnxport.cli.console import Json, Quiet, Verbose, outcome
from onnxport.cli.editing import ModelArgument, Output, opened
from onnxport.errors import InvalidInputError, OnnxportError
from onnxport.progress import stage

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnxport.model import OnnxModel

_PLACE = "{}"


def reduce(
    model: ModelArgument,
    output: Output,
    check: Annotated[
        str,
        typer.Option(
            "--check", help="The command; {} stands for the file, which else comes last. It fails by its exit code."
        ),
    ],
    message: Annotated[
        str | None,
        typer.Option("--message", help="Only a failure that prints this counts, so that it stays the same one."),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds after which a run counts as no failure.")
    ] = 300.0,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Leaves out nodes as long as the command still fails: what stays is a file to report, with inner values as inputs."""
    with outcome(as_json, f"reducing {model}", verbose=verbose, quiet=quiet), tempfile.TemporaryDirectory() as folder:
        result, runs, nodes, notes = reduced(
            model, _Check(shlex.split(check), message, timeout, Path(folder) / model.name)
        )
        result.save(output)
    summary = {"output": str(output), "nodes": len(result.model.graph), "of": nodes, "runs": runs, "notes": notes}
    if as_json:
        console.print_json(summary)
    elif not quiet:
        console.say(f"{output}  ({summary['nodes']} of {nodes} nodes, after {runs} runs)")
        for note in notes:
            console.say(f"  note: {note}")


_OTHER_PLACE = re.compile(r"\{[A-Za-z_]+\}")  # as other tools spell it


@dataclass
class _Check:
    """The user's command, which is run on one candidate after the other."""

    words: Sequence[str]
    message: str | None
    timeout: float
    place: Path
    runs: int = 0
    seen: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def fails_on(self, model: ir.Model) -> bool:
        """Whether the command fails on a model, in the way that counts."""
        from onnxport.graph.external_data import save

        self.runs += 1
        save(model, self.place)
        if any(odd := [word for word in self.words if _OTHER_PLACE.fullmatch(word)]):
            raise InvalidInputError(f"--check: {odd[0]!r} stands for nothing: {_PLACE} is the file")
        words = [word.replace(_PLACE, str(self.place)) for word in self.words]
        command = words if words != list(self.words) else [*words, str(self.place)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, timeout=self.timeout
            )
        except subprocess.TimeoutExpired:
            return False
        except OSError as error:
            raise InvalidInputError(f"--check: {command[0]!r} can't be run: {error.strerror}") from error
        return done.returncode != 0 and (self.message is None or self.message in done.stdout + done.stderr)


def reduced(path: Path, check: _Check) -> tuple[OnnxModel, int, int, list[str]]:
    """The smallest part on which the command fails, how often it ran, how many nodes there were, and notes.

    Raises:
        InvalidInputError: it does not fail on the whole file.
    """
    from onnxport.converters.workbench import with_types
    from onnxport.graph.workbench.reduction import hollow, part, smallest
    from onnxport.model import OnnxModel

    whole = with_types(opened(path))
    nodes = len(whole.graph)
    if not check.fails_on(whole):
        expected = f" with {check.message!r} among what it prints" if check.message else ""
        raise InvalidInputError(f"--check: the command does not fail on {path}{expected}")

    def shows(places: Sequence[int]) -> bool:
        key = tuple(places)
        if key not in check.seen:
            stage(f"{len(places)} of {nodes} nodes")
            candidate = part(whole, places)
            check.seen[key] = candidate is not None and _stands(candidate) and check.fails_on(candidate)
        return check.seen[key]

    result, empty = part(whole, smallest(nodes, shows)) or whole, hollow(whole)
    notes = []
    if len(result.graph) == 1 and empty is not None and check.fails_on(empty):
        notes.append(
            "the command fails on a file that computes nothing, too: see that it fails for the reason that you mean, by --message"
        )
    return OnnxModel(result), check.runs, nodes, notes


def _stands(model: ir.Model) -> bool:
    """Whether a candidate is a model at all: a command must fail on it for its own reason."""
    import onnx

    from onnxport.graph.protos import to_proto

    try:
        onnx.checker.check_model(to_proto(model))
    except (onnx.checker.ValidationError, OnnxportError, ValueError):
        return False
    return True
