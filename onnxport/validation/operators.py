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
from onnxport.validation.details import OperatorError
from onnxport.validation.divergence import LocalRun, in_form_of, is_rounding, place_of, source_names
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.operator_runs import OperatorRuns, Take
from onnxport.validation.parties import Comparison
from onnxport.validation.runners.base import Runner


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

    @property
    def wrong(self) -> tuple[OperatorError, ...]:
        """Those that differ by themselves."""
        return tuple(item for item in self.operators if item.differs)


def inquiry_on(parties: Comparison, item: InputSet, *, failed: bool) -> Inquiry:
    """Runs every operator of the converted ONNX model on the source's own values, on one set of inputs.

    Raises:
        InvalidInputError: the source tells of none of its inner values.
    """
    graph = parties.graph
    assert graph is not None
    assert parties.specs is not None
    feeds = {spec.name: leaf for spec, leaf in zip(parties.specs, item.leaves, strict=True)}
    operators: dict[int, OperatorError] = {}
    worst: list[tuple[tuple[float, ...], LocalRun]] = []
    rough = parties.source.inner_means_lie_a_step_apart

    def take(place: int, run: LocalRun, own: Any) -> None:
        # Where the outputs agree, what the runtime's own rounding explains is no operator to look at.
        differs = run.report.verdict == "fail" and (failed or not is_rounding(run, rough_means=rough))
        operators[place] = described = _described(run, differs, _distance(run.expected, own))
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
            f"{source.inner_values_elsewhere}"
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
    return source_names(graph, kinds, forms_vary=source.inner_forms_vary, operators=source.inner_operators)


def _distance(expected: np.ndarray, result: Any) -> float:
    if not isinstance(result, np.ndarray) or result.shape != expected.shape or expected.dtype.kind in "OUS":
        return float("nan")
    with np.errstate(all="ignore"):
        gap = np.abs(tolerance.wide(expected) - tolerance.wide(result))
    return float(np.nanmax(gap, initial=0.0)) if gap.size else 0.0


def _described(run: LocalRun, differs: bool, propagated: float) -> OperatorError:
    node, (local, allowed) = run.node, run.error
    props = node.metadata_props
    return OperatorError(
        node.name or "",
        node.op_type,
        run.value.name or "",
        local,
        allowed,
        propagated,
        differs,
        props.get(f"{PREFIX}op", ""),
        place_of(node),
    )


def reproducer(run: LocalRun) -> Vectors:
    """What one operator takes and should give, as test data beside its model."""
    name = run.value.name or ""
    limit = np.asarray(run.budget.limit(np.zeros(()))) if run.report.figures is not None else np.asarray(0.0)
    return Vectors(run.feeds, {name: run.expected}, {name: limit} if run.expected.dtype.kind in "fcV" else {})
