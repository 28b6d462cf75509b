"""The first node whose own arithmetic is wrong.

An error grows on its way through a graph, so that the node where it is largest is seldom the one that causes it. What
counts is the local error: the converted nodes between two known values are run on the reference's values, and their result
is compared with the reference's (the practice of onnx-diagnostic's side-by-side runs).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.graph.provenance import PREFIX, source_name
from onnxport.graph.runtime import Session
from onnxport.graph.segments import segment, segment_model
from onnxport.validation import tolerance
from onnxport.validation.comparison import OutputReport, is_floating, judge
from onnxport.validation.numerics import length_of
from onnxport.validation.records import Divergence
from onnxport.validation.runners.onnx_wide import wide_graph

# The bits that a rounding difference may take inside one segment beyond the budget for one operator.
_SEGMENT_FACTOR = 16.0
_ROUNDING = frozenset({"Round", "QuantizeLinear", "DynamicQuantizeLinear"})  # to steps
_BETWEEN = 0.01  # the share of numbers in steps that may lie between two of them; of few numbers one may
_STEP = 2.0**-7  # of int8 numbers, as a part of the largest
# Rounding moves inner values by far less, a wrong operator by far more: what lies beyond it is run by itself, which decides.
_FAR = 1e-4
_LEAST = 1e-20  # a sum of squares above it has its digits in float32
_MOVES = 4  # runs of a segment on nudged values, of which the greatest move counts


def first_divergence(model: ir.Model, feeds: Mapping[str, Any], reference: Mapping[str, Any]) -> Divergence | None:
    """The first node, in graph order, that differs from the reference when it is fed with the reference's own values.

    `reference` has values of the main graph by name; the more there are, the closer the answer. None where every part agrees
    that could be run.
    """
    known = {name: value for name, value in {**reference, **feeds}.items() if isinstance(value, np.ndarray)}
    for node in model.graph:
        for value in node.outputs:
            expected = reference.get(value.name or "")
            if not isinstance(expected, np.ndarray):
                continue
            run = local_run(model, value, expected, known)
            if run is not None and run.report.verdict == "fail":
                return divergence_of(run)
    return None


def source_names(
    model: ir.Model, results: Mapping[str, Any], *, forms_vary: bool = False, operators: str = ""
) -> dict[str, str]:
    """For values of the converted graph the source node that computed them, by name, from results by the latter.

    The last ONNX node of a source operator gives its result; one whose element type or shape is not the source's does not
    count. With `forms_vary` it may differ in the place of the channels and the width of its type: see `in_form_of`. `operators`
    is how the names of the source's operators start.
    """
    values: dict[str, str] = {}
    for name, node in _last_nodes(model).items():
        own = name if name in results else name.rpartition("/")[2]  # a PyTorch node's name follows its module's
        result, value = results.get(own), node.outputs[0]
        if not node.metadata_props.get(f"{PREFIX}op", "").startswith(operators):
            continue
        if not isinstance(result, np.ndarray) or len(node.outputs) != 1 or not value.name:
            continue
        if forms_vary and _turns_an_operand(node):
            continue
        forms = [result]
        if forms_vary and value.dtype is not None and result.dtype.kind == value.dtype.numpy().kind:
            forms = [result.astype(value.dtype.numpy()), _channels_second(result).astype(value.dtype.numpy())]
        if any(_fits(value, form) for form in forms):
            values[value.name] = own
    return values


def _turns_an_operand(node: ir.Node) -> bool:
    """Whether a node brings an operand's channels elsewhere: the operator that it is of has become part of a later one."""
    if node.op_type != "Transpose" or "Transpose" in node.metadata_props.get(f"{PREFIX}op", ""):
        return False
    before = node.inputs[0].producer() if node.inputs[0] is not None else None
    return before is None or source_name(before.metadata_props) != source_name(node.metadata_props)


def _last_nodes(model: ir.Model) -> dict[str, ir.Node]:
    """The last node of each source operator: by its name, and by its module and what it is, as estimators have it."""
    nodes: dict[str, ir.Node] = {}
    for node in model.graph:
        props = node.metadata_props
        if name := source_name(props):
            nodes[name] = node
        if op := props.get(f"{PREFIX}op"):
            nodes[f"{props.get(f'{PREFIX}module', '')}:{op}"] = node
    return {name: node for name, node in nodes.items() if not (":" in name and _goes_on_inside(node))}


def _goes_on_inside(node: ir.Node) -> bool:
    """Whether an estimator that another holds reads all that the node gives: the other's result comes later, from this one."""
    place, own = _estimator(node)
    readers = [_estimator(reader) for output in node.outputs for reader in output.consumers()]
    return (
        bool(readers)
        and not any(value.is_graph_output() for value in node.outputs)
        and all(path == place and kind and kind != own for path, kind in readers)
    )


