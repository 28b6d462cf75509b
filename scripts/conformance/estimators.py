"""Every estimator, configuration and inference method of scikit-learn, in both precisions: ours and the peer's.

    python -m scripts.conformance.estimators [--match REGEX] [--rows 200] [--verbose]
    PEER_PYTHON -m scripts.conformance.estimators --peer      (an environment with skl2onnx)
    python -m scripts.conformance.estimators --report         writes docs/conformance/sklearn.md

Expected values are scikit-learn's own on fresh rows. A case is right where shape and kind agree, labels and integers are equal,
and numbers lie within 1e-9 (float64 rows) or 1e-4 (float32 rows), relative to the greatest of them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from scripts.conformance import workers
from scripts.conformance.sklearn_cases import METHODS, Configured, configured

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "conformance" / "sklearn.md"
FIGURES = ROOT / "build" / "conformance"
SECONDS = 60
RTOL = {"float64": 1e-9, "float32": 1e-4}


@dataclass
class Outcome:
    """How a case ended: ``right``, ``wrong``, ``refused``, ``failed`` (at run time), or ``source``: scikit-learn itself can't."""

    estimator: str
    options: str
    method: str
    dtype: str
    verdict: str
    reason: str = ""

    @property
    def key(self) -> str:
        """What the case is called."""
        return f"{self.estimator}.{self.method} {self.options} {self.dtype}"


def main() -> None:
    """Runs the cases, or writes the page."""
    arguments = workers.options_of_cases(__doc__, rows=200).parse_args()
    if arguments.report:
        write_page()
        return
    parts = run_all(arguments, lambda item: outcomes(item, arguments.rows, _peer if arguments.peer else _ours))
    if not arguments.match:
        workers.keep(FIGURES / ("sklearn_peer.json" if arguments.peer else "sklearn.json"), parts)
    elif not arguments.verbose:
        for item in parts:
            if item.verdict == "refused":
                print(f"refused {item.key}: {item.reason[:200]}")
    sys.exit(any(item.verdict in ("wrong", "failed") for item in parts) and not arguments.peer)


def run_all(arguments: Any, run: Callable[[Configured], Iterable[Any]]) -> list[Any]:
    """What came of the estimators that the arguments match; what is wrong is printed, everything if they say so."""
    parts = []
    for item in configured():
        if not re.search(arguments.match, f"{item.name} {item.options}"):
            continue
        for outcome in run(item):
            parts.append(outcome)
            if arguments.verbose or outcome.verdict in ("wrong", "failed"):
                print(outcome, flush=True)
    print(dict(Counter(item.verdict for item in parts)))
    return parts


def outcomes(item: Configured, count: int, convert: Any) -> list[Outcome]:
    """The verdicts on an estimator in one configuration, one for each method and precision."""
    warnings.simplefilter("ignore")
    try:
        model = item.make()
    except Exception as error:
        return [Outcome(item.name, item.options, "fit", "", "source", f"{type(error).__name__}: {error}")]
    rows = item.rows(count, np.random.default_rng(1))
    parts = []
    for method in METHODS:
        if not hasattr(model, "predict" if method == "predict_std" else method):
            continue
        given = rows
        if method == "inverse_transform":
            if hasattr(model, "vocabulary_"):
                continue  # lists of terms, of a length each
            try:
                given = dense(model.transform(rows))
            except Exception:
                continue
        numeric = isinstance(given, np.ndarray) and given.dtype.kind == "f"
        for dtype in ("float64", "float32") if numeric else ("float64",):
            x = given.astype(dtype) if numeric else given
            outcome = Outcome(item.name, item.options, method, dtype if numeric else "other", "right")
            try:
                expected = _expected(model, method, x)
            except TypeError as error:
                if method == "predict_std":
                    continue
                expected = error
            except Exception as error:
                expected = error
            if isinstance(expected, Exception):
                outcome.verdict, outcome.reason = "source", f"{type(expected).__name__}: {expected}"
            else:
                outcome.verdict, outcome.reason = _judge(model, method, x, expected, dtype, convert)
            parts.append(outcome)
    return parts


