"""From scores to labels: functions that all classifiers share."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array

# Of numbers down to minus this runtimes' softmax knows the exponential in float64; below, it gives the least normal number.
_EXPONENT = 700.0


def take_class(classes: ArrayLike, index: Array) -> Array:
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


def label_of_scores(classes: ArrayLike, scores: Array) -> Array:
    """The label of the greatest score of each row, the first among equals, or by the sign of a vector of scores."""
    if scores.ndim == 1:
        return label_of_sign(classes, scores)
    return take_class(classes, np.argmax(scores, axis=1))


def column(vector: Array) -> Array:
    """A vector as the column [N, 1] that it was reshaped from, or else as a new one; a column as it is."""
    if vector.ndim == 2:
        return vector
    node = vector.value.producer()
    if node is not None and node.op_type in ("Reshape", "Squeeze") and node.inputs[0] is not None:
        source = vector.of(node.inputs[0])
        if source.value.shape is not None and source.shape[1:] == (1,):
            return source
    return vector[:, None]


def with_rest(part: Array) -> Array:
    """Columns 1 - p and p from the first of some columns; its product with 1 and -1 is exact."""
    op, dtype, count = part.op, part.dtype, part.shape[1]
    signs = np.zeros((1 if count is None else count, 2), dtype)
    signs[0] = [-1, 1]
    return part.of(op.Gemm(part.value, op.const(signs), op.const(np.array([1, 0], dtype))))


def both_classes(positive: Array) -> Array:
    """Probabilities of two classes from a vector of those of the second: columns 1 - p and p."""
    return with_rest(column(positive))


def zero_and_minus(scores: Array) -> Array:
    """Columns 0 and -s of a vector or column of scores."""
    return column(scores) * np.array([[0, -1]], scores.dtype)


def logistic_classes(pair: Array, farthest: float = np.inf) -> Array:
    """Probabilities 1 - p and p of two classes from columns 0 and -s of their scores, p = 1 / (exp(0) + exp(-s)).

    Args:
        pair: the columns, [N, 2].
        farthest: no score is farther from 0.
    """
    if pair.dtype == np.float64 and farthest < _EXPONENT:
        return with_rest(softmax(pair))
    return with_rest(np.reciprocal(np.sum(np.exp(pair), axis=1, keepdims=True)))


def label_of_sign(classes: ArrayLike, scores: Array, *, zero_is_second: bool = False) -> Array:
    """The second class where a score, [N] or [N, 1], is above 0, or is 0 and that counts as above; else the first."""
    return label_of_pair(classes, zero_and_minus(scores), zero_is_second=zero_is_second)


def label_of_pair(classes: ArrayLike, pair: Array, *, zero_is_second: bool = False) -> Array:
    """The second class where a score s is above 0, or is 0 and that counts as above, from columns 0 and -s; else the first."""
    last = 1 if zero_is_second else None
    return take_class(classes, pair.of(pair.op.ArgMin(pair.value, axis=1, keepdims=0, select_last_index=last)))


def link_inverse(model: BaseEstimator, raw: Array) -> Array:
    """What the link of a model's loss (sklearn._loss) makes of the raw prediction, in the type of it."""
    loss = model._base_loss if hasattr(model, "_base_loss") else model._loss
    name = type(loss.link).__name__
    if name == "IdentityLink":
        return raw
    if name == "LogLink":
        return np.exp(raw)
    if name == "LogitLink":
        return expit(raw)
    raise UnsupportedOperator(f"{type(model).__name__}: the link {name} has no mapping")


def softmax(scores: Array) -> Array:
    """exp(scores) divided by the row's sum."""
    return scores.of(scores.op.Softmax(scores.value, axis=1))


def logsumexp(x: Array, *, keepdims: bool = False) -> Array:
    """log of the sum of exp(x) of each row, from the greatest term, which must not be -inf in every place."""
    top = np.max(x, axis=1, keepdims=True)
    total = np.log(np.sum(np.exp(x - top), axis=1, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=1)


def normalized(x: Array) -> Array:
    """Rows divided by their sum; equal shares where that is 0."""
    total = np.sum(x, axis=1, keepdims=True)
    empty = total == 0
    return np.where(empty, 1, x) / np.where(empty, x.shape[1], total)


def spread(labels: Array, classes: ArrayLike) -> Array:
    """Booleans, one column for each class: whether the label is that class (numbers and booleans)."""
    return labels[:, None] == np.asarray(classes)[None]


def votes_of_pairs(labels: Array, scores: Array, count: int) -> Array:
    """sklearn.utils.multiclass._ovr_decision_function: labels 0 and 1 of each pair i < j, and scores for j."""
    pairs = list(combinations(range(count), 2))
    first, second = (np.eye(count)[[pair[side] for pair in pairs]] for side in (0, 1))
    own = [[k for k, pair in enumerate(pairs) if label in pair] for label in range(count)]
    sign = [[1.0 if pair[1] == label else -1.0 for pair in pairs if label in pair] for label in range(count)]
    # a class's own pairs alone: a product with zeros would spread NaN to classes that are not of the pair
    total = np.sum(scores.astype(np.float64)[:, np.array(own)] * np.array(sign), axis=2)
    votes = (labels == 1).astype(np.float64) @ second + (labels == 0).astype(np.float64) @ first
    return votes + total / (3 * (np.abs(total) + 1))
