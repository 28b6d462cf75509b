"""scikit-learn: conversion seconds and latency of our files against the peer's and scikit-learn itself."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

import onnxport
from onnxport.graph.builder import OpBuilder
from scripts.bench import limits
from scripts.bench.latency import alternate, session
from scripts.bench.page import number, table, write_section

ROWS = (1, 10_000)


def models() -> Iterator[tuple[str, Any, Any]]:
    """Fitted estimators by title, each with rows for it."""
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
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
    texts = [_written(rng.choice(words, size=60), rng) for _ in range(3000)]
    few, many = (np.array(texts[:count], object) for count in (200, len(texts)))
    vectorizer = TfidfVectorizer().fit(many)
    terms = f"{len(vectorizer.vocabulary_):,} terms"
    yield f"tf-idf, {terms}, as an array", vectorizer, few
    y = two[: len(many)]
    yield f"tf-idf, {terms}, logistic regression", make_pipeline(vectorizer, LogisticRegression()).fit(many, y), few
    pairs = TfidfVectorizer(ngram_range=(1, 2), min_df=2)
    yield "words and pairs of words, logistic regression", make_pipeline(pairs, LogisticRegression()).fit(many, y), few
    inside = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), max_features=5000)
    yield "characters of words, logistic regression", make_pipeline(inside, LogisticRegression()).fit(many, y), few
    hashing = make_pipeline(HashingVectorizer(), LogisticRegression()).fit(many, y)
    yield "hashed words, logistic regression", hashing, few


def _written(words: Any, rng: np.random.Generator) -> str:
    """Words with capitals, numbers and the signs of ordinary text: about every fifth is more than letters."""
    found = []
    for word in words:
        kind = rng.choice(10, p=[0.8, 0.08, 0.03, 0.02, 0.02, 0.02, 0.01, 0.01, 0.005, 0.005])
        forms = (word, word.capitalize(), f"{word}'s", f"{word}-{word}", str(rng.integers(3000)), word.upper())
        found.append((*forms, f"({word})", f'"{word}"', f"{word}/{word}", f"\u201c{word}\u201d")[kind])
        found[-1] += rng.choice(["", ",", ".", "!", ":"], p=[0.86, 0.07, 0.05, 0.01, 0.01])
    return " ".join(found)


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


def conversions(model: Any, rows: Any, folder: str) -> dict[str, Any]:
    """CPU seconds of writing a file, by side; a string says why there is none."""
    found: dict[str, Any] = {}
    for side, write in (("ours", own), ("peer", peer)):
        started = time.process_time()
        with _failures(found, side):  # the peer's: a missing converter
            write(model, rows, os.path.join(folder, f"{side}.onnx"))
            found[f"convert {side}"] = time.process_time() - started
    return found


@contextmanager
def _failures(found: dict[str, Any], side: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        found[f"{side} fails"] = f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"


def latencies(model: Any, rows: Any, folder: str) -> dict[str, Any]:
    """Milliseconds a call of a folder's files, by side, and what is in them; a string says why there is none."""
    found: dict[str, Any] = {}
    sessions: dict[str, Any] = {}
    for side in ("ours", "peer"):
        path = os.path.join(folder, f"{side}.onnx")
        if os.path.exists(path):
            with _failures(found, side):  # a file of the peer's that does not load
                sessions[side] = session(path)
    for side, opened in sessions.items():
        found[f"operators {side}"] = len(onnx.load(os.path.join(folder, f"{side}.onnx")).graph.node)
        found[f"apart {side}"] = difference(model, opened, rows)
    alone = trees_alone(os.path.join(folder, "ours.onnx"), os.path.join(folder, "trees.onnx"))
    for count in ROWS if alone is not None else ():
        found[f"trees alone {count}"] = 1000 * alternate([_running(alone, rows[:count])])[0]
    for count in ROWS:
        given = rows[:count]
        calls: dict[str, Callable[[], Any]] = {"scikit-learn": _calling(model, given)}
        for side, opened in sessions.items():
            calls[side] = _running(opened, given)
        times = alternate(list(calls.values()))
        found.update({f"{side} {count}": 1000 * value for side, value in zip(calls, times, strict=True)})
    found["largest"] = largest(os.path.join(folder, "ours.onnx"), rows)
    return found


def difference(model: Any, opened: Any, rows: Any) -> str:
    """Labels of rows that are not scikit-learn's, and the greatest difference of a probability or other value."""
    outputs, said = _running(opened, rows)(), []
    if hasattr(model, "classes_"):
        said.append(f"{np.sum(np.asarray(outputs[0]) != model.predict(rows))} labels")
    if not hasattr(model, "classes_") or hasattr(model, "predict_proba"):
        said.append(f"{np.max(np.abs(np.asarray(outputs[-1]).reshape(-1) - _calling(model, rows)().reshape(-1))):.0e}")
    return ", ".join(said)


def trees_alone(path: str, target: str) -> Any:
    """A session of a file's TreeEnsemble operators and what they read, side by side; None where there is none."""
    graph = (model := onnx.load(path)).graph
    last = max((i for i, node in enumerate(graph.node) if node.op_type == "TreeEnsemble"), default=None)
    if last is None:
        return None
    del graph.node[last + 1 :], graph.output[:]
    found = [node.output[0] for node in graph.node if node.op_type == "TreeEnsemble"]
    if len(found) > 1:
        graph.node.append(onnx.helper.make_node("Concat", found, ["side by side"], axis=1))
    graph.output.append(onnx.ValueInfoProto(name=graph.node[-1].output[0]))
    onnx.save(onnx.shape_inference.infer_shapes(model), target)
    return session(target)


