"""ONNX files that other tools wrote (`foreign_files.py`), through each importer: the numbers, and what people do next.

    nice python -m scripts.conformance.foreign --corpus /elsewhere/foreign --results build/foreign.jsonl [--only pytorch]
    python -m scripts.conformance.foreign --results build/foreign.jsonl --report docs/conformance/foreign.md

A file is imported, run on two draws of inputs and on another batch size where it has one, and compared with onnxruntime under
budgets derived from onnxruntime's own runs: without optimisations, with inputs moved by a unit in the last place, and where that
does not explain a difference with weights moved by three (float16: by one): integers in a quantised graph change by it. A module
of PyTorch is also trained one step, pickled and loaded in another process, compiled as one graph and exported with its dynamic
dimensions; Keras models and SavedModels are loaded in another process, without onnxport too. A later run goes on where the first
stopped.
"""

from __future__ import annotations

import collections
import copy
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scripts.conformance import foreign_steps, workers
from scripts.conformance.foreign_files import read_inputs
from scripts.conformance.workers import first_line, within

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SECONDS = 300
STEP_SECONDS = 60  # of a step after the numbers, such as compiling; of the processor, as SECONDS
IMPORTERS = ("pytorch", "tensorflow", "keras")
VERDICTS = ("right", "unproved", "wrong", "fails", "refused", "defect", "timeout")
DOUBT = (
    0.02  # onnxruntime's own runs that lie further apart, relative to the greatest result, do not tell what is right
)
# Runtimes compute sigmoid, erf and their like to a few units of float32 at 1.
KERNEL_ULPS = 4
Finding = tuple[str, str, str]  # the step, its verdict and the reason


