"""Every operator of a converted model by itself: how far it is off, and how much of that is its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import InvalidInputError, OnnxportError
from onnxport.graph.provenance import PREFIX
from onnxport.graph.test_vectors import Vectors
from onnxport.validation import tolerance
from onnxport.validation.divergence import LocalRun, by_source_node, local_run, place_of
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.input_sets.plan import SourceCannotRun, source_runs
from onnxport.validation.parties import Comparison, Party, Tolerance
from onnxport.validation.proof import bound, run_converted
from onnxport.validation.runners import Binding
from onnxport.validation.runners.onnx import values_of


@dataclass(frozen=True)
class OperatorError:
    """One operator whose result the source knows too.

    Attributes:
        node: name of the ONNX node.
        op: its operator.
        output: the value that was compared.
        local: greatest error when the nodes since the last known values are fed with the source's own.
        allowed: the budget of that.
        propagated: greatest error of the value in the converted model's own run.
        differs: the local error is beyond its budget.
        source_op: the operator of the source framework.
        where: module, file and line in the user's code.
    """

    node: str
    op: str
    output: str
    local: float
    allowed: float
    propagated: float
    differs: bool
    source_op: str = ""
    where: str = ""

    @property
    def share(self) -> float:
        """The share of its budget that the local error takes."""
        return float("inf") if self.differs and not self.allowed else self.local / self.allowed if self.allowed else 0.0


@dataclass(frozen=True)
class Inquiry:
    """All operators on one set of inputs.

    Attributes:
        inputs: what kind of set it is: the first on which the outputs differ, else the first.
        failed: outputs differ on it.
        operators: in the graph's order.
        nodes: how many nodes the graph has.
        worst: the run of the operator to look at: the first that differs, else the one that takes most of its budget.
    """

    inputs: str
    failed: bool
    operators: tuple[OperatorError, ...]
    nodes: int
    worst: LocalRun | None


def inquire(source: Party, converted: Party, binding: Binding, seed: int = 0) -> Inquiry:
    """Runs every operator of the converted ONNX model on the source's own values.

    Raises:
        InvalidInputError: the source runs on no inputs, or tells of none of its inner values.
    """
    parties = bound(source, converted, binding, graph=converted.model.model, tolerance=Tolerance())
    item, failed = _telling_set(parties, seed)
    graph = converted.model.model
    assert parties.specs is not None
    feeds = {spec.name: leaf for spec, leaf in zip(parties.specs, item.leaves, strict=True)}
    inner = parties.source.intermediates(parties.source_leaves(item.leaves))
    reference = inner if parties.source.graph is not None else by_source_node(graph, inner)
    if not reference:
        raise InvalidInputError(
            f"the source tells of none of its inner values ({source.framework}): nothing to compare with"
        )
    worst: LocalRun | None = None
    operators: list[OperatorError] = []
    for run, propagated in _runs(graph, feeds, reference):
        described = _described(run, propagated)
        if worst is None or (
            not _differs(worst) and (described.differs or described.share > _described(worst, 0.0).share)
        ):
            worst = run
        operators.append(described)
    return Inquiry(item.name, failed, tuple(operators), sum(1 for _ in graph.graph), worst)


def _telling_set(parties: Comparison, seed: int) -> tuple[InputSet, bool]:
    """The first set of inputs on which the outputs differ, else the first; and whether they do."""
    first: InputSet | None = None
    try:
        for run in source_runs(parties, seed, []):
            report = run_converted(parties, run.inputs, run.outputs, run.seconds, [])
            if report is not None and report.failed:
                return run.inputs, True
            first = first or run.inputs
    except SourceCannotRun as error:
        raise InvalidInputError(str(error)) from error
    assert first is not None
    return first, False


def _runs(graph: ir.Model, feeds: Mapping[str, Any], reference: Mapping[str, Any]) -> Iterator[tuple[LocalRun, float]]:
    """The run of each operator whose result is known, and how far off that is in the model's own run."""
    known = {name: value for name, value in {**reference, **feeds}.items() if isinstance(value, np.ndarray)}
    try:
        own = values_of(graph, feeds)
    except OnnxportError:  # a graph that can't run as a whole: its parts may
        own = {}
    for node in graph.graph:
        for value in node.outputs:
            expected = reference.get(value.name or "")
            run = local_run(graph, value, expected, known) if isinstance(expected, np.ndarray) else None
            if run is not None:
                yield run, _distance(run.expected, own.get(value.name or ""))


def _distance(expected: np.ndarray, result: Any) -> float:
    if not isinstance(result, np.ndarray) or result.shape != expected.shape or expected.dtype.kind in "OUS":
        return float("nan")
    with np.errstate(all="ignore"):
        gap = np.abs(tolerance.wide(expected) - tolerance.wide(result))
    return float(np.nanmax(gap, initial=0.0)) if gap.size else 0.0


def _differs(run: LocalRun) -> bool:
    return run.report.verdict == "fail"


def _described(run: LocalRun, propagated: float) -> OperatorError:
    figures, node = run.report.figures, run.node
    local, allowed = (figures.max_abs, figures.allowed) if figures else (float("inf") if _differs(run) else 0.0, 0.0)
    props = node.metadata_props
    return OperatorError(
        node.name or "",
        node.op_type,
        run.value.name or "",
        local,
        allowed,
        propagated,
        _differs(run),
        props.get(f"{PREFIX}op", ""),
        place_of(node),
    )


def reproducer(run: LocalRun) -> Vectors:
    """What one operator takes and should give, as test data beside its model."""
    name = run.value.name or ""
    limit = np.asarray(run.budget.limit(np.zeros(()))) if run.report.figures is not None else np.asarray(0.0)
    return Vectors(run.feeds, {name: run.expected}, {name: limit} if run.expected.dtype.kind in "fcV" else {})
