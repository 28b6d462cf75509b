"""The page of many models: their verdicts in one table, and what is wrong below it."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from urllib.parse import quote

from onnxport.graph.atomic import atomic_file
from onnxport.validation.html_parts import Cell, cells_of_row, chip, counted, document, frame, prose
from onnxport.validation.matrix import VERDICTS, Entry, rows_of
from onnxport.validation.text import milliseconds, percent


def write_matrix(path: str | os.PathLike[str], entries: Sequence[Entry]) -> None:
    """Writes one page of many models that needs no other file; it links to the pages that lie beside the JSON files."""
    with atomic_file(Path(path)) as file:
        file.write(matrix_page(entries, Path(path).absolute().parent).encode())


def matrix_page(entries: Sequence[Entry], folder: Path) -> str:
    """The page, as it stands in a folder."""
    rows = rows_of(entries)
    columns = list(dict.fromkeys(entry.column for entry in entries))
    worst = max((entry.verdict for entry in entries), key=VERDICTS.index)
    heading = f"{counted(len(rows), 'model')}, {counted(len(columns), 'column')}"
    body = [
        cells_of_row(
            [
                Cell("model", f"<code>{escape(model)}</code>"),
                *(Cell(column, "".join(_cell(item, folder) for item in cells.get(column, ()))) for column in columns),
            ]
        )
        for model, cells in rows.items()
    ]
    return document(
        f"{worst}: {heading}",
        [
            f"<h1>{chip(worst)} {heading}</h1>",
            f'<p class="soft">{escape(summary(entries))}; written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC</p>',
            f'<div class="matrix">{frame(["model", *columns], body)}</div>',
            *_reasons(entries, folder),
        ],
    )


def summary(entries: Sequence[Entry]) -> str:
    """How many verdicts there are of each kind.

    >>> summary([Entry("a", "onnxruntime", "passed", Path("a.json")), Entry("b", "onnxruntime", "failed", Path("b.json"))])
    '1 passed, 1 failed'
    """
    numbers = Counter(entry.verdict for entry in entries)
    return ", ".join(f"{numbers[verdict]} {verdict}" for verdict in VERDICTS if numbers[verdict])


def _cell(entry: Entry, folder: Path) -> str:
    facts = [] if math.isnan(entry.used) else [f"{percent(entry.used)} of the budget"]
    facts = ["over the budget"] if math.isinf(entry.used) else facts
    facts += [] if math.isnan(entry.seconds) else [milliseconds(entry.seconds)]
    below = f'<div class="soft">{prose(", ".join(facts))}</div>' if facts else ""
    return f"<div>{_linked(entry, folder, chip(entry.verdict))}{below}</div>"


def _linked(entry: Entry, folder: Path, inner: str) -> str:
    """A link to the report's page, where there is one."""
    page = entry.page
    if page is None:
        return inner
    target = Path(os.path.relpath(page.absolute(), folder)).as_posix()
    return f'<a href="{escape(quote(target))}">{inner}</a>'


def _reasons(entries: Sequence[Entry], folder: Path) -> list[str]:
    wrong = [entry for entry in entries if entry.verdict != "passed"]
    if not wrong:
        return []
    items = (
        f'<div class="why {"unproved" if entry.verdict == "unproved" else "fail"}">'
        f"<p>{_linked(entry, folder, escape(entry.model))}, {escape(entry.column)}: {prose(entry.reason)}</p></div>"
        for entry in sorted(wrong, key=lambda entry: -VERDICTS.index(entry.verdict))
    )
    return ["<h2>What is not passed</h2>", *items]
