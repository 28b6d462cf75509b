"""Plots of a page, as SVG in the page itself. The drawing is stretched to its place; its words stand beside it and are not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from onnxport.validation.details import OperatorError, Sample

_BLOCKS = 800  # points of a line: of more layers the greatest of neighbours is drawn
_RAIL = 96.0  # where zeros lie, below the powers of ten
_TOP, _BOTTOM = 5.0, 86.0
_LABELS = 5  # along an axis
_BAR, _BESIDE = 8.0, 20.0  # width of the bars beside the scale of a histogram, and where that begins
_REACH = 16  # halves of powers of ten that a histogram shows below the greatest

# What is drawn, in the order of the legend: its class and its name.
Legend = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Label:
    """A word at an axis, at a share of its length from the top or from the left."""

    at: float
    text: str


def figure(
    title: str, drawing: str, alt: str, *, y: Sequence[Label], x: Sequence[Label], x_name: str, legend: Legend = ()
) -> str:
    """A plot with the words around it; `alt` is its content in words."""
    keys = "".join(f'<li><span class="key {kind}"></span>{escape(name)}</li>' for kind, name in legend)
    left = "".join(f'<span style="top:{label.at:.1f}%">{escape(label.text)}</span>' for label in y)
    below = "".join(f'<span{_end(label.at)} style="left:{label.at:.1f}%">{escape(label.text)}</span>' for label in x)
    return (
        f'<figure class="plot"><figcaption>{escape(title)}</figcaption><div class="axes">'
        f'<div class="y" aria-hidden="true">{left}</div>'
        f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label="{escape(alt)}">{drawing}</svg>'
        f'<div class="x" aria-hidden="true">{below}</div></div>'
        f'<p class="soft">{escape(x_name)}</p>{f"<ul class=keys>{keys}</ul>" if keys else ""}</figure>'
    )


def _end(at: float) -> str:
    """The class of a label that would stand out to the left or right."""
    return ' class="first"' if at < 8 else ' class="last"' if at > 92 else ""


def growth(layers: Sequence[OperatorError]) -> str:
    """The errors of layers along the depth: each one's own, what is allowed of that, and that of the value in the whole."""
    numbers = [x for item in layers for x in (item.local, item.allowed, item.propagated) if 0 < x < math.inf]
    scale = _Decades.around(numbers)
    blocks = max(1, math.ceil(len(layers) / _BLOCKS))
    groups = [layers[i : i + blocks] for i in range(0, len(layers), blocks)]
    xs = [2 + 96 * (i + 0.5) / len(groups) for i in range(len(groups))]
    own = [_greatest(item.local for item in group if not item.differs) for group in groups]
    wrong = [_greatest(item.local for item in group if item.differs) for group in groups]
    allowed = [_greatest(item.allowed for item in group) for group in groups]
    whole = [_greatest(item.propagated for item in group) for group in groups]
    drawing = scale.grid() + (
        _line("allowed", xs, [scale.place(x) for x in allowed])
        + _line("whole", xs, [scale.place(x) for x in whole])
        + _dots("own", [(x, scale.place(y)) for x, y in zip(xs, own, strict=True)])
        + _dots("over", [(x, scale.place(y)) for x, y in zip(xs, wrong, strict=True)])
    )
    legend = [
        ("whole", "error in the whole model"),
        ("own", "the layer's own error"),
        ("allowed", "allowed of its own"),
    ]
    count = sum(item.differs for item in layers)
    legend += [("over", "beyond what is allowed")] if count else []
    return figure(
        "Error along the depth",
        drawing,
        _growth_in_words(layers, count),
        y=scale.labels(),
        x=[Label(0, "first layer"), Label(100, f"layer {len(layers)}")],
        x_name="layers in the graph's order; a logarithmic scale",
        legend=legend,
    )


def _growth_in_words(layers: Sequence[OperatorError], count: int) -> str:
    last = next((item.propagated for item in reversed(layers) if math.isfinite(item.propagated)), math.nan)
    worst = max(layers, key=lambda item: (item.differs, item.share))
    return (
        f"Errors of {len(layers)} layers: {count} beyond what is allowed; the one that takes most of it is "
        f"{worst.op} {worst.node or worst.output}, its own error {worst.local:.2g}, allowed {worst.allowed:.2g}; "
        f"the last layer's error in the whole model is {last:.2g}."
    )


