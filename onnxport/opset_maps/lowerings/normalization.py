"""Values with mean 0 and variance 1."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder


def standardized(op: OpBuilder, x: ir.Value, axes: Sequence[int], eps: float) -> ir.Value:
    """(x - mean) / sqrt(variance + eps) over `axes`."""
    centred = op.Sub(x, op.reduce("ReduceMean", x, axes, keepdims=True))
    variance = op.reduce("ReduceMean", op.Mul(centred, centred), axes, keepdims=True)
    return op.Div(centred, op.Sqrt(op.Add(variance, eps)))


def affine(op: OpBuilder, x: ir.Value, scale: ir.Value | None, shift: ir.Value | None) -> ir.Value:
    """`x`, channels on axis 1, times a scale plus a shift of each channel; None for one that is left out."""
    x = x if scale is None else op.Mul(x, _per_channel(op, scale, x))
    return x if shift is None else op.Add(x, _per_channel(op, shift, x))


def batch_standardized(
    op: OpBuilder, x: ir.Value, scale: ir.Value | None, shift: ir.Value | None, eps: float
) -> ir.Value:
    """Batch normalisation by the statistics of the batch itself, channels on axis 1."""
    rank = _rank(x)
    return affine(op, standardized(op, x, [0, *range(2, rank)], eps), scale, shift)


def _per_channel(op: OpBuilder, value: ir.Value, x: ir.Value) -> ir.Value:
    """A vector over channels, as it broadcasts against `x`."""
    return op.Reshape(value, [1, -1, *[1] * (_rank(x) - 2)])


def _rank(x: ir.Value) -> int:
    if x.shape is None:
        raise UnsupportedOperator("the rank of an operand is not known")
    return x.shape.rank()
