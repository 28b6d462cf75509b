"""The judgement on a random draw: converted and run beside scikit-learn, it is right, refused or wrong."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scripts.conformance.random_data import Impossible, fitted
from scripts.conformance.random_draws import Drawn
from scripts.conformance.random_rounding import Source, gaps, outputs_of
from scripts.conformance.random_ties import Ties


@dataclass
class Outcome:
    """How a draw ended: ``right``, ``refused``, ``wrong`` or ``crashed``, with the method, a reason and what was forgiven."""

    verdict: str
    method: str = ""
    reason: str = ""
    forgiven: list[str] = field(default_factory=list)


def difference(
    source: Source, method: str, index: int, expected: np.ndarray, got: np.ndarray, forgiven: list[str]
) -> str:
    """What is wrong with a result; nothing where it is right."""
    if expected.shape != got.shape:
        return f"shape {got.shape} instead of {expected.shape}"
    labels = method == "predict" and source.drawn.task == "classes"  # which can be floating numbers
    if expected.dtype.kind in "OUSib" or labels:
        if got.dtype.kind != expected.dtype.kind and not {got.dtype.kind, expected.dtype.kind} <= set("OUS"):
            return f"{got.dtype} instead of {expected.dtype}"
        return _labels(source, method, index, expected, got, forgiven)
    if got.dtype != expected.dtype:
        return f"{got.dtype} instead of {expected.dtype}"
    return _numbers(source, method, index, expected, got, forgiven)


def _labels(source: Source, method: str, index: int, expected: Any, got: Any, forgiven: list[str]) -> str:
    other = _by_row(np.asarray(expected.astype(str) != got.astype(str)))
    if not other.any():
        return ""
    behind = None
    if method == "predict" and expected.ndim == 1:
        behind = source.behind(got)
        if behind is not None:
            close = behind[0] <= behind[1] * (1e-12 if source.drawn.dtype != "float32" else 1e-6)
            if not (other & ~close).any():
                forgiven.append(f"label within rounding: {method}")
                return ""
            other &= ~close
    if source.drawn.dtype == "float32":
        wide = source.widened(method, index)
        if wide is not None:  # where float32 alone changes scikit-learn's label the row is not decided
            other &= _by_row(wide.astype(str) == expected.astype(str))
        if not other.any():
            forgiven.append(f"label as in float64: {method}")
            return ""
    if not source.drawn.exact:
        near = source.nearby(method, index)
        for one in near:
            other &= _by_row(one.astype(str) != got.astype(str))
        if other.any() and near:  # of many labels one may not be met, but where they change so often none is decided
            other &= np.mean([_by_row(one.astype(str) != expected.astype(str)) for one in near], axis=0) < 0.2
        if other.any() and near and method == "predict" and behind is not None:
            other &= behind[0] > 8 * source.spread_of_scores()
        if not other.any():
            forgiven.append(f"label of a row beside it within rounding: {method}")
            return ""
    place = int(np.flatnonzero(other)[0])
    return f"{other.sum()} of {len(expected)} labels differ, row {place}: {got[place]!r} instead of {expected[place]!r}"


def _by_row(x: np.ndarray) -> np.ndarray:
    return np.asarray(x.reshape(len(x), -1).any(axis=1))


def _numbers(source: Source, method: str, index: int, expected: Any, got: Any, forgiven: list[str]) -> str:
    finite = np.isfinite(expected)
    scale = float(np.max(np.abs(expected[finite].astype(np.float64)), initial=0.0))
    if method == "decision_function":  # a sum less an intercept: both may be greater than what is left
        scale = max(scale, source.intercept())
    limit = 1e-9 * scale
    gap = gaps(expected, got)
    if (gap <= limit).all():
        return ""
    if method == "transform" and (reach := source.reach()):  # roots of differences of squares, in float64
        e, g = expected.astype(np.float64), got.astype(np.float64)
        if (np.abs(e * e - g * g) <= 1e-14 * reach**2 + 8 * np.finfo(expected.dtype).eps * e * e).all():
            return ""
    narrow = source.drawn.dtype == "float32"
    spread = np.zeros(len(gap))
    if narrow:
        wide = source.widened(method, index)
        wide = expected if wide is None else wide
        spread = gaps(expected, wide)
        if expected.dtype == np.float32 or spread.max() > 1e-10 * scale:
            limit = max(limit, 4e-7 * scale)  # a few units in the last place of float32
        if _within(gap, spread, limit) or _within(gaps(wide, got), spread, limit):
            forgiven.append(f"float32: {method} {gap.max():.3g} of {scale:.3g}, spread {spread.max():.3g}")
            return ""
    elif expected.dtype == np.float32:
        limit = 4e-7 * scale
        if (gap <= limit).all():
            return ""
    if not source.drawn.exact:
        for near in source.nearby(method, index):
            spread = np.maximum(spread, gaps(expected, near))
        if _within(gap, spread, limit):
            forgiven.append(f"ill-conditioned: {method} {gap.max():.3g} of {scale:.3g}, spread {spread.max():.3g}")
            return ""
    place = int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))
    return f"off by {gap[place]:.3g} of {scale:.3g} in row {place} ({got[place]} instead of {expected[place]})"


def _within(gap: np.ndarray, spread: np.ndarray, limit: float) -> bool:
    """Whether scikit-learn's own spread, row by row or of most rows, explains the gaps, eightfold."""
    usual = float(np.quantile(np.where(np.isfinite(spread), spread, 0.0), 0.9))
    return bool((gap <= 8 * np.maximum(spread, usual) + limit).all())


