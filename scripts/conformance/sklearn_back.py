"""Estimators to ONNX and back, by onnxport's files and by skl2onnx's: what comes back, and whether it predicts the same.

    python -m scripts.conformance.sklearn_back [--match REGEX] [--rows 60] [--verbose]
    PEER_PYTHON -m scripts.conformance.sklearn_back --peer      (an environment with skl2onnx)
    python -m scripts.conformance.sklearn_back --report         writes docs/conformance/sklearn_back.md

Expected values are the source estimator's own on fresh rows, of every method whose result the file has; for skl2onnx's files what
onnxruntime gives, since the files need not be right, or the source estimator's: in files of two-class SVC the scores have another
sign than the labels tell, and the estimator that comes back goes by the labels. A case is right where they agree as in
`scripts.conformance.estimators`.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from scripts.conformance import workers
from scripts.conformance.estimators import dense, difference, run_all
from scripts.conformance.sklearn_cases import Configured

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "conformance" / "sklearn_back.md"
FIGURES = ROOT / "build" / "conformance"
VERDICTS = ("itself", "file", "wrong", "refused", "failed")


@dataclass
class Return:
    """How an estimator came back: as ``itself``, as one that runs the ``file``, ``wrong``, ``refused`` or ``failed``."""

    estimator: str
    options: str
    verdict: str
    methods: str = ""
    reason: str = ""


def main() -> None:
    """Runs the cases, or writes the page."""
    arguments = workers.options_of_cases(__doc__, rows=60).parse_args()
    if arguments.report:
        write_page()
        return
    parts = run_all(arguments, lambda item: outcomes(item, arguments.rows, peer=arguments.peer))
    if not arguments.match:
        workers.keep(FIGURES / ("sklearn_back_peer.json" if arguments.peer else "sklearn_back.json"), parts)
    sys.exit(any(item.verdict in ("wrong", "failed") for item in parts))


def outcomes(item: Configured, count: int, *, peer: bool = False) -> Iterator[Return]:
    """The one verdict on an estimator in one configuration; none where it can't be fitted or has no file."""
    warnings.simplefilter("ignore")
    try:
        model = item.make()
        rows = item.rows(count, np.random.default_rng(1))
        rows = rows.astype(np.float32) if peer and isinstance(rows, np.ndarray) and rows.dtype.kind == "f" else rows
        hub = _of_peer(model, rows) if peer else _ours(model, rows)
    except Exception:  # what has no file says nothing about the way back
        return
    source = _runnable(hub, rows) if peer else model
    if source is not None:
        yield _returned(item, model, source, rows, hub)


def _runnable(hub: Any, rows: Any) -> Any:
    """A file as an estimator; None where onnxruntime does not run it."""
    from onnxport.converters.from_onnx.sklearn import wrapped
    from onnxport.model import as_onnx_model

    try:
        estimator = wrapped(as_onnx_model(hub).model)
        estimator.run(rows)
    except Exception:
        return None
    return estimator if estimator.onnx_model.session.backend == "onnxruntime" else None


def _ours(model: Any, rows: Any) -> Any:
    import onnxport

    return onnxport.convert(model, inputs=rows, validate=False)


def _of_peer(model: Any, rows: Any) -> Any:
    import skl2onnx
    from skl2onnx.common.data_types import StringTensorType

    if isinstance(rows, list):
        return skl2onnx.to_onnx(model, initial_types=[("X", StringTensorType([None]))])
    return skl2onnx.to_onnx(model, rows[:1])


