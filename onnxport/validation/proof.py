"""Running both sides on sets of inputs and judging what they give."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from numbers import Number
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.frameworks import Framework
from onnxport.graph.external_data import weight_bytes
from onnxport.graph.outputs import read
from onnxport.graph.protos import is_tensor
from onnxport.graph.runtime import Session
from onnxport.validation import tolerance
from onnxport.validation.comparison import OutputReport, is_floating, judge
from onnxport.validation.divergence import by_source_node, first_divergence
from onnxport.validation.evidence import (
    Evidence,
    Pair,
    budget,
    budget_for_parts,
    column_like,
    first_evidence,
    further_evidence,
    jumps,
)
from onnxport.validation.input_sets.base import InputSet, specs_of
from onnxport.validation.input_sets.plan import first_line, source_runs
from onnxport.validation.numerics import Numerics, of_model
from onnxport.validation.parties import Comparison, Party, Tolerance
from onnxport.validation.report import Divergence, Report, SetReport, Side
from onnxport.validation.runners import Binding, Outputs, Runner, bind
from onnxport.validation.runners.base import InputSpec, graph_order, travelled
from onnxport.validation.runners.onnx import OnnxRunner

# Beyond this size of the weights the search for the divergent node takes more memory than it is worth.
_SEARCH_LIMIT = 1 << 30
_PACKAGES = {
    "onnx": ("onnx", "onnxruntime"),
    "pytorch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "keras": ("keras", "tensorflow", "tensorflow-cpu", "torch", "jax"),
    "sklearn": ("scikit-learn",),
}


@np.errstate(all="ignore")  # some sets are made to overflow
def compare(
    source: Party,
    converted: Party,
    binding: Binding,
    *,
    graph: ir.Model | None,
    tolerance: Tolerance,
    seed: int = 0,
    notes: Sequence[str] = (),
) -> Report:
    """Runs both sides on every set of inputs.

    Args:
        source: the side that counts as right.
        converted: the side under test.
        binding: the user's inputs, for the source.
        graph: the ONNX graph that is one of the sides or lies between them; None where there is none.
        tolerance: the user's tolerances.
        seed: for inputs that are drawn.
        notes: what the conversion had to say.

    Raises:
        InvalidInputError: the source itself can't run on the inputs.
    """
    if graph is not None:
        binding = _with_graph(binding, graph)
    left = bind(source.model, source.framework, binding)
    right = bind(converted.model, converted.framework, replace(binding, inputs=None, kwargs=None))
    specs = binding.specs
    order = tuple(graph_order(left.example, specs)) if left.example is not None and specs is not None else None
    numerics = of_model(graph) if graph is not None else Numerics(64)
    parties = Comparison(left, right, order, specs, graph, numerics, tolerance)
    remarks = list(notes)
    ran = [
        (run.inputs, run_converted(parties, run.inputs, run.outputs, run.seconds, remarks))
        for run in source_runs(parties, seed, remarks)
    ]
    reports = [report for _, report in ran]
    failed = [item for item, report in ran if not report.passed]
    if failed and runtime_is_to_blame(parties, failed):
        remarks.append(
            "the graph as written agrees with the source: onnxruntime's own optimisation of it changes the result"
        )
    remarks += [hint for item in failed if (hint := parties.source.hint(parties.source_leaves(item.leaves)))]
    return Report(
        _side(left, source.title),
        _side(right, converted.title),
        tuple(reports),
        tuple(dict.fromkeys(remarks)),
        versions(source.framework, converted.framework),
        divergent_node(parties, failed[0]) if failed else None,
    )


def versions(*frameworks: Framework) -> dict[str, str]:
    """Versions of onnxport, NumPy, ONNX's packages and the frameworks', as installed."""
    names = ["onnxport", "numpy", *_PACKAGES["onnx"], *(name for item in frameworks for name in _PACKAGES[item])]
    found = {}
    for name in dict.fromkeys(names):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _side(runner: Runner, title: str) -> Side:
    return Side(runner.framework, title or runner.title, runner.runtime)


def _with_graph(binding: Binding, graph: ir.Model) -> Binding:
    tensors = all(is_tensor(value) for value in graph.graph.outputs)
    return replace(
        binding,
        specs=specs_of(graph),
        output_names=tuple(value.name or "" for value in graph.graph.outputs),
        structured=not tensors,
        produced=read(graph.metadata_props),
    )


# -- one set ---------------------------------------------------------------------------------------------------------------


def run_converted(
    parties: Comparison, item: InputSet, expected: Outputs, source_seconds: float, notes: list[str]
) -> SetReport:
    """What the converted model gives on a set, against what the source gave."""
    described = _described(item, parties.specs)
    started = time.perf_counter()
    try:
        results = parties.converted.run(item.leaves)
    except Exception as error:  # of whatever framework it is built from
        reason = f"the converted model can't run: {first_line(error)}"
        return SetReport(item.name, described, (), source_seconds, time.perf_counter() - started, reason)
    seconds = time.perf_counter() - started
    pairs = _paired(expected, results, notes)
    if pairs is None:
        reason = f"{len(results)} outputs ({_names(results)}) instead of {len(expected)} ({_names(expected)})"
        return SetReport(item.name, described, (), source_seconds, seconds, reason)
    outputs = _judged(parties, item, parties.source_leaves(item.leaves), pairs)
    return SetReport(item.name, described, tuple(outputs), source_seconds, seconds)


def _paired(expected: Outputs, results: Outputs, notes: list[str]) -> list[Pair] | None:
    """Outputs that belong together: by name where the names are the same, else by position; None where numbers differ."""
    names = [name for name, _ in expected]
    places = {name: i for i, (name, _) in enumerate(results)}
    if len(places) == len(results) and len(set(names)) == len(names) and set(names) <= set(places):
        extra = [name for name in places if name not in names]
        if extra:
            notes.append(f"outputs that the source does not return were not compared: {', '.join(extra)}")
        return [
            Pair(name, value, results[places[name]][1], i, places[name]) for i, (name, value) in enumerate(expected)
        ]
    kept = list(enumerate(expected))
    if len(expected) != len(results):  # numbers that the graph does not give
        kept = [(i, item) for i, item in kept if isinstance(item[1], (np.ndarray, list, dict))]
    if len(kept) != len(results):
        return None
    return [
        Pair(name or own or f"output_{place}", value, result, i, place)
        for place, ((i, (own, value)), (name, result)) in enumerate(zip(kept, results, strict=True))
    ]


def _judged(parties: Comparison, item: InputSet, own: Sequence[Any], pairs: Sequence[Pair]) -> list[OutputReport]:
    evidence = first_evidence(parties, item, own)
    first = [_judge_one(parties, item, own, pair, pairs, evidence) for pair in pairs]
    if all(output.verdict != "fail" for output in first):
        return first
    more = further_evidence(parties, item, evidence)
    if not more.nudged and not more.reworked:
        return first
    return [
        output if output.verdict != "fail" else _judge_one(parties, item, own, pair, pairs, more)
        for output, pair in zip(first, pairs, strict=True)
    ]


def _judge_one(
    parties: Comparison, item: InputSet, own: Sequence[Any], pair: Pair, pairs: Sequence[Pair], evidence: Evidence
) -> OutputReport:
    same = not (parties.source.own_dtypes or parties.converted.own_dtypes)
    expected, result = _comparable(parties, pair.expected, pair.result, same), pair.result
    if parties.source.dtypes_vary or pair.name == "inverse_transform":
        expected = _as_floating(expected, result)
    if pair.name in parties.numerics.random:
        return _judge_random(pair.name, expected, result, same)
    if not isinstance(expected, np.ndarray) or not isinstance(result, np.ndarray):
        return judge(pair.name, expected, result, budget_for_parts(parties, expected), same_dtype=same)
    pair = replace(pair, expected=expected)
    others = jumps(pair, evidence)
    exempt = None
    if not np.array_equal(expected, result):
        sums = tolerance.LENGTH_FACTOR * np.sqrt(parties.numerics.length) + tolerance.ULPS
        values = {other.name: other.expected for other in pairs}
        exempt = parties.source.undecided(own, pair.name, values, 2 * sums * _input_epsilon(item))
    numeric = is_floating(expected.dtype) and not parties.source.says_labels(pair.name)
    allowed = budget(parties, pair, evidence) if numeric else tolerance.EXACT
    return judge(pair.name, expected, result, allowed, same_dtype=same, exempt=exempt, others=others)


def _comparable(parties: Comparison, expected: Any, result: Any, same: bool) -> Any:
    """The source's value in the form that the other side's type system gives it."""
    if parties.converted.framework != "onnx" and parties.source.framework == "onnx":
        expected = travelled(expected)
    if isinstance(expected, list) and isinstance(result, dict) and all(isinstance(row, dict) for row in expected):
        # a map a row against a column a key; onnxruntime's Python interface gives float32 as Python numbers
        return {
            key: np.array([row[key] for row in expected], np.asarray(column).dtype) for key, column in result.items()
        }
    if isinstance(expected, (bool, int, float)) and isinstance(result, np.ndarray):
        natural = np.asarray(expected)
        expected = natural.astype(result.dtype) if natural.dtype.kind == result.dtype.kind else natural
    if isinstance(expected, np.ndarray) and isinstance(result, np.ndarray) and not same:
        expected = _without_none(column_like(expected, result), result.dtype)
    return expected


def _as_floating(expected: Any, result: Any) -> Any:
    """Whole numbers in the type of the result, where that has NaN for rows that stand for none."""
    both = isinstance(expected, np.ndarray) and isinstance(result, np.ndarray)
    return (
        expected.astype(result.dtype)
        if both and expected.dtype.kind in "iub" and result.dtype.kind == "f"
        else expected
    )


def _without_none(expected: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """What stands for no category among an encoder's: the words "None" and "nan" among strings, NaN among numbers."""
    if expected.dtype.kind != "O":
        return expected
    if dtype.kind == "f" and all(item is None or isinstance(item, Number) for item in expected.flat):
        return np.array([np.nan if item is None else item for item in expected.flat], dtype).reshape(expected.shape)
    spelled = [str(item) if item is None or item != item else item for item in expected.flat]
    return np.array(spelled, object).reshape(expected.shape) if dtype.kind == "O" else expected


