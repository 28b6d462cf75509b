"""``onnxport report``: many reports as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxport.cli import console
from onnxport.cli.console import Quiet, outcome


def report(
    files: Annotated[
        list[Path], typer.Argument(metavar="JSON...", help="What convert, validate or roundtrip print with --json.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")],
    quiet: Quiet = False,
) -> None:
    """Writes one page of many reports: a row a model, a column a runtime, opset or target.

    A verdict links to the page that lies beside its JSON under the same name. The exit code is 0 whatever the verdicts are: the
    commands that wrote the reports had theirs.
    """
    with outcome(False, f"reading {len(files)} reports", quiet=quiet):
        from onnxport.validation.matrix import read_entries
        from onnxport.validation.matrix_html import summary, write_matrix

        entries = read_entries(files)
        write_matrix(output, entries)
    if not quiet:
        console.say(f"{output}  ({summary(entries)})")
