"""Ranks, sizes and the order of axes, and of elements along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder


def rank(x: ir.Value) -> int:
    """The rank of `x`.

    Raises:
        UnsupportedOperator: it is unknown.
    """
    if x.shape is None:
        raise UnsupportedOperator("needs an operand of known rank: give the input's shape, with None where it varies")
    return x.shape.rank()


def size(op: OpBuilder, x: ir.Value, axis: int) -> ir.Value:
    """The size of one axis as an INT64 scalar."""
    return op.Squeeze(op.dim(x, axis), op.axes(0))


def positions(op: OpBuilder, x: ir.Value, axis: int) -> ir.Value:
    """0, 1, ... along one axis of `x`, an INT64 vector."""
    return op.Range(0, size(op, x, axis), 1)


def windowed(op: OpBuilder, x: ir.Value, axis: int, length: int, step: int, dilation: int = 1) -> ir.Value:
    """Windows along one axis: the axis counts them, and a new axis behind it their `length` elements."""
    within = np.arange(length) * dilation
    starts = op.Range(0, op.Sub(size(op, x, axis), (length - 1) * dilation), step)
    return op.Gather(x, op.Add(op.Unsqueeze(starts, op.axes(1)), within), axis=axis)


def permuted(op: OpBuilder, x: ir.Value, perm: Sequence[int]) -> ir.Value:
    """`x` with its axes in the order `perm`; `x` itself where that changes nothing."""
    return x if list(perm) == list(range(len(perm))) else op.Transpose(x, perm=list(perm))


def transposed(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The last two axes exchanged."""
    count = rank(x)
    return op.Transpose(x, perm=[*range(count - 2), count - 1, count - 2])


def rolled(op: OpBuilder, x: ir.Value, shift: int | ir.Value, axis: int) -> ir.Value:
    """The end of an axis put before its beginning; an axis without elements stays as it is."""
    size = x.shape[axis] if x.shape is not None else None
    if isinstance(shift, int) and isinstance(size, int):
        places = -shift % size if size else 0
        if not places:
            return x
        cut = op.const([places])
    else:
        back = op.Neg(op.shape_vector([shift])) if isinstance(shift, ir.Value) else op.const([-shift])
        cut = op.Mod(back, op.Max(op.dim(x, axis), [1]))
    head = op.Slice(x, cut, [np.iinfo(np.int64).max], [axis])
    return op.Concat(head, op.Slice(x, [0], cut, [axis]), axis=axis)
