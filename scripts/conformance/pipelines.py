"""Pipelines of scikit-learn as people bring them: ours, validated, against scikit-learn on fresh rows, and the peer's.

    python -m scripts.conformance.pipelines [--match REGEX]
    PEER_PYTHON -m scripts.conformance.pipelines --peer      (an environment with skl2onnx)
    python -m scripts.conformance.pipelines --report         writes docs/conformance/sklearn_pipelines.md

A pipeline is right where its labels and other exact results equal scikit-learn's, and its numbers lie within 1e-9 of them, or
within 1e-4 where scikit-learn's own are float32, relative to the greatest of them. The peer has two attempts, with rows in
float64 and in float32 (within 1e-4 of what scikit-learn gives for the rounded rows), of which the better one counts.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from scripts.conformance import pipeline_ensembles, pipeline_matrices, pipeline_tables, pipeline_texts, workers
from scripts.conformance.pipeline_cases import CASES, Case

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "conformance" / "sklearn_pipelines.md"
FIGURES = ROOT / "build" / "conformance"
SEEN = 7  # rows that a conversion gets to see
RTOL, RTOL_FLOAT32 = 1e-9, 1e-4
SECTIONS = {
    "Tables": pipeline_tables,
    "Texts and dictionaries": pipeline_texts,
    "Matrices": pipeline_matrices,
    "Pipelines inside models, many labels, no target": pipeline_ensembles,
}
# The method behind an output of a converted model.
METHODS = {"label": "predict", "scores": "decision_function", "variable": "predict"}


@dataclass
class Outcome:
    """How a pipeline ended.

    Attributes:
        name: the case's.
        verdict: ``right``, ``wrong``, ``refused``, ``failed`` (an error of another kind, or at run time), or ``unproved``: it is
            right, and its validation says that it is not.
        worst: greatest error of a number, relative to the greatest number.
        seconds: of the conversion, its validation included.
        reason: what is not right.
    """

    name: str
    verdict: str = "right"
    worst: float = 0.0
    seconds: float = 0.0
    reason: str = ""


def main() -> None:
    """Runs the cases, or writes the page."""
    arguments = workers.options_of_cases(__doc__).parse_args()
    if arguments.report:
        write_page()
        return
    parts = []
    for item in CASES:
        if not re.search(arguments.match, f"{item.name} {item.contents}"):
            continue
        outcome = of_peer(item) if arguments.peer else of_ours(item)
        parts.append(outcome)
        print(f"{outcome.verdict:9}{outcome.worst:8.0e}{outcome.seconds:7.2f} s  {item.name}", flush=True)
        if outcome.reason:
            print(f"         {outcome.reason[:600]}", flush=True)
    print(dict(Counter(item.verdict for item in parts)))
    if not arguments.match:
        workers.keep(FIGURES / ("pipelines_peer.json" if arguments.peer else "pipelines.json"), parts)
    sys.exit(any(item.verdict != "right" for item in parts) and not arguments.peer)


# -- ours --------------------------------------------------------------------------------------------------------------------


def of_ours(item: Case) -> Outcome:
    """Converted as `onnxport.convert` does by default, and compared."""
    import onnxport

    warnings.simplefilter("ignore")  # unknown categories and logarithms of 0 are meant
    model, rows = item.fitted(), item.fresh()
    outcome = Outcome(item.name)
    unproved = ""
    started = time.perf_counter()
    try:
        converted = onnxport.convert(model, inputs=rows[:SEEN])
    except onnxport.ValidationError as error:
        unproved = str(error)
        converted = onnxport.convert(model, inputs=rows[:SEEN], validate=False)
    except Exception as error:
        refused = type(error).__name__ in ("UnsupportedOperator", "InvalidInputError")
        return Outcome(item.name, "refused" if refused else "failed", reason=f"{type(error).__name__}: {error}")
    outcome.seconds = time.perf_counter() - started
    try:
        results = converted(np.asarray(rows, object) if isinstance(rows, list) and isinstance(rows[0], str) else rows)
    except Exception as error:
        return Outcome(item.name, "failed", reason=f"{type(error).__name__}: {error}")
    given = list(results) if isinstance(results, tuple) else [results]
    expected = [_expected(model, name, rows) for name in converted.output_names]
    outcome.worst, outcome.reason = compared(expected, given)
    if outcome.reason:
        outcome.verdict, outcome.reason = "wrong", f"{outcome.reason}; validation {'fails' if unproved else 'passes'}"
    elif unproved:
        outcome.verdict, outcome.reason = "unproved", unproved
    return outcome


def _expected(model: Any, output: str, rows: Any) -> Any:
    """What scikit-learn gives for an output of the converted model."""
    stem, _, place = output.rpartition("_")
    if stem == "probabilities":
        return _dense(model.predict_proba(rows)[int(place)])
    method = METHODS.get(output, "predict_proba")
    return _dense(getattr(model, method if hasattr(model, method) else "transform")(rows))


def _dense(x: Any) -> np.ndarray:
    array = x.toarray() if hasattr(x, "toarray") else np.asarray(x)
    if array.dtype == object and not any(isinstance(item, str) for item in array.flat):
        return array.astype(np.float64)  # pandas makes objects of booleans beside numbers
    return array


def compared(expected: list[np.ndarray], given: list[Any], rtol: float = RTOL) -> tuple[float, str]:
    """The greatest relative error of results, and what is wrong with them; nothing where they are right."""
    worst = 0.0
    if len(expected) > len(given):
        return worst, f"{len(given)} results instead of {len(expected)}"
    for one, other in zip(expected, map(np.asarray, given), strict=False):
        if one.shape != other.shape:
            return worst, f"shape {other.shape} instead of {one.shape}"
        if one.dtype.kind != "f" or other.dtype.kind != "f":
            if (one.dtype.kind in "OUS") != (other.dtype.kind in "OUS"):
                return worst, f"{other.dtype} instead of {one.dtype}"
            same = one.astype(str) == other.astype(str) if one.dtype.kind in "OUS" else one == other
            if not same.all():
                return worst, f"{np.sum(~same)} of {same.size} labels differ"
            continue
        if (np.isnan(one) != np.isnan(other)).any():
            return worst, "NaN in other places"
        gap = np.nanmax(np.abs(one.astype(np.float64) - other), initial=0.0) / max(
            np.nanmax(np.abs(one), initial=0.0), 1e-300
        )
        worst = max(worst, float(gap))
        if not gap <= max(rtol, RTOL_FLOAT32 if one.dtype == np.float32 else 0.0):
            return worst, f"numbers off by {gap:.1e} of the greatest"
    return worst, ""


# -- the peer ----------------------------------------------------------------------------------------------------------------


def of_peer(item: Case) -> Outcome:
    """The better one of skl2onnx's two attempts."""
    warnings.simplefilter("ignore")
    model, rows = item.fitted(), item.fresh()
    first = _attempt(item.name, model, rows, RTOL)
    if first.verdict == "right":
        return first
    narrow = _narrowed(rows)
    second = _attempt(item.name, model, narrow, RTOL_FLOAT32)
    second.reason = second.reason or "with rows in float32"
    first.reason += f"; in float32: {second.reason}"
    return second if second.verdict == "right" else first


