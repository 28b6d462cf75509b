"""A report as one HTML page: no scripts, no other files."""

from __future__ import annotations

import hashlib
import linecache
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from onnxport.validation.comparison import OutputReport
from onnxport.validation.html_style import STYLE
from onnxport.validation.records import Divergence, ProofRecord, SetReport
from onnxport.validation.text import HEADINGS, SHOWN, because, milliseconds, percent, rows

_KINDS = {
    "passed": "pass",
    "failed": "fail",
    "unproved": "unproved",
    "refused": "fail",
    "impossible": "fail",
    **{shown: kind for kind, shown in SHOWN.items()},
}
_NUMBERS = frozenset(HEADINGS[4:])  # the columns whose cells are not broken
_AROUND = 3  # lines of the user's code above and below the one that a node comes from
_PLACE = re.compile(r"(?P<file>[^\s,']+\.py):(?P<line>\d+)$")


@dataclass(frozen=True)
class Repeat:
    """How to get the report again: the command line, and the name and SHA-256 of each model file; empty where unknown."""

    command: str = ""
    files: tuple[tuple[str, str], ...] = ()


def sha256(file: Path) -> str:
    """The SHA-256 of a file's contents."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def page(report: ProofRecord, repeat: Repeat | None = None) -> str:
    """The whole page."""
    return pages([("", report)], repeat)


def pages(reports: Sequence[tuple[str, ProofRecord]], repeat: Repeat | None = None) -> str:
    """One page of several reports, each under its title."""
    verdicts = [report.verdict for _, report in reports]
    worst = next((kind for kind in ("failed", "unproved") if kind in verdicts), "passed")
    first = next(report for _, report in reports if report.verdict == worst)
    title = f"{worst}: {first.converted} against {first.source}"
    shown = [line for name, report in reports for line in _section(name, report)]
    return document(title, [*_overview(worst, reports), *shown, *_repeat(repeat or Repeat(), first)])


def _overview(worst: str, reports: Sequence[tuple[str, ProofRecord]]) -> list[str]:
    """The verdict on several reports together, and which of them has it; nothing for one alone."""
    if len(reports) == 1:
        return []
    names = ", ".join(name for name, report in reports if report.verdict == worst)
    return [f"<h1>{chip(worst)} {escape(names)}</h1>"]


def document(title: str, lines: Iterable[str]) -> str:
    """A page that needs no other file."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>",
            *lines,
            "</main></body></html>",
        ]
    )


def fragment(report: ProofRecord) -> str:
    """The verdict and the table of outputs without the page around them, for a notebook."""
    return "\n".join(
        [f"<h3>{_heading('', report)}</h3>", *_why(report), f'<div style="overflow-x: auto">{_outputs(report)}</div>']
    )


def _section(name: str, report: ProofRecord) -> list[str]:
    return [
        f"<h1>{_heading(name, report)}</h1>",
        f'<p class="soft">{escape(_summary(report))}</p>',
        *_why(report),
        "<h2>Outputs</h2>",
        _outputs(report),
        *_witnesses(report),
        "<h2>Inputs and timings</h2>",
        _table(("set", "inputs", "source", "converted"), [_set_row(item) for item in report.sets]),
        "<details><summary>Every output on every set of inputs</summary>",
        _table(HEADINGS, rows(report)),
        "</details><details><summary>Where the budgets come from</summary>",
        _table(("inputs", "output", "budget"), [(s.name, o.name, o.budget) for s in report.sets for o in s.outputs]),
        "</details>",
        *_notes(report),
    ]


def _heading(name: str, report: ProofRecord) -> str:
    lead = f"{escape(name)}: " if name else ""
    return f"{lead}{chip(report.verdict)} {escape(str(report.converted))} against {escape(str(report.source))}"


def chip(verdict: str) -> str:
    """A verdict in its colours."""
    return f'<span class="chip {_KINDS[verdict]}">{escape(verdict)}</span>'


def _summary(report: ProofRecord) -> str:
    names = {output.name for item in report.sets for output in item.outputs}
    worst = report.worst
    figures = worst.figures if worst is not None else None
    size = (
        f"; up to {percent(figures.used)} of the budget used, greatest difference {figures.max_abs:.2g}"
        if figures
        else ""
    )
    return f"{counted(len(names), 'output')} on {counted(len(report.sets), 'set')} of inputs{size}"


