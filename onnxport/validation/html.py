"""A report as one HTML page: no scripts, no other files."""

from __future__ import annotations

from html import escape

from onnxport.validation.records import ProofRecord, SetReport
from onnxport.validation.text import HEADINGS, SHOWN, because, rows

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #c0392b; --good: #1e8449; --open: #b9770e; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.3rem 0.8rem 0.3rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; }
.pass { color: var(--good); font-weight: 600; } .fail { color: var(--bad); font-weight: 600; }
.unproved { color: var(--open); font-weight: 600; } .why.unproved { border-color: var(--open); color: inherit; }
.why { background: var(--soft); padding: 0.6rem 0.9rem; border-left: 3px solid var(--bad); margin: 0.5rem 0; }
.why { overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; } dt { font-weight: 600; } dd { margin: 0; }
"""


def page(report: ProofRecord) -> str:
    """The whole page."""
    title = f"{report.verdict}: {report.converted} against {report.source}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{_verdict(report)}: {escape(str(report.converted))} against {escape(str(report.source))}</h1>",
            *_why(report),
            "<h2>Outputs</h2>",
            _table(HEADINGS, rows(report)),
            "<h2>Inputs and timings</h2>",
            _table(("set", "inputs", "source", "converted"), [_set_row(item) for item in report.sets]),
            "<h2>Budgets</h2>",
            _table(
                ("inputs", "output", "budget"), [(s.name, o.name, o.budget) for s in report.sets for o in s.outputs]
            ),
            *_notes(report),
            "<h2>Versions</h2>",
            _pairs(report.versions),
            "</body></html>",
        ]
    )


def _verdict(report: ProofRecord) -> str:
    kind = {"passed": "pass", "failed": "fail", "unproved": "unproved"}[report.verdict]
    return f'<span class="{kind}">{report.verdict}</span>'


def _why(report: ProofRecord) -> list[str]:
    reasons = [f"{item.name}: {item.error}" for item in report.sets if item.error]
    for item in report.sets:
        for output in item.outputs:
            if output.verdict == "fail":
                figures = output.figures
                change = f"{figures.source!r} became {figures.converted!r}" if figures else ""
                values = f"; greatest difference at {list(figures.where)}: {change}" if figures else ""
                reasons.append(f"{item.name}, {output.name}: {output.reason}{values}")
    if report.divergence is not None:
        reasons.append(str(report.divergence))
    open_ends = [f'<p class="why unproved">unproved: {escape(because(item))}</p>' for item in report.unproved]
    return [*(f'<p class="why">{escape(text)}</p>' for text in reasons), *open_ends]


def _notes(report: ProofRecord) -> list[str]:
    if not report.notes:
        return []
    return ["<h2>Notes</h2><ul>", *(f"<li>{escape(note)}</li>" for note in report.notes), "</ul>"]


def _set_row(item: SetReport) -> tuple[str, ...]:
    inputs = ", ".join(f"{name}: {dtype}{list(shape)}" for name, dtype, shape in item.inputs)
    return (item.name, inputs, f"{item.source_seconds * 1e3:.1f} ms", f"{item.converted_seconds * 1e3:.1f} ms")


def _table(headings: tuple[str, ...], body: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in headings)
    lines = ["".join(f"<td{_MARKS.get(text, '')}>{escape(text)}</td>" for text in row) for row in body]
    trs = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{trs}</tbody></table></div>'


_MARKS = {shown: f' class="{verdict}"' for verdict, shown in SHOWN.items()}  # what sets the cells of verdicts apart


def _pairs(pairs: dict[str, str]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(k)}</dt><dd>{escape(v)}</dd>' for k, v in pairs.items())}</dl>"
