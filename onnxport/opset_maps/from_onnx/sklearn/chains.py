"""Graphs of ONNX-ML's operators, as skl2onnx and others write them, back to estimators: one function an operator.

A graph whose nodes follow each other from its one input is a pipeline of them. What is rebuilt has the operator's own numbers, in
the class that the operator tells of; scikit-learn's parameters that it does not tell of stay as they are by default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.pipeline import make_pipeline

Attributes = dict[str, Any]
Rebuild = Callable[[Attributes], Any]
_OPERATORS: dict[str, Rebuild] = {}
# What hands rows or scores on as they are.
_CARRIERS = frozenset(("Identity", "Cast", "ZipMap", "Reshape", "Squeeze", "Flatten"))


def rebuilds(op_type: str) -> Callable[[Rebuild], Rebuild]:
    """Registers the decorated function for an operator of ai.onnx.ml: it gets its attributes and gives an estimator, or None."""

    def register(function: Rebuild) -> Rebuild:
        _OPERATORS[op_type] = function
        return function

    return register


def recognised(model: ir.Model) -> Any:
    """The estimator that a graph of such operators is; None where it holds anything else.

    Raises:
        Exception: attributes of a damaged file do not fit together.
    """
    inputs = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
    if len(inputs) != 1 or len(model.graph) > 64:
        return None
    shape = inputs[0].shape
    width = shape[1] if shape is not None and shape.rank() == 2 else None
    steps: list[Any] = []
    current: ir.Value = inputs[0]
    final = False
    for node in model.graph:
        if node.op_type in _CARRIERS:
            if node.inputs[0] is current and not final:
                current = node.outputs[0]
            continue
        if _is_of_classifier(node) and final:
            continue
        rebuild = _OPERATORS.get(node.op_type) if node.domain == "ai.onnx.ml" else None
        if rebuild is None or final or node.inputs[0] is not current:
            return None
        step = rebuild(attributes_of(node) | ({"n_columns": width} if isinstance(width, int) else {}))
        if step is None:
            return None
        steps.append(step)
        current, final = node.outputs[0], hasattr(step, "predict")
    if not steps or (not final and model.graph.outputs[0] is not current):
        return None
    return steps[0] if len(steps) == 1 else make_pipeline(*steps)


def _is_of_classifier(node: ir.Node) -> bool:
    """Whether a node behind a classifier brings its scores or labels into their form."""
    return node.op_type in ("Normalizer", "ArrayFeatureExtractor", "LabelEncoder", "Gather", "ArgMax")


def attributes_of(node: ir.Node) -> Attributes:
    """The attributes of a node, lists of numbers as arrays."""
    given: Attributes = {}
    for name, item in node.attributes.items():
        if not isinstance(item, ir.Attr):
            continue
        kind = item.type
        if kind == ir.AttributeType.TENSOR:
            given[name.removesuffix("_as_tensor")] = item.value.numpy()
        elif kind in (ir.AttributeType.FLOATS, ir.AttributeType.INTS):
            given[name] = np.asarray(item.value)
        else:
            given[name] = list(item.value) if kind == ir.AttributeType.STRINGS else item.value
    return given


def labels_of(given: Attributes) -> np.ndarray:
    """The classes that a classifier names."""
    texts = given.get("classlabels_strings")
    return (
        np.array(texts)
        if texts
        else np.asarray(given.get("classlabels_int64s", given.get("classlabels_ints")), np.int64)
    )
