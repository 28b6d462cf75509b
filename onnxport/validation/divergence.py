"""The first node whose own arithmetic is wrong.

An error grows on its way through a graph, so that the node where it is largest is seldom the one that made it. What
counts is the local error: the converted nodes between two known values are run on the reference's values, and their result
is compared with the reference's (the practice of onnx-diagnostic's side-by-side runs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.graph.bodies import bodies
from onnxport.graph.provenance import PREFIX
from onnxport.graph.runtime import Session
from onnxport.validation import tolerance
from onnxport.validation.comparison import is_floating, judge
from onnxport.validation.numerics import length_of
from onnxport.validation.report import Divergence

# The bits that a rounding difference may take inside one segment beyond the budget for one operator.
_SEGMENT_FACTOR = 16.0


def first_divergence(model: ir.Model, feeds: Mapping[str, Any], reference: Mapping[str, Any]) -> Divergence | None:
    """The first node, in graph order, that differs from the reference when it is fed with the reference's own values.

    Args:
        model: the converted model.
        feeds: its inputs by name.
        reference: what values of the main graph should be, by name; the more there are, the closer the answer.

    Returns:
        None where every part that could be run agrees.
    """
    known = {name: value for name, value in {**reference, **feeds}.items() if isinstance(value, np.ndarray)}
    for node in model.graph:
        for value in node.outputs:
            expected = reference.get(value.name or "")
            if not isinstance(expected, np.ndarray):
                continue
            found = _local_error(model, value, expected, known)
            if found is not None:
                return found
    return None


def by_source_node(model: ir.Model, results: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the converted graph that the source's nodes computed, from results by the source node's name.

    The last ONNX node of a source operator gives its result; one whose element type or shape is not the source's does not
    count.
    """
    last = {name: node for node in model.graph if (name := node.metadata_props.get(f"{PREFIX}name"))}
    found: dict[str, Any] = {}
    for name, node in last.items():
        result = results.get(name, results.get(name.rpartition("/")[2]))  # a PyTorch node's name follows its module's
        value = node.outputs[0]
        if not isinstance(result, np.ndarray) or len(node.outputs) != 1 or not value.name:
            continue
        if _fits(value, result):
            found[value.name] = result
    return found


def _fits(value: ir.Value, result: np.ndarray) -> bool:
    if value.dtype is not None and value.dtype != ir.DataType.from_numpy(result.dtype):
        return False
    if value.shape is None:
        return True
    pairs = zip(value.shape, result.shape, strict=False)
    return value.shape.rank() == result.ndim and all(not isinstance(dim, int) or dim == size for dim, size in pairs)


def _local_error(model: ir.Model, value: ir.Value, expected: np.ndarray, known: Mapping[str, Any]) -> Divergence | None:
    nodes, inputs = _segment(value, known)
    if any(item.name not in known and item.const_value is None for item in inputs):
        return None
    feeds = {item.name or "": known[item.name or ""] for item in inputs if item.name in known}
    try:
        (result,) = Session(_segment_model(model, nodes, inputs, value, feeds)).run(feeds)
    except OnnxportError:  # a part that can't stand alone says nothing
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
    return Divergence(
        node.name or "",
        node.op_type,
        value.name or "",
        report.figures.max_abs if report.figures is not None else float("inf"),
        report.figures.allowed if report.figures is not None else 0.0,
        props.get(f"{PREFIX}op", ""),
        ", ".join(place),
    )


def _segment(value: ir.Value, known: Mapping[str, Any]) -> tuple[list[ir.Node], list[ir.Value]]:
    """The nodes that compute `value` from known values and initializers, in order, and those values."""
    nodes: dict[ir.Node, None] = {}
    inputs: dict[ir.Value, None] = {}
    stack: list[tuple[ir.Node, bool]] = [(node, False)] if (node := value.producer()) is not None else []
    while stack:
        node, done = stack.pop()
        if done:
            nodes[node] = None
            continue
        if node in nodes:
            continue
        stack.append((node, True))
        for item in _read(node):
            producer = item.producer()
            if producer is None or item.name in known:
                inputs[item] = None
            elif producer not in nodes:
                stack.append((producer, False))
    return list(nodes), list(inputs)


def _read(node: ir.Node) -> Iterator[ir.Value]:
    """What a node reads, values that its bodies capture included."""
    yield from (value for value in node.inputs if value is not None)
    for graph in bodies(node):
        own = {*graph.inputs, *graph.initializers.values(), *(value for inner in graph for value in inner.outputs)}
        for inner in graph:
            yield from (value for value in _read(inner) if value not in own)
        yield from (value for value in graph.outputs if value not in own)


def _segment_model(
    model: ir.Model, nodes: list[ir.Node], inputs: list[ir.Value], value: ir.Value, feeds: Mapping[str, np.ndarray]
) -> onnx.ModelProto:
    infos = [
        onnx.helper.make_tensor_value_info(
            name, ir.DataType.STRING.value if array.dtype == object else _element(array), None
        )
        for name, array in feeds.items()
    ]
    weights = [
        ir.serde.serialize_tensor(item.const_value)
        for item in inputs
        if item.name not in feeds and item.const_value is not None
    ]
    for proto, item in zip(weights, [i for i in inputs if i.name not in feeds], strict=True):
        proto.name = item.name or ""
    output = onnx.ValueInfoProto(name=value.name or "")
    graph = onnx.helper.make_graph(
        [ir.serde.serialize_node(node) for node in nodes], "segment", infos, [output], weights
    )
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in model.graph.opset_imports.items()]
    functions = [ir.serde.serialize_function(function) for function in model.functions.values()]
    return onnx.helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=model.ir_version)


def _element(array: np.ndarray) -> int:
    return int(ir.DataType.from_numpy(array.dtype).value)
