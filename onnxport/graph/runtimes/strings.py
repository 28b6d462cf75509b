"""Rows of strings, gathered as onnxruntime can."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.defect import Defect, Written, dims, operand


def gather(op: OpBuilder, node: ir.Node) -> Written:
    """Gather string by string, out of the data as one vector.

    A transposition around a Gather of the last axis would do too, but onnxruntime's optimiser takes it away again.
    """
    data, index, axis = operand(node, 0), operand(node, 1), node.attributes.get_int("axis", 0)
    assert data.shape is not None
    axis %= data.shape.rank()
    sizes, end = op.shape(data), np.iinfo(np.int64).max
    ends = ((0, axis), (axis, axis + 1), (axis + 1, end))
    before, size, behind = (op.Slice(sizes, [low], [high], [0]) for low, high in ends)
    outer, inner = (op.reduce("ReduceProd", part, [0], keepdims=False) for part in (before, behind))
    index = op.cast(index, ir.DataType.INT64)
    chosen = op.Reshape(op.Where(op.Less(index, 0), op.Add(index, size), index), [1, -1, 1])
    blocks = op.Reshape(op.Mul(op.Range(0, outer, 1), op.Squeeze(size, op.axes(0))), [-1, 1, 1])
    places = op.Add(op.Mul(op.Add(blocks, chosen), inner), op.Range(0, inner, 1))
    elements = op.Gather(op.Reshape(data, [-1]), places, axis=0)
    result = op.Reshape(elements, op.Concat(before, op.shape(index), behind, axis=0))
    shape = None if index.shape is None else [*data.shape[:axis], *index.shape, *data.shape[axis + 1 :]]
    return op.typed(result, ir.DataType.STRING, shape)


def _loses_strings(node: ir.Node) -> bool:
    """Whether rows are more than one string: of what lies behind the axis the kernel copies the first one only."""
    sizes = dims(node.inputs[0])
    return sizes is not None and any(size != 1 for size in sizes[node.attributes.get_int("axis", 0) % len(sizes) + 1 :])


_STRING = frozenset({ir.DataType.STRING})
_COPIES_THE_FIRST = "onnxruntime 1.31 copies only the first string behind the axis"
STRINGS = (
    Defect(("Gather",), gather, "Gather of one vector", _COPIES_THE_FIRST, _STRING, (0,), applies=_loses_strings),
)