def _judge_random(name: str, expected: Any, result: Any, same: bool) -> OutputReport:
    """Type and shape must agree; the values are drawn anew on each run."""
    if isinstance(expected, np.ndarray) and isinstance(result, np.ndarray):
        blank = judge(
            name,
            np.zeros(expected.shape, expected.dtype),
            np.zeros(result.shape, result.dtype),
            tolerance.EXACT,
            same_dtype=same,
        )
        if blank.verdict == "fail":
            return blank
        return OutputReport(
            name, "skipped", "random: only type and shape were compared", str(expected.dtype), expected.shape
        )
    return OutputReport(name, "skipped", "random")


def _input_epsilon(item: InputSet) -> float:
    found = [
        tolerance.epsilon(leaf.dtype)
        for leaf in item.leaves
        if isinstance(leaf, np.ndarray) and is_floating(leaf.dtype)
    ]
    return max(found, default=2.0**-23)


def _described(item: InputSet, specs: Sequence[InputSpec] | None) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    names = [spec.name for spec in specs] if specs is not None else [f"input_{i}" for i in range(len(item.leaves))]
    return tuple(
        (name, str(getattr(leaf, "dtype", type(leaf).__name__)), tuple(getattr(leaf, "shape", ())))
        for name, leaf in zip(names, item.leaves, strict=True)
    )


