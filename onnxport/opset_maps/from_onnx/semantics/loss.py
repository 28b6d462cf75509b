"""Loss functions and optimizer steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypedDict, Unpack

import onnx_ir as ir

from onnxport.opset_maps.from_onnx.axes import number, scalar
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Host, Tensor
from onnxport.opset_maps.maps import onnx

_TRAINING = "ai.onnx.preview.training"


class LossAttributes(TypedDict, total=False):
    """Attributes of both losses."""

    ignore_index: int | None
    reduction: str


def _picked(xp: Namespace, log_prob: Tensor, target: Tensor, weight: Tensor | None, form: LossAttributes) -> Tensor:
    """The negative log probability of each target class (axis 1), weighted, reduced."""
    ignore_index, reduction = form.get("ignore_index"), form.get("reduction", "mean")
    index = xp.astype(target, ir.DataType.INT64)
    kept: Tensor | None = None
    if ignore_index is not None:
        kept = xp.not_equal(index, ignore_index)
        index = xp.where(kept, index, 0)
    picked = xp.squeeze(xp.take_along_axis(log_prob, xp.expand_dims(index, [1]), 1), (1,))
    loss = xp.negative(picked)
    factor = None if weight is None else xp.reshape(xp.take(weight, xp.reshape(index, (-1,)), 0), xp.shape(index))
    if kept is not None:
        mask = xp.astype(kept, xp.dtype(log_prob))
        factor = mask if factor is None else xp.multiply(factor, mask)
    if factor is not None:
        loss = xp.multiply(loss, factor) if kept is None else xp.where(kept, xp.multiply(loss, factor), 0.0)
    if reduction == "none":
        return loss
    if reduction == "sum" or factor is None:
        return xp.sum(loss) if reduction == "sum" else xp.mean(loss)
    return xp.divide(xp.sum(loss), xp.sum(factor))


@onnx.op("NegativeLogLikelihoodLoss", versions=(12, 13, 22))
def negative_log_likelihood_loss(
    xp: Namespace, log_prob: Tensor, target: Tensor, weight: Tensor | None = None, **form: Unpack[LossAttributes]
) -> Tensor:
    """Minus the log probability of the target class."""
    return _picked(xp, log_prob, target, weight, form)


@onnx.op("SoftmaxCrossEntropyLoss", versions=(12, 13))
def softmax_cross_entropy_loss(
    xp: Namespace, scores: Tensor, target: Tensor, weight: Tensor | None = None, **form: Unpack[LossAttributes]
) -> Any:
    """The loss of log softmax of scores, and on request that."""
    log_prob = xp.log_softmax(scores, 1)
    loss = _picked(xp, log_prob, target, weight, form)
    return (loss, log_prob) if xp.output_count > 1 else loss


def _by_value(tensors: Sequence[Tensor], kinds: int) -> Iterator[tuple[Tensor, ...]]:
    """Of tensors kind by kind those that belong to one value, the value first."""
    count = len(tensors) // kinds
    return zip(*(tensors[i * count : (i + 1) * count] for i in range(kinds)), strict=True)


def _by_kind(steps: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """The outputs of a step: all new values, then what is kept of each of them, kind by kind."""
    return tuple(chain.from_iterable(zip(*steps, strict=True)))


@onnx.op("Adagrad", versions=(1,), domain=_TRAINING)
def adagrad(
    xp: Namespace, rate: Tensor, step: Host, *xs: Tensor, decay_factor: float, epsilon: float, norm_coefficient: float
) -> Any:
    """A step of Adagrad on each (value, gradient, accumulated square)."""
    size = xp.divide(rate, 1 + number(scalar(step)) * decay_factor)
    results = []
    for x, gradient, square in _by_value(xs, 3):
        slope = xp.add(xp.multiply(x, norm_coefficient), gradient)
        total = xp.add(square, xp.square(slope))
        adaptive = xp.add(xp.sqrt(total), epsilon)
        results.append((xp.subtract(x, xp.divide(xp.multiply(size, slope), adaptive)), total))
    return _by_kind(results)


@onnx.op("Momentum", versions=(1,), domain=_TRAINING)
def momentum(
    xp: Namespace, rate: Tensor, step: Host, *xs: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> Any:
    """A step of gradient descent with momentum, standard or Nesterov's, on each (value, gradient, momentum)."""
    first = number(scalar(step)) == 0
    results = []
    for x, gradient, moment in _by_value(xs, 3):
        slope = xp.add(xp.multiply(x, norm_coefficient), gradient)
        fresh = xp.add(xp.multiply(moment, alpha), xp.multiply(slope, 1.0 if first else beta))
        move = xp.add(slope, xp.multiply(fresh, alpha)) if mode == "nesterov" else fresh
        results.append((xp.subtract(x, xp.multiply(rate, move)), fresh))
    return _by_kind(results)


@onnx.op("Adam", versions=(1,), domain=_TRAINING)
def adam(
    xp: Namespace,
    rate: Tensor,
    step: Host,
    *xs: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> Any:
    """A step of Adam on each (value, gradient, first moment, second moment)."""
    number_of_steps = number(scalar(step))
    results = []
    for x, gradient, first, second in _by_value(xs, 4):
        slope = xp.add(xp.multiply(x, norm_coefficient), gradient)
        one = xp.add(xp.multiply(first, alpha), xp.multiply(slope, 1 - alpha))
        two = xp.add(xp.multiply(second, beta), xp.multiply(xp.square(slope), 1 - beta))
        size = rate
        if number_of_steps > 0:
            size = xp.multiply(rate, (1 - beta**number_of_steps) ** 0.5 / (1 - alpha**number_of_steps))
        moved = xp.subtract(x, xp.divide(xp.multiply(size, one), xp.add(xp.sqrt(two), epsilon)))
        results.append((xp.multiply(moved, 1 - norm_coefficient_post), one, two))
    return _by_kind(results)