def _expected(model: Any, method: str, x: Any) -> list[np.ndarray]:
    if method == "predict_std":
        return [model.predict(x, return_std=True)[1]]
    result = getattr(model, method)(x)
    several = isinstance(result, (tuple, list)) and not (result and isinstance(result[0], tuple))
    return [dense(part) for part in (result if several else [result])]


def dense(x: Any) -> np.ndarray:
    if isinstance(x, list) and all(isinstance(row, tuple) for row in x):  # lists of labels, of a length each
        width = max(map(len, x))
        return np.array([[*row, *[""] * (width - len(row))] for row in x], object)
    return x.toarray() if hasattr(x, "toarray") else np.asarray(x)


def _judge(model: Any, method: str, x: Any, expected: list[np.ndarray], dtype: str, convert: Any) -> tuple[str, str]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"more than {SECONDS} seconds")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        run = convert(model, method, x)
    except Exception as error:
        refused = type(error).__name__ in ("UnsupportedOperator", "InvalidInputError") or convert is _peer
        return ("refused" if refused else "failed"), f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    try:
        got = run(x)
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"
    if len(got) != len(expected):
        return "wrong", f"{len(got)} results instead of {len(expected)}"
    wide = _expected(model, method, x.astype(np.float64)) if dtype == "float32" else [None] * len(expected)
    for one, other, exact in zip(expected, got, wide, strict=True):
        reason = difference(one, np.asarray(other), dtype, exact, _cancelled(model, method, x))
        if reason:
            return "wrong", reason
    return "right", ""


def _cancelled(model: Any, method: str, x: Any) -> float:
    """The size of the terms whose difference a result is: a Gaussian process subtracts from its prior's variance."""
    if method != "predict_std" or not hasattr(model, "kernel_"):
        return 0.0
    return float(np.sqrt(np.max(model.kernel_.diag(x))) * np.max(model._y_train_std))


def difference(expected: np.ndarray, got: np.ndarray, dtype: str, exact: Any = None, terms: float = 0.0) -> str:
    """What is wrong with a result; nothing where it is right.

    Float32 rows: scikit-learn's own error, against its result on the same rows in float64, counts eightfold.
    """
    if expected.shape != got.shape:
        return f"shape {got.shape} instead of {expected.shape}"
    if expected.dtype.kind in "OUS" or got.dtype.kind in "OUS":
        same = np.asarray(expected.astype(str) == got.astype(str))
        return "" if same.all() else f"{np.sum(~same)} of {same.size} strings differ"
    if expected.dtype.kind != "f":
        same = np.asarray(expected == got)
        return "" if same.all() else f"{np.sum(~same)} of {same.size} differ"
    if (np.isnan(expected) != np.isnan(got)).any() or (np.isinf(expected) != np.isinf(got)).any():
        return "NaN or infinity in other places"
    finite = np.isfinite(expected)
    scale = max(np.max(np.abs(expected[finite]), initial=0.0), terms)
    gap = np.max(np.abs(expected[finite].astype(np.float64) - got[finite]), initial=0.0)
    limit = RTOL[dtype] if expected.dtype == np.float64 or dtype == "float32" else RTOL["float32"]
    if gap <= limit * max(scale, np.finfo(dtype).tiny):
        return ""
    if exact is not None and exact.shape == got.shape and np.isfinite(exact[finite]).all():
        own = np.max(np.abs(expected[finite].astype(np.float64) - exact[finite]))
        if np.max(np.abs(got[finite] - exact[finite])) <= 8 * own + limit * scale:
            return ""
    return f"off by {gap:.3g} of {scale:.3g}"


def _ours(model: Any, method: str, x: Any) -> Any:
    import onnxport

    converted = onnxport.convert(model, inputs=x, methods=[method], validate=False)

    def run(x: Any) -> list[np.ndarray]:
        result = converted(np.asarray(x, object) if isinstance(x, list) and isinstance(x[0], str) else x)
        return list(result) if isinstance(result, tuple) else [result]

    return run


# Where the peer's file says what a method gives: its option, and the place among the outputs.
_PEER = {
    "predict": ({}, 0),
    "predict_proba": ({"zipmap": False}, 1),
    "decision_function": ({"zipmap": False, "raw_scores": True}, 1),
    "transform": ({}, 0),
    "predict_std": ({"return_std": True}, 1),
    "score_samples": ({"score_samples": True}, -1),
    "kneighbors": ({}, None),
}


