"""Fused operators of com.microsoft as the operators that they stand for, so that a graph with them has a float64 form.

onnxruntime has their kernels in float32 alone, and ONNX knows no schema of them.
Source: onnxruntime's documentation of its operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import onnx

_DOMAIN = "com.microsoft"


class _Writer:
    """Writes the nodes that stand for one node, under names of their own."""

    def __init__(self, node: onnx.NodeProto, stem: str) -> None:
        self.inputs = [*node.input, *[""] * (8 - len(node.input))]
        self.attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        self.nodes: list[onnx.NodeProto] = []
        self._stem = stem

    def __call__(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """The name of a node's result."""
        name = f"{self._stem}/{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op_type, list(inputs), [name], **attributes))
        return name

    def number(self, value: float) -> str:
        """A constant."""
        return self("Constant", value_float=value)

    def sum(self, *names: str) -> str:
        """The sum of the values that are there."""
        first, *others = [name for name in names if name]
        for other in others:
            first = self("Add", first, other)
        return first


def _gelu(w: _Writer) -> str:
    x = w.sum(*w.inputs[:2])
    inner = w("Add", w("Erf", w("Div", x, w("Sqrt", w.number(2.0)))), w.number(1.0))
    return w("Mul", w("Mul", x, w.number(0.5)), inner)


def _fast_gelu(w: _Writer) -> str:
    x = w.sum(*w.inputs[:2])
    cubed = w("Mul", w("Mul", x, x), w("Mul", x, w.number(0.044715)))
    inner = w("Mul", w("Add", x, cubed), w.number(0.7978845608028654))
    return w("Mul", w("Mul", x, w.number(0.5)), w("Add", w("Tanh", inner), w.number(1.0)))


def _quick_gelu(w: _Writer) -> str:
    x = w.inputs[0]
    return w("Mul", x, w("Sigmoid", w("Mul", x, w.number(w.attributes.get("alpha", 1.702)))))


def _fused_matmul(w: _Writer) -> str | None:
    if w.attributes.get("transBatchA") or w.attributes.get("transBatchB"):
        return None
    sides = [
        w("Einsum", name, equation="...ij->...ji") if w.attributes.get(f"trans{side}") else name
        for name, side in zip(w.inputs, "AB", strict=False)
    ]
    return w("Mul", w("MatMul", *sides), w.number(w.attributes.get("alpha", 1.0)))


def _skip_layer_normalization(w: _Writer) -> tuple[str, ...]:
    x, skip, gamma, beta, bias = w.inputs[:5]
    total = w.sum(x, skip, bias)
    operands = [total, gamma, beta] if beta else [total, gamma]
    return w("LayerNormalization", *operands, axis=-1, epsilon=w.attributes.get("epsilon", 1e-5)), "", "", total


def _fused_conv(w: _Writer) -> str | None:
    form = {name: value for name, value in w.attributes.items() if not name.startswith("activation")}
    while not w.inputs[-1]:
        w.inputs.pop()
    result = w("Conv", *w.inputs[:3], **form)
    return _activated(w, w.sum(result, *w.inputs[3:4]))


def _activated(w: _Writer, x: str) -> str | None:
    kind, numbers = w.attributes.get("activation", b"").decode(), w.attributes.get("activation_params", ())
    if kind == "Clip":
        return w("Clip", x, *map(w.number, numbers))
    if kind in ("LeakyRelu", "HardSigmoid"):
        return w(kind, x, **dict(zip(("alpha", "beta"), numbers, strict=False)))
    return w(kind, x) if kind in ("Relu", "Tanh", "Sigmoid", "HardSwish") else None


def _layer_normalization(w: _Writer) -> str | None:
    if w.attributes.get("axis", -1) != -1:
        return None
    x, scale, bias = w.inputs[:3]
    centred = w("Sub", x, w("ReduceMean", x, axes=[-1]))
    variance = w("ReduceMean", w("Mul", centred, centred), axes=[-1])
    deviation = w("Sqrt", w("Add", variance, w.number(w.attributes.get("epsilon", 1e-5))))
    return w.sum(w("Mul", w("Div", centred, deviation), scale), bias)


_WRITTEN: dict[str, Callable[[_Writer], str | tuple[str, ...] | None]] = {
    "Gelu": _gelu,
    "BiasGelu": _gelu,
    "FastGelu": _fast_gelu,
    "QuickGelu": _quick_gelu,
    "FusedConv": _fused_conv,
    "FusedMatMul": _fused_matmul,
    "SkipLayerNormalization": _skip_layer_normalization,
}

_SINCE = 17  # the opset in which ONNX has LayerNormalization, which onnxruntime writes at any


def unfuse(graph: onnx.GraphProto, version: int, stem: str = "unfused") -> None:
    """Writes the fused operators of a graph of an opset, and of those that its nodes hold, as what they stand for."""
    nodes = list(graph.node)
    del graph.node[:]
    for index, node in enumerate(nodes):
        graph.node.extend(_unfused(node, version, f"{stem}/{index}"))


def _unfused(node: onnx.NodeProto, version: int, stem: str) -> Iterator[onnx.NodeProto]:
    for attribute in node.attribute:
        for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            unfuse(body, version, stem)
    writer = _Writer(node, stem)
    write = _WRITTEN.get(node.op_type) if node.domain == _DOMAIN else None
    if node.op_type == "LayerNormalization" and not node.domain and version < _SINCE:
        write = _layer_normalization
    results = None if write is None else write(writer)
    if results is None:
        yield node
        return
    yield from writer.nodes
    given = (results,) if isinstance(results, str) else results
    for result, name in zip(given, node.output, strict=False):
        if result and name:
            yield onnx.helper.make_node("Identity", [result], [name])
