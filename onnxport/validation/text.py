"""A report as lines of text, and the table that its page shows too."""

from __future__ import annotations

import math

from onnxport.validation.comparison import OutputReport
from onnxport.validation.records import ProofRecord, WitnessRecord

SHOWN = {"pass": "pass", "fail": "FAIL", "unproved": "unproved"}
HEADINGS = (
    "inputs",
    "output",
    "verdict",
    "type",
    "max |diff|",
    "budget used",
    "ulp",
    "mean",
    "p99",
    "cosine",
    "differ",
)


def rows(report: ProofRecord) -> list[tuple[str, ...]]:
    """The table of the report, one row an output and set, under `HEADINGS`."""
    result: list[tuple[str, ...]] = []
    for item in report.sets:
        for output in item.outputs:
            figures = output.figures
            numbers = [""] * 7
            if figures:
                ulp = "" if figures.ulp is None else f"{figures.ulp:.1f}"
                cosine = "" if figures.cosine is None else f"{figures.cosine:.6f}"
                numbers = [f"{figures.max_abs:.2e}", budget_used(output), ulp]
                numbers += [f"{figures.mean:.1e}", f"{figures.p99:.1e}", cosine]
                numbers.append(f"{figures.mismatched}/{figures.total}")
            result.append((item.name, output.name, SHOWN[output.verdict], type_of(output), *numbers))
    return result


def type_of(output: OutputReport) -> str:
    """Element type and shape; NumPy's types of text are strings, whatever their length."""
    return f"{'string' if output.dtype.startswith(('<U', '|S')) else output.dtype}{list(output.shape)}"


def budget_used(output: OutputReport) -> str:
    """The greatest share of its budget that an element takes, and that budget: the greatest difference may lie elsewhere."""
    figures = output.figures
    if figures is None:
        return ""
    if output.verdict == "fail" and not figures.used:
        return "over"  # nothing is allowed
    return f"{percent(figures.used)} of {figures.allowed:.1e}" if figures.allowed else percent(figures.used)


def percent(share: float) -> str:
    """A share of the budget, in three characters or as a multiple; "over" where nothing was allowed."""
    if math.isinf(share):
        return "over"
    return f"{100 * share:.0f}%" if share < 10 else f"{share:.0f}x" if share < 1e5 else f"{share:.0e}x"


TITLES: dict[str, str] = {"passed": "passed", "failed": "FAILED", "unproved": "UNPROVED", "refused": "REFUSED"}


def because(item: tuple[str, str]) -> str:
    """What is unproved and why, in one line."""
    name, reason = item
    return f"{name}: {reason}" if name else reason


def lines(report: ProofRecord) -> list[str]:
    """The report as lines of plain text: a heading, the table, and the reasons for single outputs."""
    alone = ", on one set of inputs alone" if report.passed and len(report.sets) == 1 else ""
    result = [f"{TITLES[report.verdict]}{alone}: {report.converted} against {report.source}"]
    table = [HEADINGS, *rows(report)]
    widths = [max(len(row[i]) for row in table) for i in range(len(HEADINGS))]
    cells = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in table)
    result += ["  " + "  ".join(row).rstrip() for row in cells]
    for item in report.sets:
        if item.error:
            result.append(f"  {item.name}: {item.error}")
        for output in item.outputs:
            if output.reason:
                result.append(f"  {item.name}, {output.name}: {output.reason}")
            if output.verdict == "fail" and output.figures:
                figures = output.figures
                change = f"{figures.source!r} became {figures.converted!r}"
                result.append(f"    at {list(figures.where)}: {change}; budget: {output.budget}")
    result += [f"  unproved: {because(item)}" for item in report.unproved]
    if report.divergence is not None:
        result.append(f"  {report.divergence}")
    result += [f"  note: {note}" for note in report.notes]
    for record in report.witnesses:
        result.append(f"  witness {record}: {TITLES[record.verdict]}{witness_summary(record)}")
        result += [f"    {line}" for line in (*record.reasons, *(f"note: {note}" for note in record.notes))]
    return result


def witness_summary(record: WitnessRecord) -> str:
    """On how much of what a witness was judged, and its times; empty where it does not load the file."""
    if record.refused:
        return ""
    number = len(record.sets)
    latency = "" if record.latency is None else f", a run {milliseconds(record.latency)}"
    return (
        f" on {number} set{'' if number == 1 else 's'} of inputs; loading {milliseconds(record.load_seconds)}{latency}"
    )


def milliseconds(seconds: float) -> str:
    """Seconds in thousandths, to three digits."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.1f} s"
