"""Test data that travels with a file: written from what the source gives, replayed without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxport.errors import InvalidInputError, OnnxportError, first_line
from onnxport.graph.runtime import Session
from onnxport.graph.test_vectors import Vectors
from onnxport.validation import tolerance
from onnxport.validation.comparison import is_floating, judge
from onnxport.validation.evidence import Pair, budget, gather, shaped_like
from onnxport.validation.input_sets.plan import SourceCannotRun, SourceRun, source_runs
from onnxport.validation.judgement import Trial
from onnxport.validation.numerics import of_model
from onnxport.validation.parties import Comparison, Party, Tolerance
from onnxport.validation.proof import bound, paired, versions
from onnxport.validation.records import SetReport, Side
from onnxport.validation.report import Report
from onnxport.validation.runners import Binding
from onnxport.validation.tolerance import Budget
from onnxport.validation.witnesses.engine import Engine
from onnxport.validation.witnesses.testimony import EngineRunner, testimony

_SETS = 2  # the first inputs and one more


def vectors(source: Party, hub: Party, binding: Binding) -> list[Vectors]:
    """What the source gives on its first sets of inputs, in the graph's types, with the budgets of a proof.

    A set on which the source itself does not decide an element (a tie, a value at a threshold) is passed over: nobody could
    judge it without the source.

    Raises:
        InvalidInputError: the source runs on none, or decides on none.
    """
    parties = bound(source, hub, binding, graph=hub.model.model, tolerance=Tolerance())
    sets: list[Vectors] = []
    try:
        for run in source_runs(parties, 0, []):
            if run.inputs.drawn_empty:
                continue
            item = _vectors_of(parties, run)
            if item is not None and replay(hub.model, [item]).verdict == "passed":
                sets.append(item)
            if len(sets) == _SETS:
                break
    except SourceCannotRun as error:
        raise InvalidInputError(str(error)) from error
    if not sets:
        raise InvalidInputError(
            "there is no set of inputs on which the source alone decides every output: no test data"
        )
    return sets


def _vectors_of(parties: Comparison, run: SourceRun) -> Vectors | None:
    assert parties.specs is not None
    inputs = dict(zip((spec.name for spec in parties.specs), run.inputs.leaves, strict=True))
    results = parties.converted.run(run.inputs.leaves)
    pairs = paired(run.outputs, results, [])
    if pairs is None or len(pairs) != len(results):
        return None
    own = parties.source_leaves(run.inputs.leaves)
    trial, evidence = Trial.of(parties, run.inputs, own, pairs), gather(parties, run.inputs, own)
    expected: dict[str, Any] = {}
    budgets: dict[str, np.ndarray] = {}
    for pair in sorted(trial.pairs, key=lambda item: item.converted_index):
        name = results[pair.converted_index][0]
        expected[name] = _in_type_of(pair)
        if isinstance(pair.expected, np.ndarray) and is_floating(pair.expected.dtype):
            budgets[name] = _limit(expected[name], budget(parties, run.inputs, pair, evidence))
    return Vectors(inputs, expected, budgets)


def _in_type_of(pair: Pair) -> Any:
    """The source's value in the element type and shape that the graph gives it."""
    if not isinstance(pair.expected, np.ndarray) or not isinstance(pair.result, np.ndarray):
        return pair.expected
    value = shaped_like(pair.expected, pair.result)
    return value if value.dtype.kind in "OUS" else value.astype(pair.result.dtype)


def _limit(expected: np.ndarray, allowed: Budget) -> np.ndarray:
    """How far elements may lie from what the source gives: the budget, and how far that lies from the truth itself."""
    values = tolerance.wide(expected)
    with np.errstate(all="ignore"):
        limit = np.broadcast_to(allowed.limit(np.abs(values)), expected.shape).astype(np.float64)
        truth = allowed.truth_like(expected)
        if truth is not None:
            limit = limit + np.nan_to_num(np.abs(tolerance.wide(truth) - values), nan=0.0, posinf=0.0)
        rounded = np.nextafter(limit.astype(np.float32), np.float32(np.inf))
    return np.asarray(rounded.flat[0]) if rounded.size and np.all(rounded == rounded.flat[0]) else rounded


def replay(
    model: Any,
    sets: Sequence[Vectors],
    limits: Tolerance | None = None,
    title: str = "",
    *,
    witnesses: Sequence[Engine] = (),
    file: Path | None = None,
) -> Report:
    """The report of an `OnnxModel` against the outputs that were written beside it; tolerances stand instead of the budgets.

    Where test data has no budgets, as that of other tools, rounding of the last place is allowed. The `witnesses` run `file`.
    """
    session: Session = model.new_session()
    left = Side("test data", sets[0].name or "given") if len(sets) == 1 else Side("test data", f"{len(sets)} sets")
    right = Side("onnx", title or model.model.graph.name or "model", session.backend, model.opset)
    length, allowed = of_model(model.model).length, limits or Tolerance()

    def own(inputs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(zip(session.output_names, session.run(inputs), strict=True))

    def judge_witness(runner: EngineRunner, notes: list[str]) -> Iterator[SetReport]:
        yield from _replayed(
            lambda inputs: dict(runner.run([inputs[name] for name in session.input_names])), length, sets, allowed
        )

    reports = tuple(_replayed(own, length, sets, allowed))
    first = [sets[0].inputs[name] for name in session.input_names]
    others = [testimony(engine, file, model.model, session, first, judge_witness) for engine in witnesses]
    return Report(left, right, reports, versions=versions(), witnesses=tuple(others))


def _replayed(
    run: Callable[[Mapping[str, Any]], Mapping[str, Any]], length: int, sets: Sequence[Vectors], limits: Tolerance
) -> Iterator[SetReport]:
    for item in sets:
        described = tuple((name, str(np.asarray(x).dtype), np.shape(x)) for name, x in item.inputs.items())
        started = time.perf_counter()
        try:
            results = run(item.inputs)
        except OnnxportError as error:
            yield SetReport(item.name, described, (), 0.0, 0.0, f"the model can't run: {first_line(error)}")
            continue
        seconds = time.perf_counter() - started
        outputs = [
            judge(name, expected, results[name], _allowed(expected, item.budgets.get(name), length, limits))
            for name, expected in item.outputs.items()
        ]
        yield SetReport(item.name, described, tuple(outputs), 0.0, seconds)


def _allowed(expected: Any, written: np.ndarray | None, length: int, limits: Tolerance) -> Budget:
    if not isinstance(expected, np.ndarray) or not is_floating(expected.dtype):
        return tolerance.EXACT
    if limits.given:
        return tolerance.from_user(limits.rtol, limits.atol, expected)
    if written is not None:
        return Budget(written.astype(np.float64), 0.0, "written with the test data, from the source's own error")
    return tolerance.by_rounding(expected, eps=tolerance.epsilon(expected.dtype), length=length)
