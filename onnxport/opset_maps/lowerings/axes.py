"""Ranks, sizes and the order of axes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder


def size(op: OpBuilder, x: ir.Value, axis: int) -> ir.Value:
    """The size of one axis as an INT64 scalar."""
    return op.Squeeze(op.dim(x, axis), op.axes(0))


def positions(op: OpBuilder, x: ir.Value, axis: int) -> ir.Value:
    """0, 1, ... along one axis of `x`, an INT64 vector."""
    return op.Range(0, size(op, x, axis), 1)


def permuted(op: OpBuilder, x: ir.Value, perm: Sequence[int]) -> ir.Value:
    """`x` with its axes in the order `perm`; `x` itself where that changes nothing."""
    return x if list(perm) == list(range(len(perm))) else op.Transpose(x, perm=list(perm))


def transposed(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The last two axes exchanged."""
    rank = x.shape.rank() if x.shape is not None else 2
    return op.Transpose(x, perm=[*range(rank - 2), rank - 1, rank - 2])