def _peer(model: Any, method: str, x: Any) -> Any:
    import onnxruntime
    import skl2onnx
    from skl2onnx.common.data_types import StringTensorType

    if method not in _PEER:
        raise NotImplementedError(f"{method} is not offered")
    if method == "transform" and hasattr(model, "predict"):
        raise NotImplementedError("what predict gives stands in the file instead")
    options, place = _PEER[method]
    strings = isinstance(x, list)
    values = {"initial_types": [("X", StringTensorType([None]))]} if strings else {"X": x[:1]}
    proto = skl2onnx.to_onnx(model, options={id(model): options} if options else None, **values)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])

    def run(x: Any) -> list[np.ndarray]:
        result = session.run(None, {session.get_inputs()[0].name: np.asarray(x, object) if strings else x})
        if place is None:
            return [result[1], result[0]] if result[0].dtype.kind == "i" else result
        picked = np.asarray(result[place])
        if method in ("predict", "predict_std", "score_samples", "decision_function") and picked.ndim == 2:
            picked = picked[:, 0] if picked.shape[1] == 1 else picked
        return [picked]

    return run


def write_page() -> None:
    """docs/conformance/sklearn.md from the figures of both runs."""
    ours = [Outcome(**item) for item in json.loads((FIGURES / "sklearn.json").read_text())]
    peer_file = FIGURES / "sklearn_peer.json"
    peer = (
        {item.key: item for item in (Outcome(**row) for row in json.loads(peer_file.read_text()))}
        if peer_file.exists()
        else {}
    )
    inferring = [item for item in ours if item.verdict != "source"]
    none = sorted({item.name for item in configured()} - {item.estimator for item in ours if item.method != "fit"})
    lines = [
        "# scikit-learn: every estimator",
        "",
        "Made by `python -m scripts.conformance.estimators`; each case is an estimator of `all_estimators()` in one",
        "configuration, one inference method and one precision, against scikit-learn's own numbers on fresh rows. *Wrong* is",
        "another number, shape or label than scikit-learn's; *refused* is an error by name; *failed* is one at run time.",
        "",
        "| | cases | right | wrong | refused | failed |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for title, rows in (
        ("onnxport", inferring),
        ("skl2onnx", [peer[item.key] for item in inferring if item.key in peer]),
    ):
        for dtype in ("", "float64", "float32"):
            chosen = [item for item in rows if not dtype or item.dtype == dtype]
            counts = Counter(item.verdict for item in chosen)
            if chosen:
                figures = " | ".join(str(counts[verdict]) for verdict in ("right", "wrong", "refused", "failed"))
                lines.append(f"| {title}{f', {dtype}' if dtype else ''} | {len(chosen)} | {figures} |")
    lines += ["", f"No method for new rows: {', '.join(none)}.", ""]
    source = sorted(
        {f"{i.estimator}.{i.method} {i.options} {i.dtype}" for i in ours if i.verdict == "source" and i.method != "fit"}
    )
    lines += [f"scikit-learn itself fails on {len(source)} cases, which are not counted: {'; '.join(source)}.", ""]
    by_name: dict[str, list[Outcome]] = defaultdict(list)
    for item in inferring:
        by_name[item.estimator].append(item)
    lines += ["| estimator | methods | right | not right | skl2onnx right |", "| --- | --- | --- | --- | --- |"]
    for name, rows in sorted(by_name.items()):
        methods = ", ".join(dict.fromkeys(item.method for item in rows))
        right = sum(item.verdict == "right" for item in rows)
        theirs = sum(item.key in peer and peer[item.key].verdict == "right" for item in rows)
        rest = Counter(item.verdict for item in rows if item.verdict != "right")
        result = ", ".join(f"{count} {verdict}" for verdict, count in rest.items()) or "-"
        lines.append(f"| {name} | {methods} | {right} of {len(rows)} | {result} | {theirs if peer else '-'} |")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join(lines) + "\n")
    print(*lines[:16], sep="\n")


if __name__ == "__main__":
    main()
