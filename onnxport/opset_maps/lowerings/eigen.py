"""Eigenvalues and singular values by Jacobi's rotations, in double precision, over batches of matrices of any size.

A step rotates all columns at once, each with its partner: in step k of a sweep over n columns, column i meets column (k - i)
mod n, so that n steps bring each pair together once (GvL section 8.5: the order of the pairs does not matter). An angle depends
on a pair alone, not on which of the two columns asks, but for the sign of one of 45 degrees. Sources: Golub and Van Loan, "Matrix
Computations", 4th edition (GvL), algorithm 8.5.1 and section 8.6.4 (Hestenes' one-sided form).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import size, transposed
from onnxport.opset_maps.lowerings.linear_algebra import counted, householder, identity_like
from onnxport.opset_maps.lowerings.loops import loop

_DOUBLE = ir.DataType.DOUBLE
# Off-diagonal elements shrink quadratically from the third sweep on or so; in double precision ten are rarely needed.
_SWEEPS = 16


def _rotation(
    op: OpBuilder, own: ir.Value, others: ir.Value, shared: ir.Value, places: ir.Value, partners: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Cosine and sine, such that ``cosine * column - sine * partner`` makes each pair orthogonal (GvL section 8.5.2).

    Args:
        op: the builder.
        own: the square of each column, or its element on the diagonal.
        others: that of its partner.
        shared: the product of the two columns, or their element off the diagonal.
        places: the columns' numbers.
        partners: their partners' numbers.
    """
    one = op.const(1.0, _DOUBLE)
    rests = op.Or(op.Equal(shared, 0.0), op.Equal(places, partners))
    zeta = op.Div(op.Sub(others, own), op.Mul(op.Where(rests, one, shared), 2.0))
    tie = op.Where(op.Less(places, partners), one, op.const(-1.0, _DOUBLE))
    sign = op.Where(op.Equal(zeta, 0.0), tie, op.Sign(zeta))
    # Where its square overflows, the angle is zero.
    root = op.Sqrt(op.Add(op.Mul(zeta, zeta), 1.0))
    tangent = op.Where(rests, op.const(0.0, _DOUBLE), op.Div(sign, op.Add(op.Abs(zeta), root)))
    cosine = op.Div(one, op.Sqrt(op.Add(op.Mul(tangent, tangent), 1.0)))
    return cosine, op.Mul(cosine, tangent)


