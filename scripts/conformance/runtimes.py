"""Every entry's cases and the demo's models in onnxruntime, at several opsets; writes docs/conformance/runtimes.md.

    python -m scripts.conformance.runtimes --framework pytorch --opset 21 --results build/runtimes.jsonl
    python -m scripts.conformance.runtimes --results build/runtimes.jsonl --report docs/conformance/runtimes.md

Each case is converted, saved, opened from its file by onnxruntime with its default optimisations, run, and compared with its
source. ``--oldest FOLDER`` runs the files in a second onnxruntime too, the oldest one that is supported, installed there with
``pip install --target FOLDER --no-deps onnxruntime==1.24.4``, at opsets up to 21. A report keeps the page's rows that the results
do not have.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from onnxport.errors import InvalidInputError, UnsupportedOperator
from onnxport.graph.rows import columns_of, is_frame, is_records
from onnxport.model import OnnxModel
from onnxport.request import Request
from onnxport.validation.numerics import of_model
from scripts.conformance.runtimes_page import FRAMEWORKS, OLDEST, OLDEST_OPSET, OPSETS, Outcome, report


@dataclass(frozen=True)
class Ready:
    """A model to convert.

    Attributes:
        export: converts it to a given opset.
        inputs: what it is run on, as the graph takes it.
        expected: the source's results, in the graph's order.
    """

    export: Callable[[int], OnnxModel]
    inputs: Callable[[], Sequence[Any]]
    expected: Callable[[], Sequence[Any]]


@dataclass(frozen=True)
class Exported:
    """A case, not yet built.

    Attributes:
        name: the entry and its case.
        make: builds the model.
    """

    name: str
    make: Callable[[], Ready]


def pytorch() -> Iterator[Exported]:
    """The cases of the ATen map."""
    import torch

    from onnxport.converters.to_onnx.pytorch import export
    from onnxport.validation.runners.pytorch import to_numpy
    from tests.pytorch.test_entries import CASES

    def tensors(inputs: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(torch.tensor(item) if isinstance(item, np.ndarray) else item for item in inputs)

    def array(leaf: Any) -> Any:
        """A tensor or number as the file gives it: a complex tensor as pairs."""
        if not isinstance(leaf, torch.Tensor):
            return np.asarray(leaf)
        return to_numpy(torch.view_as_real(leaf.detach().resolve_conj()) if leaf.is_complex() else leaf)

    def arrays(tree: Any) -> list[Any]:
        return [array(leaf) for leaf in torch.utils._pytree.tree_leaves(tree) if leaf is not None]

    def make(case: Any) -> Ready:
        def model() -> Any:
            torch.manual_seed(0)
            return case.call() if case.factory else case.call

        def expected() -> list[Any]:
            with torch.no_grad():
                return arrays(model()(*tensors(case.draw())))

        return Ready(
            lambda opset: export(
                model(), Request(inputs=tensors(case.draw()), target_opset=max(opset, case.min_opset))
            ),
            lambda: arrays([item for item in tensors(case.draw()) if isinstance(item, torch.Tensor)]),
            expected,
        )

    for name, case in CASES:
        yield Exported(name, partial(make, case))


def tensorflow() -> Iterator[Exported]:
    """The cases of the TensorFlow map."""
    import tensorflow as tf

    from onnxport.converters.to_onnx.tensorflow import export
    from tests.tensorflow.test_export_cases import CASES

    def make(case: Any) -> Ready:
        function = case.call() if case.factory else case.call
        return Ready(
            lambda opset: export(
                function, Request(inputs=case.draw(), target_opset=max(opset, case.min_opset), dynamic_shapes={})
            ),
            case.draw,
            lambda: [item.numpy() for item in tf.nest.flatten(function(*map(tf.constant, case.draw())))],
        )

    for row in CASES:
        yield Exported(str(row.id), partial(make, row.values[0]))


def keras() -> Iterator[Exported]:
    """The layers of Keras."""
    import tensorflow as tf

    from onnxport.converters.to_onnx.keras import export
    from tests.keras import test_export_layers as layers

    def flat(structure: Any) -> list[Any]:
        return [np.asarray(item) for item in tf.nest.flatten(structure)]

    def make(build: Any, data: Any) -> Ready:
        layer, inputs = build(), layers.arguments(data)
        layers.randomized(layer, inputs)
        return Ready(
            lambda opset: export(layer, Request(inputs=inputs, target_opset=opset)),
            lambda: flat(inputs),
            lambda: flat(layer(*inputs, training=False)),
        )

    for name, build, data in layers.ROWS:
        if name not in layers.REFUSED:
            yield Exported(name, partial(make, build, data))


def sklearn() -> Iterator[Exported]:
    """The cases of the scikit-learn map."""
    from onnxport.converters.to_onnx.sklearn import export
    from onnxport.converters.to_onnx.sklearn_outputs import VARIANTS
    from onnxport.graph.rows import padded
    from onnxport.validation.runners.sklearn_outputs import call
    from tests.sklearn.test_export_cases import ROWS

    def make(method: str, case: Any) -> Ready:
        model = case.call()
        if not hasattr(model, VARIANTS.get(method, method)):
            raise InvalidInputError(f"{type(model).__name__} has no {method}")
        (rows,) = case.draw()

        def expected() -> list[Any]:
            found = call(model, method, rows)
            found = list(found) if isinstance(found, tuple) else [found]
            if isinstance(found[0], list) and all(np.ndim(item) == 2 for item in found[0]):
                found = found[0]  # an output a target
            return [padded(item) if isinstance(item, list) else item for item in found]

        return Ready(
            lambda opset: export(
                model, Request(inputs=rows, methods=[method], target_opset=max(opset, case.min_opset))
            ),
            lambda: [rows],
            expected,
        )

    for row in ROWS:
        yield Exported(str(row.id), partial(make, *row.values[1:]))


def demo() -> Iterator[Exported]:
    """The demo's trained models, proved as they are converted; the oldest runtime is compared with the installed one."""
    from examples.demo import models
    from onnxport.converters.convert import convert

    def make(train: Any) -> Ready:
        trained = train()
        given = trained.inputs if isinstance(trained.inputs, tuple) else (trained.inputs,)
        return Ready(
            lambda opset: convert(trained.model, inputs=trained.inputs, target_opset=opset),
            lambda: [item if is_table(item) else np.asarray(item) for item in given],
            lambda: (),
        )

    for train in models.ALL:
        yield Exported(train.__name__, partial(make, train))


