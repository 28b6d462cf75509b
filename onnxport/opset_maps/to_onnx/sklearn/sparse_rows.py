"""Rows that are nearly all zeros, by their other entries, beside the dense matrix that the graph hands on.

A matrix of counts of fifty thousand terms is written once where it is the model's output. Where a product with coefficients is
all that is asked of it, as by a linear model behind a vectorizer, the entries alone are multiplied, and the matrix, which nothing
reads then, falls out of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder

_MARK = "onnxport.sparse_rows"
# A row of so many entries times the coefficients' columns is still less than the row itself.
_ENTRIES = 64


@dataclass(frozen=True)
class SparseRows:
    """Entries of a matrix [N, width].

    Attributes:
        columns: which columns they stand in, int64 [N, K].
        values: what stands there, [N, K]; a column's second entry in a row is 0.
        width: number of columns.
    """

    columns: ir.Value
    values: ir.Value
    width: int

    def dense(self, op: OpBuilder) -> ir.Value:
        """The matrix, marked with its entries (`of`)."""
        assert self.values.dtype is not None
        size = op.Concat(op.dim(self.values, 0), op.const([self.width]), axis=0)
        zeros = op.ConstantOfShape(size, value=ir.tensor(np.zeros(1, self.values.dtype.numpy())))
        found = op.ScatterElements(zeros, self.columns, self.values, axis=1, reduction="add")
        batch = self.values.shape[0] if self.values.shape is not None else None
        found = op.typed(found, self.values.dtype, [batch, self.width])
        found.meta[_MARK] = self
        return found

    def times(self, op: OpBuilder, y: ir.Value) -> ir.Value:
        """The matrix times another one, [width, C]."""
        picked = op.Gather(y, self.columns, axis=0)
        return op.Squeeze(op.MatMul(op.Unsqueeze(self.values, op.axes(1)), picked), op.axes(1))


def of(op: OpBuilder, x: ir.Value) -> SparseRows | None:
    """The entries of a matrix, cast as it is."""
    found = x.meta.get(_MARK)
    if found is not None:
        return found
    node = x.producer()
    if node is None or node.op_type != "Cast" or node.inputs[0] is None or x.dtype is None:
        return None
    before = of(op, node.inputs[0])
    return None if before is None else replace(before, values=op.cast(before.values, x.dtype))


def product(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value | None:
    """x y by the entries of x; None where these are not known or not few beside the columns of y."""
    if y.shape is None or y.shape.rank() != 2:
        return None
    count = y.shape[1]
    rows = of(op, x)
    if rows is None or not isinstance(count, int) or count * _ENTRIES > rows.width:
        return None
    return rows.times(op, y)
