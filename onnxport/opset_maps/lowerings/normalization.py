"""Values with mean 0 and variance 1."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import standardized
from onnxport.opset_maps.lowerings.axes import rank


def affine(op: OpBuilder, x: ir.Value, scale: ir.Value | None, shift: ir.Value | None) -> ir.Value:
    """`x`, channels on axis 1, times a scale plus a shift of each channel; None for one that is left out."""
    x = x if scale is None else op.Mul(x, _per_channel(op, scale, x))
    return x if shift is None else op.Add(x, _per_channel(op, shift, x))


def batch_normalized(
    op: OpBuilder,
    x: ir.Value,
    scale: ir.Value | None,
    shift: ir.Value | None,
    mean: ir.Value | None,
    variance: ir.Value | None,
    eps: float,
) -> ir.Value:
    """BatchNormalization, channels on axis 1; by the statistics of the batch itself where `mean` or `variance` is None."""
    if mean is None or variance is None:
        return affine(op, standardized(op, x, [0, *range(2, rank(x))], eps), scale, shift)
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
