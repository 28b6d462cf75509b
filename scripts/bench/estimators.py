"""scikit-learn: conversion seconds and latency of our files against the peer's and scikit-learn itself."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import onnxport
from scripts.bench.latency import alternate, session
from scripts.bench.page import number, table, write_section

ROWS = (1, 10_000)


def models() -> Iterator[tuple[str, Any, Any]]:
    """Fitted estimators by title, each with rows for it."""
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    rng = np.random.default_rng(0)
    x = rng.normal(size=(5000, 20)).astype(np.float32)
    score = x[:, 0] * x[:, 1] + x[:, 2] + rng.normal(size=5000)
    two, three = (score > 0).astype(int), np.digitize(score, [-1, 1])
    rows = rng.normal(size=(ROWS[-1], 20)).astype(np.float32)
    for title, model, y in (
        ("scaler + logistic regression", make_pipeline(StandardScaler(), LogisticRegression()), two),
        ("random forest, 100 trees, depth 12", RandomForestClassifier(100, max_depth=12, random_state=0), two),
        ("the same, 3 classes", RandomForestClassifier(100, max_depth=12, random_state=0), three),
        ("random forest, 1,000 trees, depth 12", RandomForestClassifier(1000, max_depth=12, random_state=0), two),
        ("gradient boosting, 100 trees", GradientBoostingClassifier(random_state=0), two),
        ("the same, 3 classes", GradientBoostingClassifier(random_state=0), three),
        ("histogram gradient boosting", HistGradientBoostingRegressor(random_state=0), two),
        ("5 neighbours of 5,000 rows", KNeighborsClassifier(), two),
        ("SVC of 2,000 rows", SVC(), two[:2000]),
        ("MLP, 100 units", MLPClassifier(max_iter=20, random_state=0), two),
    ):
        yield title, model.fit(x[: len(y)], y), rows
    words = ["".join(rng.choice(list("abcdefghijklmnop"), size=rng.integers(3, 9))) for _ in range(60_000)]
    texts = [" ".join(rng.choice(words, size=60)) for _ in range(3000)]
    few, many = (np.array(texts[:count], object) for count in (200, len(texts)))
    vectorizer = TfidfVectorizer().fit(many)
    yield f"tf-idf, {len(vectorizer.vocabulary_):,} terms", vectorizer, few
    yield (
        "the same + logistic regression",
        make_pipeline(vectorizer, LogisticRegression()).fit(many, two[: len(many)]),
        few,
    )


def own(model: Any, rows: Any, path: str) -> None:
    """Our file."""
    onnxport.convert(model, inputs=rows[:2], output=path, validate=False)


def peer(model: Any, rows: Any, path: str) -> None:
    """The peer's file."""
    import skl2onnx
    from skl2onnx.common.data_types import StringTensorType

    text = rows.dtype == object
    said: dict[str, Any] = {"initial_types": [("X", StringTensorType([None]))]} if text else {"X": rows[:1]}
    options = {"zipmap": False} if hasattr(model, "predict_proba") else None
    proto = skl2onnx.to_onnx(model, options={id(model): options} if options else None, **said)
    with open(path, "wb") as file:
        file.write(proto.SerializeToString())


def measure(model: Any, rows: Any, folder: str) -> dict[str, Any]:
    """Conversion CPU seconds and milliseconds a call, by side; a string says why there is none."""
    found: dict[str, Any] = {}
    sessions: dict[str, Any] = {}
    for side, write in (("ours", own), ("peer", peer)):
        path = os.path.join(folder, f"{side}.onnx")
        started = time.process_time()
        try:
            write(model, rows, path)
            found[f"convert {side}"] = time.process_time() - started
            sessions[side] = session(path)
        except Exception as error:  # the peer's: a missing converter, a file that does not load
            found[f"{side} fails"] = f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
    for count in ROWS:
        given = rows[:count]
        calls: dict[str, Callable[[], Any]] = {"scikit-learn": _calling(model, given)}
        for side, opened in sessions.items():
            calls[side] = _running(opened, given)
        times = alternate(list(calls.values()))
        found.update({f"{side} {count}": 1000 * value for side, value in zip(calls, times, strict=True)})
    found["largest"] = largest(os.path.join(folder, "ours.onnx"), rows)
    return found


def largest(path: str, given: Any) -> str:
    """The operator that most of a run's time goes into, and its share."""
    with tempfile.TemporaryDirectory() as folder:
        opened = session(path, profile=os.path.join(folder, "run"))
        for _ in range(3):
            _running(opened, given)()
        events = json.loads(Path(opened.end_profiling()).read_text())
    spent: Counter[str] = Counter()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            spent[event["args"]["op_name"]] += event["dur"]
    for outer in ("If", "Loop"):  # whose own time is that of the operators inside
        spent.pop(outer, None)
    name, most = spent.most_common(1)[0]
    return f"{name} {most / spent.total():.0%}"


def _warm_up() -> None:
    """Imports what both sides need, which is once a process."""
    from sklearn.linear_model import LogisticRegression

    rows = np.eye(2, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for write in (own, peer):
            write(LogisticRegression().fit(rows, [0, 1]), rows, os.path.join(folder, "model.onnx"))


def _calling(model: Any, given: Any) -> Callable[[], Any]:
    method = next(item for item in ("predict_proba", "predict", "transform") if hasattr(model, item))
    return lambda: getattr(model, method)(given)


def _running(opened: Any, given: Any) -> Callable[[], Any]:
    name = opened.get_inputs()[0].name
    return lambda: opened.run(None, {name: given})


def main() -> None:
    """Measures and writes the section."""
    lines, reasons = [], []
    _warm_up()
    for title, model, rows in models():
        with tempfile.TemporaryDirectory() as folder:
            found = measure(model, rows, folder)
        print(title, found, flush=True)
        cells = [number(found.get(f"convert {side}"), 2, " s") for side in ("ours", "peer")]
        for count in ROWS:
            cells += [number(found.get(f"{side} {count}"), 3, " ms") for side in ("ours", "peer", "scikit-learn")]
        lines.append((title, *cells, found["largest"]))
        reasons += [
            f"{title}, {side}: {found[f'{side} fails']}" for side in ("ours", "peer") if f"{side} fails" in found
        ]
    head = ["model", "conversion", "peer's"]
    for count in ("1 row", f"{ROWS[-1]:,} rows"):
        head += [count, "peer", "scikit-learn"]
    head.append("most of it in")
    text = (
        "Float32 rows, one thread; conversions in CPU seconds without validation and imports. Latency: the sides take turns\n"
        "in blocks, the median block counts. The peer is skl2onnx. Of text there are 200 documents instead of 10,000. The last\n"
        "column is the operator that takes most of our file's time on the many rows, and its share: of trees it is the\n"
        "runtime's own kernel. On one row a call of the runtime takes 5 microseconds and each operator 0.3 more: what the\n"
        "peer says in one operator of float32 is several here, in scikit-learn's own precision.\n\n"
        + table(head, lines)
    )
    if reasons:
        text += "\nNot measured:\n" + "".join(f"- {reason}\n" for reason in reasons)
    write_section("scikit-learn", text, "scikit-learn", "onnxruntime", "skl2onnx")


if __name__ == "__main__":
    main()
