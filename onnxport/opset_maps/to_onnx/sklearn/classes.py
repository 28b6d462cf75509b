"""From scores to labels: what every classifier shares."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder


def take_class(op: OpBuilder, classes: np.ndarray, index: ir.Value) -> ir.Value:
    """The labels at `index` (a vector of integers)."""
    if classes.dtype.kind not in "iufbOUS":
        raise UnsupportedOperator(f"labels of type {classes.dtype}")
    labels = op.const(classes.astype(np.int64) if classes.dtype.kind in "iu" else classes)
    return op.Gather(labels, index, axis=0)


def label_of_scores(op: OpBuilder, classes: np.ndarray, scores: ir.Value) -> ir.Value:
    """The label of the greatest score of each row, the first among equals, or by the sign of a vector of scores."""
    if scores.shape is not None and scores.shape.rank() == 1:
        positive = op.Greater(scores, op.const(0.0, scores.dtype))
        return take_class(op, classes, op.cast(positive, ir.DataType.INT64))
    return take_class(op, classes, op.ArgMax(scores, axis=1, keepdims=0))


def both_classes(op: OpBuilder, positive: ir.Value) -> ir.Value:
    """Probabilities of two classes from a vector of those of the second: columns 1 - p and p."""
    p = op.Unsqueeze(positive, op.axes(1))
    return op.Concat(op.Sub(op.const(1.0, p.dtype), p), p, axis=1)


def normalized(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Rows divided by their sum."""
    return op.Div(x, op.reduce("ReduceSum", x, [1], keepdims=True))
