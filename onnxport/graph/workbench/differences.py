"""In what two ONNX models differ: versions, inputs and outputs, nodes, weights."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.graph.segments import values_read


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same in both; a side that lacks it has the empty text."""

    kind: str  # "opset", "input", "output", "node" or "weight"
    name: str
    first: str
    second: str

    def __str__(self) -> str:
        if not self.first or not self.second:
            return f"{self.kind} {self.name}: only in the {'second' if self.second else 'first'}: {self.first or self.second}"
        return f"{self.kind} {self.name}: {self.first} became {self.second}"


def differences(first: ir.Model, second: ir.Model) -> list[Difference]:
    """All of them, in that order; nodes go by their names, those without one by that of their first result."""
    parts = (_parts(model) for model in (first, second))
    pairs = ((kind, a, b) for (kind, a), (_, b) in zip(*parts, strict=True))
    return [item for kind, a, b in pairs for item in _between(kind, a, b)] + list(_weights(first, second))


def _parts(model: ir.Model) -> list[tuple[str, dict[str, str]]]:
    ends = [("input", _values(model.graph.inputs)), ("output", _values(model.graph.outputs))]
    return [("opset", _opsets(model)), *ends, ("node", _nodes(model.graph))]


def same_up_to_names(first: ir.Model, second: ir.Model) -> bool:
    """Whether both compute their outputs by the same operators of the same inputs and weights, whatever these are called."""
    return _fingerprint(first) == _fingerprint(second)


def _between(kind: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Difference]:
    for name in [*a, *(name for name in b if name not in a)]:
        if a.get(name, "") != b.get(name, ""):
            yield Difference(kind, name, a.get(name, ""), b.get(name, ""))


def _opsets(model: ir.Model) -> dict[str, str]:
    return {domain or "ai.onnx": str(version) for domain, version in model.graph.opset_imports.items()}


def _values(values: Sequence[ir.Value]) -> dict[str, str]:
    return {
        value.name or "": f"{value.type or '?'} {'[?]' if value.shape is None else value.shape}" for value in values
    }


def _nodes(graph: ir.Graph) -> dict[str, str]:
    return {node.name or node.outputs[0].name or "": _described(node) for node in graph}


def _described(node: ir.Node) -> str:
    inputs = ", ".join("" if value is None else value.name or "" for value in node.inputs)
    outputs = ", ".join(value.name or "" for value in node.outputs)
    op = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    attributes = ", ".join(f"{name}={_attribute(item)}" for name, item in sorted(node.attributes.items()))
    return f"{outputs} = {op}{f'<{attributes}>' if attributes else ''}({inputs})"


def _attribute(item: ir.Attr) -> str:
    """The value of an attribute; of what is long its hash."""
    simple = not item.is_ref() and item.type in (ir.AttributeType.INT, ir.AttributeType.FLOAT, ir.AttributeType.INTS)
    if simple or (not item.is_ref() and item.type == ir.AttributeType.STRING):
        return str(item.value)
    return hashlib.sha256(ir.serde.serialize_attribute(item).SerializeToString(deterministic=True)).hexdigest()[:12]


def _weights(first: ir.Model, second: ir.Model) -> Iterator[Difference]:
    a, b = (model.graph.initializers for model in (first, second))
    for name in [*a, *(name for name in b if name not in a)]:
        one, other = (side[name].const_value if name in side else None for side in (a, b))
        if one is None or other is None:
            if one is not other:
                yield Difference("weight", name, _kind(one), _kind(other))
        elif _kind(one) != _kind(other):
            yield Difference("weight", name, _kind(one), _kind(other))
        elif _content(one) != _content(other):
            yield Difference("weight", name, _kind(one), f"other values{_distance(one.numpy(), other.numpy())}")


def _content(tensor: ir.TensorProtocol) -> object:
    return tensor.numpy().tolist() if tensor.dtype == ir.DataType.STRING else tensor.tobytes()


def _kind(tensor: ir.TensorProtocol | None) -> str:
    return "" if tensor is None else f"{tensor.dtype.name}{list(tensor.shape.numpy())}"


def _distance(one: np.ndarray, other: np.ndarray) -> str:
    if one.dtype.kind not in "fiu":
        return ""
    with np.errstate(all="ignore"):
        gap = np.abs(one.astype(np.float64) - other.astype(np.float64))
    return f", up to {np.nanmax(gap, initial=0.0):.3g} apart in {int(np.count_nonzero(gap))} of {gap.size} places"


def _fingerprint(model: ir.Model) -> Hashable:
    """What the outputs are computed by; inner graphs count with the names in them."""
    known: dict[ir.Value, str] = {}
    for index, value in enumerate(model.graph.inputs):
        known[value] = _hash("input", index, str(value.type), str(value.shape))
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if value not in known and tensor is not None:
            known[value] = _hash("weight", _kind(tensor), tensor.tobytes())
    for node in model.graph:
        inputs = ["" if value is None else known.get(value, "?") for value in node.inputs]
        captured = [known.get(value, "?") for value in values_read(node) if value not in node.inputs]
        attributes = [f"{name}={_attribute(item)}" for name, item in sorted(node.attributes.items())]
        own = _hash(node.domain, node.op_type, *attributes, *inputs, "|", *captured)
        known.update({value: _hash(own, place) for place, value in enumerate(node.outputs)})
    return tuple(known.get(value, "?") for value in model.graph.outputs), tuple(sorted(_opsets(model).items()))


def _hash(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else str(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()
