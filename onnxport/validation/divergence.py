"""The first node whose own arithmetic is wrong.

An error grows on its way through a graph, so that the node where it is largest is seldom the one that causes it. What
counts is the local error: the converted nodes between two known values are run on the reference's values, and their result
is compared with the reference's (the practice of onnx-diagnostic's side-by-side runs).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.graph.provenance import PREFIX
from onnxport.graph.runtime import Session
from onnxport.graph.segments import segment, segment_model
from onnxport.validation import tolerance
from onnxport.validation.comparison import is_floating, judge
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
            error = _local_error(model, value, expected, known)
            if error is not None:
                return error
    return None


def by_source_node(model: ir.Model, results: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the converted graph that the source's nodes computed, from results by the source node's name.

    The last ONNX node of a source operator gives its result; one whose element type or shape is not the source's does not
    count.
    """
    last = {name: node for node in model.graph if (name := node.metadata_props.get(f"{PREFIX}name"))}
    values: dict[str, Any] = {}
    for name, node in last.items():
        result = results.get(name, results.get(name.rpartition("/")[2]))  # a PyTorch node's name follows its module's
        value = node.outputs[0]
        if not isinstance(result, np.ndarray) or len(node.outputs) != 1 or not value.name:
            continue
        if _fits(value, result):
            values[value.name] = result
    return values


def _fits(value: ir.Value, result: np.ndarray) -> bool:
    if value.dtype is not None and value.dtype != ir.DataType.from_numpy(result.dtype):
        return False
    if value.shape is None:
        return True
    pairs = zip(value.shape, result.shape, strict=False)
    return value.shape.rank() == result.ndim and all(not isinstance(dim, int) or dim == size for dim, size in pairs)


def _local_error(model: ir.Model, value: ir.Value, expected: np.ndarray, known: Mapping[str, Any]) -> Divergence | None:
    nodes, inputs = segment(value, known)
    if any(item.name not in known and item.const_value is None for item in inputs):
        return None
    feeds = {item.name or "": known[item.name or ""] for item in inputs if item.name in known}
    try:
        (result,) = Session(segment_model(model, nodes, inputs, value, feeds)).run(feeds)
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
    if report.verdict != "fail":
        return None
    node = value.producer()
    if node is None:
        return None
    props = node.metadata_props
    place = [f"'{props[f'{PREFIX}module']}'"] if f"{PREFIX}module" in props else []
    place += [props[f"{PREFIX}source"]] if f"{PREFIX}source" in props else []
    figures, source_op = report.figures, props.get(f"{PREFIX}op", "")
    error, allowed = (figures.max_abs, figures.allowed) if figures is not None else (float("inf"), 0.0)
    return Divergence(node.name or "", node.op_type, value.name or "", error, allowed, source_op, ", ".join(place))