def histogram(sample: Sample, allowed: float, *, failed: bool) -> str:
    """How many elements differ by how much, and what is allowed of the one that uses most of its budget.

    Each has a budget of its own: of an output that passed, greater ones may lie beyond that of the others.
    """
    limit = 2 * math.log10(allowed) if 0 < allowed < math.inf else None
    counts = _within_reach(dict(sample.counts), limit)
    total = sample.equal + sample.unlike + sum(counts.values())
    ends = [*counts, *([] if limit is None else [math.floor(limit)])] or [0]
    low, high = min(ends), max(ends) + 1
    steps = range(low - low % 2, high + high % 2)  # whole powers of ten at both ends
    right = 100.0 - (_BESIDE if sample.unlike else 0.0)
    step = (right - _BESIDE) / len(steps)
    bars = [(0.0, _BAR, sample.equal, False)]
    for k in steps:
        over = failed and (limit is None or k >= limit)
        bars.append((_BESIDE + (k - steps.start) * step, step * 0.9, counts.get(k, 0), over))
    bars.append((100 - _BAR, _BAR, sample.unlike, True))
    most = max(count for _, _, count, _ in bars)
    drawing = '<path class="grid" d="M0 100H100M0 50H100M0 0H100"/>'
    for x, width, count, over in bars:
        if count:
            height = max(100 * count / most, 1.5)  # a single element of many is seen too
            place = f'x="{x:.2f}" y="{100 - height:.2f}" width="{width:.2f}" height="{height:.2f}"'
            drawing += f'<rect class="{"over" if over else "own"}" {place}/>'
    if limit is not None:
        drawing += f'<path class="allowed" d="M{_BESIDE + (limit - steps.start) * step:.2f} 0V100"/>'
    powers = [Label(_BESIDE + (k - steps.start) * step, f"1e{k // 2}") for k in range(steps.start, steps.stop + 1, 2)]
    words = [Label(0, "equal"), *_thinned(powers, 4)] + ([Label(100, "NaN")] if sample.unlike else [])
    return figure(
        "Differences",
        drawing,
        f"{sample.equal} of {total} elements are equal"
        + (f", the others differ by 1e{min(counts) / 2:g} to 1e{(max(counts) + 1) / 2:g}" if counts else "")
        + (f", {sample.unlike} are NaN or infinite on one side" if sample.unlike else ""),
        y=[Label(0, _share(most, total)), Label(50, _share(most / 2, total)), Label(100, "0%")],
        x=words,
        x_name="|difference| of an element; a logarithmic scale",
        legend=[("allowed", f"allowed of the element that uses most of it: {allowed:.2g}")]
        if limit is not None
        else [],
    )


def _within_reach(counts: dict[int, int], limit: float | None) -> dict[int, int]:
    """The counts; those of differences far below the greatest, as of values near zero, stand in the lowest place."""
    if not counts:
        return {}
    top = max([*counts, *([] if limit is None else [math.floor(limit)])])
    near: dict[int, int] = {}
    for k, count in counts.items():
        place = max(k, top - _REACH)
        near[place] = near.get(place, 0) + count
    return near


def _share(count: float, total: int) -> str:
    return f"{100 * count / total:.3g}%"


def scatter(sample: Sample) -> str:
    """The converted model's values against the source's: right ones lie on the diagonal."""
    values = [x for point in sample.points for x in point]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    low, high = (low, high) if high > low else (low - 1, high + 1)
    spread = high - low if math.isfinite(high - low) else math.inf

    def place(x: float) -> float:
        return 4 + 92 * ((x - low) / spread if spread < math.inf else (x / 2 - low / 2) / (high / 2 - low / 2))

    dots = [(place(ours), 100 - place(theirs)) for ours, theirs in sample.points]
    ends = [_short(low), _short(high)]
    return figure(
        "Values",
        '<path class="allowed" d="M0 100L100 0"/>' + _dots("own", dots),
        f"{len(dots)} values of the converted model against the source's, from {ends[0]} to {ends[1]}; "
        "equal ones lie on the diagonal",
        y=[Label(4, ends[1]), Label(96, ends[0])],
        x=[Label(0, ends[0]), Label(100, ends[1])],
        x_name="the source's value; upwards the converted model's",
    )


def _short(value: float) -> str:
    return f"{value:.3g}"


@dataclass(frozen=True)
class _Decades:
    """A logarithmic axis of whole powers of ten, from the bottom up; zeros lie on a rail below."""

    low: int
    high: int

    @classmethod
    def around(cls, numbers: Sequence[float]) -> _Decades:
        if not numbers:
            return cls(-8, 0)
        low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
        return cls(low, max(high, low + 1))

    def place(self, value: float) -> float:
        """Where a number lies, from the top; NaN for what is none."""
        if math.isnan(value):
            return math.nan
        if value == 0:
            return _RAIL
        if math.isinf(value):
            return 1.0
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return _BOTTOM - (_BOTTOM - _TOP) * share

    def labels(self) -> list[Label]:
        powers = _thinned([Label(self.place(10.0**k), f"1e{k}") for k in range(self.low, self.high + 1)], _LABELS)
        return [*powers, Label(_RAIL, "0")]

    def grid(self) -> str:
        lines = "".join(f"M0 {label.at:.1f}H100" for label in self.labels())
        return f'<path class="grid" d="{lines}"/>'


def _thinned(labels: Sequence[Label], most: int) -> list[Label]:
    """At most so many of the labels, evenly, the first among them."""
    step = max(1, math.ceil((len(labels) - 1) / (most - 1)))
    return list(labels[::step])


def _greatest(values: Iterable[float]) -> float:
    return max((x for x in values if not math.isnan(x)), default=math.nan)


def _line(kind: str, xs: Sequence[float], ys: Sequence[float]) -> str:
    places = [(x, y) for x, y in zip(xs, ys, strict=True) if not math.isnan(y)]
    path = "L".join(f"{x:.2f} {y:.2f}" for x, y in places)
    return f'<path class="{kind}" d="M{path}"/>' if len(places) > 1 else _dots(kind, places)


def _dots(kind: str, places: Iterable[tuple[float, float]]) -> str:
    """Round dots, whatever the drawing is stretched to: lines of no length with round ends."""
    path = "".join(f"M{x:.2f} {y:.2f}h.01" for x, y in places if not (math.isnan(x) or math.isnan(y)))
    return f'<path class="dots {kind}" d="{path}"/>' if path else ""