def judged(drawn: Drawn) -> Outcome:
    """Fits, converts, runs and compares.

    Raises:
        Impossible: scikit-learn itself can't.
    """
    import onnxport

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        source = Source(*fitted(drawn), drawn)
        expected = _asked(source)
        refusal = None
        groups = [list(expected)]
        forgiven: list[str] = []
        while groups:
            methods = groups.pop(0)
            try:
                converted = onnxport.convert(
                    source.model, inputs=source.rows, methods=methods, validate=False, target_opset=drawn.opset
                )
            except onnxport.UnsupportedOperator as error:
                refusal = Outcome("refused", methods[0], str(error))
                groups += [[method] for method in methods] if len(methods) > 1 else []
                continue
            except Exception as error:
                return Outcome("crashed", ", ".join(methods), f"{type(error).__name__}: {error}")
            try:
                got = converted(source.rows)
            except Exception as error:
                return Outcome("crashed", ", ".join(methods), f"at run time: {type(error).__name__}: {error}")
            results = iter(got if isinstance(got, tuple) else (got,))
            for method in methods:
                for index, one in enumerate(expected[method]):
                    if reason := _wrong(source, method, index, one, np.asarray(next(results)), forgiven):
                        return Outcome("wrong", method, reason)
        return refusal if refusal is not None else Outcome("right", forgiven=forgiven)


def _asked(source: Source) -> dict[str, list[np.ndarray]]:
    """What scikit-learn gives, by method; which rows' neighbours only the order decides is kept in the source.

    Raises:
        Impossible: it gives nothing.
    """
    close = 1e-6 if source.drawn.dtype == "float32" else 1e-12
    expected: dict[str, list[np.ndarray]] = {}
    why = "no method"
    for method in source.methods():
        try:
            with Ties(len(source.rows), close=close, within=method == "kneighbors") as ties:
                expected[method] = outputs_of(source.model, method, source.rows)
            source.tied[method] = ties.rows
        except Exception as error:
            why = f"{method}: {type(error).__name__}: {error}"
    if not expected:
        raise Impossible(why)
    return expected


def _wrong(source: Source, method: str, index: int, expected: np.ndarray, got: np.ndarray, forgiven: list[str]) -> str:
    """What is wrong with a result in the rows that the data decide; nothing where it is right."""
    reason = difference(source, method, index, expected, got, forgiven)
    if method == "predict_proba" and not reason:  # a logarithm would show such a row's probabilities once more
        limit = 4e-7 if source.drawn.dtype == "float32" else 1e-9
        source.undecided[index] = gaps(expected, got) > limit
    nothing = np.zeros(len(expected), bool)
    tied = source.tied[method] if (method, index) != ("kneighbors", 0) else nothing
    undecided = source.undecided.get(index, nothing) if method == "predict_log_proba" else nothing
    for name, rows in (("equally near neighbours", tied), ("undecided probabilities", undecided)):
        if reason and rows.any() and expected.shape == got.shape:
            mask = rows.reshape(-1, *[1] * (expected.ndim - 1))
            decided = np.where(mask, got, expected).astype(expected.dtype)
            reason = difference(source, method, index, decided, got, forgiven)
            forgiven += [] if reason else [f"{name}: {method}"]
    comparable = expected.shape == got.shape and expected.dtype == got.dtype
    if reason and comparable and source.decided_by_errors(method, index, expected):
        forgiven.append(f"columns of rounding errors: {method}")
        return ""
    return reason