def is_table(item: Any) -> bool:
    """Whether an input is a table with names, of which each column is an input of the graph."""
    return bool(is_frame(item) or is_records(item))


def judged(framework: str, name: str, case: Ready, opset: int, folder: Path, oldest: Path | None) -> Iterator[Outcome]:
    """What becomes of a case in the installed onnxruntime and, where a folder of it is given, in the oldest."""
    import onnxruntime

    try:
        model = case.export(opset)
    except (UnsupportedOperator, InvalidInputError) as error:
        yield Outcome(framework, opset, name, "refused", _line(error))
        return
    except Exception as error:
        yield Outcome(framework, opset, name, "error", _line(error))
        return
    notes = tuple(note for note in model.notes if note.startswith("for onnxruntime"))
    path = folder / "model.onnx"
    model.save(path)
    expected = None if of_model(model.model).random else list(case.expected())
    given = case.inputs()
    named = columns_of(given[0]) if given and is_table(given[0]) else dict(zip(model.input_names, given, strict=False))
    feeds = {name: model.session.prepare(name, item) for name, item in (named or {}).items()}
    expected = model.session.run(feeds) if framework == "demo" else expected
    verdict, reason = _run(path, feeds, expected)
    yield Outcome(framework, opset, name, verdict, reason, notes, onnxruntime.__version__)
    if oldest is not None and opset <= OLDEST_OPSET and model.opset <= OLDEST_OPSET:
        verdict, reason = _in_oldest(path, feeds, expected, oldest)
        yield Outcome(framework, opset, name, verdict, reason, notes, OLDEST)


def _run(path: Path, feeds: dict[str, Any], expected: list[Any] | None) -> tuple[str, str]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return "not loaded", _line(error)
    try:
        return _compared(_results(session, feeds), expected)
    except Exception as error:
        return "error", _line(error)


