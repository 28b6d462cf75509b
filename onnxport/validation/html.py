"""A report as one HTML page that needs no other file."""

from __future__ import annotations

import hashlib
import linecache
import math
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from onnxport.validation.comparison import OutputReport
from onnxport.validation.html_details import around, depth, layers, values
from onnxport.validation.html_parts import Cell, cells_of_row, chip, counted, document, frame, pairs, prose, table
from onnxport.validation.html_style import NOTEBOOK_STYLE
from onnxport.validation.records import Divergence, ProofRecord, SetReport
from onnxport.validation.text import HEADINGS, SHOWN, because, budget_used, milliseconds, percent, rows, type_of

_AROUND = 3  # lines of the user's code above and below the one that a node comes from
_REASONS = 4  # boxes at the top of a page
_HEADING = re.compile(r"<(/?)h([1-4])>")
_PLACE = re.compile(r"(?P<file>[^\s,']+\.py):(?P<line>\d+)$")


@dataclass(frozen=True)
class Repeat:
    """How to get the report again: the command line, and each file of the models; empty where unknown."""

    command: str = ""
    files: tuple[ModelFile, ...] = ()


@dataclass(frozen=True)
class ModelFile:
    """A file that a report is about."""

    name: str
    size: int  # in bytes
    sha256: str

    @classmethod
    def of(cls, file: Path) -> ModelFile:
        """The facts about a file's contents."""
        with open(file, "rb") as stream:
            return cls(file.name, file.stat().st_size, hashlib.file_digest(stream, "sha256").hexdigest())


def page(report: ProofRecord, repeat: Repeat | None = None) -> str:
    """The whole page."""
    return pages([("", report)], repeat)


def pages(reports: Sequence[tuple[str, ProofRecord]], repeat: Repeat | None = None) -> str:
    """One page of several reports, each under its title."""
    verdicts = [report.verdict for _, report in reports]
    worst = next((kind for kind in ("failed", "unproved") if kind in verdicts), "passed")
    first = next(report for _, report in reports if report.verdict == worst)
    title = f"{worst}: {first.converted} against {first.source}"
    # A heading stands one level below what it belongs to: below the verdict on several reports that of each.
    down = int(len(reports) > 1)
    shown = [_lowered(line, down) for name, report in reports for line in _section(name, report)]
    return document(title, [*_overview(worst, reports), *shown, *_repeat(repeat or Repeat(), first)])


def _overview(worst: str, reports: Sequence[tuple[str, ProofRecord]]) -> list[str]:
    """The verdict on several reports together, and which of them has it; nothing for one alone."""
    if len(reports) == 1:
        return []
    names = ", ".join(name for name, report in reports if report.verdict == worst)
    return [f"<h1>{chip(worst)} {escape(names)}</h1>"]


def fragment(report: ProofRecord) -> str:
    """The verdict and the table of outputs without the page around them, for a notebook."""
    return "\n".join(
        [
            f'<div class="onnxport-report"><style>{NOTEBOOK_STYLE}</style>',
            f"<h3>{_heading('', report)}</h3>",
            *(_lowered(line, 2) for line in _why(report)),
            f"{_outputs(report)}</div>",
        ]
    )


def _lowered(line: str, levels: int) -> str:
    """A line whose headings are so many levels lower; what users wrote is escaped and holds none."""
    return _HEADING.sub(lambda match: f"<{match[1]}h{int(match[2]) + levels}>", line)


def _section(name: str, report: ProofRecord) -> list[str]:
    return [
        f"<h1>{_heading(name, report)}</h1>",
        f'<p class="soft">{prose(_summary(report))}</p>',
        *_why(report),
        "<h2>Outputs</h2>",
        _outputs(report),
        *_of_details(report),
        *_witnesses(report),
        "<h2>Inputs and timings</h2>",
        *_latency(report),
        table(("set", "inputs", "source", "converted"), [_set_row(item) for item in report.sets]),
        "<details><summary>Every output on every set of inputs</summary>",
        table(HEADINGS, rows(report)),
        "</details><details><summary>Where the budgets come from</summary>",
        table(("inputs", "output", "budget"), [(s.name, o.name, o.budget) for s in report.sets for o in s.outputs]),
        "</details>",
        *_notes(report),
    ]


