"""TensorFlow's own operators through the exporter: drawn from their definitions, and the cases beside each entry.

    python -m scripts.conformance.tensorflow_ops --results build/tensorflow_ops.jsonl --shard 0/2
    python -m scripts.conformance.tensorflow_ops --results build/tensorflow_ops.jsonl --report docs/conformance/tensorflow_ops.md

Each call is traced, exported, opened by onnxruntime with its default optimisations and compared with TensorFlow under the budgets
of `onnxport.validation`. A worker process takes the operators one after the other; where it dies or hangs, the operator is noted
and a new one goes on behind it. A second run goes on where the first stopped.
"""

from __future__ import annotations

import collections
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.conformance import workers
from scripts.conformance.workers import first_line

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SECONDS = 90
# Runtimes compute sigmoid, erf and their like to a few units of float32 at 1.
KERNEL_ULPS = 4
VERDICTS = ("right", "refused", "untraceable", "wrong", "defect", "timeout")
Finding = tuple[str, str, str]  # the call, its verdict and the reason


def names() -> list[str]:
    """The operators that can stand in an inference graph."""
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry, versions

    from scripts.conformance.tensorflow_calls import CALLS
    from scripts.conformance.tensorflow_draws import LEFT_OUT

    def stands(name: str) -> bool:
        definition = op_def_registry.get(name)
        removed = definition is not None and 0 < definition.deprecation.version <= versions.GRAPH_DEF_VERSION
        return not name.startswith("_") and not removed and (name in CALLS or not LEFT_OUT.search(name))

    return [name for name in dir(tf.raw_ops) if stands(name)]


def check(function: Any, inputs: Sequence[Any], *, random: bool, opset: int = 21) -> tuple[str, str]:
    """Verdict and reason on one call."""
    import numpy as np
    import tensorflow as tf

    from onnxport.converters.to_onnx.tensorflow import export
    from onnxport.errors import OnnxportError, TracingError, UnsupportedOperator
    from onnxport.graph.runtime import NO_TEXT
    from onnxport.request import Request
    from onnxport.validation import tolerance
    from onnxport.validation.comparison import judge
    from onnxport.validation.evidence import shaped_like
    from onnxport.validation.numerics import of_model

    try:
        want = [_array(item) for item in tf.nest.flatten(function(*map(tf.constant, inputs)))]
    except Exception as error:
        return "untraceable", f"TensorFlow: {first_line(error)}"
    try:
        model = export(
            function, Request(inputs=tuple(inputs), target_opset=opset, dynamic_shapes=tuple({} for _ in inputs))
        )
    except TracingError as error:
        return "untraceable", first_line(error)
    except UnsupportedOperator as error:
        reasons = [f"{item.op}: {item.reason}" if item.reason else item.op for item in error.operators]
        return "refused", "; ".join(reasons) or first_line(error)
    except Exception as error:
        return "defect", f"{type(error).__name__}: {first_line(error)}"
    try:
        got = model(*inputs)
    except (OnnxportError, ValueError, RuntimeError, TypeError, IndexError) as error:
        return "refused" if str(error).startswith(NO_TEXT) else "defect", first_line(error)
    results = list(got) if isinstance(got, tuple) else [got]
    if len(results) != len(want):
        return "wrong", f"{len(results)} outputs instead of {len(want)}"
    length = max([of_model(model.model).length, *(int(np.size(item)) for item in inputs)])
    rng = np.random.default_rng(0)
    exact = random or all(item.dtype.kind not in "fcV" for item in want)
    truth = [] if exact else _run(function, [_cast(item, {"f": np.float64, "c": np.complex128}) for item in inputs])
    moved = [] if exact else [_run(function, [_nudged(item, rng) for item in inputs]) for _ in range(2)]
    for index, (a, b) in enumerate(zip(want, results, strict=True)):
        if a.dtype == object:
            strings = [item.decode() if isinstance(item, bytes) else item for item in a.ravel()]
            if strings != list(np.asarray(b).ravel()) or a.shape != np.shape(b):
                return "wrong", "other strings"
            continue
        wide, others = _at(truth, index, a), [item for run in moved if (item := _at(run, index, a)) is not None]
        if a.dtype.kind == "c":  # judged as the pairs that the graph gives, the budget too
            a, *others = (shaped_like(item, b) for item in (a, *others))
            wide = None if wide is None else shaped_like(wide, b)
        if random or a.shape != b.shape or a.dtype != b.dtype:
            if a.shape != b.shape or a.dtype != b.dtype:
                return "wrong", f"{b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}"
            continue
        budget = tolerance.EXACT
        if a.dtype.kind in "fV":
            eps = 2.0**-8 if a.dtype.kind == "V" else tolerance.epsilon(a.dtype)
            a, b = (item.astype(np.float32) if item.dtype.kind == "V" else item for item in (a, b))
            budget = tolerance.derived(a, eps=eps, length=length, truth=wide, moved=others)
            budget = replace(budget, absolute=np.maximum(budget.absolute, KERNEL_ULPS * eps))
        found = judge(f"output {index}", a, b, budget)
        if found.verdict == "fail":
            figures = found.figures
            numbers = f" {figures.source!r} became {figures.converted!r} at {figures.where}" if figures else ""
            return "wrong", f"{found.reason}{numbers}"[:300]
    return "right", "random: shapes and types only" if random else ""


