"""Rows that are nearly all zeros, by their other entries, beside the dense matrix that the graph hands on.

A matrix of counts of fifty thousand terms is written once where it is the model's output. Where a product with coefficients is
all that is asked of it, as by a linear model behind a vectorizer or behind categories by the thousand, the entries alone are
multiplied, and the matrix, which nothing reads then, falls out of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.facts import Fact

# A row of so many entries times the coefficients' columns is still less than the row itself.
_FEW = 64
# Rows of so many columns are each written at once where they belong; of shorter ones a step for each would take longer.
_LONG = 4096


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
        batch = self.values.shape[0] if self.values.shape is not None else None
        rows = op.dim(self.values, 0)
        if self.width >= _LONG:
            matrix = self._row_by_row(op, rows)
        else:
            matrix = self._added(op, self._zeros(op, op.Concat(rows, op.const([self.width]), axis=0)))
        return self.mark(op.typed(matrix, self.values.dtype, [batch, self.width]))

    def _zeros(self, op: OpBuilder, shape: ir.Value) -> ir.Value:
        assert self.values.dtype is not None
        zero = ir.tensor(np.zeros(1, self.values.dtype.numpy()))
        return op.ConstantOfShape(shape, value=zero)

    def _added(self, op: OpBuilder, zeros: ir.Value) -> ir.Value:
        return op.ScatterElements(zeros, self.columns, self.values, axis=-1, reduction="add")

    def _row_by_row(self, op: OpBuilder, rows: ir.Value) -> ir.Value:
        """The matrix, of which a row of zeros, which stays in the processor's cache, is all that is read."""

        def none(b: OpBuilder) -> list[ir.Value]:
            return [self._zeros(b, b.Concat(rows, b.const([self.width]), axis=0))]

        def some(b: OpBuilder) -> list[ir.Value]:
            width = b.Add(b.Mul(rows, 0), self.width)  # no constant, or the zeros would be one and stand in the file
            zeros = self._zeros(b, width)

            def row(c: OpBuilder) -> list[ir.Value]:
                columns, values = (
                    c.input(name, item.dtype or ir.DataType.INT64, [item.shape[1] if item.shape is not None else None])
                    for name, item in (("columns", self.columns), ("values", self.values))
                )
                result = replace(self, columns=columns, values=values)._added(c, zeros)
                return [c.typed(result, self.values.dtype, [self.width])]

            return [b.Scan(self.columns, self.values, body=b.body(row), num_scan_inputs=2)]

        are_some = op.cast(op.Squeeze(rows, op.axes(0)), ir.DataType.BOOL)  # a Scan starts with a row
        result: ir.Value = op.If(are_some, then_branch=op.body(some), else_branch=op.body(none))
        return result

    def mark(self, matrix: ir.Value) -> ir.Value:
        """Another form of the same matrix, marked with its entries."""
        _ENTRIES.set(matrix, self)
        return matrix

    def times(self, op: OpBuilder, y: ir.Value) -> ir.Value:
        """The matrix times another one, [width, C]."""
        picked = op.Gather(y, self.columns, axis=0)
        return op.Squeeze(op.MatMul(op.Unsqueeze(self.values, op.axes(1)), picked), op.axes(1))


_ENTRIES: Fact[SparseRows] = Fact("sparse_rows")
# The matrices that a matrix was joined from, side by side.
_PARTS: Fact[tuple[ir.Value, ...]] = Fact("side_by_side")


def gathered(op: OpBuilder, columns: ir.Value, weights: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Entries [N, K] of which those of a row that stand in one column are summed: columns, values; 0 where there is none.

    Args:
        op: the builder.
        columns: where an entry stands, int64 [N, K], -1 where there is none.
        weights: what stands there, [N, K], whatever where there is none.
    """
    # equal columns come to stand side by side: a run's first one stands for all of them
    order, places = op.TopK(columns, op.dim(columns, 1), axis=1, sorted=1)
    order = order
    before = op.Pad(op.Slice(order, [0], [-1], [1]), [0, 1, 0, 0], -2)
    first = op.Not(op.Equal(order, before))
    runs = op.Sub(op.CumSum(op.cast(first, ir.DataType.INT64), op.const(np.int64(1))), 1)
    zero = op.const(np.zeros((), weights.dtype.numpy() if weights.dtype is not None else np.float64))
    sums = op.ScatterElements(
        op.Expand(zero, op.Shape(order)), runs, op.GatherElements(weights, places, axis=1), axis=1, reduction="add"
    )
    values = op.Where(op.And(first, op.GreaterOrEqual(order, 0)), op.GatherElements(sums, runs, axis=1), zero)
    return op.Max(order, op.const(np.int64(0))), values


def _source(x: ir.Value) -> ir.Value:
    """The marked matrix that a matrix was cast from; it can be a cast's result itself."""
    while _ENTRIES.of(x) is None and _PARTS.of(x) is None:
        node = x.producer()
        if node is None or node.op_type != "Cast" or node.inputs[0] is None:
            break
        x = node.inputs[0]
    return x


def of(op: OpBuilder, x: ir.Value) -> SparseRows | None:
    """The entries of a matrix, cast as it is."""
    entries = _ENTRIES.of(_source(x))
    if entries is None or x.dtype is None or entries.values.dtype == x.dtype:
        return entries
    return replace(entries, values=op.cast(entries.values, x.dtype))


def mark_joined(joined: ir.Value, parts: Sequence[ir.Value]) -> ir.Value:
    """The concatenation of matrices side by side, marked with them."""
    _PARTS.set(joined, tuple(parts))
    return joined


def has_few(x: ir.Value, count: int) -> bool:
    """Whether some columns of x have so few entries that a product with `count` columns is better computed from those."""
    source = _source(x)
    rows = _ENTRIES.of(source)
    if rows is not None:
        return count * _FEW <= rows.width
    return any(has_few(part, count) for part in _PARTS.of(source) or ())


def product(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value | None:
    """x y by the entries of x, or of some of its columns; None where these are not known or not few beside the columns of y."""
    count = y.shape[1] if y.shape is not None and y.shape.rank() == 2 else None
    if not isinstance(count, int) or x.dtype is None or not has_few(x, count):
        return None
    rows = of(op, x)
    if rows is not None:
        return rows.times(op, y)
    parts = [op.cast(part, x.dtype) for part in _PARTS.of(_source(x)) or ()]
    terms, others, places, start = [], [], [], 0
    for part in parts:
        size = part.shape[1] if part.shape is not None else None
        if not isinstance(size, int):
            return None
        own = np.arange(start, start + size)
        start += size
        term = product(op, part, op.Gather(y, own, axis=0)) if has_few(part, count) else None
        if term is not None:
            terms.append(term)
        elif size:
            others.append(part)
            places.append(own)
    if others:
        dense = op.Concat(*others, axis=1) if len(others) > 1 else others[0]
        terms.append(op.MatMul(dense, op.Gather(y, np.concatenate(places), axis=0)))
    return op.Sum(*terms) if len(terms) > 1 else terms[0]
