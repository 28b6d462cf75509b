"""``onnxport view``: an ONNX file as a picture, by netron, with the verdict on each node."""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from onnxport import frameworks
from onnxport.cli import console
from onnxport.cli.console import outcome
from onnxport.cli.editing import ModelArgument, opened
from onnxport.cli.options import SourceOptions, refuse, with_options
from onnxport.errors import InvalidInputError, MissingDependencyError

_MOST = 5  # nodes that are named


@with_options
def view(
    model: ModelArgument,
    source: Annotated[
        str | None,
        typer.Option(help="The model that the file was converted from: each node then shows whether it is right."),
    ] = None,
    browse: Annotated[bool, typer.Option(help="Open the browser; else only say where the picture is.")] = True,
    *,
    given: SourceOptions,
) -> None:
    """Shows a file in the browser by netron, until the command is interrupted.

    With --source each node's properties say whether it agrees with the source, by how much, and where it comes from; a node
    "differs", of no file, hangs on each that is wrong by itself. The page is netron's, which asks for consent once and reports
    its own use to its maker.
    """
    counts: dict[str, int] = {}
    wrong: list[str] = []
    with outcome(given.as_json, f"opening {model}", verbose=given.verbose):
        opened(model)  # a file that is none is refused here, not on an empty page
        if find_spec("netron") is None:
            raise MissingDependencyError(
                "onnxport view shows the file by netron, which is not installed: pip install netron; "
                f"onnxport inspect {model} needs nothing, and netron.app in a browser takes the file as it is"
            )
        netron: Any = import_module("netron")
        logging.getLogger("netron").setLevel(logging.WARNING)  # it tells where it serves, as this command does
        if source is None:
            _refuse_without_source(given)
            host, port = netron.start(str(model), browse=browse)
        else:
            data, counts, wrong = _judged(str(model), source, given)
            host, port = netron.serve(str(model), bytearray(data), browse=browse)
    _say(str(model), f"http://{host}:{port}", counts, wrong, as_json=given.as_json)
    netron.wait()


def _refuse_without_source(given: SourceOptions) -> None:
    ways = {"--inputs": given.inputs, "--input-shape": given.input_shape, "--weights": given.weights}
    unused = [flag for flag, value in {**ways, "--signature": given.signature}.items() if value]
    if unused:
        raise InvalidInputError(f"{', '.join(unused)}: without --source nothing runs, the file is shown as it is")


def _judged(model: str, source: str, given: SourceOptions) -> tuple[bytes, dict[str, int], list[str]]:
    """The file with the verdict on each node, how many nodes have which, and the names of those that are wrong."""
    from onnxport.converters.debugging import debug, with_verdicts

    resolved = given.resolve(source)
    refuse(given.arguments, resolved, frameworks.get(frameworks.HUB))
    inquiry = debug(resolved.model, model, resolved.inputs, **given.arguments)
    return *with_verdicts(inquiry, model), [item.node or item.output for item in inquiry.wrong]


def _say(model: str, address: str, counts: dict[str, int], wrong: list[str], *, as_json: bool) -> None:
    if as_json:
        console.print_json({"model": model, "address": address, "nodes": counts, "differs": wrong})
        return
    nodes = ", ".join(f"{word}: {count}" for word, count in counts.items())
    console.say(f"{model} is shown at {address}" + (f"; {nodes}" if nodes else ""))
    if wrong:
        rest = f" and {len(wrong) - _MOST} others" if len(wrong) > _MOST else ""
        console.say(f"wrong by themselves, Ctrl+F there leads to each: {', '.join(wrong[:_MOST])}{rest}")
