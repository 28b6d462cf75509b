"""What a page shows of a proof's details: the layers, the outputs' values, the nodes around the first that differs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape

from onnxport.validation.comparison import OutputReport
from onnxport.validation.details import Details, Neighbour, Neighbourhood, OperatorError
from onnxport.validation.html_parts import Cell, cells_of_row, chip, counted, frame
from onnxport.validation.html_plots import growth, histogram, scatter
from onnxport.validation.html_style import SORTING
from onnxport.validation.text import percent

_SEPARATOR = re.compile(r"/|::")
_LAYERS = 500  # rows of the table of layers
_OPENED = 40  # of fewer the table is shown at once
_OUTPUTS = 24  # outputs with plots


def around(place: Neighbourhood) -> str:
    """The nodes before and after the one that differs first, from the top down."""
    rows = [("before", "reads", place.before), ("itself", "differs", (place.node,)), ("after", "read by", place.after)]
    shown = "".join(
        f'<li class="{kind}"><span class="soft">{word}</span><ul>{"".join(map(_box, nodes))}</ul></li>'
        for kind, word, nodes in rows
        if nodes
    )
    return f'<ol class="around" aria-label="Neighbours in the ONNX graph">{shown}</ol>'


def _box(node: Neighbour) -> str:
    names = dict.fromkeys(name for name in (node.name, node.value) if name)
    title = node.op or node.name
    rest = " → ".join(name for name in names if name != title)
    return f"<li><b>{escape(title)}</b><code>{escape(rest)}</code></li>"


def depth(details: Details) -> list[str]:
    """The error along the depth."""
    if not details.layers:
        return [f'<p class="soft">Layers: {escape(details.no_layers)}.</p>'] if details.no_layers else []
    about = (
        f"{len(details.layers)} of {counted(details.nodes, 'node')} have a value that the source knows; each ran on the "
        f"source's own values, and in the whole model, on the inputs {details.inputs!r}."
    )
    return ["<h2>Layers</h2>", f'<p class="soft">{escape(about)}</p>', growth(details.layers)]


def values(details: Details, shown: Sequence[tuple[str, OutputReport]]) -> list[str]:
    """The plots of the outputs, each on the set of inputs that is named with it."""
    samples = {(item.inputs, item.output): item for item in details.samples}
    lines: list[str] = []
    for inputs, output in shown:
        sample = samples.get((inputs, output.name))
        if sample is None:
            continue
        allowed = output.figures.allowed if output.figures else 0.0
        same = not sample.counts and not sample.unlike
        drawn = f'<p class="soft">{_all_equal(sample.equal)}</p>'
        if not same:
            bars = histogram(sample, allowed, failed=output.verdict == "fail")
            drawn = f'<div class="plots">{bars}{scatter(sample)}</div>'
        title = f'<h3><code>{escape(output.name)}</code> <span class="soft">on {escape(inputs)}</span></h3>'
        lines.append(f"<section>{title}{drawn}</section>")
    rest = len(lines) - _OUTPUTS
    more = [f'<p class="soft">and {counted(rest, "other output")}</p>'] if rest > 0 else []
    return ["<h2>Values of the outputs</h2>", *lines[:_OUTPUTS], *more] if lines else []


def _all_equal(count: int) -> str:
    return "its one element is equal" if count == 1 else f"all {count} elements are equal"


def layers(details: Details) -> list[str]:
    """The table of layers, which a small script makes sortable."""
    if not details.layers:
        return []
    numbered = list(enumerate(details.layers, start=1))
    if len(numbered) > _LAYERS:
        kept = sorted(numbered, key=lambda item: (not item[1].differs, -item[1].share))[:_LAYERS]
        numbered = sorted(kept, key=lambda item: item[0])
    rest = len(details.layers) - len(numbered)
    more = f'<p class="soft">and {rest} others, which use less; onnxport debug --all lists them</p>' if rest else ""
    headings = ("#", "verdict", "operator", "own error", "allowed", "used", "in the whole", "in the source")
    body = [_layer(place, item) for place, item in numbered]
    opened = " open" if len(body) <= _OPENED else ""
    return [
        "<h2>Table of layers</h2>",
        f"<details{opened}><summary>{counted(len(body), 'layer')}</summary>",
        frame(headings, body, sortable="Each layer on the source's own values, and its value in the whole model"),
        more,
        f"</details><script>{SORTING}</script>",
    ]


def _layer(place: int, item: OperatorError) -> str:
    return cells_of_row(
        [
            Cell("#", str(place), "n", place),
            Cell("verdict", chip("FAIL" if item.differs else "pass"), "", int(item.differs)),
            Cell("operator", f"{escape(item.op)}<br><code>{_breakable(item.node or item.output)}</code>"),
            _number("own error", item.local),
            _number("allowed", item.allowed),
            Cell("used", percent(item.share), "n", item.share),
            _number("in the whole", item.propagated),
            Cell("in the source", "<br>".join(_breakable(text) for text in (item.source_op, item.where) if text)),
        ]
    )


def _breakable(name: str) -> str:
    """A name that breaks at its separators first."""
    return _SEPARATOR.sub(r"\g<0><wbr>", escape(name))


def _number(name: str, value: float) -> Cell:
    return Cell(name, "" if math.isnan(value) else f"{value:.2e}", "n", value)
