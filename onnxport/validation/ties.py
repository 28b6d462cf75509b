"""Places of equal elements: frameworks differ in which of them they give, and all are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.graph.external_data import weight_bytes
from onnxport.validation.runners.onnx import value_of

_MOVED = frozenset(("Cast", "Identity"))
_LARGEST = 1 << 28  # bytes of weights, beyond which a further run of the graph as it is written takes too much memory


def of_equal_elements(
    graph: ir.Model, index: int, leaves: Sequence[Any], source: np.ndarray, converted: np.ndarray
) -> np.ndarray | None:
    """Where the places that both sides give hold equal elements, true; None for an output that holds no places.

    Args:
        graph: the ONNX graph that is one of the sides or lies between them.
        index: which of its outputs `converted` is.
        leaves: its inputs.
        source: the places that the source gives, along the axis of a TopK, ArgMax or ArgMin.
        converted: those of the converted model.
    """
    node = _chooser(graph.graph.outputs[index]) if index < len(graph.graph.outputs) else None
    if node is None or source.dtype.kind != "i" or source.shape != converted.shape or weight_bytes(graph) > _LARGEST:
        return None
    elements = _elements(graph, leaves, node)
    if elements is None:
        return None
    axis = node.attributes.get_int("axis", -1 if node.op_type == "TopK" else 0) % elements.ndim
    squeezed = source.ndim == elements.ndim - 1
    places = [np.expand_dims(item, axis) if squeezed else item for item in (source, converted)]
    size = elements.shape[axis]
    if any(item.ndim != elements.ndim or np.any((item < -size) | (item >= size)) for item in places):
        return None
    a, b = (np.take_along_axis(elements, item, axis) for item in places)
    same = (a == b) | ((a != a) & (b != b))
    return same.reshape(source.shape) if _distinct(places[1], axis, node) else None


def choice_among_equals(graph: ir.Model, node: str, leaves: Sequence[Any]) -> str:
    """Where the node `node` is the first that differs and reads the places of a TopK: whether that chose among equal elements.

    In words; "" where it did not, or the node reads no places. `leaves` are the inputs of the graph.
    """
    reader = next((item for item in graph.graph if item.name == node), None)
    chooser = _topk_of_places(reader) if reader is not None else None
    if chooser is None or weight_bytes(graph) > _LARGEST:
        return ""
    elements, chosen = _elements(graph, leaves, chooser), _elements(graph, leaves, chooser, chooser.outputs[0])
    if elements is None or chosen is None:
        return ""
    axis = chooser.attributes.get_int("axis", -1)
    ordered = np.sort(elements, axis=axis)
    ordered = np.flip(ordered, axis) if chooser.attributes.get_int("largest", 1) else ordered
    best = np.take(ordered, range(min(chosen.shape[axis] + 1, elements.shape[axis])), axis)
    if not np.any(np.diff(best, axis=axis) == 0):
        return ""
    return f"TopK {chooser.name!r} chooses among equal elements: which of them it gives differs from one framework to another"


def _topk_of_places(reader: ir.Node) -> ir.Node | None:
    """The TopK whose places a node reads, or what whole numbers are computed from them."""
    waiting = [*reader.outputs, *(value for value in reader.inputs if value is not None)]
    seen = set(waiting)
    while waiting:
        value = waiting.pop()
        node = value.producer()
        if node is None or node.domain:
            continue
        if node.op_type == "TopK" and value is node.outputs[1]:
            return node
        if node is reader or (value.dtype is not None and value.dtype.is_integer() and node.op_type != "TopK"):
            before = [item for item in node.inputs if item is not None and item not in seen]
            seen.update(before)
            waiting += before
    return None


def _elements(
    graph: ir.Model, leaves: Sequence[Any], node: ir.Node, value: ir.Value | None = None
) -> np.ndarray | None:
    """A value of the graph, the first operand of `node` where none is given; None where it can't be computed."""
    value = node.inputs[0] if value is None else value
    names = [item.name or "" for item in graph.graph.inputs if item.name not in graph.graph.initializers]
    try:
        return None if value is None else np.asarray(value_of(graph, dict(zip(names, leaves, strict=False)), value))
    except (OnnxportError, KeyError):
        return None


def _chooser(value: ir.Value) -> ir.Node | None:
    """The node whose places a value is."""
    node = value.producer()
    while node is not None and node.op_type in _MOVED and node.inputs[0] is not None:
        value = node.inputs[0]
        node = value.producer()
    if node is None or node.domain:
        return None
    if node.op_type == "Where":  # the place of a NaN where there is one, else that of the extreme
        return _same_axis([_chooser(item) for item in node.inputs[1:] if item is not None])
    if node.op_type in ("ArgMax", "ArgMin"):
        return node
    return node if node.op_type == "TopK" and value is node.outputs[1] else None


def _same_axis(choosers: Sequence[ir.Node | None]) -> ir.Node | None:
    """The last of two nodes that choose along one axis; None of others."""
    known = [node for node in choosers if node is not None and node.op_type != "TopK"]
    same = len(known) == 2 and len({node.attributes.get_int("axis", 0) for node in known}) == 1
    return known[-1] if same else None


def _distinct(places: np.ndarray, axis: int, node: ir.Node) -> bool:
    """Whether no element was chosen twice."""
    ordered = np.sort(places, axis=axis)
    return node.op_type != "TopK" or bool(np.all(np.diff(ordered, axis=axis) > 0))