def _of_details(report: ProofRecord) -> list[str]:
    """The error along the depth, the plots of the outputs, the table of layers; nothing where none were asked for."""
    if report.details is None:
        return []
    worst = list(_worst_of_each(report).values())
    return [*depth(report.details), *values(report.details, worst), *layers(report.details)]


def _latency(report: ProofRecord) -> list[str]:
    """The usual time of a run and the size of the graph; of the sets below each side ran once."""
    details = report.details
    if details is None or details.latency is None:
        return []
    source, converted = details.latency
    nodes = {"graph": f"{counted(details.nodes, 'node')}, {size(details.weights)} of weights"} if details.nodes else {}
    return [
        pairs(
            {
                "a run of the source": f"{milliseconds(source)} on {details.inputs!r}, the median of several",
                "a run of the converted model": milliseconds(converted),
                **nodes,
            }
        )
    ]


def size(number: int) -> str:
    """A number of bytes.

    >>> size(12), size(2_500_000)
    ('12 bytes', '2.5 MB')
    """
    for power, unit in ((9, "GB"), (6, "MB"), (3, "kB")):
        if number >= 10**power:
            return f"{number / 10**power:.3g} {unit}"
    return counted(number, "byte")


def _heading(name: str, report: ProofRecord) -> str:
    lead = f"{escape(name)}: " if name else ""
    return f"{lead}{chip(report.verdict)} {escape(str(report.converted))} against {escape(str(report.source))}"


def _summary(report: ProofRecord) -> str:
    names = {output.name for item in report.sets for output in item.outputs}
    worst = report.worst
    figures = worst.figures if worst is not None else None
    distance = ""
    if figures is not None:
        share = f"up to {percent(figures.used)} of the budget used, " if math.isfinite(figures.used) else ""
        distance = f"; {share}greatest difference {figures.max_abs:.2g}"
    return f"{counted(len(names), 'output')} on {counted(len(report.sets), 'set')} of inputs{distance}"


def _why(report: ProofRecord) -> list[str]:
    """What is wrong, the first divergent node before all."""
    place = report.details.around if report.details is not None else None
    drawn = around(place) if place is not None else ""
    parts = _divergence(report.divergence, drawn) if report.divergence is not None else []
    reasons = [f"{item.name}: {item.error}" for item in report.sets if item.error]
    for item in report.sets:
        for output in item.outputs:
            if output.verdict == "fail":
                figures = output.figures
                change = f"{figures.source!r} became {figures.converted!r}" if figures else ""
                values = f"; greatest difference at {list(figures.where)}: {change}" if figures else ""
                reasons.append(f"{item.name}, {output.name}: {output.reason}{values}")
    unproved = [f"unproved: {because(item)}" for item in report.unproved]
    return [*parts, *_reasons(reasons, "fail"), *_reasons(unproved, "unproved")]


def _reasons(texts: Sequence[str], kind: str) -> list[str]:
    """A box for each of the first reasons; the others are one click away, so that the tables stay near."""
    boxes = [f'<div class="why {kind}"><p>{prose(text)}</p></div>' for text in texts]
    if len(boxes) <= _REASONS:
        return boxes
    more = f"<summary>{counted(len(boxes) - _REASONS + 1, 'other reason')}</summary>"
    return [*boxes[: _REASONS - 1], f"<details>{more}", *boxes[_REASONS - 1 :], "</details>"]


def _divergence(node: Divergence, drawn: str) -> list[str]:
    facts = {
        "operator": f"{node.op} {node.node!r}" if node.node else node.op,
        "written for": node.source_op,
        "in the source": node.where,
        "value": node.output,
        "local error": f"{node.error:.3g}, allowed {node.allowed:.3g}, fed with the source's own values",
    }
    code = excerpt(node.where)
    return [
        '<section class="why fail"><h2>First divergent node</h2>',
        pairs({name: text for name, text in facts.items() if text}),
        f'<pre tabindex="0">{code}</pre>' if code else "",
        drawn,
        "</section>",
    ]


