"""``onnxport debug``: which operator is wrong, and where it comes from."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from onnxport import frameworks
from onnxport.cli import console
from onnxport.cli.console import MISMATCH, Quiet, outcome
from onnxport.cli.options import SourceArgument, SourceOptions, refuse, with_options

if TYPE_CHECKING:
    from onnxport.validation.operators import Inquiry

_MOST = 15  # operators that are listed unless all are asked for


@with_options
def debug(
    source: SourceArgument,
    model: Annotated[Path, typer.Argument(help="The ONNX file that it was converted to.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the worst operator: its model, inputs, expected output."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="List every operator, in the graph's order.")] = False,
    quiet: Quiet = False,
    *,
    given: SourceOptions,
) -> None:
    """Runs every operator on the source's own values and in the whole: its own error, and that which reached it.

    Exit code 1 where an operator or an output differs.
    """
    with outcome(given.as_json, f"debugging {model}", verbose=given.verbose, quiet=quiet):
        from onnxport.converters.debugging import debug as search
        from onnxport.converters.debugging import write_reproducer

        resolved = given.resolve(source)
        refuse(given.arguments, resolved, frameworks.get(frameworks.HUB))
        inquiry = search(resolved.model, str(model), resolved.inputs, **given.arguments)
        place = write_reproducer(inquiry, output) if output is not None else None
    wrong = inquiry.wrong
    if given.as_json:
        rows = [{**asdict(item), **_plain(item.local, item.allowed, item.propagated)} for item in inquiry.operators]
        summary = {
            "inputs": inquiry.inputs,
            "outputs_differ": inquiry.failed,
            "nodes": inquiry.nodes,
            "operators": rows,
        }
        console.print_json({**summary, "reproducer": str(place) if place else None})
    elif not quiet:
        _show(inquiry, everything, place)
    if wrong or inquiry.failed:
        raise typer.Exit(MISMATCH)


def _plain(local: float, allowed: float, propagated: float) -> dict[str, float | str]:
    named = {"local": local, "allowed": allowed, "propagated": propagated}
    return {name: value if math.isfinite(value) else str(value) for name, value in named.items()}


def _show(inquiry: Inquiry, everything: bool, place: Path | None) -> None:
    wrong = inquiry.wrong
    state = "the outputs differ" if inquiry.failed else "the outputs agree"
    console.say(
        f"{len(inquiry.operators)} of {inquiry.nodes} nodes have a value that the source knows; "
        f"on the inputs {inquiry.inputs!r} {state}"
    )
    rows = inquiry.operators
    if not everything:
        rows = tuple([*wrong, *sorted((x for x in rows if not x.differs), key=lambda x: -x.share)][:_MOST])
    table = Table(
        "", "operator", "node", "own error", "allowed", "in the whole", "from", "at", box=None, padding=(0, 1)
    )
    for item in rows:
        mark, numbers = "!" if item.differs else "", (item.local, item.allowed, item.propagated)
        console.add(
            table, mark, item.op, item.node or item.output, *(f"{x:.2g}" for x in numbers), item.source_op, item.where
        )
    console.show(table)
    if len(rows) < len(inquiry.operators):
        console.say(f"and {len(inquiry.operators) - len(rows)} others: --all lists them")
    if wrong:
        first = wrong[0]
        origin = "".join(f" {word} {text}" for word, text in (("from", first.source_op), ("at", first.where)) if text)
        console.say(f"the first that is wrong by itself: {first.op} {first.node or first.output!r}{origin}")
    elif inquiry.failed:
        console.say(
            "no operator is wrong by itself: the difference lies between the values that the source knows, or adds up"
        )
    if place is not None:
        console.say(f"reproducer: {place}; onnxport validate {place} replays it")
