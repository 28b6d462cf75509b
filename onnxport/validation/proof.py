"""Running both sides on sets of inputs and judging what they give."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata
from itertools import islice
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnxport import frameworks
from onnxport.errors import InvalidInputError, first_line
from onnxport.frameworks.warned import warnings_kept
from onnxport.graph.guard.bounds import current
from onnxport.graph.guard.deadline import OutOfTime, timed
from onnxport.graph.outputs import read
from onnxport.graph.protos import is_tensor
from onnxport.graph.runtime import Session
from onnxport.progress import stage
from onnxport.validation.details import Details, Sample, details_wanted
from onnxport.validation.evidence import Pair
from onnxport.validation.inner_values import compared_inside, divergent_node
from onnxport.validation.input_sets.base import InputSet, specs_of
from onnxport.validation.input_sets.masks import choice_by_masks
from onnxport.validation.input_sets.plan import SourceCannotRun, SourceRun, source_runs
from onnxport.validation.judgement import judged
from onnxport.validation.numerics import outputs_behind
from onnxport.validation.parties import Comparison, Party, Tolerance
from onnxport.validation.records import Divergence, SetReport, Side, WitnessRecord
from onnxport.validation.report import Report
from onnxport.validation.runners import Binding, Outputs, Runner, bind
from onnxport.validation.runners.base import InputSpec, graph_order
from onnxport.validation.runners.onnx import OnnxRunner
from onnxport.validation.surroundings import Reading, notes_of, unproved_by
from onnxport.validation.ties import choice_among_equals
from onnxport.validation.unmoved import Movement, little_shown, wrong_inside
from onnxport.validation.witnesses.engine import Engine
from onnxport.validation.witnesses.testimony import EngineRunner, is_finite, testimony

_ENOUGH = 2  # a proof ends once so many sets of inputs have failed
_OTHERS = 2  # sets that must be compared beside one which is left out for a choice among equal elements


@np.errstate(all="ignore")  # some sets are there to overflow
@warnings_kept()
def compare(
    source: Party,
    converted: Party,
    binding: Binding,
    *,
    graph: ir.Model | None,
    tolerance: Tolerance,
    seed: int = 0,
    notes: Sequence[str] = (),
    witnesses: Sequence[Engine] = (),
) -> Report:
    """Runs both sides, of which `source` counts as right, on every set of inputs, and judges what they give.

    `binding` has the user's inputs, for the source; `seed` is for those that are drawn. `graph` is the ONNX graph that is one of
    the sides or lies between them, None where there is none; `notes` what the conversion had to say. The `witnesses` run the
    converted file on the same sets, once the proof is done.

    Raises:
        InvalidInputError: the source itself can't run on the inputs.
    """
    stage("proving")
    parties = bound(source, converted, binding, graph=graph, tolerance=tolerance)
    left, right = parties.source, parties.converted
    remarks = list(notes)
    ran: list[tuple[InputSet, SetReport]] = []
    failed: list[InputSet] = []
    judged_runs: list[SourceRun] = []
    samples: list[Sample] | None = [] if details_wanted() else None
    readings: list[Reading] = []
    movement = Movement()
    try:
        usual: Outputs = []
        for run in source_runs(parties, seed, remarks, readings):
            stage(f"proving: {run.inputs.name}")
            usual = usual or run.outputs
            movement.add(run.outputs)
            report = run_converted(parties, run.inputs, run.outputs, run.seconds, remarks, usual, samples)
            ran += [(run.inputs, report)] if report is not None else []
            judged_runs += [run] if report is not None and witnesses else []
            failed += [run.inputs] if report is not None and report.failed else []
            if len(failed) == _ENOUGH:
                remarks.append(f"further inputs were not tried: {_ENOUGH} sets had failed")
                break
    except SourceCannotRun as error:
        ran, failed = [], []
        remarks.append(str(error))
    if not ran and (guard := current()) is not None and guard.stopped:
        raise InvalidInputError(guard.stopped)
    divergence, choice = _first_divergence(parties, failed)
    if choice and len(failed) == 1 and _only_by_choice(parties, failed[0], ran):
        remarks.append(f"{failed[0].name}: left out, {choice}")
        ran = [(item, report) for item, report in ran if item is not failed[0]]
        judged_runs = [run for run in judged_runs if run.inputs is not failed[0]]
        failed, divergence, choice = [], None, ""
    if failed and runtime_is_to_blame(parties, failed):
        remarks.append(
            "the graph as written agrees with the source: onnxruntime's own optimisation of it changes the result"
        )
    remarks += [hint for item in failed if (hint := parties.source.hint(parties.source_leaves(item.leaves)))]
    remarks += [hint for item in failed[:1] if (hint := choice_by_masks(parties, item))]
    remarks += _about_runtimes(parties) + notes_of(readings, failed=bool(failed))
    remarks += [choice] if choice else []
    sides = (_side(left, source.title), _side(right, converted.title))
    reports, known = tuple(report for _, report in ran), versions(source.framework, converted.framework)
    inside = ""
    if ran and not failed and (unmoved := movement.named([output.name for output in ran[0][1].outputs])):
        stage("comparing inner values")
        inner = compared_inside(parties, ran[0][0])
        divergence = inner.wrong if inner is not None else None
        inside = wrong_inside(unmoved, divergence) if divergence is not None else ""
        remarks += [] if divergence is not None else [little_shown(unmoved, inner.count if inner is not None else 0)]
    others = _testimonies(witnesses, converted.file, parties, judged_runs)
    details: Details | None = None
    if samples is not None and ran:
        from onnxport.validation.gathering import gathered

        shown = failed[0] if failed else ran[0][0]
        details = gathered(parties, shown, samples, divergence, failed=bool(failed))
    notes = tuple(dict.fromkeys(remarks))
    frozen = unproved_by(readings, left, parties.source_leaves(ran[0][0].leaves)) if ran and not failed else ""
    return Report(*sides, reports, notes, known, divergence, _unloaded(right), others, details, frozen, inside)


def _first_divergence(parties: Comparison, failed: Sequence[InputSet]) -> tuple[Divergence | None, str]:
    """The first node that differs on the first set that failed, and in words whether it reads a choice among equal elements."""
    if not failed:
        return None, ""
    stage("looking for the first node that differs")
    divergence = divergent_node(parties, failed[0])
    if divergence is None or parties.graph is None:
        return divergence, ""
    return divergence, choice_among_equals(parties.graph, divergence.node, failed[0].leaves)


def _only_by_choice(parties: Comparison, item: InputSet, ran: Sequence[tuple[InputSet, SetReport]]) -> bool:
    """Whether a drawn set fails in nothing but what is behind such a choice, and others were compared.

    Up to the choice both sides agree on it; what follows is compared on the other sets.
    """
    assert parties.graph is not None
    report = next(report for other, report in ran if other is item)
    if not item.optional or not report.outputs or len(ran) <= _OTHERS:
        return False
    names = {value.name for value in outputs_behind(parties.graph, lambda node: node.op_type == "TopK")}
    return all(output.name in names for output in report.outputs if output.verdict == "fail")


def _testimonies(
    engines: Sequence[Engine], file: Path | None, parties: Comparison, runs: Sequence[SourceRun]
) -> tuple[WitnessRecord, ...]:
    """What engines give for the converted file on the sets of inputs that were judged."""
    right = parties.converted
    if not isinstance(right, OnnxRunner) or right.graph is None or not runs:
        return tuple(WitnessRecord(engine.name, engine.title, engine.version) for engine in engines)

    def judge(runner: EngineRunner, notes: list[str]) -> Iterator[SetReport | None]:
        asked = replace(parties, converted=runner)
        for run in runs:
            if not runner.settles_nan and not all(map(is_finite, run.inputs.leaves)):
                notes.append(f"{run.inputs.name}: left out, its kernels do not keep NaN and infinities")
                continue
            yield run_converted(asked, run.inputs, run.outputs, run.seconds, notes, runs[0].outputs)

    first = runs[0].inputs.leaves
    return tuple(testimony(engine, file, right.graph, right.session, first, judge) for engine in engines)


@np.errstate(all="ignore")
def first_reports(
    source: Party, converted: Party, binding: Binding, *, graph: ir.Model, count: int
) -> Iterator[tuple[list[object], SetReport]]:
    """The source's leaves and the report of the first `count` sets of inputs.

    Raises:
        InvalidInputError: the source itself can't run on the inputs.
        SourceCannotRun: it runs on none of those that were drawn.
    """
    parties = bound(source, converted, binding, graph=graph, tolerance=Tolerance())
    usual: Outputs = []
    for run in islice(source_runs(parties, 0, []), count):
        usual = usual or run.outputs
        report = run_converted(parties, run.inputs, run.outputs, run.seconds, [], usual)
        if report is not None:
            yield parties.source_leaves(run.inputs.leaves), report


def bound(
    source: Party, converted: Party, binding: Binding, *, graph: ir.Model | None, tolerance: Tolerance
) -> Comparison:
    """Both sides bound to their inputs; `binding` has those of the source."""
    if graph is not None:
        binding = _with_graph(binding, graph)
    left = bind(source.model, source.framework, binding)
    tables = all(frameworks.get(side.framework).takes_table for side in (source, converted))
    # without a graph, which splits a table its own way, two estimators take one and the same
    shared = binding if tables and graph is None else replace(binding, inputs=None, kwargs=None)
    right = bind(converted.model, converted.framework, shared)
    if isinstance(left, OnnxRunner) and not isinstance(right, OnnxRunner):
        left.by_the_specification()
    specs = binding.specs
    order = tuple(graph_order(left.example, specs)) if left.example is not None and specs is not None else None
    return Comparison(left, right, order, specs, graph, tolerance)


def _unloaded(runner: Runner) -> str:
    """Why the runtime that a converted model is for does not run it; empty where it does."""
    if not isinstance(runner, OnnxRunner) or not runner.session.fallback_reason:
        return ""
    return f"onnxruntime can't load the model: {runner.session.fallback_reason}"


def _about_runtimes(parties: Comparison) -> list[str]:
    source = parties.source
    if not isinstance(source, OnnxRunner):
        return []
    if source.session.backend == "onnxruntime":
        return [f"the source ran {source.setting}"] if source.setting else []
    reason = source.session.fallback_reason
    return [f"the source ran in {source.session.backend}, not in onnxruntime{f': {reason}' if reason else ''}"]


def versions(*sides: str) -> dict[str, str]:
    """Versions of onnxport, NumPy, ONNX's packages and those of the frameworks, as installed."""
    distributions = [name for item in (frameworks.HUB, *sides) for name in frameworks.get(item).distributions]
    installed = {name: _version(name) for name in dict.fromkeys(["onnxport", "numpy", *distributions])}
    return {name: version for name, version in installed.items() if version is not None}