def excerpt(where: str) -> str:
    """The lines of the user's code around a place, the one that is meant marked, as HTML; empty where the file is not at hand."""
    place = _PLACE.search(where)
    if place is None:
        return ""
    number = int(place["line"])
    lines = next((read for file in _candidates(place["file"]) if (read := linecache.getlines(file))), [])
    if not 0 < number <= len(lines):
        return ""
    first = max(1, number - _AROUND)
    code = textwrap.dedent("".join(lines[first - 1 : number + _AROUND])).splitlines()
    shown = []
    for at, text in enumerate(code, start=first):
        line = f"{at:{len(str(number + _AROUND))}d}  {escape(text.rstrip())}"
        shown.append(f"<mark>{line}</mark>" if at == number else line)
    return "\n".join(shown)


def _candidates(file: str) -> Iterable[str]:
    """Where a file named relative to the working directory or to its installed package may lie."""
    yield file
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(f"/{file}"):
            yield path


def _worst_of_each(report: ProofRecord) -> dict[str, tuple[str, OutputReport]]:
    """For each output the worst set of those that compared values, where one did, and the verdict there."""
    worst: dict[str, tuple[str, OutputReport]] = {}
    for item in report.sets:
        for output in item.outputs:
            seen = worst.get(output.name)
            if seen is None or _rank(output) > _rank(seen[1]):
                worst[output.name] = (item.name, output)
    return worst


def _outputs(report: ProofRecord) -> str:
    """One row an output."""
    lines = []
    unproved = dict(report.unproved)
    for name, (inputs, output) in _worst_of_each(report).items():
        figures = output.figures
        over = output.verdict == "fail"
        width = 100 if over or figures is None else min(100, 100 * figures.used)
        bar = f'<span class="bar{" over" if over else ""}"><i style="width:{width:.0f}%"></i></span>'
        cells = [
            Cell("output", f"<code>{escape(name)}</code>"),
            Cell("verdict", chip(SHOWN["unproved" if name in unproved and not over else output.verdict])),
            Cell("type", escape(type_of(output))),
            Cell("max |diff|", f"{figures.max_abs:.2e}" if figures else "", "n"),
            Cell("budget used", f"{bar}{prose(budget_used(output))}" if figures else ""),
            Cell("worst on", escape(inputs)),
        ]
        lines.append(cells_of_row(cells))
    headings = ("output", "verdict", "type", "max |diff|", "budget used", "worst on")
    return frame(headings, lines)


def _rank(output: OutputReport) -> tuple[bool, bool, float, float]:
    return output.verdict == "fail", output.verdict == "pass", *output.size


def _witnesses(report: ProofRecord) -> list[str]:
    """The verdicts of other engines on the converted file, which are none of the proof's."""
    if not report.witnesses:
        return []
    body = [
        (
            str(item),
            item.verdict,
            str(len(item.sets)),
            "" if item.refused else milliseconds(item.load_seconds),
            "" if item.latency is None else milliseconds(item.latency),
        )
        for item in report.witnesses
    ]
    reasons = [(item, line) for item in report.witnesses for line in item.reasons]
    reasons += [(item, f"note: {note}") for item in report.witnesses for note in item.notes]
    return [
        "<h2>Other engines</h2>",
        table(("engine", "verdict", "sets", "loading", "a run"), body),
        *(f'<p class="soft">{escape(f"{item}: {line}")}</p>' for item, line in reasons),
    ]


def _notes(report: ProofRecord) -> list[str]:
    if not report.notes:
        return []
    return ["<h2>Notes</h2><ul>", *(f"<li>{escape(note)}</li>" for note in report.notes), "</ul>"]


def _repeat(repeat: Repeat, report: ProofRecord) -> list[str]:
    files = {item.name: f"{size(item.size)}, SHA-256 {item.sha256}" for item in repeat.files}
    return [
        "<h2>To repeat it</h2>",
        f'<pre tabindex="0">{escape(repeat.command)}</pre>' if repeat.command else "",
        pairs({**files, "written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", **report.versions}),
    ]


def _set_row(item: SetReport) -> tuple[str, ...]:
    inputs = ", ".join(f"{name}: {dtype}{list(shape)}" for name, dtype, shape in item.inputs)
    return (item.name, inputs, f"{item.source_seconds * 1e3:.1f} ms", f"{item.converted_seconds * 1e3:.1f} ms")
