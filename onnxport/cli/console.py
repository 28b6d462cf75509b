"""What the commands share: where they write, how they fail, and with which exit code.

Results go to standard output, progress and errors to standard error. Exit codes: 0 fine, 1 the numbers differ, 2 everything
that could not be done (unsupported operators, unreadable files, wrong arguments), 3 neither proved nor refuted, 4 proved, but
another engine that was asked for gives other numbers or does not take the file.
"""

from __future__ import annotations

import json
import logging
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from onnxport.errors import (
    OnnxportError,
    UnprovedWarning,
    UnsupportedOperator,
    ValidationError,
    first_line,
    lacks_memory,
)
from onnxport.progress import watched_by

if TYPE_CHECKING:
    from onnxport.validation.report import Report

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

_ENDLESS = 100_000  # columns of a file or pipe

MISMATCH = 1
REFUSED = 2
UNPROVED = 3
WITNESS = 4

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Load pickles and files with pickled parts, which run code.")
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Let a file run code of its own: only for files that you trust.")
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Say what is done and what the frameworks log; show an error's traceback."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors alone: the exit code has the verdict.")]
Html = Annotated[Path | None, typer.Option("--html", help="Also write the report as an HTML page.")]

AllowUnproved = Annotated[
    bool, typer.Option("--allow-unproved", help="Exit with 0, not 3, where an output could not be compared by value.")
]


def settle(reports: Iterable[Report | None], *, allow_unproved: bool) -> None:
    """Ends the command with the exit code of the worst verdict.

    Raises:
        typer.Exit: an output differs or, unless that is allowed, one is unproved; or a witness does not agree.
    """
    given = [report for report in reports if report is not None]
    verdicts = {report.verdict for report in given}
    if "failed" in verdicts:
        raise typer.Exit(MISMATCH)
    if "unproved" in verdicts and not allow_unproved:
        raise typer.Exit(UNPROVED)
    accepted = {"passed", "unproved"} if allow_unproved else {"passed"}
    if any(record.verdict not in accepted for report in given for record in report.witnesses):
        raise typer.Exit(WITNESS)


@contextmanager
def outcome(as_json: bool, doing: str, *, verbose: bool = False, quiet: bool = False) -> Iterator[None]:
    """Runs a command's work: on a terminal with the stage that runs and its time; every error becomes a short message.

    Whatever the user's own code prints goes to standard error, so that standard output holds the result alone. What compiled
    libraries log is kept back; `verbose` shows it, the stages, warnings, and the traceback of an error.

    Raises:
        typer.Exit: an error was raised inside, and has been reported.
    """
    watching = _logged() if verbose else _shown(doing) if err.is_terminal and not quiet else nullcontext()
    try:
        with watching, redirect_stdout(sys.stderr), warnings.catch_warnings():
            if verbose:
                warnings.simplefilter("default")
            warnings.simplefilter("ignore", UnprovedWarning)  # the report and the exit code say it
            yield
    except typer.Exit:
        raise
    except ValidationError as error:
        _fail(error, as_json, MISMATCH, verbose)
    except (OnnxportError, OSError) as error:
        _fail(error, as_json, REFUSED, verbose)
    except Exception as error:
        frames = [item for item in traceback.extract_tb(error.__traceback__) if "onnxport" in item.filename]
        place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        text = f"{type(error).__name__}{place}: {first_line(error)}\nThis is a defect of onnxport; --verbose shows all of it."
        if lacks_memory(error):
            text = (
                f"memory ran out{place}: {first_line(error)}; a conversion without its proof (--no-validate) takes less"
            )
        _fail(OnnxportError(text).with_traceback(error.__traceback__), as_json, REFUSED, verbose)


@contextmanager
def _shown(doing: str) -> Iterator[None]:
    """The stage that runs and the time since the start, in one line of the terminal, which is empty afterwards."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task(doing)
        with watched_by(lambda stage: progress.update(task, description=f"{doing}: {stage}")):
            yield


@contextmanager
def _logged() -> Iterator[None]:
    """The stages and the log of onnxport and of compiled libraries as lines on standard error."""
    logger, handler = logging.getLogger("onnxport"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(relativeCreated)7d ms  %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


# How an example is given to a function of the package, and here.
_EXAMPLES = re.compile(r"\bpass inputs=\(\.\.\.\)(, example tensors to trace it with)?")


def _fail(error: Exception, as_json: bool, code: int, verbose: bool) -> None:
    if verbose:
        traceback.print_exception(error, file=sys.stderr)
    text = _EXAMPLES.sub("give --inputs or --input-shape", str(error))
    if as_json:
        failure: dict[str, Any] = {"error": {"type": type(error).__name__, "message": text}}
        if isinstance(error, UnsupportedOperator):
            failure["error"]["operators"] = [vars(item) for item in error.operators]
        if isinstance(error, ValidationError):
            failure["validation"] = error.report.to_dict()
        print_json(failure)
    else:
        say(f"error: {text}", to=err)
    raise typer.Exit(code) from None


@contextmanager
def failure_page(place: Path | None, *sources: str) -> Iterator[None]:
    """Has proofs inside gather what a page shows, where that is asked for, and writes the page of one that fails.

    Raises:
        ValidationError: as raised inside.
    """
    if place is None:
        yield
        return
    from onnxport.validation.details import with_details

    try:
        with with_details():
            yield
    except ValidationError as error:
        error.report.to_html(place, command=typed(), files=sources)
        raise


def typed() -> str:
    """The command line as it was typed."""
    return shlex.join(["onnxport", *sys.argv[1:]])


def print_json(result: Mapping[str, object]) -> None:
    """Writes one JSON object to standard output."""
    typer.echo(json.dumps(result, indent=2, allow_nan=False, default=str))


def say(text: str, *, to: Console = out) -> None:
    """Writes plain text: nothing in it is markup, and lines are not broken."""
    to.print(text, markup=False, soft_wrap=True)


def show(table: Table) -> None:
    """Writes a table: on a terminal in its width, long words broken, elsewhere as wide as its rows are; nothing is cut off."""
    for column in table.columns:
        column.overflow = "fold"
    (out if out.is_terminal else Console(width=_ENDLESS, highlight=False)).print(table)


def add(table: Table, *cells: str) -> None:
    """Adds a row to a table: nothing in it is markup, as a list's brackets would be."""
    table.add_row(*map(Text, cells))


def words(given: list[str] | None) -> list[str] | None:
    """The items of a repeatable option, each of which may hold several with commas between.

    >>> words(["a,b", "c"])
    ['a', 'b', 'c']
    """
    if not given:
        return None
    return [word.strip() for item in given for word in item.split(",") if word.strip()]