@cache
def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _side(runner: Runner, title: str) -> Side:
    opset = runner.graph.graph.opset_imports.get("") if runner.graph is not None else None
    return Side(runner.framework, title or runner.title, runner.runtime, opset)


def _with_graph(binding: Binding, graph: ir.Model) -> Binding:
    names = tuple(value.name or "" for value in graph.graph.outputs)
    structured = not all(is_tensor(value) for value in graph.graph.outputs)
    specs, produced = specs_of(graph), read(graph.metadata_props)
    return replace(binding, specs=specs, output_names=names, structured=structured, produced=produced)


def run_converted(
    parties: Comparison,
    item: InputSet,
    expected: Outputs,
    source_seconds: float,
    notes: list[str],
    usual: Outputs | None = None,
    samples: list[Sample] | None = None,
) -> SetReport | None:
    """What the converted model gives on a set, against what the source gave; `usual` is what that gave on the first set.

    Samples of what was compared are added to `samples`, where these are wanted.

    None, with a note, where its framework computes nothing from no rows, as TensorFlow's convolutions do, or nothing at
    sizes at which the source decides otherwise, or of an image smaller than a window: an error is no wrong number; where the
    source gives another number of outputs than at first, as PyTorch's `chunk` of one row, which no graph can; and where it
    takes more time than a file may cost.
    """
    if usual is not None and len(usual) != len(expected):
        notes.append(f"{item.name}: left out, the source gives {len(expected)} outputs here and {len(usual)} at first")
        return None
    try:
        with timed():
            return _run_converted(parties, item, expected, source_seconds, notes, usual or expected, samples)
    except OutOfTime as error:
        notes.append(f"{item.name}: left out, {error}")
        return None