def _names(outputs: Outputs) -> str:
    return ", ".join(name or f"output_{i}" for i, (name, _) in enumerate(outputs))


# -- where to look ---------------------------------------------------------------------------------------------------------


def runtime_is_to_blame(parties: Comparison, failed: Sequence[InputSet]) -> bool:
    """Whether the graph run as it is written agrees where the one that onnxruntime optimised does not."""
    right, graph = parties.converted, parties.graph
    if not isinstance(right, OnnxRunner) or right.session.backend != "onnxruntime" or graph is None:
        return False
    plain = replace(parties, converted=OnnxRunner(Session(graph, optimize=False), right.title, right.example))
    runs = [(item, parties.source.run(parties.source_leaves(item.leaves))) for item in failed]
    return all(run_converted(plain, item, expected, 0.0, []).passed for item, expected in runs)


def divergent_node(parties: Comparison, item: InputSet) -> Divergence | None:
    """The first divergent node of a converted ONNX model on a set of inputs that failed."""
    graph, specs = parties.graph, parties.specs
    if (
        not isinstance(parties.converted, OnnxRunner)
        or graph is None
        or specs is None
        or weight_bytes(graph) > _SEARCH_LIMIT
    ):
        return None
    feeds = {spec.name: leaf for spec, leaf in zip(specs, item.leaves, strict=True)}
    inner = parties.source.intermediates(parties.source_leaves(item.leaves))
    # Two ONNX graphs share the names of their values; another source's are found by where the nodes came from.
    reference = inner if parties.source.framework == "onnx" else by_source_node(graph, inner)
    try:
        return first_divergence(graph, feeds, reference)
    except OnnxportError:  # the search is a service; its failure must not hide the verdict
        return None