def _results(session: Any, feeds: dict[str, Any]) -> list[Any]:
    """What a session gives; it takes no arrays of bfloat16, for which NumPy has no type, but values of its own."""
    import onnxruntime

    if all(getattr(item, "dtype", None) != "bfloat16" for item in feeds.values()):
        return list(session.run(None, feeds))
    value, narrow = onnxruntime.OrtValue, 16  # the number of bfloat16 in ONNX
    own = {
        name: value.ortvalue_from_numpy_with_onnx_type(item.view("uint16"), narrow)
        if item.dtype == "bfloat16"
        else value.ortvalue_from_numpy(item)
        for name, item in feeds.items()
    }
    return [item.numpy() for item in session.run_with_ort_values(None, own)]


def _compared(found: Sequence[Any], expected: list[Any] | None) -> tuple[str, str]:
    """Equal shapes and types; numbers within a few roundings of the output's scale."""
    if expected is None:
        return "random", ""
    for index, (got, want) in enumerate(zip(found, expected)):
        want = want.toarray() if hasattr(want, "toarray") else np.asarray(want)
        got = np.asarray(got)
        if got.shape != want.shape:
            return "wrong", f"output {index} has shape {got.shape}, not {want.shape}"
        if want.dtype.kind in "OUS" or got.dtype.kind in "OUSiub":
            texts = [item.decode() if isinstance(item, bytes) else item for item in want.ravel().tolist()]
            if texts != got.ravel().tolist():
                return "wrong", f"output {index} differs"
            continue
        got, want = got.astype(np.float64), want.astype(np.float64)
        scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        if not np.allclose(got, want, rtol=2e-4, atol=2e-5 * scale, equal_nan=True):
            return "wrong", f"output {index} is off by {np.nanmax(np.abs(got - want)):.2g}"
    return "right", ""


_CHILD = """
import sys, pickle, numpy, ml_dtypes, onnxruntime
from scripts.conformance.runtimes import _results
while True:
    line = sys.stdin.readline()
    if not line: break
    path, feeds, out = line.rstrip("\\n").split("\\t")
    try:
        options = onnxruntime.SessionOptions(); options.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        result = ("not loaded", str(error))
    else:
        try:
            result = ("ran", _results(session, pickle.load(open(feeds, "rb"))))
        except Exception as error:
            result = ("error", str(error))
    pickle.dump(result, open(out, "wb"))
    print("done", flush=True)
"""
_children: dict[Path, subprocess.Popen[str]] = {}


def _in_oldest(path: Path, feeds: dict[str, Any], expected: list[Any] | None, oldest: Path) -> tuple[str, str]:
    import pickle

    child = _children.get(oldest)
    if child is None or child.poll() is not None:
        child = _children[oldest] = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(oldest), *sys.path))},
        )
    assert child.stdin is not None
    assert child.stdout is not None
    given, results = path.with_suffix(".feeds"), path.with_suffix(".results")
    given.write_bytes(pickle.dumps(feeds))
    child.stdin.write(f"{path}\t{given}\t{results}\n")
    child.stdin.flush()
    if not child.stdout.readline():
        return "error", "the process ended"
    verdict, found = pickle.loads(results.read_bytes())  # noqa: S301  # written by the process above
    return _compared(found, expected) if verdict == "ran" else (verdict, _line(found))


def _line(error: object) -> str:
    return " ".join(str(error).split())[:300]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=FRAMEWORKS, action="append")
    parser.add_argument("--opset", type=int, action="append")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--oldest", type=Path)
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args()
    if arguments.report is not None:
        lines = arguments.results.read_text().splitlines()
        kept = {(o.framework, o.opset, o.name, o.runtime): o for o in (Outcome(**json.loads(line)) for line in lines)}
        page = arguments.report.read_text() if arguments.report.exists() else ""
        arguments.report.write_text(report(list(kept.values()), page))
        return
    warnings.simplefilter("ignore")
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, arguments.results.open("a") as results:
        for framework in arguments.framework or FRAMEWORKS:
            started, verdicts = time.perf_counter(), Counter[str]()
            for case in globals()[framework]():
                try:
                    ready = case.make()
                except InvalidInputError:  # an estimator without the method
                    continue
                for opset in arguments.opset or OPSETS:
                    for outcome in judged(framework, case.name, ready, opset, Path(folder), arguments.oldest):
                        verdicts[outcome.verdict] += 1
                        print(json.dumps(asdict(outcome)), file=results, flush=True)
            print(framework, dict(verdicts), f"{time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
