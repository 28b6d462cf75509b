"""Every layer of Keras through the exporter, on the backend that ``KERAS_BACKEND`` names.

    KERAS_BACKEND=torch python -m scripts.conformance.keras_layers --results build/keras_torch.jsonl
    python -m scripts.conformance.keras_layers --report docs/conformance/keras_layers.md \
        tensorflow=build/keras_tensorflow.jsonl torch=build/keras_torch.jsonl jax=build/keras_jax.jsonl

`keras.layers` is walked, and a class without a case stops the run. A case builds a model in one of the forms that users write,
converts it with an open batch, opens it in onnxruntime with its default optimisations, compares shapes and dtypes with the live
model at two sizes of the batch, and the numbers by `onnxport.validate`. A worker process takes the cases one after the other;
where it dies or hangs, the case is noted and a new one goes on behind it. A second run goes on where the first stopped.
"""

from __future__ import annotations

import collections
import inspect
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from scripts.conformance import workers
from scripts.conformance.workers import first_line, known

SECONDS = 240
VERDICTS = ("right", "refused", "fixed", "wrong", "defect", "timeout", "not run")
LEFT_OUT = {
    "FlaxLayer": "wraps a model of flax, which this environment lacks",
    "InputSpec": "no layer",
    "Layer": "the base class; the wrapper's and the model's cases derive from it",
}
# Layers that Keras has on one backend alone.
OF_BACKEND = {"TFSMLayer": "tensorflow", "JaxLayer": "jax", "TorchModuleWrapper": "torch"}


def cases() -> dict[str, Any]:
    """Every case by its name.

    Raises:
        SystemExit: a layer of Keras has none.
    """
    import keras

    from scripts.conformance import (
        keras_cases_core,
        keras_cases_preparation,
        keras_cases_sequences,
        keras_cases_windows,
    )

    rooms = (keras_cases_core, keras_cases_windows, keras_cases_sequences, keras_cases_preparation)
    listed = [case for room in rooms for case in room.cases()]
    result = {case.name: case for case in listed}
    if len(result) < len(listed):
        raise SystemExit(f"cases of one name: {collections.Counter(case.name for case in listed).most_common(3)}")
    covered = {getattr(keras.layers, case.layer, None) for case in listed}
    classes = {name: item for name, item in vars(keras.layers).items() if inspect.isclass(item)}
    left_out = {*LEFT_OUT, *(name for name, backend in OF_BACKEND.items() if backend != keras.backend.backend())}
    missing = [name for name, item in classes.items() if item not in covered and name not in left_out]
    if missing:
        raise SystemExit(f"layers without a case: {', '.join(missing)}")
    return result


def check(case: Any) -> tuple[str, str]:
    """Verdict and reason on one case."""
    import onnxport
    from onnxport.errors import OnnxportError, TracingError, UnsupportedOperator

    try:
        model = case.model()
        truths = [_results(model, case, rows) for rows in (2, 3)]
    except Exception as error:
        return "not run", f"Keras: {type(error).__name__}: {first_line(error)}"
    arguments, keywords = case.arguments(2), case.keywords(2) or None
    try:
        made = onnxport.convert(model, inputs=arguments, kwargs=keywords, validate=False)
    except UnsupportedOperator as error:
        reasons = [f"{item.op}: {item.reason}" if item.reason else item.op for item in error.operators]
        return "refused", "; ".join(reasons) or first_line(error)
    except TracingError as error:
        return "refused", first_line(error)
    except Exception as error:
        return "defect", f"{type(error).__name__}: {first_line(error)}"
    for rows, wanted in zip((2, 3) if case.batched else (2,), truths, strict=False):
        try:
            found = made(*_fed(made, case, rows))
        except (OnnxportError, ValueError, RuntimeError, TypeError, IndexError) as error:
            return ("defect" if rows == 2 else "fixed"), first_line(error)
        fault = _misfit(list(found) if isinstance(found, tuple) else [found], wanted)
        if fault:
            return "wrong", f"{fault} with {rows} rows"
    try:
        report = onnxport.validate(model, made, inputs=arguments, kwargs=keywords)
    except Exception as error:
        return "defect", f"proof: {type(error).__name__}: {first_line(error)}"
    if report.verdict == "passed":
        return "right", "; ".join(note for note in made.notes if "rebuilt" in note)
    text = " ".join(str(report).split())
    return "wrong" if report.verdict == "failed" else "defect", f"{report.verdict}: {text}"[:300]


def _results(model: Any, case: Any, rows: int) -> list[Any]:
    """The live model's results as arrays."""
    import keras

    from onnxport.validation.runners.keras import to_numpy, to_tensor

    args = keras.tree.map_structure(to_tensor, case.arguments(rows))
    kwargs = keras.tree.map_structure(to_tensor, case.keywords(rows))
    flat = keras.tree.flatten(model(*args, **kwargs, **_inference(model)))
    return [to_numpy(item) for item in flat if item is not None]


