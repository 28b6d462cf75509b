"""Two outputs side by side: the figures, and whether they count as equal within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from onnxport.graph.runtimes.kernels import lowest_for_infinity
from onnxport.validation.tolerance import Budget, epsilon, wide

Verdict = Literal["pass", "fail", "unproved"]
NO_ELEMENTS = "no elements: nothing was compared"
RANDOM = "random: the source gives other values each time; only type and shape were compared"
RANDOM_SHAPE = "random: the source gives another shape each time; nothing was compared"
STOPPED = "not decided: the runs that tell what rounding costs the source were stopped; give inputs="
DOUBTFUL = (
    "not decided: its float64 run is far from the source, and no run under one unit in the last place bears it out"
)
ALL_NAN = "NaN on both sides: nothing was compared"
_EXCUSED = "{} elements differ within the margin of the scores"
_BY_TRUTH = "{} elements are infinite, as in the source's float64 run, where the source's own gives something else"
_SATURATED = (
    "{} elements are infinite, as in the source's float64 run, where the source gives the greatest number of its type"
)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """How far two numeric arrays lie apart.

    Attributes:
        max_abs: greatest absolute difference between source and converted.
        where: its index; empty for a scalar.
        source: the source's value there.
        converted: the converted model's value there.
        mean: mean absolute difference.
        p99: its 99th percentile.
        ulp: greatest difference in units of the last place (of the coarser type), over elements that are not near zero (at
            least a thousandth of the output's scale); None where there are none or the type has no last place.
        mismatched: number of elements that differ by more than the budget, or one of which is NaN or infinite.
        total: number of elements.
        cosine: cosine similarity of the flattened arrays; None where one is all zeros.
        error: greatest error against the float64 run; None where there is none.
        allowed: the budget at the element that uses most of it.
        used: the share of its budget that this element takes; above 1 where it fails.
    """

    max_abs: float
    where: tuple[int, ...]
    source: Any
    converted: Any
    mean: float
    p99: float
    ulp: float | None = None
    mismatched: int
    total: int
    cosine: float | None = None
    error: float | None = None
    allowed: float = 0.0
    used: float = 0.0


@dataclass(frozen=True)
class OutputReport:
    """The verdict on one output for one set of inputs.

    Attributes:
        name: the output's name.
        verdict: ``"pass"``, ``"fail"`` or ``"unproved"``: type and shape agree, no value was compared.
        reason: why it failed or is unproved; for a pass what was let through (labels within the score margin).
        dtype: element type of the source's output.
        shape: shape of the source's output.
        figures: the numbers; None where types or shapes differ or the output holds no numbers.
        budget: where the budget came from.
    """

    name: str
    verdict: Verdict
    reason: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    figures: Figures | None = None
    budget: str = ""

    @property
    def size(self) -> tuple[float, float]:
        """How far it is off: the share of the budget that is used, and the greatest difference."""
        return (self.figures.used, self.figures.max_abs) if self.figures else (0.0, 0.0)


def judge(
    name: str,
    source: object,
    converted: object,
    budget: Budget,
    *,
    same_dtype: bool = True,
    exempt: np.ndarray | None = None,
    others: Sequence[np.ndarray] = (),
) -> OutputReport:
    """Compares one output; a sequence, map or absent optional is compared part by part.

    Args:
        name: the output's name.
        source: what the source gives: an array, a list (sequence), a dict (map) or None (absent optional).
        converted: what the converted model gives.
        budget: how far floating-point elements may lie apart; anything else must be equal.
        same_dtype: element types must be equal; else their kinds (float, integer, ...) must.
        exempt: elements that may differ, true where the source itself can't tell (a class label within the score budget).
        others: results of the source in float64 and with inputs and weights off by a few units in the last place: where the
            source jumps, as across a threshold, an element may equal any of them.
    """
    if isinstance(source, (list, tuple, dict)) or source is None:
        return _judge_parts(name, source, converted, budget, same_dtype)
    if converted is None or isinstance(converted, (list, tuple, dict)):
        return OutputReport(name, "fail", f"the source gives a tensor, the converted model {_kind(converted)}")
    a, b = np.asarray(source), np.asarray(converted)
    about: dict[str, Any] = {"dtype": str(a.dtype), "shape": a.shape, "budget": budget.origin}
    a = as_pairs(a, b)
    if a.shape != b.shape:
        return OutputReport(name, "fail", f"shape {list(b.shape)} instead of {list(a.shape)}", **about)
    if not _dtypes_agree(a.dtype, b.dtype, same_dtype):
        return OutputReport(name, "fail", f"type {b.dtype} instead of {a.dtype}", **about)
    believed = others = [item for item in others if item.shape == a.shape]
    if budget.doubtful is not None:  # what the float64 run gives there excuses nothing
        others = [np.where(budget.doubtful, a, item) for item in others]
    if is_floating(a.dtype) and is_floating(b.dtype):
        report = _judge_floats(name, a, b, budget, about, others, _mask(exempt, a))
        if report.verdict == "fail" and budget.believing is not None:
            believing = _judge_floats(name, a, b, budget.believing, about, believed, _mask(exempt, a))
            return replace(report, verdict="unproved", reason=DOUBTFUL) if believing.verdict == "pass" else report
        return report
    if others:
        exempt = _mask(exempt, a) | np.any([_equal(item, b) for item in others], axis=0)
    return _judge_exact(name, a, b, exempt, {**about, "budget": "exact"})


def is_floating(dtype: np.dtype) -> bool:
    """Whether elements are real or complex floating-point numbers, bfloat16 and float8 included.

    >>> is_floating(np.dtype("float16")), is_floating(np.dtype("int8"))
    (True, False)
    """
    return dtype.kind in "fc" or (dtype.kind == "V" and dtype.name.startswith(("bfloat", "float")))


def as_pairs(source: np.ndarray, converted: np.ndarray) -> np.ndarray:
    """Complex numbers as ONNX holds them, real and imaginary part along a last axis, where the other side gives these."""
    pairs = source.dtype.kind == "c" and converted.dtype.kind == "f" and converted.shape == (*source.shape, 2)
    return np.stack([source.real, source.imag], axis=-1) if pairs else source


def _dtypes_agree(source: np.dtype, converted: np.dtype, same: bool) -> bool:
    text = "OUS"
    if source.kind in text or converted.kind in text:
        return source.kind in text and converted.kind in text
    if source.kind == "c" and converted.kind == "f":  # stacked by judge: parts of complex64 are float32
        return True
    if same:
        return source == converted
    groups = ("iu", "b", "c")
    alike = any(source.kind in group and converted.kind in group for group in groups)
    return alike or (is_floating(source) and is_floating(converted))


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    return "a map" if isinstance(value, dict) else "a sequence" if isinstance(value, (list, tuple)) else "a tensor"


def _judge_parts(name: str, source: Any, converted: Any, budget: Budget, same_dtype: bool) -> OutputReport:
    if _kind(source) != _kind(converted):
        return OutputReport(name, "fail", f"the source gives {_kind(source)}, the converted model {_kind(converted)}")
    if source is None:
        return OutputReport(name, "pass", dtype="absent")
    if len(source) != len(converted):
        return OutputReport(name, "fail", f"{len(converted)} elements instead of {len(source)}")
    if isinstance(source, dict):
        if set(source) != set(converted):
            keys = f"keys {sorted(map(str, converted))} instead of {sorted(map(str, source))}"
            return OutputReport(name, "fail", keys)
        pairs = [(f"{name}[{key!r}]", source[key], converted[key]) for key in source]
    else:
        pairs = [(f"{name}[{i}]", a, b) for i, (a, b) in enumerate(zip(source, converted, strict=True))]
    parts = [judge(label, a, b, budget, same_dtype=same_dtype) for label, a, b in pairs]
    return worst_of(name, parts, _kind(source))


def worst_of(name: str, parts: Sequence[OutputReport], kind: str) -> OutputReport:
    """The report on a sequence or map: that of its part to look at first; a part without elements proves nothing."""
    order = ("unproved", "pass", "fail")
    worst = max(
        parts, key=lambda part: (order.index(part.verdict), part.figures.max_abs if part.figures else 0.0), default=None
    )
    if worst is None:
        return OutputReport(name, "unproved", NO_ELEMENTS, dtype=kind)
    reason = f"{worst.name}: {worst.reason}" if worst.reason else ""
    return OutputReport(name, worst.verdict, reason, worst.dtype, worst.shape, worst.figures, worst.budget)


def _judge_exact(
    name: str, a: np.ndarray, b: np.ndarray, exempt: np.ndarray | None, about: dict[str, Any]
) -> OutputReport:
    if not a.size:
        return OutputReport(name, "unproved", NO_ELEMENTS, **about)
    differs, mask = ~_equal(a, b), _mask(exempt, a)
    excused = int((differs & mask).sum())
    differs = differs & ~mask
    count = int(differs.sum())
    # Differences in exact integers; float64 would round those of int64, unsigned subtraction would wrap.
    exact = count and a.dtype.kind in "iu" and a.dtype == b.dtype
    distance = np.maximum(a, b).astype(object) - np.minimum(a, b).astype(object) if exact else differs.astype(np.int64)
    figures = _figures(a, b, np.asarray(distance, np.float64).reshape(-1), int(np.argmax(distance)), count)
    reason = f"{count} of {a.size} elements differ" if count else _EXCUSED.format(excused) if excused else ""
    return OutputReport(name, "fail" if count else "pass", reason, figures=figures, **about)


def _figures(a: np.ndarray, b: np.ndarray, difference: np.ndarray, greatest: int, mismatched: int) -> Figures:
    """The figures that flat differences give, of which that at `greatest` is the greatest."""
    place = np.unravel_index(greatest, a.shape)
    return Figures(
        max_abs=float(difference.max()),
        where=tuple(int(i) for i in place),
        source=_plain(a[place]),
        converted=_plain(b[place]),
        mean=float(difference.mean()),
        p99=float(np.quantile(difference, 0.99, overwrite_input=True)),
        mismatched=mismatched,
        total=a.size,
    )


def _mask(exempt: np.ndarray | None, a: np.ndarray) -> np.ndarray:
    """Which elements may differ, in the shape of the output."""
    if exempt is None or exempt.size != a.size:
        return np.zeros(a.shape, bool)
    return exempt.reshape(a.shape)


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise equality; strings compare by their text, and NaN equals NaN."""
    if a.dtype.kind in "OUS" or b.dtype.kind in "OUS":
        same = np.fromiter((_same_item(x, y) for x, y in zip(a.flat, b.flat, strict=True)), bool, a.size)
        return same.reshape(a.shape)
    return np.asarray(a == b)


def _same_item(x: object, y: object) -> bool:
    if isinstance(x, bytes):
        x = x.decode("utf-8", "surrogateescape")
    if isinstance(y, bytes):
        y = y.decode("utf-8", "surrogateescape")
    if isinstance(x, float) and isinstance(y, float) and x != x and y != y:
        return True
    return bool(x == y)


_BLOCK = 1 << 16  # elements that are compared at once: the comparison takes a dozen arrays of their size


@dataclass(frozen=True)
class _Tally:
    """What the comparison of a block of elements came to."""

    unlike: int  # how many differ in NaN or infinity
    unlike_at: int  # where the first of them lies in the whole output
    beyond: int  # how many lie beyond the budget or are unlike
    excused: int  # how many may differ and do
    saturated: int  # as in `lowest_for_infinity`
    settled: int  # how many are infinite as in the source's float64 run alone: torch's Gelu of infinity is NaN
    all_nan: bool  # all of the source's elements are NaN
    differences: np.ndarray  # absolute, where both sides are finite
    judged: float  # the greatest error that was judged
    use: float  # how much of its budget the worst element takes
    allowed: float  # that budget
    ulp: float | None  # the greatest difference in units of the last place
    products: tuple[float, float, float]  # of both sides scaled, of the source and of the converted with itself


def _judge_floats(
    name: str,
    a: np.ndarray,
    b: np.ndarray,
    budget: Budget,
    about: dict[str, Any],
    others: Sequence[np.ndarray],
    exempt: np.ndarray,
) -> OutputReport:
    if not a.size:
        return OutputReport(name, "unproved", NO_ELEMENTS, **about)
    truth = budget.truth_like(a)
    greatest = _greatest(a)
    top = max(greatest, _greatest(b), float(np.finfo(np.float64).tiny))
    flat = [None if item is None else item.reshape(-1) for item in (a, b, truth, exempt, *others)]
    absolute = np.broadcast_to(budget.absolute, a.shape).reshape(-1)
    tallies = []
    for start in range(0, a.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        pieces = [None if item is None else item[block] for item in flat]
        allowed = Budget(absolute[block], budget.relative, exact=budget.exact)
        tallies.append(_tally(pieces, allowed, top, greatest, start))
    return _report(name, a, b, tallies, truth is not None, about)


def _greatest(values: np.ndarray) -> float:
    """The greatest finite magnitude."""
    blocks = (values.reshape(-1)[start : start + _BLOCK] for start in range(0, values.size, _BLOCK))
    sizes = (np.abs(wide(block)) for block in blocks)
    return max((float(np.max(size, where=np.isfinite(size), initial=0.0)) for size in sizes), default=0.0)


def _tally(pieces: Sequence[Any], budget: Budget, top: float, greatest: float, start: int) -> _Tally:
    a, b, truth, exempt, *others = pieces
    x, y = wide(a), wide(b)
    infinite = ~(np.isfinite(x) | np.isnan(x)) | ~(np.isfinite(y) | np.isnan(y))
    unlike = (np.isnan(x) != np.isnan(y)) | (infinite & (x != y))
    finite = np.isfinite(x) & np.isfinite(y)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        difference = np.where(finite, np.abs(x - y), 0.0)
        judged = difference if truth is None else np.where(finite & np.isfinite(truth), np.abs(y - truth), difference)
        limit = np.broadcast_to(budget.limit(np.where(finite, np.abs(x), 0.0)), judged.shape)
        over = (judged > limit) | np.isnan(judged)
        excused = int((over & exempt).sum())
        for item in others:
            over &= ~(np.abs(y - wide(item)) <= limit)
        shares = np.where(limit > 0, judged / limit, np.where(judged > 0, np.inf, 0.0))
        use = np.nan_to_num(shares, nan=np.inf, posinf=np.inf)
    over &= ~exempt
    saturated = unlike & lowest_for_infinity(x, y, a.dtype, truth)
    lost = np.isnan(x) | (np.isfinite(x) & budget.exact)
    settled = unlike & np.isinf(y) & lost & (False if truth is None else y == truth)
    unlike &= ~(saturated | settled)
    tightest = int(np.argmax(use))
    # Scaled before squaring: float32's greatest values squared and summed are beyond float64 only for huge float64 outputs.
    xs, ys = np.where(finite, x, 0.0) / top, np.where(finite, y, 0.0) / top
    return _Tally(
        int(unlike.sum()),
        start + int(np.argmax(unlike)),
        int((unlike | over).sum()),
        excused,
        int(saturated.sum()),
        int(settled.sum()),
        bool(np.isnan(x).all()),
        difference,
        float(judged.max()),
        float(use[tightest]),
        float(limit[tightest]),
        _ulp(max(epsilon(a.dtype), epsilon(b.dtype)), x, difference, greatest),
        (float(np.real(np.vdot(xs, ys))), float((np.abs(xs) ** 2).sum()), float((np.abs(ys) ** 2).sum())),
    )


def _report(
    name: str, a: np.ndarray, b: np.ndarray, tallies: Sequence[_Tally], has_truth: bool, about: dict[str, Any]
) -> OutputReport:
    """The report on all blocks."""
    difference = np.concatenate([item.differences for item in tallies])
    both, ours, theirs = (sum(item.products[i] for item in tallies) for i in range(3))
    norms = float(np.sqrt(ours) * np.sqrt(theirs))
    error = max(item.judged for item in tallies)
    tightest = max(tallies, key=lambda item: item.use)
    figures = replace(
        _figures(a, b, difference, int(np.argmax(difference)), sum(item.beyond for item in tallies)),
        ulp=max((item.ulp for item in tallies if item.ulp is not None), default=None),
        cosine=both / norms if norms else None,
        error=error if has_truth else None,
        allowed=tightest.allowed,
        used=tightest.use,
    )
    counts = ((_EXCUSED, "excused"), (_SATURATED, "saturated"), (_BY_TRUTH, "settled"))
    excuses = [(text, sum(getattr(item, key) for item in tallies)) for text, key in counts]
    reason = "; ".join(text.format(number) for text, number in excuses if number)
    unlike = sum(item.unlike for item in tallies)
    if unlike:
        first = next(item.unlike_at for item in tallies if item.unlike)
        place = tuple(int(i) for i in np.unravel_index(first, a.shape))
        change = f"at {list(place)} {_plain(a[place])} became {_plain(b[place])}"
        reason = f"{unlike} of {a.size} elements differ in NaN or infinity: {change}"
    elif figures.mismatched:
        kind = "error against float64" if has_truth else "difference"
        # Of the element that lies furthest beyond its budget, which need not be that of the greatest error.
        beyond = figures.used * figures.allowed if 0 < figures.allowed < np.inf and np.isfinite(figures.used) else error
        size = f"{kind} {beyond:.3g}, allowed {figures.allowed:.3g}"
        reason = f"{figures.mismatched} of {a.size} elements beyond the budget: {size}"
    if not figures.mismatched and all(item.all_nan for item in tallies):
        return OutputReport(name, "unproved", ALL_NAN, figures=figures, **about)
    return OutputReport(name, "fail" if figures.mismatched else "pass", reason, figures=figures, **about)


def _ulp(eps: float, x: np.ndarray, difference: np.ndarray, greatest: float) -> float | None:
    magnitude = np.where(np.isfinite(x), np.abs(x), 0.0)
    large = magnitude > max(greatest * 1e-3, np.finfo(np.float64).tiny)
    if not large.any():
        return None
    exponent = np.frexp(magnitude[large])[1] - 1
    return float((difference[large] / np.ldexp(eps, exponent)).max())


def _plain(value: object) -> Any:
    """A NumPy scalar as a Python one, so that it prints short and goes into JSON."""
    if isinstance(value, np.generic):
        value = float(value) if is_floating(value.dtype) and value.dtype.kind != "c" else value.item()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