def a_call() -> tuple[float, float]:
    """Microseconds of a call of the runtime with one row, and of each operator in it."""
    times = []
    for count in (1, 41):
        op = OpBuilder(21)
        value = op.input("x", ir.DataType.FLOAT, ["n", 20])
        for _ in range(count):
            value = op.Sqrt(value)
        model = ir.Model(op.graph([value], name="graph", output_names=["y"]), ir_version=10)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            ir.save(model, path)
            times.append(alternate([_running(session(path), np.ones((1, 20), np.float32))])[0])
    each = (times[1] - times[0]) / 40
    return 1e6 * (times[0] - each), 1e6 * each


def largest(path: str, given: Any) -> str:
    """The two operators that most of a run's time goes into, and their shares."""
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
    return ", ".join(f"{name} {most / spent.total():.0%}" for name, most in spent.most_common(2))


def _warm_up() -> None:
    """Imports what both sides need, which is once a process."""
    from sklearn.linear_model import LogisticRegression

    rows = np.eye(2, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for write in (own, peer):
            write(LogisticRegression().fit(rows, [0, 1]), rows, os.path.join(folder, "model.onnx"))


def _calling(model: Any, given: Any) -> Callable[[], Any]:
    method = next(item for item in ("predict_proba", "predict", "transform") if hasattr(model, item))
    if hasattr(model, "steps") or hasattr(model, "classes_") or method != "transform":
        return lambda: getattr(model, method)(given)
    return lambda: model.transform(given).toarray()  # what the file gives


def _running(opened: Any, given: Any) -> Callable[[], Any]:
    name = opened.get_inputs()[0].name
    return lambda: opened.run(None, {name: given})


def times(title: str, found: dict[str, Any]) -> list[str]:
    """A line of the first table."""
    cells = [title, *(number(found.get(f"convert {side}"), 2, " s") for side in ("ours", "peer"))]
    for count in ROWS:
        digits = 4 if count == 1 else 3
        cells += [number(found.get(f"{side} {count}"), digits, " ms") for side in ("ours", "peer", "scikit-learn")]
    return [*cells, found["largest"]]


def contents(title: str, found: dict[str, Any]) -> list[str]:
    """A line of the second table."""
    kinds = [str(found.get(f"{kind} {side}", "-")) for kind in ("operators", "apart") for side in ("ours", "peer")]
    return [
        title,
        *kinds,
        *(number(found.get(f"trees alone {count}"), 4 if count == 1 else 3, " ms") for count in ROWS),
    ]


def least(title: str, found: dict[str, Any]) -> list[str]:
    """A line of the third table."""
    said, taken = found["least"]
    sides = (number(found.get(f"{side} {ROWS[-1]}"), 1, " ms") for side in ("ours", "scikit-learn"))
    return [title, said, number(taken, 1, " ms"), *sides]


def main() -> None:
    """Measures and writes the section."""
    _warm_up()
    with ExitStack() as stack:
        fitted = [(*item, stack.enter_context(tempfile.TemporaryDirectory())) for item in models()]
        # all conversions before the first call: what the runtime leaves in memory slows them down
        results = [(title, conversions(model, rows, folder)) for title, model, rows, folder in fitted]
        for (title, found), (_, model, rows, folder) in zip(results, fitted, strict=True):
            found.update(latencies(model, rows, folder))
            if title.endswith("as an array"):
                found["least"] = limits.array_of_terms(os.path.join(folder, "ours.onnx"), rows)
            elif title.startswith("hashed"):
                found["least"] = limits.hashing(model[0], rows)
            print(title, found, flush=True)
    head = ["model", "conversion", "peer's"]
    alone = []
    for count in ("1 row", f"{ROWS[-1]:,} rows"):
        head += [count, "peer", "scikit-learn"]
        alone.append(f"{count}, trees alone")
    start, each = a_call()
    text = (
        "Float32 rows, one thread; conversions in CPU seconds without validation and imports. Latency: the sides take turns\n"
        "in blocks, the median block counts. The peer is skl2onnx. Of text, of which every fifth word is more than letters,\n"
        "there are 200 documents instead of 10,000. The last column are the operators that take most of our file's time on the\n"
        "many rows: of trees the runtime's own kernel, of an array of 84 MB writing it; scikit-learn's time is that of the same\n"
        "array.\n\n"
        + table([*head, "most of it in"], itertools.starmap(times, results))
        + f"\nOn one row a call of the runtime takes {start:.1f} microseconds and each operator {each:.2f} more. What the\n"
        "peer says in one operator of float32 is several here, in scikit-learn's own precision; that is what the second table\n"
        "holds against each other: operators in the file, labels that are not scikit-learn's, and the greatest difference of a\n"
        "probability, or other value, to scikit-learn's. Its last columns are a call of our file without what follows the\n"
        "trees: TreeEnsemble gives sums of float64, and a label and a column a class take operators of their own. A forest of\n"
        "several classes is one TreeEnsemble that gives leaves, and a Gather of their shares: faster on one row than many in\n"
        "parts that the processor's cache holds, a fifth slower on many.\n\n"
        + table(
            ["model", "operators", "peer's", "apart from scikit-learn", "peer's", *alone],
            itertools.starmap(contents, results),
        )
        + "\nWhat the runtime's own operators take at least of two of the times above:\n\n"
        + table(
            ["model", "of which", "takes", "our file", "scikit-learn"],
            (least(title, found) for title, found in results if "least" in found),
        )
    )
    reasons = [
        f"{title}, {side}: {found[f'{side} fails']}"
        for title, found in results
        for side in ("ours", "peer")
        if f"{side} fails" in found
    ]
    if reasons:
        text += "\nNot measured:\n" + "".join(f"- {reason}\n" for reason in reasons)
    write_section("scikit-learn", text, "scikit-learn", "onnxruntime", "skl2onnx")


if __name__ == "__main__":
    main()