def _narrowed(rows: Any) -> Any:
    if isinstance(rows, np.ndarray):
        return rows.astype(np.float32)
    if not hasattr(rows, "columns"):
        return rows
    wide = [name for name in rows.columns if str(rows[name].dtype) in ("float64", "Float64", "int64", "Int32", "Int64")]
    if type(rows).__module__.startswith("polars"):
        import polars

        return rows.with_columns(polars.col(wide).cast(polars.Float32))
    return rows.astype(dict.fromkeys(wide, "float32"))


def _attempt(name: str, model: Any, rows: Any, rtol: float) -> Outcome:
    from onnxruntime import InferenceSession
    from skl2onnx import to_onnx
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    started = time.perf_counter()
    try:
        feeds = _feeds(rows)
        types = [(key, _peer_type(value)) for key, value in feeds.items()]
        texts = {kind: {"locale": "C"} for kind in (CountVectorizer, TfidfVectorizer)}
        try:
            proto = to_onnx(model, initial_types=types, options={id(model): {"zipmap": False}, **texts})
        except NameError:  # an option that this estimator does not have
            proto = to_onnx(model, initial_types=types, options=texts)
        seconds = time.perf_counter() - started
        session = InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:
        return Outcome(name, "refused", reason=f"{type(error).__name__}: {error}".strip())
    try:
        wanted = {value.name for value in session.get_inputs()}
        given = session.run(None, {key: value for key, value in feeds.items() if key in wanted})
    except Exception as error:
        return Outcome(name, "failed", 0.0, seconds, f"{type(error).__name__}: {error}".strip())
    expected = _of_estimator(model, rows)
    shaped = [
        np.asarray(one).reshape(other.shape) if np.size(one) == other.size else np.asarray(one)
        for one, other in zip(given, expected, strict=False)
    ]
    worst, reason = compared(expected, shaped, rtol)
    return Outcome(name, "wrong" if reason else "right", worst, seconds, reason)


