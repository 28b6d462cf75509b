"""Where values belong among sorted ones."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import rank


def insertion(
    op: OpBuilder, edges: ir.Value, values: ir.Value, *, right: bool, dtype: ir.DataType, nan_behind: bool = True
) -> ir.Value:
    """How many of the sorted edges stand before each value, by comparing all with all.

    Args:
        op: the builder.
        edges: [n], or [..., n] with values [..., m].
        values: any shape where the edges are a vector.
        right: edges that equal the value stand before it.
        dtype: the type of the counts.
        nan_behind: all edges stand before a NaN, also where equal ones do not; TensorFlow's LowerBound puts it before all.

    Raises:
        UnsupportedOperator: a rank is not known.
    """
    last, rows = rank(values), rank(edges) - 1
    known = [item.dtype for item in (edges, values) if item.dtype is not None]
    wide = ir.DataType.DOUBLE if len(set(known)) > 1 else known[0]
    a, b = op.cast(edges, wide), op.Unsqueeze(op.cast(values, wide), op.axes(last))
    if rows > 0:
        a = op.Unsqueeze(a, op.axes(rows))
    if right:
        before = op.Not(op.Less(b, a)) if wide.is_floating_point() else op.LessOrEqual(a, b)
    else:
        before = op.Less(a, b)
        if nan_behind and wide.is_floating_point():
            before = op.Or(before, op.IsNaN(b))
    return op.reduce("ReduceSum", op.cast(before, dtype), [last], keepdims=False)
