"""``onnxport view``: an ONNX file as a picture, by netron."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from onnxport.cli.console import outcome, say
from onnxport.cli.editing import ModelArgument, opened
from onnxport.errors import MissingDependencyError


def view(
    model: ModelArgument,
    browse: Annotated[bool, typer.Option(help="Open the browser; else only say where the picture is.")] = True,
) -> None:
    """Shows a file in the browser by netron, until the command is interrupted."""
    with outcome(False, f"opening {model}"):
        opened(model)  # a file that is none is refused here, not on an empty page
        if find_spec("netron") is None:
            raise MissingDependencyError(
                "onnxport view shows the file by netron, which is not installed: pip install netron; "
                f"onnxport inspect {model} needs nothing, and netron.app in a browser takes the file as it is"
            )
        netron: Any = import_module("netron")
        host, port = netron.start(str(model), browse=browse)
    say(f"{model} is shown at http://{host}:{port}")
    netron.wait()