def _scaled(op: OpBuilder, a: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Matrices in double whose largest element is 1, and what they were divided by, [..., 1, 1]."""
    a = op.cast(a, _DOUBLE)
    largest = op.reduce("ReduceMax", op.Abs(a), [-2, -1], keepdims=True)
    largest = op.Where(op.Greater(largest, 0.0), largest, op.const(1.0, _DOUBLE))
    return op.Div(a, largest), largest


def _in_order(op: OpBuilder, columns: ir.Value, order: ir.Value) -> ir.Value:
    """The columns of each matrix in an order [..., 1, n] of its own."""
    return op.GatherElements(columns, op.Expand(order, op.shape(columns)), axis=-1)


def symmetric(op: OpBuilder, a: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Eigenvalues [..., n], ascending, and eigenvectors [..., n, n], as columns, of symmetric matrices `a` [..., n, n]."""
    a, scale = _scaled(op, a)
    n = size(op, a, -1)
    one = identity_like(op, a)
    places = counted(op, n, column=False)

    def diagonal(b: OpBuilder, matrix: ir.Value) -> ir.Value:
        return b.reduce("ReduceSum", b.Where(b.Equal(one, 0.0), b.const(0.0, _DOUBLE), matrix), [-2], keepdims=True)

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        matrix, vectors = states
        partners = b.Mod(b.Sub(k, places), n)
        turned = b.Gather(matrix, partners, axis=-1)
        own, shared = diagonal(b, matrix), diagonal(b, turned)
        # From both sides alike, to the last bit: else the two angles of nearly equal eigenvalues differ.
        shared = b.Mul(b.Add(shared, b.Gather(shared, partners, axis=-1)), 0.5)
        cosine, sine = _rotation(b, own, b.Gather(own, partners, axis=-1), shared, places, partners)
        matrix = b.Sub(b.Mul(cosine, matrix), b.Mul(sine, turned))
        below = b.Gather(matrix, partners, axis=-2)
        matrix = b.Sub(b.Mul(transposed(b, cosine), matrix), b.Mul(transposed(b, sine), below))
        return [matrix, b.Sub(b.Mul(cosine, vectors), b.Mul(sine, b.Gather(vectors, partners, axis=-1)))]

    matrix, vectors = loop(op, op.Mul(n, _SWEEPS), [a, one], step)
    values, order = op.TopK(diagonal(op, matrix), op.Reshape(n, [1]), axis=-1, largest=0, sorted=1)
    return op.Squeeze(op.Mul(values, scale), op.axes(-2)), _in_order(op, vectors, order)


def _orthogonal_columns(op: OpBuilder, a: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """A V with orthogonal columns, longest first, the columns' lengths [..., n], and V [..., n, n]."""
    a, scale = _scaled(op, a)
    m, n = size(op, a, -2), size(op, a, -1)
    places = counted(op, n, column=False)
    one = identity_like(op, op.MatMul(transposed(op, a), a))
    cut, end = op.Reshape(m, [1]), op.const([np.iinfo(np.int64).max])

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        both = states[0]
        partners = b.Mod(b.Sub(k, places), n)
        turned = b.Gather(both, partners, axis=-1)
        column, other = (b.Slice(item, [0], cut, [-2]) for item in (both, turned))
        own = b.reduce("ReduceSum", b.Mul(column, column), [-2], keepdims=True)
        shared = b.reduce("ReduceSum", b.Mul(column, other), [-2], keepdims=True)
        cosine, sine = _rotation(b, own, b.Gather(own, partners, axis=-1), shared, places, partners)
        return [b.Sub(b.Mul(cosine, both), b.Mul(sine, turned))]

    (both,) = loop(op, op.Mul(n, _SWEEPS), [op.Concat(a, one, axis=-2)], step)
    columns, vectors = op.Slice(both, [0], cut, [-2]), op.Slice(both, cut, end, [-2])
    lengths = op.Sqrt(op.reduce("ReduceSum", op.Mul(columns, columns), [-2], keepdims=True))
    lengths, order = op.TopK(lengths, op.Reshape(n, [1]), axis=-1, largest=1, sorted=1)
    columns = op.Mul(_in_order(op, columns, order), scale)
    return columns, op.Squeeze(op.Mul(lengths, scale), op.axes(-2)), _in_order(op, vectors, order)


def singular_values(op: OpBuilder, a: ir.Value) -> ir.Value:
    """The singular values [..., min(m, n)] of `a` [..., m, n], descending."""
    lengths = _orthogonal_columns(op, a)[1]
    return op.Slice(lengths, [0], op.Reshape(op.Min(size(op, a, -2), size(op, a, -1)), [1]), [-1])


def singular(op: OpBuilder, a: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """U [..., m, m], S [..., n] descending, V [..., n, n] with a = U[..., :n] diag(S) V', for m at least n.

    The signs of pairs of columns of U and V are this algorithm's own; LAPACK's may be the opposite.
    """
    columns, lengths, vectors = _orthogonal_columns(op, a)
    # Columns that are orthogonal already: R is their lengths with signs, and Q goes on where they are zero or fewer than m.
    q, r = householder(op, columns)
    rows, places = counted(op, size(op, a, -2), column=True), counted(op, size(op, a, -1), column=False)
    negative = op.And(op.Equal(rows, places), op.Less(r, 0.0))
    flips = op.reduce("ReduceMax", op.cast(negative, _DOUBLE), [-1], keepdims=True)
    return op.Mul(q, op.Sub(1.0, op.Mul(transposed(op, flips), 2.0))), lengths, vectors


def symmetric_of(op: OpBuilder, a: ir.Value, *, upper: bool = False) -> tuple[ir.Value, ir.Value]:
    """Eigenvalues, ascending, and eigenvectors of the symmetric matrix of one triangle, in double."""
    half = op.Trilu(op.cast(a, _DOUBLE), upper=int(upper))
    rest = op.Trilu(half, op.const(1 if upper else -1), upper=int(upper))
    return symmetric(op, op.Add(half, transposed(op, rest)))


def static_sizes(a: ir.Value) -> tuple[int, int]:
    """Rows and columns.

    Raises:
        UnsupportedOperator: one of them is dynamic.
    """
    m, n = list(a.shape)[-2:] if a.shape is not None else (None, None)
    if not isinstance(m, int) or not isinstance(n, int):
        raise UnsupportedOperator("singular vectors of matrices of a dynamic size")
    return m, n


def reduced_singular(op: OpBuilder, a: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """U [..., m, k], S [..., k] and V [..., n, k] of matrices of static size, k the smaller side, in double."""
    m, n = static_sizes(a)
    if m >= n:
        u, s, v = singular(op, a)
    else:
        v, s, u = singular(op, transposed(op, a))
    count = [min(m, n)]
    return op.Slice(u, [0], count, [-1]), s, op.Slice(v, [0], count, [-1])


def pseudo_inverse(op: OpBuilder, u: ir.Value, s: ir.Value, v: ir.Value, counts: ir.Value) -> ir.Value:
    """V S^-1 U' without the singular values that do not count."""
    one, zero = op.const(1.0, _DOUBLE), op.const(0.0, _DOUBLE)
    inverse = op.Where(counts, op.Div(one, op.Where(counts, s, one)), zero)
    return op.MatMul(op.Mul(v, op.Unsqueeze(inverse, op.axes(-2))), transposed(op, u))
