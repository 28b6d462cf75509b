"""Scattering with a reduction, as runtimes get it right."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder

_END = np.iinfo(np.int64).max
# Types that onnxruntime scatters in, but not with a reduction, and those it reduces in instead.
_WIDER = {ir.DataType.FLOAT16: ir.DataType.FLOAT, ir.DataType.BOOL: ir.DataType.INT32}


def elements(
    op: OpBuilder, x: ir.Value, index: ir.Value, updates: ir.Value, axis: int, reduction: str | None
) -> ir.Value:
    """ScatterElements."""
    wide = _WIDER.get(x.dtype) if x.dtype is not None and reduction is not None else None
    if wide is None:
        return op.ScatterElements(x, index, updates, axis=axis, reduction=reduction)
    found = op.ScatterElements(op.cast(x, wide), index, op.cast(updates, wide), axis=axis, reduction=reduction)
    return op.cast_like(found, x)


def slices(op: OpBuilder, x: ir.Value, indices: ir.Value, updates: ir.Value, reduction: str | None) -> ir.Value:
    """ScatterND; with a reduction said by ScatterElements of rows numbered through.

    onnxruntime's ScatterND (1.31) works on many updates at a time and loses of those that meet at one place; its
    ScatterElements takes one after another.

    Args:
        op: the builder.
        x: what is added to, of known rank.
        indices: INT64, [..., K]; they count from the end where negative.
        updates: [..., the axes of x from K on].
        reduction: add, mul, max or min; None where what stands there is replaced.
    """
    if reduction is None:
        return op.ScatterND(x, indices, updates)
    count = indices.shape[-1] if indices.shape is not None else None
    if x.shape is None or not isinstance(count, int):
        raise UnsupportedOperator("scattering with a reduction into a tensor of unknown rank")
    sizes = [op.dim(x, axis) for axis in range(count)]
    place = op.const(0)
    rows = op.const([1])
    for axis, size in enumerate(sizes):
        index = op.Gather(indices, axis, axis=-1)
        if count > 1:
            index = op.Where(op.Less(index, 0), op.Add(index, size), index)
        place = index if axis == 0 else op.Add(op.Mul(place, size), index)
        rows = size if axis == 0 else op.Mul(rows, size)
    rest = op.Slice(op.shape(x), [count], [_END], [0])
    place = op.Reshape(place, [-1])
    flat = op.Reshape(updates, op.Concat(op.Shape(place), rest, axis=0), allowzero=1)
    place = op.Reshape(place, [-1, *[1] * (x.shape.rank() - count)])
    found = elements(
        op,
        op.Reshape(x, op.Concat(rows, rest, axis=0), allowzero=1) if count > 1 else x,
        place if x.shape.rank() == count else op.Expand(place, op.Shape(flat)),
        flat,
        0,
        reduction,
    )
    return op.Reshape(found, op.shape(x), allowzero=1) if count > 1 else found