def counted(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _why(report: ProofRecord) -> list[str]:
    """What is wrong, the first divergent node before all."""
    parts = _divergence(report.divergence) if report.divergence is not None else []
    reasons = [f"{item.name}: {item.error}" for item in report.sets if item.error]
    for item in report.sets:
        for output in item.outputs:
            if output.verdict == "fail":
                figures = output.figures
                change = f"{figures.source!r} became {figures.converted!r}" if figures else ""
                values = f"; greatest difference at {list(figures.where)}: {change}" if figures else ""
                reasons.append(f"{item.name}, {output.name}: {output.reason}{values}")
    parts += [f'<div class="why fail"><p>{escape(text)}</p></div>' for text in reasons]
    return parts + [
        f'<div class="why unproved"><p>unproved: {escape(because(item))}</p></div>' for item in report.unproved
    ]


def _divergence(node: Divergence) -> list[str]:
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
        _pairs({name: text for name, text in facts.items() if text}),
        f"<pre>{code}</pre>" if code else "",
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
    shown = []
    for at, text in enumerate(lines[first - 1 : number + _AROUND], start=first):
        line = f"{at:5d}  {escape(text.rstrip())}"
        shown.append(f"<mark>{line}</mark>" if at == number else line)
    return "\n".join(shown)


def _candidates(file: str) -> Iterable[str]:
    """Where a file named relative to the working directory or to its installed package may lie."""
    yield file
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(f"/{file}"):
            yield path


def _outputs(report: ProofRecord) -> str:
    """One row an output: the worst set of those that compared values, where one did."""
    worst: dict[str, tuple[str, OutputReport]] = {}
    for item in report.sets:
        for output in item.outputs:
            seen = worst.get(output.name)
            if seen is None or _rank(output) > _rank(seen[1]):
                worst[output.name] = (item.name, output)
    lines = []
    unproved = dict(report.unproved)
    for name, (inputs, output) in worst.items():
        figures = output.figures
        over = output.verdict == "fail"
        width = 100 if over or figures is None else min(100, 100 * figures.used)
        bar = f'<span class="bar{" over" if over else ""}"><i style="width:{width:.0f}%"></i></span>'
        cells = [
            ("output", f"<code>{escape(name)}</code>", ""),
            ("verdict", chip(SHOWN["unproved" if name in unproved and not over else output.verdict]), ""),
            ("type", escape(f"{output.dtype}{list(output.shape)}"), ""),
            ("max |diff|", f"{figures.max_abs:.2e}" if figures else "", "n"),
            ("allowed", f"{figures.allowed:.2e}" if figures else "", "n"),
            ("used", f"{bar}{_used(figures.used, over)}" if figures else "", "n"),
            ("worst on", escape(inputs), ""),
        ]
        lines.append(cells_of_row(cells))
    headings = ("output", "verdict", "type", "max |diff|", "allowed", "used", "worst on")
    return frame(headings, lines)


def _used(share: float, over: bool) -> str:
    """The share of the budget; of what fails with nothing allowed there is none."""
    return percent(share) if share or not over else "over"


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
        _table(("engine", "verdict", "sets", "loading", "a run"), body),
        *(f'<p class="soft">{escape(f"{item}: {line}")}</p>' for item, line in reasons),
    ]


def _notes(report: ProofRecord) -> list[str]:
    if not report.notes:
        return []
    return ["<h2>Notes</h2><ul>", *(f"<li>{escape(note)}</li>" for note in report.notes), "</ul>"]


def _repeat(repeat: Repeat, report: ProofRecord) -> list[str]:
    files = {f"SHA-256 of {name}": digest for name, digest in repeat.files}
    return [
        "<h2>To repeat it</h2>",
        f"<pre>{escape(repeat.command)}</pre>" if repeat.command else "",
        _pairs({**files, "written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", **report.versions}),
    ]


def _set_row(item: SetReport) -> tuple[str, ...]:
    inputs = ", ".join(f"{name}: {dtype}{list(shape)}" for name, dtype, shape in item.inputs)
    return (item.name, inputs, f"{item.source_seconds * 1e3:.1f} ms", f"{item.converted_seconds * 1e3:.1f} ms")


def _table(headings: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> str:
    lines = []
    for row in body:
        pairs = zip(headings, row, strict=True)
        shown = [
            (
                name,
                chip(text) if text in _KINDS and name == "verdict" else escape(text),
                "n" if name in _NUMBERS else "",
            )
            for name, text in pairs
        ]
        lines.append(cells_of_row(shown))
    return frame(headings, lines)


def cells_of_row(cells: Iterable[tuple[str, str, str]]) -> str:
    """Cells of one row, each one element, which stands beside its label where rows are cards."""
    return "".join(
        f'<td data-label="{escape(name)}"{f" class={kind}" if kind else ""}>{f"<div>{inner}</div>" if inner else ""}</td>'
        for name, inner, kind in cells
    )


def frame(headings: Sequence[str], lines: Iterable[str]) -> str:
    """A table of rows, each the cells that `cells_of_row` gives."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in headings)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _pairs(pairs: dict[str, str]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(k)}</dt><dd>{escape(v)}</dd>' for k, v in pairs.items())}</dl>"