def _estimator(node: ir.Node) -> tuple[str, str]:
    """The module of a node and the class whose method it is part of, as estimators have them."""
    return node.metadata_props.get(f"{PREFIX}module", ""), node.metadata_props.get(f"{PREFIX}op", "").rpartition(".")[0]


def in_form_of(own: Any, result: np.ndarray) -> np.ndarray:
    """A result of the source in the type and the order of axes, channels last or second, of the converted model's own value.

    Where the sizes don't tell, the order is taken in which both lie closer together.
    """
    if not isinstance(own, np.ndarray):
        return result
    if own.dtype.kind == result.dtype.kind:
        result = result.astype(own.dtype, copy=False)
    other = _channels_second(result)
    if other is result:
        return result
    if result.shape != other.shape:
        return other if own.shape == other.shape else result
    return other if _gap(own, other) < _gap(own, result) else result


def is_far(expected: np.ndarray, own: Any) -> bool:
    """Whether an inner value differs from the source's by more than rounding may have brought about, as a whole.

    >>> is_far(np.ones(4), np.ones(4) + 1e-6), is_far(np.ones(4), np.ones(4) * 1.5)
    (False, True)
    """
    if not isinstance(own, np.ndarray) or own.shape != expected.shape:
        return True
    if not is_floating(expected.dtype) or not is_floating(own.dtype):
        return not np.array_equal(expected, own)
    if expected.dtype == own.dtype == np.float32:
        gap, flat = np.subtract(expected, own).ravel("K"), expected.ravel("K")  # in any order, without a copy
        size = float(np.dot(flat, flat))
        if _LEAST < size < np.inf and np.isfinite(off := float(np.dot(gap, gap))):
            return off > _FAR * _FAR * size
    a, b = tolerance.wide(expected), tolerance.wide(own)
    finite = np.isfinite(a) & np.isfinite(b)
    size = float(np.linalg.norm(a[finite]))
    return float(np.linalg.norm(a[finite] - b[finite])) > _FAR * size


def _channels_second(result: np.ndarray) -> np.ndarray:
    return np.moveaxis(result, -1, 1) if result.ndim > 2 else result


def _gap(own: np.ndarray, result: np.ndarray) -> float:
    if own.shape != result.shape:
        return float("inf")
    with np.errstate(all="ignore"):
        return float(np.nansum(np.abs(tolerance.wide(own) - tolerance.wide(result))))


def _fits(value: ir.Value, result: np.ndarray) -> bool:
    if value.dtype is not None and value.dtype != ir.DataType.from_numpy(result.dtype):
        return False
    if value.shape is None:
        return True
    pairs = zip(value.shape, result.shape, strict=False)
    return value.shape.rank() == result.ndim and all(not isinstance(dim, int) or dim == size for dim, size in pairs)


@dataclass(frozen=True)
class LocalRun:
    """The converted nodes between known values and one value, run on the reference's values."""

    value: ir.Value  # what they compute
    model: onnx.ModelProto  # these nodes alone
    feeds: dict[str, np.ndarray]  # the reference's values that they read
    expected: np.ndarray  # the reference's value
    result: np.ndarray  # theirs
    report: OutputReport  # the verdict on it
    budget: tolerance.Budget

    @property
    def error(self) -> tuple[float, float]:
        """The greatest error and what is allowed of it; infinite where the result differs in NaN, infinity or its form."""
        figures, differs = self.report.figures, self.report.verdict == "fail"
        if figures is None:
            return float("inf") if differs else 0.0, 0.0
        # Both where both are numbers: those that are not count nothing there.
        return float("inf") if differs and figures.max_abs <= figures.allowed else figures.max_abs, figures.allowed

    @property
    def node(self) -> ir.Node:
        """The node that computes the value."""
        node = self.value.producer()
        assert node is not None
        return node


def local_run(
    model: ir.Model, value: ir.Value, expected: np.ndarray, known: Mapping[str, np.ndarray]
) -> LocalRun | None:
    """The value as the converted nodes compute it from the reference's own; None where they can't be run alone."""
    part = segment_of(value, known)
    return None if part is None else run_segment(model, value, part, expected, known)


Segment = tuple[list[ir.Node], list[ir.Value]]  # nodes, and the known values and weights that they read


def segment_of(value: ir.Value, known: Collection[str]) -> Segment | None:
    """The converted nodes between known values and one value; None where they read what is not known."""
    nodes, inputs = segment(value, known)
    if value.producer() is None or any(item.name not in known and item.const_value is None for item in inputs):
        return None
    return nodes, inputs


