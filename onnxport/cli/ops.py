"""``onnxport ops``: what each framework's maps hold, generated from the maps themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Annotated

import typer
from rich.table import Table

from onnxport import frameworks
from onnxport.cli.console import Json, add, outcome, print_json, say, show
from onnxport.errors import InvalidInputError
from onnxport.frameworks import Framework

# The frameworks of the package; ONNX's operators stand in each one's table.
FRAMEWORKS = tuple(item for item in frameworks.BUILT_IN if item.to_onnx_map is not None)
_NAMES = [item.name for item in FRAMEWORKS]


@dataclass(frozen=True)
class OperatorRow:
    """An operator of a framework that has a form in ONNX."""

    op: str  # the operator in the framework's spelling
    about: str  # how it is written
    min_opset: int  # least target opset
    cases: int  # how many examples of it the suite converts and runs


@dataclass(frozen=True)
class Meaning:
    """An ONNX operator that a framework can hold."""

    op: str  # the operator, with its domain where that is not ai.onnx
    versions: tuple[int, ...]  # the schema versions that were written against
    native: bool  # the framework has an operator or layer of its own for it


def ops(
    framework: Annotated[
        str | None,
        typer.Argument(
            help=f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}; all if left out.", autocompletion=lambda: _NAMES
        ),
    ] = None,
    pattern: Annotated[
        str | None, typer.Argument(help="Show the operators with this in their names; * and ? as in file names.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write the page docs/support.md.")] = False,
    as_json: Json = False,
) -> None:
    """Lists the operators that convert to ONNX, and the ONNX operators that convert to the framework."""
    with outcome(as_json, "reading the maps"):
        chosen = _chosen(framework)
        text = page(chosen) if markdown else ""
        tables = [] if markdown else [_matching(item, pattern) for item in chosen]
    if markdown:
        typer.echo(text, nl=False)
    elif as_json:
        plain = {item.name: ([asdict(row) for row in to], [asdict(row) for row in back]) for item, to, back in tables}
        print_json({name: {"to_onnx": to, "from_onnx": back} for name, (to, back) in plain.items()})
    elif not any(to or back for _, to, back in tables):
        say(f"no operator has {pattern!r} in its name; * and ? stand for other letters, as in file names")
    else:
        for item, to, back in tables:
            _show(item, to, back)


def _matching(
    framework: Framework, pattern: str | None
) -> tuple[Framework, tuple[OperatorRow, ...], tuple[Meaning, ...]]:
    """The tables of a framework, of which the operators whose names hold `pattern`."""
    to, back = tuple(lowerings(framework)), tuple(meanings(framework))
    if pattern is None:
        return framework, to, back
    glob = f"*{pattern.lower()}*"
    return (
        framework,
        tuple(row for row in to if fnmatchcase(row.op.lower(), glob)),
        tuple(row for row in back if fnmatchcase(row.op.lower(), glob)),
    )


def _chosen(framework: str | None) -> tuple[Framework, ...]:
    if framework is None:
        chosen = tuple(item for item in frameworks.discover() if not item.is_hub)
    else:
        chosen = (frameworks.get(framework),)
        if chosen[0].is_hub:
            raise InvalidInputError("ops: name a framework; ONNX operators are in every framework's table")
    for item in chosen:
        frameworks.require(item)
    return chosen


def lowerings(framework: Framework) -> Iterator[OperatorRow]:
    """The operators of a framework that convert to ONNX; an operator with a complex form too is listed once."""
    rows: dict[str, OperatorRow] = {}
    for entry in () if framework.to_onnx_map is None else framework.to_onnx_map():
        seen = rows.get(entry.name)
        cases = len(entry.cases) + (seen.cases if seen else 0)
        about = seen.about if seen else entry.summary
        rows[entry.name] = OperatorRow(entry.name, about, entry.min_opset, cases)
    yield from rows.values()


def meanings(framework: Framework) -> Iterator[Meaning]:
    """The ONNX operators that convert to a framework."""
    from onnxport.opset_maps.maps import onnx

    table = () if framework.from_onnx_map is None else tuple(framework.from_onnx_map())
    native = {(entry.domain, entry.op_type) for entry in table}
    versions: dict[tuple[str, str], set[int]] = {}
    for entry in (*(onnx if framework.shares_semantics else ()), *table):
        versions.setdefault((entry.domain, entry.op_type), set()).update(entry.versions)
    for (domain, op_type), since in sorted(versions.items()):
        op = f"{domain}::{op_type}" if domain else op_type
        yield Meaning(op, tuple(sorted(since)), (domain, op_type) in native)


def page(chosen: Sequence[Framework] = FRAMEWORKS) -> str:
    """The tables as a Markdown page."""
    head = (
        "# Supported operators\n\n"
        "Generated by `onnxport ops --markdown` from the maps; the suite checks that this page is current. An operator of\n"
        "PyTorch without an entry is decomposed by PyTorch, and an ONNX operator without one expands by its schema's own\n"
        "function body, so that more converts than is listed. Cases: how many examples of an operator the suite converts\n"
        "and runs on both sides.\n"
    )
    parts = [head]
    for item in chosen:
        to, back = list(lowerings(item)), list(meanings(item))
        parts.append(f"\n## {item.title} to ONNX: {len(to)} operators\n\n")
        owner = _owner_of_map(item)
        if owner is not item:
            note = f"A {item.title} model is traced to {owner.title}'s operators: the table is {owner.title}'s.\n"
            parts.append(note)
        else:
            parts.append("| operator | how | least opset | cases |\n|---|---|---|---|\n")
            rows = ((row, row.about.replace("|", "\\|")) for row in to)
            parts += [f"| `{row.op}` | {about} | {row.min_opset} | {row.cases} |\n" for row, about in rows]
        parts.append(f"\n## ONNX to {item.title}: {len(back)} operators\n\n")
        parts.append("| operator | schema versions | native |\n|---|---|---|\n")
        parts += [f"| `{row.op}` | {_versions(row)} | {'yes' if row.native else ''} |\n" for row in back]
    return "".join(parts)


def _owner_of_map(framework: Framework) -> Framework:
    """The framework whose operators its models are traced to: the first with the same map."""
    if framework.to_onnx_map is None:
        return framework
    operators = framework.to_onnx_map()
    return next(item for item in (*FRAMEWORKS, framework) if item.to_onnx_map and item.to_onnx_map() is operators)


def _versions(row: Meaning) -> str:
    return ", ".join(str(version) for version in row.versions)


def _show(framework: Framework, to: tuple[OperatorRow, ...], back: tuple[Meaning, ...]) -> None:
    title = f"{framework.title} to ONNX"
    table = Table("operator", "how", "opset", "cases", title=title, title_justify="left", box=None)
    for row in to:
        add(table, row.op, row.about, f">= {row.min_opset}", str(row.cases))
    show(table)
    table = Table("operator", "versions", "native", title=f"ONNX to {framework.title}", title_justify="left", box=None)
    for item in back:
        add(table, item.op, _versions(item), "yes" if item.native else "")
    show(table)
    say(f"{framework.title}: {len(to)} operators to ONNX, {len(back)} ONNX operators from it")