def _run_converted(
    parties: Comparison,
    item: InputSet,
    expected: Outputs,
    source_seconds: float,
    notes: list[str],
    usual: Outputs,
    samples: list[Sample] | None,
) -> SetReport | None:
    described = _described(item, parties.specs)
    started = time.perf_counter()
    try:
        results = parties.converted.run(item.leaves)
    except OutOfTime:
        raise
    except Exception as error:  # of whatever framework it is built from
        if parties.source.stands_in:
            raise SourceCannotRun(
                "neither onnxruntime nor the converted model runs on drawn inputs; pass inputs=(...). "
                f"{type(error).__name__}: {first_line(error)}"
            ) from error
        reason = f"the converted model can't run: {type(error).__name__}: {first_line(error)}"
        if item.drawn_empty or item.beyond or (item.optional and parties.converted.refuses(error)):
            notes.append(f"{item.name}: left out, {reason}")
            return None
        return SetReport(item.name, described, (), source_seconds, time.perf_counter() - started, reason)
    seconds = time.perf_counter() - started
    pairs = paired(expected, results, notes)
    if pairs is None:
        reason = f"{len(results)} outputs ({_names(results)}) instead of {len(expected)} ({_names(expected)})"
        return SetReport(item.name, described, (), source_seconds, seconds, reason)
    pairs = [_of_usual_rank(pair, usual[pair.index][1], item.name, notes) for pair in pairs]
    outputs = judged(parties, item, parties.source_leaves(item.leaves), pairs)
    if samples is not None:
        from onnxport.validation.gathering import samples_of

        samples += samples_of(item.name, pairs)
    return SetReport(item.name, described, tuple(outputs), source_seconds, seconds, certain=item.certain)


