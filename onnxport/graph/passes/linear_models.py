"""Linear models of ai.onnx.ml, whose weights are attributes, written as products with weights: importers make layers of these."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.graph.names import NameAuthority
from onnxport.graph.passes.rewriting import add_weight, replace_value

_ML = "ai.onnx.ml"
_FLOAT = ir.DataType.FLOAT
_TRANSFORMS = {"NONE": "Identity", "SOFTMAX": "Softmax", "LOGISTIC": "Sigmoid"}
_LEAST_OPSET = 11  # the forms of Gemm and Softmax below mean the same from here on


def write_linear_models(model: ir.Model) -> None:
    """Writes LinearRegressor and LinearClassifier of a typed model as Gemm and what follows it, in place.

    Left are those of vectors, of a single score (which stands for two) and of transformations that are their own.
    """
    if model.opset_imports.get("", 0) < _LEAST_OPSET:
        return
    models = [node for node in model.graph if node.domain == _ML and node.op_type in _WRITERS]
    if not models:
        return
    names = NameAuthority()
    for node in model.graph:
        for value in (*node.outputs, *node.inputs):
            if value is not None and value.name and value.name not in names:
                names.reserve(value.name)
    for node in models:
        x = node.inputs[0]
        if x is not None and x.dtype is not None and x.shape is not None and x.shape.rank() == 2:
            _WRITERS[node.op_type](_Written(model, node, names), x)


class _Written:
    """What is written in place of one node."""

    def __init__(self, model: ir.Model, node: ir.Node, names: NameAuthority) -> None:
        self.graph, self.node = model.graph, node
        self.version = model.opset_imports.get(_ML, 1)
        self.stem = node.name or node.op_type
        self._names = names

    def __call__(self, op_type: str, *inputs: ir.Value, domain: str = "", **attributes: Any) -> ir.Value:
        """The result of a node before the one that is replaced; its type and shape are to be set."""
        name = self._names.unique(f"{self.stem}/{op_type}")
        written = ir.Node(
            domain,
            op_type,
            inputs,
            ir.convenience.convert_attributes(attributes),
            outputs=[ir.Value(name=name)],
            name=name,
            metadata_props=dict(self.node.metadata_props),
        )
        self.graph.insert_before(self.node, written)
        return written.outputs[0]

    def scores(self, x: ir.Value, count: int) -> ir.Value:
        """x times the coefficients, and the intercepts."""
        held, rows = self.node.attributes, x.shape[0] if x.shape is not None else None
        if x.dtype != _FLOAT:
            x = self.typed(self("Cast", x, to=_FLOAT), _FLOAT, x.shape or ())
        intercepts = held.get_floats("intercepts", [])
        matrix = np.asarray(held.get_floats("coefficients"), np.float32).reshape(count, -1)
        operands = [x, add_weight(self.graph, self._names.unique(f"{self.stem}.weight"), matrix)]
        if len(intercepts) == count:
            bias = np.asarray(intercepts, np.float32)
            operands.append(add_weight(self.graph, self._names.unique(f"{self.stem}.bias"), bias))
        return self.typed(self("Gemm", *operands, transB=1), _FLOAT, (rows, count))

    def transformed(self, scores: ir.Value) -> ir.Value | None:
        """The scores after the node's transformation."""
        name = _TRANSFORMS[self.node.attributes.get_string("post_transform", "NONE")]
        form: dict[str, Any] = {"axis": 1} if name == "Softmax" else {}
        return scores if name == "Identity" else self.typed(self(name, scores, **form), _FLOAT, scores.shape or ())

    @staticmethod
    def typed(value: ir.Value, dtype: ir.DataType, shape: Any) -> ir.Value:
        """The value, with its type and shape."""
        value.type, value.shape = ir.TensorType(dtype), ir.Shape(shape)
        return value

    def done(self, *results: ir.Value | None) -> None:
        """Replaces the node."""
        for old, new in zip(self.node.outputs, results, strict=False):
            if new is not None:
                replace_value(old, new)
        self.graph.remove(self.node, safe=True)


def _regressor(w: _Written, x: ir.Value) -> None:
    targets = w.node.attributes.get_int("targets", 1)
    if w.node.attributes.get_string("post_transform", "NONE") == "NONE":
        w.done(w.scores(x, targets))


def _classifier(w: _Written, x: ir.Value) -> None:
    held = w.node.attributes
    words, numbers = held.get_strings("classlabels_strings", []), held.get_ints("classlabels_ints", [])
    count = len(held.get_floats("intercepts", []))
    if count < 2 or count != len(words or numbers) or held.get_string("post_transform", "NONE") not in _TRANSFORMS:
        return
    scores = w.scores(x, count)
    rows = scores.shape[0] if scores.shape is not None else None
    label = w.typed(w("ArgMax", scores, axis=1, keepdims=0), ir.DataType.INT64, (rows,))
    if words:
        form: dict[str, Any] = {"keys_int64s": list(range(count)), "values_strings": list(words)}
        if w.version < 2:
            form = {"classes_strings": list(words)}
        label = w.typed(w("LabelEncoder", label, domain=_ML, **form), ir.DataType.STRING, (rows,))
    elif list(numbers) != list(range(count)):
        table = w.typed(w("Constant", value_ints=list(numbers)), ir.DataType.INT64, (count,))
        label = w.typed(w("Gather", table, label), ir.DataType.INT64, (rows,))
    w.done(label, w.transformed(scores))


_WRITERS = {"LinearRegressor": _regressor, "LinearClassifier": _classifier}
