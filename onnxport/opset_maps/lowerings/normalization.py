"""Values with mean 0 and variance 1."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import standardized
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.reductions import element_count


def affine(op: OpBuilder, x: ir.Value, scale: ir.Value | None, shift: ir.Value | None) -> ir.Value:
    """`x`, channels on axis 1, times a scale plus a shift of each channel; None for one that is left out."""
    x = x if scale is None else op.Mul(x, _per_channel(op, scale, x))
    return x if shift is None else op.Add(x, _per_channel(op, shift, x))


def batch_normalized(
    op: OpBuilder,
    x: ir.Value,
    scale: ir.Value | None,
    shift: ir.Value | None,
    statistics: tuple[ir.Value | None, ir.Value | None],
    eps: float,
) -> ir.Value:
    """BatchNormalization, channels on axis 1; by those of the batch itself where the mean or the variance is None."""
    mean, variance = statistics
    if mean is None or variance is None:
        return affine(op, standardized(op, x, [0, *range(2, rank(x))], eps), scale, shift)
    if x.dtype == ir.DataType.DOUBLE and float(np.float32(eps)) != eps:  # the attribute has float32's digits
        deviation = op.Sqrt(op.Add(_per_channel(op, variance, x), eps))
        return affine(op, op.Div(op.Sub(x, _per_channel(op, mean, x)), deviation), scale, shift)
    return op.BatchNormalization(x, *ones_and_zeros(op, x, scale, shift), mean, variance, epsilon=eps)


def ones_and_zeros(
    op: OpBuilder, x: ir.Value, scale: ir.Value | None, shift: ir.Value | None
) -> tuple[ir.Value, ir.Value]:
    """A scale and a shift of each channel of `x`: 1 and 0 for one that is left out.

    Raises:
        UnsupportedOperator: one is left out, and the number of channels is dynamic.
    """
    if scale is not None and shift is not None:
        return scale, shift
    size = x.shape[1] if x.shape is not None and x.shape.rank() > 1 else None
    if not isinstance(size, int):
        raise UnsupportedOperator("normalisation over a dynamic number of channels")
    scale = op.const(np.ones(size), x.dtype) if scale is None else scale
    return scale, op.const(np.zeros(size), x.dtype) if shift is None else shift


def _per_channel(op: OpBuilder, value: ir.Value, x: ir.Value) -> ir.Value:
    """A vector over channels, as it broadcasts against `x`."""
    return op.Reshape(value, [1, -1, *[1] * (rank(x) - 2)])


def moved_statistics(
    op: OpBuilder, x: ir.Value, mean: ir.Value, variance: ir.Value, momentum: float, *, by_instance: bool
) -> tuple[ir.Value, ir.Value]:
    """Running statistics after a batch: a share of the old ones, and of the batch's mean and unbiased variance.

    Args:
        op: the builder.
        x: the batch, channels on axis 1.
        mean: the running mean of each channel.
        variance: the running variance.
        momentum: the share of the batch's own.
        by_instance: the batch's own are the means of those of its samples.
    """
    axes = list(range(2, rank(x))) if by_instance else [0, *range(2, rank(x))]
    own = op.reduce("ReduceMean", x, axes, keepdims=True)
    centred = op.Sub(x, own)
    total = op.reduce("ReduceSum", op.Mul(centred, centred), axes, keepdims=True)
    count = element_count(op, x, axes)
    spread = op.Div(total, op.cast_like(op.Sub(count, 1) if isinstance(count, ir.Value) else op.const(count - 1), x))
    others = [0, *range(2, rank(x))]
    result = []
    for old, new in ((mean, own), (variance, spread)):
        new = op.reduce("ReduceMean", new, others, keepdims=False)
        result.append(op.Add(op.Mul(old, 1.0 - momentum), op.cast_like(op.Mul(new, momentum), old)))
    return result[0], result[1]