def _of_estimator(model: Any, rows: Any) -> list[np.ndarray]:
    """Label and probabilities, or scores, or the one result."""
    from sklearn.base import is_classifier, is_outlier_detector

    outputs = ["label" if is_classifier(model) else "variable"]
    if is_classifier(model) and hasattr(model, "predict_proba"):
        if isinstance(model.predict_proba(rows), list):
            return [_expected(model, "label", rows), np.stack(model.predict_proba(rows))]
        outputs.append("probabilities")
    if is_outlier_detector(model):
        outputs.append("scores")
    return [_expected(model, name, rows) for name in outputs]


def _feeds(rows: Any) -> dict[str, np.ndarray]:
    if hasattr(rows, "columns"):
        columns = {str(name): _peer_array(rows[name].to_numpy()).reshape(-1, 1) for name in rows.columns}
        return {name: values for name, values in columns.items() if values.dtype.kind != "M"}
    if isinstance(rows, list) and isinstance(rows[0], dict):
        # what the peer's input types can't say counts as its refusal
        raise NotImplementedError("a dictionary of strings and numbers is no map of one type")
    return {"X": _peer_array(np.asarray(rows, object if isinstance(rows, list) else None))}


def _peer_array(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int64) if x.dtype.kind in "iu" else x


def _peer_type(x: np.ndarray) -> Any:
    from skl2onnx.common import data_types

    kinds = {"float64": "Double", "float32": "Float", "int64": "Int64", "bool": "Boolean", "object": "String"}
    if str(x.dtype) not in kinds:
        # likewise
        raise NotImplementedError(f"columns of {x.dtype}")
    return getattr(data_types, f"{kinds[str(x.dtype)]}TensorType")([None, *x.shape[1:]])


# -- the page ----------------------------------------------------------------------------------------------------------------


def write_page() -> None:
    """docs/conformance/sklearn_pipelines.md from the figures of both runs."""
    read: Callable[[str], dict[str, Outcome]] = lambda name: (  # noqa: E731
        {row["name"]: Outcome(**row) for row in json.loads((FIGURES / name).read_text())}
        if (FIGURES / name).exists()
        else {}
    )
    ours, peer = read("pipelines.json"), read("pipelines_peer.json")
    lines = [
        "# scikit-learn: pipelines",
        "",
        "Made by `python -m scripts.conformance.pipelines`; each is a pipeline as people bring it, fitted on data made there",
        "or shipped with scikit-learn, converted with its validation from a few rows, and compared with scikit-learn on fresh",
        "rows: labels exactly, numbers within 1e-9 of the greatest one (1e-4 where scikit-learn's own are float32). *Wrong* is",
        "another number, shape or label than scikit-learn's; *refused* is an error by name; *failed* is one at run time;",
        "*unproved* is right, and its validation says that it is not. The peer does not validate, and has two attempts, with",
        "rows in float64 and in float32 (within 1e-4), of which the better one counts; its texts have the locale C.",
        "",
        "| | pipelines | right | wrong | refused | failed | unproved | seconds a conversion (median) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for title, rows in (("onnxport", ours), ("skl2onnx", peer)):
        if not rows:
            continue
        counted = Counter(item.verdict for item in rows.values())
        figures = " | ".join(str(counted[verdict]) for verdict in ("right", "wrong", "refused", "failed", "unproved"))
        seconds = float(np.median([item.seconds for item in rows.values() if item.seconds]))
        lines.append(f"| {title} | {len(rows)} | {figures} | {seconds:.2f} |")
    for title, module in SECTIONS.items():
        lines += ["", f"## {title}", ""]
        lines += [
            "| pipeline | what is in it | verdict | worst error | seconds | skl2onnx |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for item in CASES:
            if item.make.__module__ == module.__name__ and item.name in ours:
                lines.append(_row(item, ours[item.name], peer.get(item.name)))
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join(lines) + "\n")
    print(*lines[:14], sep="\n")


def _row(item: Case, ours: Outcome, peer: Outcome | None) -> str:
    error = f"{ours.worst:.0e}" if ours.worst else "0" if ours.verdict == "right" else "-"
    theirs = peer.verdict if peer is not None else "-"
    if peer is not None and peer.verdict == "right" and peer.reason:
        theirs = "right in float32"
    return f"| {item.name} | {item.contents} | {ours.verdict} | {error} | {ours.seconds:.2f} | {theirs} |"


if __name__ == "__main__":
    main()