def _array(item: Any) -> Any:
    """An array, also of a single bfloat16 number, which NumPy asks for in vain; of a quantised type its integers."""
    import numpy as np

    array = item.numpy() if hasattr(item, "numpy") and not np.ndim(item) else np.asarray(item)
    array = np.asarray(array, object) if isinstance(array, bytes) else array  # a single string
    return array.view(array.dtype[0]) if getattr(array.dtype, "names", None) else array


def _run(function: Any, inputs: Sequence[Any]) -> list[Any]:
    """The call's results on other operands; none where TensorFlow does not take them."""
    import tensorflow as tf

    try:
        return [_array(item) for item in tf.nest.flatten(function(*map(tf.constant, inputs)))]
    except Exception:
        return []


def _at(results: Sequence[Any], index: int, like: Any) -> Any:
    item = results[index] if index < len(results) else None
    if item is None or item.shape != like.shape or item.dtype.kind not in "fcV":
        return None
    return item.astype("float32") if item.dtype.kind == "V" else item


def _cast(item: Any, wide: dict[str, Any]) -> Any:
    kind = "f" if item.dtype.kind == "V" else item.dtype.kind
    return item.astype(wide[kind]) if kind in wide else item


def _nudged(item: Any, rng: Any) -> Any:
    """A floating-point operand moved by one unit in the last place."""
    from onnxport.validation import tolerance

    return tolerance.nudge(item.copy(), 1, rng) if item.dtype.kind == "f" and item.dtype.itemsize > 2 else item


def findings(name: str) -> Iterator[Finding]:
    """The drawn calls of an operator, then the cases of its entry."""
    from onnxport.opset_maps.maps import tensorflow as table
    from scripts.conformance.tensorflow_draws import RANDOM, draws

    random = bool(RANDOM.search(name))
    for draw in draws(name):
        yield draw.label, *check(draw.function, draw.inputs, random=random)
    entry = table.find(name)
    for index, case in enumerate(entry.cases if entry is not None else ()):
        function = case.call() if case.factory else case.call
        yield f"case {index}", *check(function, case.draw(), random=False, opset=max(21, case.min_opset))


def work(todo: Sequence[str]) -> None:
    """Checks operators and prints a line for each."""
    import tensorflow as tf

    warnings.simplefilter("ignore")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    workers.work(todo, findings)


def verdict_of(found: Sequence[Sequence[str]]) -> str:
    """An operator's verdict: the worst of its calls'; partly right where some are refused."""
    kinds = {item[1] for item in found}
    for bad in ("wrong", "defect", "timeout"):
        if bad in kinds:
            return bad
    if kinds == {"right"}:
        return "right"
    return "partly" if "right" in kinds else next(iter(sorted(kinds)), "no calls")


def report(results: dict[str, list[Any]], path: Path) -> None:
    """The table as Markdown."""
    import tensorflow as tf

    uncalled = sorted(name for name, found in results.items() if not found)
    results = {name: found for name, found in sorted(results.items()) if found}
    verdicts = collections.Counter(verdict_of(found) for found in results.values())
    calls = collections.Counter(item[1] for found in results.values() for item in found)
    kinds = ("right", "partly", *VERDICTS[1:])
    lines = [
        "# TensorFlow's operators",
        "",
        f"Written by `scripts/conformance/tensorflow_ops.py` with TensorFlow {tf.__version__}: operators of `tf.raw_ops` that",
        "can stand in an inference graph, on operands drawn by their definitions (an element type a call), and the cases",
        "beside each entry; at opset 21.",
        "",
        "- *right*: all calls; *partly*: some right, the rest refused; *refused*: an error names the operator and the reason.",
        "- Results are kept from one run to the next: what was right is not tried again after each change.",
        "- Numbers are never wrong: such a call would stand here as *wrong*, an error of ours as *defect*.",
        "",
        *workers.counts(kinds, {"operators": verdicts, "calls": calls}, {"calls": ["partly"]}),
        "",
        "| operator | verdict | calls right | reason |",
        "|-|-|-|-|",
    ]
    for name, found in results.items():
        reasons = collections.Counter(item[2] for item in found if item[1] != "right")
        reason = reasons.most_common(1)[0][0].replace("|", "\\|")[:160] if reasons else ""
        right = sum(item[1] == "right" for item in found)
        lines.append(f"| `{name}` | {verdict_of(found)} | {right}/{len(found)} | {reason} |")
    lines += [
        "",
        f"Not called, since no operands were drawn that TensorFlow takes ({len(uncalled)}): {', '.join(uncalled)}.",
    ]
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Runs a shard, or writes the report."""
    workers.run("scripts.conformance.tensorflow_ops", __doc__, names, work, report, SECONDS)


if __name__ == "__main__":
    main()
