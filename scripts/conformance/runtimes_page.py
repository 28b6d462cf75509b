"""The page of files that run: what came of each case in each runtime, and the table of it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

OPSETS = (13, 17, 21, 23, 26)
FRAMEWORKS = ("pytorch", "tensorflow", "keras", "sklearn", "demo")
# The oldest supported onnxruntime, and the newest opset that it is tried at.
OLDEST, OLDEST_OPSET = "1.24", 21
VERDICTS = ("right", "random", "refused", "not loaded", "wrong", "error")


@dataclass(frozen=True)
class Outcome:
    """What became of a case at one opset.

    Attributes:
        framework: the source.
        opset: the opset asked for.
        name: the case.
        verdict: one of `VERDICTS`.
        reason: why, where it is not right.
        notes: what was written for the runtime.
        runtime: the onnxruntime that ran it.
    """

    framework: str
    opset: int
    name: str
    verdict: str
    reason: str = ""
    notes: tuple[str, ...] = ()
    runtime: str = ""


Row = tuple[str, str, int]  # a line of the table: the runtime, the source, the opset
_LINE = re.compile(r"\| (?P<runtime>[\d.]+) \| (?P<source>\w+) \| (?P<opset>\d+) \|")
_EXCEPTION = re.compile(r"- .* of (?P<source>\w+) at opset (?P<opset>\d+), onnxruntime (?P<runtime>[\d.]+): ")


def earlier(page: str, pattern: re.Pattern[str], measured: Collection[Row]) -> Iterator[tuple[Row, str]]:
    """The lines of the page for what the results do not measure anew."""
    for line in page.splitlines():
        if match := pattern.match(line):
            row = (match["runtime"], match["source"], int(match["opset"]))
            if row not in measured:
                yield row, line


def report(outcomes: Sequence[Outcome], page: str = "") -> str:
    """The page: a table of figures and every exception by name; rows of the present `page` stay unless they are measured anew."""
    figures: dict[Row, Counter[str]] = defaultdict(Counter)
    for item in outcomes:
        figures[item.runtime or "refused", item.framework, item.opset][item.verdict] += 1
    refused = {key[1:]: count["refused"] for key, count in figures.items() if key[0] == "refused"}
    measured = {key: count for key, count in figures.items() if key[0] != "refused"}
    rows = dict(earlier(page, _LINE, measured))
    for (runtime, framework, opset), count in measured.items():
        cells = [count["right"], count["random"], refused.get((framework, opset), 0)]
        cells += [count[verdict] for verdict in ("not loaded", "wrong", "error")]
        figures_of_row = " | ".join(map(str, cells))
        rows[runtime, framework, opset] = f"| {runtime} | {framework} | {opset} | {figures_of_row} | {date.today()} |"
    lines = [
        "# Files that run",
        "",
        "Written by `scripts/conformance/runtimes.py`: every entry's cases and the demo's models, converted, saved, opened by",
        "onnxruntime with its default optimisations, run and compared with the source. *right*: loads and gives the source's",
        "numbers; *random*: loads and runs, its numbers are drawn; *refused*: the conversion names what the opset lacks.",
        "",
        f"onnxruntime {OLDEST}, the oldest that is supported, is tried at opsets up to {OLDEST_OPSET}. A row has as many",
        "cases as the map had on its day.",
        "",
        "| onnxruntime | source | opset | right | random | refused | not loaded | wrong | error | measured |",
        "|-|-|-|-|-|-|-|-|-|-|",
    ]
    lines += [rows[key] for key in sorted(rows, key=lambda key: (key[0], FRAMEWORKS.index(key[1]), key[2]))]
    lines += ["", "## Exceptions", ""]
    exceptions = [line for _, line in earlier(page, _EXCEPTION, measured)]
    exceptions += [
        f"- `{item.name}` of {item.framework} at opset {item.opset}, onnxruntime {item.runtime or '-'}: {item.verdict}: "
        f"{item.reason}"
        for item in outcomes
        if item.verdict in ("not loaded", "wrong", "error")
    ]
    lines += exceptions or ["None."]
    return "\n".join([*lines, "", *_written(outcomes, page)]) + "\n"


def _written(outcomes: Sequence[Outcome], page: str) -> list[str]:
    """What was written for onnxruntime, by a run over every source and opset; that of the present page where this one is not."""
    title = "## What was written for onnxruntime"
    tried = {(item.framework, item.opset) for item in outcomes}
    if title in page and not tried >= {(source, opset) for source in FRAMEWORKS for opset in OPSETS}:
        return page[page.index(title) :].rstrip("\n").split("\n")
    counts = Counter(_kind(note) for item in outcomes if item.runtime != OLDEST for note in item.notes)
    return [title, "", "| cases | what |", "|-|-|", *(f"| {count} | {note} |" for note, count in counts.most_common())]


def _kind(note: str) -> str:
    return re.sub(r" x\d+", "", note.removeprefix("for onnxruntime: "))
