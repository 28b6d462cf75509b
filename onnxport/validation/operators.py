"""Every operator of a converted model by itself: how far it is off, and how much of that is its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import InvalidInputError
from onnxport.graph.provenance import PREFIX
from onnxport.graph.test_vectors import Vectors
from onnxport.validation import tolerance
from onnxport.validation.divergence import LocalRun, in_form_of, place_of, source_names
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.input_sets.plan import SourceCannotRun, source_runs
from onnxport.validation.operator_runs import OperatorRuns, Take
from onnxport.validation.parties import Comparison, Party, Tolerance
from onnxport.validation.proof import bound, run_converted
from onnxport.validation.runners import Binding
from onnxport.validation.runners.base import Runner


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
    operators: dict[int, OperatorError] = {}
    worst: list[tuple[tuple[float, ...], LocalRun]] = []

    def take(place: int, run: LocalRun, own: Any) -> None:
        operators[place] = described = _described(run, _distance(run.expected, own))
        # The first that differs, else the one that takes most of its budget.
        rank = (0.0, place) if described.differs else (1.0, -described.share, place)
        if not worst or rank < worst[0][0]:
            worst[:] = [(rank, run)]

    _run_each(parties, graph, item, feeds, take)
    in_order = tuple(operators[place] for place in sorted(operators))
    return Inquiry(item.name, failed, in_order, sum(1 for _ in graph.graph), worst[0][1] if worst else None)


def _run_each(parties: Comparison, graph: ir.Model, item: InputSet, feeds: Mapping[str, Any], take: Take) -> None:
    """Runs each operator whose result the source knows. The source runs twice: what it tells of, then the values."""
    source, leaves = parties.source, parties.source_leaves(item.leaves)
    kinds: dict[str, np.ndarray] = {}

    def note(name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            kinds[name] = np.broadcast_to(np.empty((), value.dtype), value.shape)  # type and shape, without the memory

    source.each_intermediate(leaves, note)
    names = {name: name for name in kinds} if source.graph is not None else _names(source, graph, kinds)
    if not names:
        raise InvalidInputError(
            f"the source tells of none of its inner values ({source.framework}): nothing to compare with"
        )
    arrays = {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
    form = in_form_of if source.inner_forms_vary else None
    runs = OperatorRuns(graph, names, arrays, take, form)
    values: dict[str, list[str]] = {}
    for name, own in names.items():
        values.setdefault(own, []).append(name)

    def arrived(own: str, value: Any) -> None:
        for name in values.get(own, ()):
            runs.arrived(name, value)

    source.each_intermediate(leaves, arrived)


def _names(source: Runner, graph: ir.Model, kinds: Mapping[str, np.ndarray]) -> dict[str, str]:
    return source_names(graph, kinds, forms_vary=source.inner_forms_vary)


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
