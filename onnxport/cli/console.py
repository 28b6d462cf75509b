"""What the commands share: where they write, how they fail, and with which exit code.

Results go to standard output, progress and errors to standard error. Exit codes: 0 fine, 1 the numbers differ, 2 everything
that could not be done (unsupported operators, unreadable files, wrong arguments), 3 neither proved nor refuted.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from onnxport.errors import OnnxportError, UnprovedWarning, UnsupportedOperator, ValidationError

if TYPE_CHECKING:
    from onnxport.validation.report import Report

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

MISMATCH = 1
REFUSED = 2
UNPROVED = 3

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Load pickles and files with pickled parts, which run code.")
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Let a file run code of its own: only for files that you trust.")
]

AllowUnproved = Annotated[
    bool, typer.Option("--allow-unproved", help="Exit with 0, not 3, where an output could not be compared by value.")
]


def settle(reports: Iterable[Report | None], *, allow_unproved: bool) -> None:
    """Ends the command with the exit code of the worst verdict.

    Raises:
        typer.Exit: an output differs or, unless that is allowed, one is unproved.
    """
    verdicts = {report.verdict for report in reports if report is not None}
    if "failed" in verdicts:
        raise typer.Exit(MISMATCH)
    if "unproved" in verdicts and not allow_unproved:
        raise typer.Exit(UNPROVED)


@contextmanager
def outcome(as_json: bool, doing: str) -> Iterator[None]:
    """Runs a command's work: on a terminal with a spinner and the text `doing`; every expected error becomes a short message.

    Whatever frameworks print goes to standard error, so that standard output holds the result alone.

    Raises:
        typer.Exit: an `OnnxportError` or `OSError` was raised inside, and has been reported.
    """
    progress = err.status(doing) if err.is_terminal else nullcontext()
    try:
        with progress, redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore", UnprovedWarning)  # the report and the exit code say it
            yield
    except ValidationError as error:
        _fail(error, as_json, MISMATCH)
    except (OnnxportError, OSError) as error:
        _fail(error, as_json, REFUSED)


def _fail(error: Exception, as_json: bool, code: int) -> None:
    if as_json:
        failure: dict[str, Any] = {"error": {"type": type(error).__name__, "message": str(error)}}
        if isinstance(error, UnsupportedOperator):
            failure["error"]["operators"] = [vars(item) for item in error.operators]
        if isinstance(error, ValidationError):
            failure["validation"] = error.report.to_dict()
        print_json(failure)
    else:
        say(f"error: {error}", to=err)
    raise typer.Exit(code) from None


def print_json(result: Mapping[str, object]) -> None:
    """Writes one JSON object to standard output."""
    typer.echo(json.dumps(result, indent=2, allow_nan=False, default=str))


def say(text: str, *, to: Console = out) -> None:
    """Writes plain text: nothing in it is markup, and lines are not broken."""
    to.print(text, markup=False, soft_wrap=True)


def words(given: list[str] | None) -> list[str] | None:
    """The items of a repeatable option, each of which may hold several with commas between.

    >>> words(["a,b", "c"])
    ['a', 'b', 'c']
    """
    if not given:
        return None
    return [word.strip() for item in given for word in item.split(",") if word.strip()]
