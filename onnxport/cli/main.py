"""The command ``onnxport``: nothing here imports a framework until a command needs one."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated

import typer

import onnxport
from onnxport import frameworks
from onnxport.cli.check import check
from onnxport.cli.command import Command, Commands, ForeignOptions
from onnxport.cli.convert import command
from onnxport.cli.debug import debug
from onnxport.cli.diff import diff
from onnxport.cli.extract import extract
from onnxport.cli.inspect import inspect
from onnxport.cli.merge import merge
from onnxport.cli.ops import ops
from onnxport.cli.reduce import reduce
from onnxport.cli.rename import rename
from onnxport.cli.report import report
from onnxport.cli.roundtrip import roundtrip
from onnxport.cli.set_shapes import set_shapes
from onnxport.cli.slim import slim
from onnxport.cli.upgrade import upgrade
from onnxport.cli.validate import validate
from onnxport.cli.view import view

_NAMED = [item for item in frameworks.registered() if item.command]
# Commands with source and target fixed: torch2onnx ... onnx2torch ...
ALIASES: dict[str, tuple[str, str]] = {
    **{f"{item.command}2onnx": (item.name, frameworks.HUB) for item in _NAMED},
    **{f"onnx2{item.command}": (frameworks.HUB, item.name) for item in _NAMED},
}

_WORKBENCH = "Workbench: ONNX files"

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Converts models between PyTorch, TensorFlow, Keras, scikit-learn and ONNX, and proves each conversion.",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"onnxport {onnxport.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


_ABOUT = "Converts a model, proves the result by running both sides, and writes it; the target is --to, else what the suffix "
app.command("convert", cls=Command)(command(about=f"{_ABOUT}of --output names, else ONNX."))
for _plain in (validate, roundtrip, report, ops, inspect):
    app.command(cls=Command)(_plain)
for _edit in (extract, merge, rename, set_shapes, slim, upgrade, diff, debug, reduce, check, view):
    app.command(cls=Command, rich_help_panel=_WORKBENCH)(_edit)
for _name, (_source, _target) in ALIASES.items():
    _titles = [frameworks.get(_end).title for _end in (_source, _target)]
    _about = f"Converts a model of {_titles[0]} to {_titles[1]}: convert with both ends fixed."
    _class = ForeignOptions if _name == "tf2onnx" else Command
    app.command(_name, cls=_class)(command(_source, _target, about=_about))


def main() -> None:
    """Runs the command line; the exit code is 0 fine, 1 numbers differ, 2 not possible, 3 unproved, 4 a witness differs."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # the frameworks' own, which say nothing about the conversion
    app(prog_name="onnxport")


if __name__ == "__main__":
    main()