def run_segment(
    model: ir.Model, value: ir.Value, nodes_and_inputs: Segment, expected: np.ndarray, known: Mapping[str, np.ndarray]
) -> LocalRun | None:
    """The same for nodes that are given with what they read; `known` need hold nothing else."""
    nodes, inputs = nodes_and_inputs
    feeds = {item.name or "": known[item.name or ""] for item in inputs if item.name in known}
    part = segment_model(model, nodes, inputs, [value], feeds)
    try:
        (result,) = Session(part).run(feeds)
    except OnnxportError:  # a part that can't stand alone shows nothing
        return None
    if not isinstance(result, np.ndarray) or result.dtype != expected.dtype:
        return None
    budget = tolerance.EXACT
    if is_floating(expected.dtype):
        length = max(length_of(node) for node in nodes)
        derived = tolerance.by_rounding(expected, length=length, eps=tolerance.epsilon(expected.dtype))
        budget = tolerance.Budget(_SEGMENT_FACTOR * derived.absolute, 0.0, derived.origin)
    report = judge(value.name or "", expected, result, budget)
    if report.verdict == "fail" and is_floating(expected.dtype) and result.shape == expected.shape:
        budget = _with_moves(budget, part, feeds, result)
        report = judge(value.name or "", expected, result, budget)
    return LocalRun(value, part, feeds, expected, result, report, budget)


def _with_moves(
    budget: tolerance.Budget, part: onnx.ModelProto, feeds: Mapping[str, np.ndarray], result: np.ndarray
) -> tolerance.Budget:
    """The budget where a sum cancels: what is left of it is small, and its rounding error is that of the terms.

    It shows in how far the result moves when what the nodes read moves by one unit in the last place.
    """
    moved = [
        {name: tolerance.nudge(array, 1, rng) for name, array in feeds.items()}
        for rng in map(np.random.default_rng, range(_MOVES))
    ]
    try:
        results = [Session(part).run(nudged)[0] for nudged in moved]
    except OnnxportError:  # a value that may not move, as an index: the budget stays
        return budget
    own = tolerance.wide(result)
    moves = np.max([np.abs(tolerance.wide(np.asarray(item)) - own) for item in results], axis=0)
    # A move beyond rounding is a jump, as across a threshold, which explains nothing.
    most = np.sqrt(tolerance.epsilon(result.dtype)) * np.max(np.abs(own), initial=0.0)
    rounding = tolerance.local_max(np.where(moves <= most, moves, 0.0))
    return replace(budget, absolute=np.maximum(budget.absolute, _SEGMENT_FACTOR * rounding))


def is_rounding(run: LocalRun, *, rough_means: bool = False) -> bool:
    """Whether source and nodes lie, both, within rounding of the largest number around them from the nodes in float64.

    A kernel may be right to few digits where a function nears its limit, as Sigmoid far below 0 does. With `rough_means` each
    number of a mean in steps may lie a step apart.
    """
    own, theirs = run.expected, run.result
    if own.shape != theirs.shape:
        return False
    if _is_a_step(run, rough_means=rough_means):
        return True
    if not is_floating(own.dtype):
        return False
    try:
        truth = np.asarray(wide_graph(run.model).run(run.feeds)[0])
    except OnnxportError:
        return False
    around = [tolerance.wide(item) for item in (truth, *run.feeds.values()) if is_floating(item.dtype)]
    largest = max(float(np.max(np.abs(item), initial=0.0)) for item in around)
    allowed = _SEGMENT_FACTOR * tolerance.epsilon(own.dtype) * largest
    return all(bool(np.all(np.abs(tolerance.wide(item) - truth) <= allowed)) for item in (own, theirs))


def _is_a_step(run: LocalRun, *, rough_means: bool) -> bool:
    """Whether numbers in steps, or what is computed from such, lie a step apart: few of them, of sums between two steps."""
    steps = not is_floating(run.expected.dtype)
    if not (run.node.op_type == "QuantizeLinear" if steps else _rounds(run)):
        return False
    own, theirs = (item.astype(np.float64) for item in (run.expected, run.result))
    gaps = np.abs(own - theirs)
    if steps:
        mean = rough_means and any(node.op_type == "ReduceMean" for node in run.model.graph.node)
        most = gaps.size if mean else max(1.0, _BETWEEN * gaps.size)
        return bool(gaps.max(initial=0.0) <= 1.0 and np.count_nonzero(gaps) <= most)
    return float(np.linalg.norm(gaps)) <= _STEP * float(np.linalg.norm(own))


def _rounds(run: LocalRun) -> bool:
    return any(node.op_type in _ROUNDING for node in run.model.graph.node)


def place_of(node: ir.Node) -> str:
    """The module, file and line in the user's code that a node comes from; empty where nothing is known."""
    props = node.metadata_props
    place = [f"'{props[f'{PREFIX}module']}'"] if f"{PREFIX}module" in props else []
    place += [props[f"{PREFIX}source"]] if f"{PREFIX}source" in props else []
    return ", ".join(place)


def divergence_of(run: LocalRun) -> Divergence:
    """The divergence of a run that differs, for a report."""
    node, (error, allowed) = run.node, run.error
    source_op = node.metadata_props.get(f"{PREFIX}op", "")
    return Divergence(node.name or "", node.op_type, run.value.name or "", error, allowed, source_op, place_of(node))
