"""Rows of strings, gathered as onnxruntime can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

if TYPE_CHECKING:
    from onnxport.graph.builder import OpBuilder


def loses_strings(data: ir.Value, axis: int) -> bool:
    """Whether onnxruntime's Gather (1.31) loses strings: of what lies behind the axis it copies the first one only."""
    if data.dtype != ir.DataType.STRING or data.shape is None:
        return False
    return any(size != 1 for size in data.shape[axis % data.shape.rank() + 1 :])


def gathered(op: OpBuilder, data: ir.Value, index: ir.Value, axis: int) -> ir.Value:
    """Gather string by string, out of the data as one vector.

    A transposition around a Gather of the last axis would do too, but onnxruntime's optimiser takes it away again.
    """
    assert data.shape is not None
    axis %= data.shape.rank()
    sizes, end = op.shape(data), np.iinfo(np.int64).max
    before, size, behind = (
        op.Slice(sizes, [low], [high], [0]) for low, high in ((0, axis), (axis, axis + 1), (axis + 1, end))
    )
    outer, inner = (op.reduce("ReduceProd", part, [0], keepdims=False) for part in (before, behind))
    index = op.cast(index, ir.DataType.INT64)
    chosen = op.Reshape(op.Where(op.Less(index, 0), op.Add(index, size), index), [1, -1, 1])
    blocks = op.Reshape(op.Mul(op.Range(0, outer, 1), op.Squeeze(size, op.axes(0))), [-1, 1, 1])
    places = op.Add(op.Mul(op.Add(blocks, chosen), inner), op.Range(0, inner, 1))
    found = op.Gather(op.Reshape(data, [-1]), places, axis=0)
    result = op.Reshape(found, op.Concat(before, op.shape(index), behind, axis=0))
    shape = None if index.shape is None else [*data.shape[:axis], *index.shape, *data.shape[axis + 1 :]]
    return op.typed(result, ir.DataType.STRING, shape)
