"""From scores to labels: what every classifier shares."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.to_onnx.sklearn.arrays import Array


def take_class(classes: Any, index: Array) -> Array:
    """The labels at `index`."""
    labels = np.asarray(classes)
    if labels.dtype == object and not all(isinstance(item, str) for item in labels):
        kinds = {type(item) for item in labels}
        if not kinds <= {int, bool, float}:
            raise UnsupportedOperator(f"labels of types {', '.join(sorted(kind.__name__ for kind in kinds))}")
        labels = np.asarray(labels.tolist())
    if labels.dtype == np.int64 and index.dtype == np.int64 and np.array_equal(labels, np.arange(len(labels))):
        return index
    return index.of(index.op.Gather(index.op.const(labels), index.value, axis=0))


def label_of_scores(classes: Any, scores: Array) -> Array:
    """The label of the greatest score of each row, the first among equals, or by the sign of a vector of scores."""
    if scores.ndim == 1:
        return take_class(classes, (scores > 0).astype(np.int64))
    return take_class(classes, np.argmax(scores, axis=1))


def both_classes(positive: Array) -> Array:
    """Probabilities of two classes from a vector of those of the second: columns 1 - p and p."""
    column = positive[:, None]
    return np.concatenate([1 - column, column], axis=1)


def softmax(scores: Array) -> Array:
    """exp(scores) divided by the row's sum."""
    return scores.of(scores.op.Softmax(scores.value, axis=1))


def logsumexp(x: Array, axis: int = 1, *, keepdims: bool = False) -> Array:
    """log of the sum of exp(x) along an axis, from the greatest term, which must not be -inf in every place."""
    top = np.max(x, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=axis)


def normalized(x: Array) -> Array:
    """Rows divided by their sum; equal shares where that is 0."""
    total = np.sum(x, axis=1, keepdims=True)
    empty = total == 0
    return np.where(empty, 1, x) / np.where(empty, x.shape[1], total)


def spread(labels: Array, classes: Any) -> Array:
    """Booleans, one column for each class: whether the label is that class (numbers and booleans)."""
    return labels[:, None] == np.asarray(classes)[None]


def votes_of_pairs(labels: Array, scores: Array, count: int) -> Array:
    """sklearn.utils.multiclass._ovr_decision_function: labels 0 and 1 of each pair i < j, and scores for j."""
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    second, first, sign = (np.zeros((len(pairs), count)) for _ in range(3))
    for k, (i, j) in enumerate(pairs):
        second[k, j] = first[k, i] = 1.0
        sign[k, i], sign[k, j] = -1.0, 1.0
    total = scores.astype(np.float64) @ sign
    votes = (labels == 1).astype(np.float64) @ second + (labels == 0).astype(np.float64) @ first
    return votes + total / (3 * (np.abs(total) + 1))