class Reference:
    """What onnxruntime gives for a file, and how far its own runs lie apart."""

    def __init__(self, path: Path) -> None:
        import onnx_ir as ir
        import onnxruntime as ort

        from onnxport.graph.protos import to_proto
        from onnxport.graph.runtimes.fitting import unrounded
        from onnxport.tracing.onnx import load_model
        from onnxport.validation.numerics import of_model

        self.path = path
        self.sessions = []
        model = load_model(path)
        exact = unrounded(model)  # a file may let onnxruntime round what it multiplies
        self.proto = None if exact is None else to_proto(exact)
        source = str(path) if self.proto is None else self.proto.SerializeToString()
        for level in (ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
            options = ort.SessionOptions()
            options.graph_optimization_level, options.log_severity_level = level, 4
            options.intra_op_num_threads = 1
            self.sessions.append(ort.InferenceSession(source, options, providers=["CPUExecutionProvider"]))
        self.names = [item.name for item in self.sessions[0].get_inputs()]
        self.outputs = [item.name for item in self.sessions[0].get_outputs()]
        self.length = of_model(model).length
        tensors = [tensor.dtype for tensor in (v.const_value for v in model.graph.initializers.values()) if tensor]
        # Files in float16 that take and give float32 compute in float16, and a runtime may round less often.
        self.coarsest = np.dtype(np.float16 if ir.DataType.FLOAT16 in tensors else np.float32)

    def run(self, inputs: Sequence[np.ndarray], plain: bool = False) -> list[Any]:
        """The file's outputs, a list of maps as a map of columns."""
        results = self.sessions[plain].run(None, dict(zip(self.names, inputs, strict=True)))
        return [_columns(item) for item in results]

    def moved(self, inputs: Sequence[np.ndarray]) -> list[list[Any]]:
        """Its outputs without optimisations, and for inputs that lie beside the given ones."""
        from onnxport.validation import tolerance

        rng = np.random.default_rng(5)
        runs = [self.run(inputs, plain=True)]
        for _ in range(2):
            near = [
                tolerance.nudge(x.copy(), 1, rng) if x.dtype.kind == "f" and x.dtype.itemsize > 2 else x for x in inputs
            ]
            runs.append(self.run(near))
        return runs

    def moves(self, sets: Sequence[Sequence[np.ndarray]]) -> bool:
        """Whether an output changes with the inputs: agreement on one that does not shows nothing."""
        from onnxport.validation.unmoved import Movement

        movement = Movement()
        for given in sets:
            movement.add(list(zip(self.outputs, self.run(given), strict=True)))
        return any(moved is not False for moved in movement.moved)

    def moved_weights(self, inputs: Sequence[np.ndarray]) -> list[list[Any]]:
        """Its outputs where the weights lie beside the file's own: all of them, then those of few elements."""
        import onnx
        import onnxruntime as ort

        from onnxport.validation import tolerance

        rng = np.random.default_rng(7)
        units = {onnx.TensorProto.FLOAT: 3, onnx.TensorProto.FLOAT16: 1}
        runs = []
        for most in (1 << 62, 1 << 62, 1 << 62, 1 << 10, 1 << 10, 1 << 10):
            proto = onnx.load(self.path) if self.proto is None else copy.deepcopy(self.proto)
            for tensor in proto.graph.initializer:
                if tensor.data_type in units and np.prod(tensor.dims) <= most:
                    held = onnx.numpy_helper.to_array(tensor).copy()
                    moved = tolerance.nudge(held, units[tensor.data_type], rng)
                    tensor.CopyFrom(onnx.numpy_helper.from_array(moved, tensor.name))
            session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
            results = session.run(None, dict(zip(self.names, inputs, strict=True)))
            runs.append([_columns(item) for item in results])
        return runs


def _columns(result: Any) -> Any:
    if isinstance(result, list) and result and all(isinstance(row, dict) for row in result):
        return {key: np.asarray([row[key] for row in result], np.float32) for key in result[0]}
    return result


def difference(reference: Reference, inputs: Sequence[np.ndarray], got: Sequence[Any]) -> str:
    """How results differ from onnxruntime's; empty where they do not."""
    moved = reference.moved(inputs)
    if not _difference(reference, inputs, got, moved):
        return ""
    return _difference(reference, inputs, got, [*moved, *reference.moved_weights(inputs)])


def _difference(
    reference: Reference, inputs: Sequence[np.ndarray], got: Sequence[Any], moved: Sequence[list[Any]]
) -> str:
    from onnxport.validation import tolerance
    from onnxport.validation.comparison import judge

    want = reference.run(inputs)
    if len(want) != len(got):
        return f"{len(got)} outputs instead of {len(want)}"
    for index, (a, b) in enumerate(zip(want, got, strict=True)):
        keys: Any = None
        if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
            keys = list(a)
        elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            keys = range(len(a))
        pairs = [(a, b, [run[index] for run in moved])]
        if keys is not None:
            pairs = [(a[key], b[key], [run[index][key] for run in moved]) for key in keys]
        for x, y, near in pairs:
            budget = tolerance.EXACT
            if isinstance(x, np.ndarray) and x.dtype.kind == "f":
                eps = max(tolerance.epsilon(x.dtype), tolerance.epsilon(reference.coarsest))
                budget = tolerance.derived(x, eps=eps, length=reference.length, moved=near)
                budget = budget.at_least(KERNEL_ULPS * eps)
            found = judge(
                reference.outputs[index], x, y, budget, others=[item for item in near if np.shape(item) == np.shape(x)]
            )
            if found.verdict == "fail":
                figures = found.figures
                numbers = (
                    f" {figures.source!r} became {figures.converted!r}, {figures.mismatched} elements"
                    if figures
                    else ""
                )
                doubt = "onnxruntime's own runs lie apart: " if _apart(x, y, near) else ""
                return f"{doubt}{found.name}: {found.reason}{numbers}"[:300]
    return ""


def _apart(x: Any, y: Any, near: Sequence[Any]) -> bool:
    """Whether onnxruntime's own runs do not tell what is right: far from each other, or half as far as `y` is from `x`."""
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f" or not x.size:
        return False
    gap = float(np.max(np.abs(x - y))) if np.shape(y) == x.shape else np.inf
    doubt = min(DOUBT * float(np.max(np.abs(x), initial=0.0)), gap / 2)
    return any(np.shape(item) == x.shape and float(np.max(np.abs(x - item))) > doubt for item in near)


def findings(item: str, corpus: Path, numbers: bool = False) -> Iterator[Finding]:
    """What an importer makes of a file; `numbers` alone, without what comes after them."""
    import onnxport
    from onnxport.errors import UnsupportedOperator

    importer, name = item.split(" ", 1)
    path = corpus / f"{name}.onnx"
    sets, reference = read_inputs(path), Reference(path)
    try:
        made = onnxport.convert(path, to=importer, validate=False)
    except UnsupportedOperator as error:
        reasons = [f"{item.op}: {item.reason}" if item.reason else item.op for item in error.operators]
        yield importer, "refused", "; ".join(reasons)[:300] or first_line(error)
        return
    except Exception as error:
        yield importer, "defect", f"{type(error).__name__}: {first_line(error)}"
        return
    steps = foreign_steps.steps(importer)
    verdict, reason = _compared(reference, sets, lambda given: steps.run(made, given))
    yield importer, verdict, reason
    if verdict != "right" or numbers:
        return
    with tempfile.TemporaryDirectory() as folder:
        for label, step in steps.later:
            try:
                with within(STEP_SECONDS):
                    reason = step(made, sets, Path(folder))
                yield f"{importer}, {label}", "fails" if reason else "right", reason
            except (
                foreign_steps.OtherNumbers
            ) as error:  # a compiled graph rounds elsewhere: the file tells how far it may
                reason = difference(reference, sets[-1], error.results)
                yield f"{importer}, {label}", verdict_of(reason), reason
            except Exception as error:
                yield f"{importer}, {label}", "fails", f"{type(error).__name__}: {first_line(error)}"


def _compared(
    reference: Reference, sets: Sequence[Sequence[np.ndarray]], run: Callable[..., list[Any]]
) -> tuple[str, str]:
    for index, given in enumerate(sets):
        try:
            got = run(given)
        except Exception as error:
            return "defect", f"set {index}: {type(error).__name__}: {first_line(error)}"
        found = difference(reference, given, got)
        if found:
            return verdict_of(found), f"set {index}: {found}"
    return ("right", "") if reference.moves(sets) else ("unproved", "no output changes with the inputs")


def verdict_of(difference: str) -> str:
    """The verdict that a difference comes to; on none, or on one that onnxruntime's own runs show as well, it is not wrong."""
    return "right" if not difference else "unproved" if difference.startswith("onnxruntime") else "wrong"


def work(todo: Sequence[str], corpus: Path, numbers: bool) -> None:
    """Checks files and prints a line for each."""
    import logging

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    workers.work(todo, lambda item: findings(item, corpus, numbers))


def report(results: dict[str, list[Any]], path: Path) -> None:
    """The tables as Markdown."""
    lines = [
        "# Files of other tools",
        "",
        "Written by `scripts/conformance/foreign.py`: ONNX files that other tools wrote (`foreign_files.py`), through each",
        "importer and against onnxruntime, on two draws of inputs and on another batch size where a file has one.",
        "",
        "- *right*: all outputs agree; *refused*: an error names what is missing; *unproved*: onnxruntime's own runs on inputs a",
        "  unit in the last place away lie too far apart to tell, or no output changes with the inputs. *wrong* and *defect*",
        "  are ours.",
        "- The other columns are of the files that are right. PyTorch: trained one step, pickled and loaded in another process,",
        "  compiled as one graph, exported with the file's dynamic dimensions. TensorFlow and Keras: saved and loaded in",
        "  another process, and in one without onnxport; *served*: what Keras' own `export` writes. A step counts where",
        "  it was run.",
        "",
    ]
    for importer in IMPORTERS:
        lines += _table(importer, {n.split(" ", 1)[1]: f for n, f in results.items() if n.startswith(f"{importer} ")})
    path.write_text("\n".join(lines) + "\n")


def _table(importer: str, results: dict[str, list[Any]]) -> list[str]:
    if not results:
        return []
    labels = list(dict.fromkeys(item[0] for found in results.values() for item in found[1:]))
    heads = [label.split(", ", 1)[1] for label in labels]
    right = sum(found[0][1] == "right" for found in results.values())
    title = {"pytorch": "PyTorch", "tensorflow": "TensorFlow", "keras": "Keras"}[importer]
    lines = [f"## {title}", "", f"{right} of {len(results)} files are right ({100 * right / len(results):.1f} %).", ""]
    lines += ["| producer | right | " + " | ".join(heads) + " |", "|-" * (len(heads) + 2) + "|"]
    folders: dict[str, list[Any]] = collections.defaultdict(list)
    for name, found in results.items():
        folders[name.split("/")[0]].append(found)
    for folder, group in [*sorted(folders.items()), ("all", list(results.values()))]:
        cells = [f"{sum(found[0][1] == 'right' for found in group)}/{len(group)}"]
        for label in labels:
            steps = [item for found in group for item in found[1:] if item[0] == label]
            cells.append(f"{sum(item[1] == 'right' for item in steps)}/{len(steps)}")
        lines.append(f"| {folder} | " + " | ".join(cells) + " |")
    bad = [(name, item) for name, found in sorted(results.items()) for item in found if item[1] != "right"]
    lines += ["", "| file | step | verdict | cause |", "|-|-|-|-|"] if bad else []
    for name, (label, verdict, reason) in bad:
        cause = reason.replace("|", "\\|").replace("\n", " ")[:160]
        lines.append(f"| {name} | {label.partition(', ')[2]} | {verdict} | {cause} |")
    return [*lines, ""]


def _files(corpus: Path, sample: int) -> list[str]:
    """The files by producer; of each the `sample` smallest, where that is not 0."""
    chosen: list[Path] = []
    for folder in sorted(item for item in corpus.iterdir() if item.is_dir()):
        files = sorted(path.with_suffix(".onnx") for path in folder.glob("*.npz"))
        chosen += sorted(sorted(files, key=lambda path: path.stat().st_size)[:sample]) if sample else files
    return [str(path.relative_to(corpus).with_suffix("")) for path in chosen]


def main() -> None:
    """Runs the files, or writes the report."""
    parser = workers.parser(__doc__, "build/foreign.jsonl")
    parser.add_argument("--corpus", type=Path, default=Path("build/foreign"))
    parser.add_argument("--only", default=",".join(IMPORTERS), help="importers, comma-separated")
    parser.add_argument("--names", default="", help="only files whose name has this in it; run again if done")
    parser.add_argument("--numbers", action="store_true", help="the numbers alone")
    parser.add_argument("--sample", type=int, default=0, help="only so many files of each producer, the smallest")
    options = parser.parse_args()
    if options.work is not None:
        work(options.work, options.corpus, options.numbers)
    elif options.report:
        report(workers.known(options.results), options.report)
    else:
        files = _files(options.corpus, options.sample)
        names = [
            f"{importer} {file}" for importer in options.only.split(",") for file in files if options.names in file
        ]
        options.match = ",".join(names) if options.names else options.match
        todo = workers.remaining(options, names)
        given = ["--corpus", str(options.corpus), *(["--numbers"] if options.numbers else [])]
        workers.supervise("scripts.conformance.foreign", todo, options.results, SECONDS, *given)


if __name__ == "__main__":
    main()