def _of_usual_rank(pair: Pair, usual: object, name: str, notes: list[str]) -> Pair:
    """The pair with axes of size 1 that the source drops here, and did not at first, as `squeeze` does: a graph has one rank."""
    value, result = pair.expected, pair.result
    if not (isinstance(value, np.ndarray) and isinstance(result, np.ndarray) and isinstance(usual, np.ndarray)):
        return pair
    same = [size for size in value.shape if size != 1] == [size for size in result.shape if size != 1]
    if not same or not value.ndim < usual.ndim == result.ndim:
        return pair
    shapes = f"{list(value.shape)} where the file gives {list(result.shape)}"
    notes.append(f"{name}: the source drops axes of size 1 from {pair.name}, {shapes}: only the values were compared")
    return replace(pair, expected=value.reshape(result.shape))


def paired(expected: Outputs, results: Outputs, notes: list[str]) -> list[Pair] | None:
    """Outputs that belong together: by name where the names are the same, else by position; None where numbers differ."""
    names = [name for name, _ in expected]
    places = {name: i for i, (name, _) in enumerate(results)}
    if len(places) == len(results) and len(set(names)) == len(names) and set(names) <= set(places):
        extra = [name for name in places if name not in names]
        if extra:
            notes.append(f"outputs that the source does not return were not compared: {', '.join(extra)}")
        pairs = ((i, name, value, places[name]) for i, (name, value) in enumerate(expected))
        return [Pair(name, value, results[place][1], i, place) for i, name, value, place in pairs]
    kept = list(enumerate(expected))
    if len(expected) != len(results):  # numbers that the graph does not give
        kept = [(i, item) for i, item in kept if isinstance(item[1], (np.ndarray, list, dict))]
    if len(kept) != len(results):
        return None
    return [
        Pair(_first_name(name, own) or f"output_{place}", value, result, i, place)
        for place, ((i, (own, value)), (name, result)) in enumerate(zip(kept, results, strict=True))
    ]


def _first_name(*names: str) -> str:
    """The first that is a name and no place in a tuple, or a place where there is none; empty where there is neither."""
    return next((name for name in names if name and not name.isdigit()), next(filter(None, names), ""))


def _described(item: InputSet, specs: Sequence[InputSpec] | None) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    names = [spec.name for spec in specs] if specs is not None else [f"input_{i}" for i in range(len(item.leaves))]
    described = [(str(getattr(leaf, "dtype", type(leaf).__name__)), getattr(leaf, "shape", ())) for leaf in item.leaves]
    return tuple((name, kind, tuple(shape)) for name, (kind, shape) in zip(names, described, strict=True))


def _names(outputs: Outputs) -> str:
    return ", ".join(name or f"output_{i}" for i, (name, _) in enumerate(outputs))


def runtime_is_to_blame(parties: Comparison, failed: Sequence[InputSet]) -> bool:
    """Whether the graph run as it is written agrees where the one that onnxruntime optimised does not."""
    right, graph = parties.converted, parties.graph
    if not isinstance(right, OnnxRunner) or right.session.backend != "onnxruntime" or graph is None:
        return False
    plain = replace(parties, converted=OnnxRunner(Session(graph, optimize=False), right.title, right.example))
    runs = ((item, parties.source.run(parties.source_leaves(item.leaves))) for item in failed)
    reports = (run_converted(plain, item, expected, 0.0, []) for item, expected in runs)
    return all(report is not None and report.passed for report in reports)  # most often the first one tells
