"""Scattering with a reduction, as onnxruntime gets it right."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.casts import cast_row
from onnxport.graph.runtimes.defect import Defect, Written, dims, operand

_END = np.iinfo(np.int64).max
_T = ir.DataType


def slices(op: OpBuilder, node: ir.Node) -> Written:
    """ScatterND as ScatterElements of rows numbered through, which takes one update after another.

    Raises:
        UnsupportedOperator: the rank of what is added to, or the number of axes that the places have, is not known.
    """
    x, indices, updates = operand(node, 0), operand(node, 1), operand(node, 2)
    reduction = node.attributes.get_string("reduction", "none")
    count = (dims(indices) or [None])[-1]
    if x.shape is None or count is None:
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
    result = op.ScatterElements(
        op.Reshape(x, op.Concat(rows, rest, axis=0), allowzero=1) if count > 1 else x,
        place if x.shape.rank() == count else op.Expand(place, op.Shape(flat)),
        flat,
        axis=0,
        reduction=reduction,
    )
    return op.Reshape(result, op.shape(x), allowzero=1) if count > 1 else result


def _reduces(node: ir.Node) -> bool:
    return node.attributes.get_string("reduction", "none") != "none"


SCATTERS = (
    Defect(
        ("ScatterND",),
        slices,
        "ScatterElements",
        "onnxruntime 1.31 loses of several updates that meet at one place",
        opsets=range(16, 27),
        applies=_reduces,
    ),
    *(
        cast_row(
            "ScatterElements",
            [dtype],
            wide,
            "onnxruntime scatters it without a reduction only",
            operands=(0,),
            opsets=range(16, 27),
            applies=_reduces,
        )
        for dtype, wide in ((_T.FLOAT16, _T.FLOAT), (_T.BFLOAT16, _T.FLOAT), (_T.BOOL, _T.INT32))
    ),
)
