"""The first node whose own arithmetic is wrong.

An error grows on its way through a graph, so that the node where it is largest is seldom the one that causes it. What
counts is the local error: the converted nodes between two known values are run on the reference's values, and their result
is compared with the reference's (the practice of onnx-diagnostic's side-by-side runs).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.graph.provenance import PREFIX
from onnxport.graph.runtime import Session
from onnxport.graph.segments import segment, segment_model
from onnxport.validation import tolerance
from onnxport.validation.comparison import OutputReport, is_floating, judge
from onnxport.validation.numerics import length_of
from onnxport.validation.records import Divergence

# The bits that a rounding difference may take inside one segment beyond the budget for one operator.
_SEGMENT_FACTOR = 16.0


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


def by_source_node(model: ir.Model, results: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the converted graph that the source's nodes computed, from results by the source node's name."""
    return {name: results[own] for name, own in source_names(model, results).items()}


def source_names(model: ir.Model, results: Mapping[str, Any]) -> dict[str, str]:
    """For values of the converted graph the source node that computed them, by name, from results by the latter.

    The last ONNX node of a source operator gives its result; one whose element type or shape is not the source's does not
    count.
    """
    last = {name: node for node in model.graph if (name := node.metadata_props.get(f"{PREFIX}name"))}
    values: dict[str, str] = {}
    for name, node in last.items():
        own = name if name in results else name.rpartition("/")[2]  # a PyTorch node's name follows its module's
        result, value = results.get(own), node.outputs[0]
        if not isinstance(result, np.ndarray) or len(node.outputs) != 1 or not value.name:
            continue
        if _fits(value, result):
            values[value.name] = own
    return values


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
    return LocalRun(value, part, feeds, expected, result, report, budget)


def place_of(node: ir.Node) -> str:
    """The module, file and line in the user's code that a node comes from; empty where nothing is known."""
    props = node.metadata_props
    place = [f"'{props[f'{PREFIX}module']}'"] if f"{PREFIX}module" in props else []
    place += [props[f"{PREFIX}source"]] if f"{PREFIX}source" in props else []
    return ", ".join(place)


def divergence_of(run: LocalRun) -> Divergence:
    """What a report says of a run that differs."""
    node, figures = run.node, run.report.figures
    error, allowed = (figures.max_abs, figures.allowed) if figures is not None else (float("inf"), 0.0)
    source_op = node.metadata_props.get(f"{PREFIX}op", "")
    return Divergence(node.name or "", node.op_type, run.value.name or "", error, allowed, source_op, place_of(node))