def _returned(item: Configured, model: Any, source: Any, rows: Any, hub: Any) -> Return:
    import onnxport
    from onnxport.sklearn import OnnxEstimator

    outcome = Return(item.name, item.options, "itself")
    try:
        back = onnxport.convert(hub, to="sklearn", validate=False)
    except Exception as error:
        refused = isinstance(error, onnxport.OnnxportError)
        outcome.verdict, outcome.reason = ("refused" if refused else "failed"), workers.first_line(error)
        return outcome
    if isinstance(back, OnnxEstimator):
        outcome.verdict, outcome.reason = "file", "; ".join(back.notes)
    elif type(back) is not type(model):
        outcome.verdict, outcome.reason = "file", f"as {type(back).__name__}"
    methods = _methods(back, hub, source)
    outcome.methods = ", ".join(methods)
    for method in methods:
        try:
            expected = dense(getattr(source, method)(rows))
        except Exception:
            continue
        try:
            got = dense(getattr(back, method)(rows))
        except Exception as error:
            outcome.verdict, outcome.reason = "failed", f"{method}: {workers.first_line(error)}"
            break
        dtype = "float32" if isinstance(rows, np.ndarray) and rows.dtype == np.float32 else "float64"
        reason = difference(expected, got, dtype)
        if reason and source is not model and not difference(dense(getattr(model, method)(rows)), got, dtype):
            outcome.reason = f"{method} is the source estimator's, the file's is {reason}"
        elif reason:
            outcome.verdict, outcome.reason = "wrong", f"{method}: {reason}"
            break
    return outcome


def _methods(back: Any, hub: Any, model: Any) -> list[str]:
    """The methods whose results the file has, of those that both sides have."""
    from onnxport.converters.from_onnx.sklearn_roles import roles_of
    from onnxport.model import as_onnx_model

    known = roles_of(as_onnx_model(hub).model).methods
    return [name for name in known if hasattr(back, name) and hasattr(model, name)]


def write_page() -> None:
    """docs/conformance/sklearn_back.md from the figures of both runs."""
    runs = {"onnxport": _figures("sklearn_back.json"), "skl2onnx": _figures("sklearn_back_peer.json")}
    lines = [
        "# scikit-learn to ONNX and back",
        "",
        "Made by `python -m scripts.conformance.sklearn_back`: every estimator of `all_estimators()` in every configuration",
        "that [converts](sklearn.md), in files of onnxport and (float32 rows) of skl2onnx, those that onnxruntime runs.",
        "*Itself* is an estimator of the class it was, *file* one that runs the file, or of another class with the same",
        "numbers; on fresh rows both predict what the source predicts (where skl2onnx wrote the file, the file, or the",
        "estimator that it was written of, which a reason then says). *Wrong* is another number, *refused* an error by name.",
        "",
        "| files of | cases | itself | file | wrong | refused | failed | classes that come back as themselves |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, parts in runs.items():
        counts = Counter(item.verdict for item in parts)
        themselves = {item.estimator for item in parts if item.verdict == "itself"}
        cells = [len(parts), *(counts[verdict] for verdict in VERDICTS), len(themselves)]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    lines += [
        "",
        "| estimator | itself | file | not right | skl2onnx: itself | file | not right |",
        "|---|---|---|---|---|---|---|",
    ]
    tables = [_by_class(parts) for parts in runs.values()]
    for name in sorted(set(tables[0]) | set(tables[1])):
        lines.append(f"| {name} | {' | '.join(_cells(tables[0].get(name)) + _cells(tables[1].get(name)))} |")
    lines += ["", "## Why an estimator of onnxport's files runs the file", "", "| case | reason |", "|---|---|"]
    kept = [item for item in runs["onnxport"] if item.verdict != "itself"]
    lines += [f"| {_case(item)} | {_cell(item.reason)} |" for item in kept]
    bad = [
        item for item in runs["skl2onnx"] if item.verdict not in ("itself", "file") or "is the source" in item.reason
    ]
    lines += ["", "## skl2onnx: other than the file", "", "| case | verdict | reason |", "|---|---|---|"]
    lines += [f"| {_case(item)} | {item.verdict} | {_cell(item.reason)} |" for item in bad]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _figures(name: str) -> list[Return]:
    path = FIGURES / name
    return [Return(**item) for item in json.loads(path.read_text())] if path.exists() else []


def _by_class(parts: list[Return]) -> dict[str, Counter[str]]:
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for item in parts:
        table[item.estimator][item.verdict if item.verdict in ("itself", "file") else "not right"] += 1
    return table


def _cells(counts: Counter[str] | None) -> list[str]:
    return [str(counts[name] or "-") if counts else "" for name in ("itself", "file", "not right")]


def _case(item: Return) -> str:
    return f"{item.estimator} {_cell(item.options)}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:160]


if __name__ == "__main__":
    main()
