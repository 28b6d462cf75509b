"""The parts of pages: the frame, verdicts in their colours, tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from onnxport.validation.html_style import STYLE
from onnxport.validation.text import HEADINGS, SHOWN

_KINDS = {
    "passed": "pass",
    "failed": "fail",
    "unproved": "unproved",
    "refused": "fail",
    "impossible": "fail",
    **{shown: kind for kind, shown in SHOWN.items()},
}
_WRITTEN = re.compile(r"(?<![\w.-])-?\d+(\.\d+)?(e[-+]\d+)?( m?s\b)?(?![\w.])")
_NUMBERS = frozenset(HEADINGS[4:])  # the columns whose cells are not broken


class Cell(NamedTuple):
    """One cell: the column's name, what is in it as HTML, its class, and what it is sorted by where that is no text."""

    name: str
    inner: str
    kind: str = ""
    value: float | None = None


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


def chip(verdict: str) -> str:
    """A verdict in its colours."""
    return f'<span class="chip {_KINDS[verdict]}">{escape(verdict)}</span>'


def prose(text: str) -> str:
    """Text in which no number is broken, nor parted from its unit.

    >>> prose("error 2e-06 of net-256 in 3 ms")
    'error <span class="n">2e-06</span> of net-256 in <span class="n">3 ms</span>'
    """
    return _WRITTEN.sub(r'<span class="n">\g<0></span>', escape(text))


def counted(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def table(headings: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> str:
    """A table of texts; those of the columns that hold numbers are not broken."""
    lines = []
    for row in body:
        named = zip(headings, row, strict=True)
        shown = [
            Cell(
                name,
                chip(text) if text in _KINDS and name == "verdict" else escape(text),
                "n" if name in _NUMBERS else "",
            )
            for name, text in named
        ]
        lines.append(cells_of_row(shown))
    return frame(headings, lines)


def cells_of_row(cells: Iterable[Cell]) -> str:
    """Cells of one row, each one element, which stands beside its label where rows are cards."""
    return "".join(
        f'<td data-label="{escape(name)}"{f" class={kind}" if kind else ""}{_value(value)}>'
        f"{f'<div>{inner}</div>' if inner else ''}</td>"
        for name, inner, kind, value in cells
    )


def _value(value: float | None) -> str:
    """What a script sorts by: a number as it reads it."""
    if value is None:
        return ""
    return f' data-value="{"NaN" if math.isnan(value) else "Infinity" if value == math.inf else value}"'


def frame(headings: Sequence[str], lines: Iterable[str], *, sortable: str = "") -> str:
    """A table of rows, each the cells that `cells_of_row` gives; one that can be sorted has a caption, `sortable`."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in headings)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    opening = f'<table class="sortable"><caption>{escape(sortable)}</caption>' if sortable else "<table>"
    return f'<div class="wide">{opening}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def pairs(facts: dict[str, str]) -> str:
    """Names and what they stand for."""
    return f"<dl>{''.join(f'<dt>{escape(k)}</dt><dd>{prose(v)}</dd>' for k, v in facts.items())}</dl>"