def _inference(model: Any) -> dict[str, bool]:
    import keras

    return {"training": False} if isinstance(model, keras.layers.Layer) else {}


def _fed(made: Any, case: Any, rows: int) -> list[Any]:
    """The arrays in the graph's order; an input that the graph does not need is left out."""
    import keras

    leaves = [*keras.tree.flatten(case.arguments(rows)), *keras.tree.flatten(case.keywords(rows))]
    return leaves[: len(made.model.graph.inputs)]


def _misfit(found: Sequence[Any], wanted: Sequence[Any]) -> str:
    """What differs in number, shapes and dtypes; empty where nothing does."""
    if len(found) != len(wanted):
        return f"{len(found)} outputs instead of {len(wanted)}"
    for ours, theirs in zip(found, wanted, strict=True):
        strings = theirs.dtype.kind in "OUS"
        if ours.shape != theirs.shape or (not strings and ours.dtype != theirs.dtype):
            return f"{ours.dtype}{list(ours.shape)} instead of {theirs.dtype}{list(theirs.shape)}"
    return ""


def report(paths: dict[str, Path], place: Path) -> None:
    """The table as Markdown, a column a backend."""
    import keras

    results = {backend: known(path) for backend, path in paths.items()}
    names = list(dict.fromkeys(name for found in results.values() for name in found))
    lines = [
        "# Layers of Keras",
        "",
        f"Written by `scripts/conformance/keras_layers.py` with Keras {keras.__version__}: every class of `keras.layers` in the",
        "configurations that users write, functional, sequential, subclassed or as the layer itself, with an open batch, on each",
        "backend; opset 21, onnxruntime with its default optimisations, judged by `onnxport.validate`.",
        "",
        "- *right*: numbers, and shapes and dtypes at two sizes of the batch; *refused*: an error names the reason; *fixed*: the",
        "  batch is fixed; *not run*: Keras itself does not run the case on this backend. Per cents are of those that it runs.",
        "- *wrong*: the proof fails, and `convert` raises an error; *defect*: an error of ours.",
        "- Results are kept from one run to the next: what was right is not tried again after each change.",
        "",
        "| backend | tried | Keras runs | right | " + " | ".join(VERDICTS[1:]) + " |",
        "|-|-|-|-|" + "-|" * len(VERDICTS[1:]),
    ]
    for backend, found in results.items():
        counts = collections.Counter(item[0][1] for item in found.values())
        run = len(found) - counts["not run"]
        share = f"{counts['right']} ({100 * counts['right'] / max(1, run):.1f} %)"
        lines.append(
            f"| {backend} | {len(found)} of {len(names)} | {run} | {share} | "
            + " | ".join(str(counts[kind]) for kind in VERDICTS[1:])
            + " |"
        )
    lines += ["", "| layer | cases | " + " | ".join(results) + " |", "|-|-|" + "-|" * len(results)]
    layers = list(dict.fromkeys(name.partition(":")[0] for name in names))
    for layer in layers:
        own = [name for name in names if name.partition(":")[0] == layer]
        cells = [_share([found[name][0] for name in own if name in found]) for found in results.values()]
        lines.append(f"| `{layer}` | {len(own)} | " + " | ".join(cells) + " |")
    lines += ["", "Left out: " + "; ".join(f"`{name}` {reason}" for name, reason in LEFT_OUT.items()) + ".", ""]
    lines += ["## What is not right", "", "| case | backend | verdict | reason |", "|-|-|-|-|"]
    for name in names:
        for backend, found in results.items():
            _, verdict, reason = found.get(name, [("", "right", "")])[0]
            if verdict != "right":
                lines.append(f"| {name} | {backend} | {verdict} | {reason.replace('|', chr(92) + '|')[:200]} |")
    place.write_text("\n".join(lines) + "\n")


def _share(found: Sequence[Sequence[str]]) -> str:
    run = [item for item in found if item[1] != "not run"]
    return f"{sum(item[1] == 'right' for item in run)}/{len(run)}" if run else "-"


def main() -> None:
    """Runs the cases, or writes the report."""
    parser = workers.parser(__doc__, "build/keras.jsonl")
    parser.add_argument("--again", default="", help="run again what has one of these verdicts, comma-separated")
    parser.add_argument("runs", nargs="*", help="of a report, the results of each backend: torch=build/torch.jsonl")
    options = parser.parse_args()
    if options.report:
        report({name: Path(path) for name, _, path in (run.partition("=") for run in options.runs)}, options.report)
        return
    warnings.simplefilter("ignore")
    every = cases()
    if options.work is not None:
        from onnxport.converters.to_onnx.keras_elsewhere import processes_kept

        with processes_kept():
            workers.work(options.work, lambda name: [("", *check(every[name]))])
        return
    again = set(filter(None, options.again.split(",")))
    done = [name for name, found in known(options.results).items() if found[0][1] in again and name in every]
    todo = done if again else workers.remaining(options, list(every))
    workers.supervise("scripts.conformance.keras_layers", todo, options.results, SECONDS)


if __name__ == "__main__":
    main()
