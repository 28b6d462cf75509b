"""The matrix on the terminal and as one HTML page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.demo.matrix import TARGETS, Cell
from examples.demo.models import Trained

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1d2733 }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .5rem .7rem; vertical-align: top }
th { border-bottom: 2px solid #b9c4d0 } td { border-bottom: 1px solid #dfe5ec }
.pass b { color: #14733b } .fail b { color: #b3261e } .none { color: #6a7683 } small { color: #51606f }
pre { overflow-x: auto; background: #f4f6f8; padding: .8rem } summary { cursor: pointer; padding: .2rem 0 }
@media (prefers-color-scheme: dark) {
  body { background: #14181d; color: #dde4eb } pre { background: #1e242b } td { border-color: #333c46 }
  .pass b { color: #5ecb8a } .fail b { color: #ff8a80 } small, .none { color: #9aa8b5 }
}
"""


def show(rows: Sequence[tuple[Trained, Sequence[Cell]]], console: Console) -> None:
    """Prints the matrix, and under it a reason for every cell that is empty or failed."""
    table = Table("source", *TARGETS, show_lines=True)
    reasons: dict[str, None] = {}
    for trained, cells in rows:
        texts = []
        for cell in cells:
            if cell.verdict == "none":
                texts.append("-")
            elif cell.verdict == "pass":
                texts.append(f"[green]pass[/] {cell.error:.1e}\n{cell.seconds:.2f} s, {cell.latency:.2f} ms")
            else:
                texts.append("[red]FAIL[/]")
            if cell.reason or cell.verdict == "fail":
                reasons[f"{cell.source} to {cell.target}: {cell.reason or cell.details}"] = None
        table.add_row(f"{trained.framework}\n{trained.title}", *texts)
    console.print(table)
    console.print("Each cell: verdict, worst absolute error; conversion time, latency of eight samples.")
    for reason in reasons:
        console.print(reason, markup=False, soft_wrap=True)


def write(rows: Sequence[tuple[Trained, Sequence[Cell]]], path: Path) -> None:
    """Writes the matrix with every comparison in full as a page that needs no other file."""
    head = "".join(f"<th>{target}</th>" for target in TARGETS)
    body = "".join(
        f"<tr><td>{_text(trained.framework)}<br><small>{_text(trained.title)}, accuracy {trained.accuracy:.1%}</small></td>"
        f"{''.join(_cell(cell) for cell in cells)}</tr>"
        for trained, cells in rows
    )
    details = "".join(
        f"<details><summary>{_text(cell.source)} to {cell.target}: {cell.verdict}</summary>"
        f"<pre>{_text(cell.details or cell.reason)}</pre></details>"
        for _, cells in rows
        for cell in cells
    )
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>onnxport demo</title><style>{STYLE}</style>"
        "<h1>onnxport demo</h1><p>Each cell: verdict, worst absolute error against the source over all inputs tried, "
        "conversion time, latency of a call on eight samples.</p>"
        f"<table><tr><th>source</th>{head}</tr>{body}</table><h2>Comparisons</h2>{details}</html>",
        encoding="utf-8",
    )


def _cell(cell: Cell) -> str:
    if cell.verdict == "none":
        return f"<td class=none><small>{_text(cell.reason)}</small></td>"
    figures = f"{cell.error:.1e}<br><small>{cell.seconds:.2f} s, {cell.latency:.2f} ms</small>"
    return f"<td class={cell.verdict}><b>{cell.verdict}</b> {figures if cell.verdict == 'pass' else ''}</td>"


def _text(text: str) -> str:
    return html.escape(text)
