"""What the commands share: where they write, how they fail, and with which exit code.

Results go to standard output, progress and errors to standard error. Exit codes: 0 fine, 1 the numbers differ, 2 everything
that could not be done (unsupported operators, unreadable files, wrong arguments).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Annotated, Any

import typer
from rich.console import Console

from onnxport.errors import OnnxportError, UnsupportedOperator, ValidationError

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

MISMATCH = 1
REFUSED = 2

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Load pickles and files with pickled parts, which run code.")
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Let a file run code of its own: only for files that you trust.")
]


@contextmanager
def outcome(as_json: bool, doing: str) -> Iterator[None]:
    """Runs a command's work: a spinner that says `doing` on a terminal, and every expected error as a short message.

    Whatever frameworks print goes to standard error, so that standard output holds the result alone.

    Raises:
        typer.Exit: an `OnnxportError` or `OSError` was raised inside, and has been reported.
    """
    progress = err.status(doing) if err.is_terminal else nullcontext()
    try:
        with progress, redirect_stdout(sys.stderr):
            yield
    except ValidationError as error:
        _fail(error, as_json, MISMATCH)
    except (OnnxportError, OSError) as error:
        _fail(error, as_json, REFUSED)


def _fail(error: Exception, as_json: bool, code: int) -> None:
    if as_json:
        found: dict[str, Any] = {"error": {"type": type(error).__name__, "message": str(error)}}
        if isinstance(error, UnsupportedOperator):
            found["error"]["operators"] = [vars(item) for item in error.operators]
        if isinstance(error, ValidationError):
            found["validation"] = error.report.to_dict()
        print_json(found)
    else:
        say(f"error: {error}", to=err)
    raise typer.Exit(code) from None


def print_json(found: Mapping[str, Any]) -> None:
    """Writes one JSON object to standard output."""
    typer.echo(json.dumps(found, indent=2, allow_nan=False, default=str))


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
