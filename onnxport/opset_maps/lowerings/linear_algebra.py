"""Linear algebra that ONNX lacks, over batches of matrices of any size, as Loops over rows or columns.

Everything is computed in double precision whatever the operand's type, so that float32 results are at least as exact as
LAPACK's in float32. Algorithms are those of Golub and Van Loan, "Matrix Computations", 4th edition (GvL), with LAPACK's
conventions where a result is not unique: the first of equal pivots, the sign of Householder's reflections.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import size, transposed
from onnxport.opset_maps.lowerings.loops import loop

_DOUBLE = ir.DataType.DOUBLE
_INT64 = ir.DataType.INT64


def counted(op: OpBuilder, count: ir.Value, *, column: bool) -> ir.Value:
    """0, 1, ... along a last axis, or (`column`) along the axis before it."""
    numbers = op.Range(op.const(0), count, op.const(1))
    return op.Unsqueeze(numbers, op.axes(1)) if column else numbers


def row_of(op: OpBuilder, a: ir.Value, k: ir.Value) -> ir.Value:
    """Row k, as matrices of one row."""
    return op.Gather(a, op.Unsqueeze(k, op.axes(0)), axis=-2)


def column_of(op: OpBuilder, a: ir.Value, k: ir.Value) -> ir.Value:
    """Column k, as matrices of one column."""
    return op.Gather(a, op.Unsqueeze(k, op.axes(0)), axis=-1)


def _zero(op: OpBuilder) -> ir.Value:
    return op.const(0.0, _DOUBLE)


def identity_like(op: OpBuilder, a: ir.Value) -> ir.Value:
    """Identity matrices in the number, and of the size, of the square matrices `a`."""
    n = size(op, a, -1)
    one = op.cast(op.Equal(counted(op, n, column=True), counted(op, n, column=False)), _DOUBLE)
    return op.Expand(one, op.shape(a))


def swapped_rows(op: OpBuilder, a: ir.Value, k: ir.Value, p: ir.Value, rows: ir.Value) -> ir.Value:
    """`a` with its rows k and p exchanged; `p` is a matrix of one element for each matrix."""
    order = op.Where(op.Equal(rows, k), p, op.Where(op.Equal(rows, p), k, rows))
    return op.GatherElements(a, op.Expand(order, op.Shape(a)), axis=-2)


def _pivot(op: OpBuilder, a: ir.Value, k: ir.Value, rows: ir.Value) -> ir.Value:
    """The row, k or below, with the largest element of column k."""
    magnitudes = op.Where(op.Less(rows, k), op.const(-1.0, _DOUBLE), op.Abs(column_of(op, a, k)))
    return op.ArgMax(magnitudes, axis=-2, keepdims=1)


def lu(op: OpBuilder, a: ir.Value, *, pivot: bool = True) -> tuple[ir.Value, ir.Value, ir.Value]:
    """L below the diagonal (its own diagonal of ones left out) and U on and above it; the row exchanged with row k at step
    k; the order of the rows of `a` in L U (GvL algorithm 3.4.1).

    Args:
        op: the builder.
        a: matrices [..., m, n].
        pivot: exchange rows.

    Returns:
        Factors [..., m, n] in double; exchanges [..., min(m, n)] from 0; order [..., m, 1].
    """
    a = op.cast(a, _DOUBLE)
    m, n = size(op, a, -2), size(op, a, -1)
    count = op.Min(m, n)
    rows, columns = counted(op, m, column=True), counted(op, n, column=False)
    steps = counted(op, count, column=True)
    flat = op.reduce("ReduceMax", a, [-1], keepdims=True)
    order = op.Expand(rows, op.Shape(flat))
    batch = op.Slice(op.Shape(a), [0], [-2], [0])
    swaps = op.Expand(steps, op.Concat(batch, op.Unsqueeze(count, op.axes(0)), op.const([1]), axis=0))

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        matrix, places, taken = states
        if pivot:
            p = _pivot(b, matrix, k, rows)
            matrix, places = swapped_rows(b, matrix, k, p, rows), swapped_rows(b, places, k, p, rows)
            taken = b.Where(b.Equal(steps, k), p, taken)
        head = row_of(b, matrix, k)
        top = column_of(b, head, k)
        singular = b.Equal(top, 0.0)
        factors = b.Div(column_of(b, matrix, k), b.Where(singular, b.const(1.0, _DOUBLE), top))
        factors = b.Where(b.Greater(rows, k), factors, _zero(b))
        factors = b.Where(singular, _zero(b), factors)
        right = b.Where(b.Greater(columns, k), head, _zero(b))
        matrix = b.Sub(matrix, b.Mul(factors, right))
        here = b.And(b.Greater(rows, k), b.Equal(columns, k))
        return [b.Where(here, factors, matrix), places, taken]

    result, order, swaps = loop(op, count, [a, order, swaps], step)
    return result, op.Squeeze(swaps, op.axes(-1)), order


def determinant(op: OpBuilder, a: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Determinant, its sign and the logarithm of its magnitude, in double: the product of U's diagonal."""
    factors, swaps, _ = lu(op, a)
    diagonal = op.reduce("ReduceSum", op.Mul(factors, identity_like(op, factors)), [-1], keepdims=False)
    still = counted(op, size(op, a, -1), column=False)
    signs = op.Where(op.Equal(swaps, still), op.const(1.0, _DOUBLE), op.const(-1.0, _DOUBLE))
    value = op.reduce("ReduceProd", op.Mul(diagonal, signs), [-1], keepdims=False)
    sign = op.reduce("ReduceProd", op.Mul(op.Sign(diagonal), signs), [-1], keepdims=False)
    return value, sign, op.reduce("ReduceSum", op.Log(op.Abs(diagonal)), [-1], keepdims=False)


def solve(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """x with a x = b for square `a` and matrices `b`, in double, by Gauss and Jordan's elimination with row exchange."""
    a, b = op.cast(a, _DOUBLE), op.cast(b, _DOUBLE)
    n = size(op, a, -1)
    lead = op.Slice(op.Shape(op.MatMul(a, b)), [0], [-2], [0])
    both = [op.Expand(item, op.Concat(lead, op.Slice(op.Shape(item), [-2], [2**31], [0]), axis=0)) for item in (a, b)]
    joined = op.Concat(*both, axis=-1)
    rows = counted(op, n, column=True)

    def step(o: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        matrix = swapped_rows(o, states[0], k, _pivot(o, states[0], k, rows), rows)
        head = row_of(o, matrix, k)
        head = o.Div(head, column_of(o, head, k))
        rest = o.Sub(matrix, o.Mul(column_of(o, matrix, k), head))
        return [o.Where(o.Equal(rows, k), head, rest)]

    (result,) = loop(op, n, [joined], step)
    return op.Slice(result, op.Unsqueeze(n, op.axes(0)), op.const([np.iinfo(np.int64).max]), op.const([-1]))


def inverse(op: OpBuilder, a: ir.Value) -> ir.Value:
    """The inverse, in double."""
    return solve(op, a, identity_like(op, a))


def solve_triangular(op: OpBuilder, a: ir.Value, b: ir.Value, *, upper: bool, unit: bool = False) -> ir.Value:
    """x with a x = b for triangular `a`, in double, by substitution (GvL algorithms 3.1.1, 3.1.2)."""
    a, b = op.cast(a, _DOUBLE), op.cast(b, _DOUBLE)
    n = size(op, a, -1)
    rows = counted(op, n, column=True)
    b = op.Expand(b, op.Shape(op.MatMul(a, b)))

    def step(o: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        x = states[0]
        at = o.Sub(o.Sub(n, 1), k) if upper else k
        head = row_of(o, x, at)
        factors = column_of(o, a, at)
        if not unit:
            head = o.Div(head, row_of(o, factors, at))
        left = o.Less(rows, at) if upper else o.Greater(rows, at)
        x = o.Sub(x, o.Mul(o.Where(left, factors, _zero(o)), head))
        return [o.Where(o.Equal(rows, at), head, x)]

    return loop(op, n, [b], step)[0]


def cholesky(op: OpBuilder, a: ir.Value) -> ir.Value:
    """The lower triangle L with L L' = a, read from the lower triangle of `a`, in double (GvL algorithm 4.2.2)."""
    a = op.cast(a, _DOUBLE)
    n = size(op, a, -1)
    rows = counted(op, n, column=True)
    columns = counted(op, n, column=False)

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        rest, result = states
        column = column_of(b, rest, k)
        column = b.Div(column, b.Sqrt(row_of(b, column, k)))
        column = b.Where(b.Less(rows, k), _zero(b), column)
        turned = transposed(b, column)
        return [b.Sub(rest, b.Mul(column, turned)), b.Where(b.Equal(columns, k), column, result)]

    return loop(op, n, [a, op.Mul(a, 0.0)], step)[1]


def first_on_diagonal(op: OpBuilder, a: ir.Value, flags: ir.Value) -> ir.Value:
    """The place, counted from 1, of the first flag on the diagonals of matrices, int32; 0 without one."""
    rows, columns = (counted(op, size(op, a, axis), column=axis == -2) for axis in (-2, -1))
    number = op.cast(op.And(flags, op.Equal(rows, columns)), ir.DataType.INT32)
    greatest = op.reduce("ReduceMax", number, [-1], keepdims=False)
    place = op.cast(op.ArgMax(greatest, axis=-1, keepdims=0), ir.DataType.INT32)
    return op.Mul(op.Add(place, 1), op.reduce("ReduceMax", greatest, [-1], keepdims=False))


def _reflection(op: OpBuilder, a: ir.Value, k: ir.Value, rows: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """What makes column k zero below the diagonal: a vector with the element `gap` at k, `gap`, and the factor of its square.

    The factor is 0 where the column is zero there already: LAPACK leaves it.
    """
    column = op.Where(op.Less(rows, k), _zero(op), column_of(op, a, k))
    head = row_of(op, column, k)
    below = op.Where(op.Greater(rows, k), column, _zero(op))
    rest = op.reduce("ReduceSum", op.Mul(below, below), [-2], keepdims=True)
    norm = op.Sqrt(op.Add(op.Mul(head, head), rest))
    corner = op.Where(op.Less(head, 0.0), norm, op.Neg(norm))
    nothing = op.Equal(rest, 0.0)
    gap = op.Sub(head, corner)
    scale = op.Where(
        nothing,
        _zero(op),
        op.Div(op.const(-1.0, _DOUBLE), op.Where(nothing, op.const(1.0, _DOUBLE), op.Mul(gap, corner))),
    )
    return op.Where(op.Equal(rows, k), gap, below), gap, scale


def householder(op: OpBuilder, a: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The complete factors Q [..., m, m] and R [..., m, n] of `a`, in double (GvL algorithm 5.2.1, LAPACK's signs)."""
    a = op.cast(a, _DOUBLE)
    m, n = size(op, a, -2), size(op, a, -1)
    rows = counted(op, m, column=True)
    square = op.MatMul(a, transposed(op, a))
    count = op.Min(op.Sub(m, 1), n)

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        q, r = states
        vector, _, scale = _reflection(b, r, k, rows)
        weighted = b.Mul(vector, scale)
        r = b.Sub(r, b.Mul(weighted, b.MatMul(transposed(b, vector), r)))
        q = b.Sub(q, b.Mul(b.MatMul(q, vector), transposed(b, weighted)))
        return [q, r]

    q, r = loop(op, count, [identity_like(op, square), a], step)
    columns = counted(op, n, column=False)
    return q, op.Where(op.LessOrEqual(rows, columns), r, _zero(op))


def reflectors(op: OpBuilder, a: ir.Value) -> tuple[ir.Value, ir.Value]:
    """R, with the vectors of the reflections below its diagonal, and their factors, in double (LAPACK's geqrf).

    Args:
        op: the builder.
        a: matrices [..., m, n].

    Returns:
        [..., m, n]; factors [..., min(m, n)] for vectors whose first element, left out, is 1.
    """
    a = op.cast(a, _DOUBLE)
    m, n = size(op, a, -2), size(op, a, -1)
    rows, columns = counted(op, m, column=True), counted(op, n, column=False)
    taus = op.Mul(
        op.Slice(op.reduce("ReduceSum", a, [-2], keepdims=True), [0], op.Reshape(op.Min(m, n), [1]), [-1]), 0.0
    )
    places = counted(op, op.Min(m, n), column=False)

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        matrix, factors = states
        vector, gap, scale = _reflection(b, matrix, k, rows)
        turned = b.Sub(matrix, b.Mul(b.Mul(vector, scale), b.MatMul(transposed(b, vector), matrix)))
        turned = b.Where(b.Less(columns, k), matrix, turned)  # earlier columns hold vectors already
        rests = b.Equal(gap, 0.0)
        unit = b.Div(vector, b.Where(rests, b.const(1.0, _DOUBLE), gap))
        stored = b.And(b.Equal(columns, k), b.Greater(rows, k))
        tau = b.Mul(scale, b.Mul(gap, gap))
        return [b.Where(stored, unit, turned), b.Where(b.Equal(places, k), tau, factors)]

    matrix, factors = loop(op, op.Min(op.Sub(m, 1), n), [a, taus], step)
    return matrix, op.Squeeze(factors, op.axes(-2))


def reflected(
    op: OpBuilder, a: ir.Value, taus: ir.Value, c: ir.Value, *, left: bool = True, transpose: bool = False
) -> ir.Value:
    """Q c, Q' c, c Q or c Q', in double, for the product Q of the reflections that `reflectors` gives (LAPACK's ormqr).

    Args:
        op: the builder.
        a: matrices [..., m, k] with vectors below the diagonal.
        taus: their factors [..., k].
        c: matrices, of m rows or (not `left`) m columns.
        left: Q stands on the left.
        transpose: Q' stands there.
    """
    a, c = op.cast(a, _DOUBLE), op.cast(c, _DOUBLE)
    taus = op.Unsqueeze(op.cast(taus, _DOUBLE), op.axes(-2))
    c = c if left else transposed(op, c)
    rows, count = counted(op, size(op, a, -2), column=True), size(op, taus, -1)
    # Q c applies the last reflection first, Q' c the first; (c Q)' is Q' c'.
    last_first = left != transpose

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        at = b.Sub(b.Sub(count, 1), k) if last_first else k
        vector = b.Where(b.Greater(rows, at), column_of(b, a, at), b.cast(b.Equal(rows, at), _DOUBLE))
        weighted = b.Mul(vector, column_of(b, taus, at))
        return [b.Sub(states[0], b.Mul(weighted, b.MatMul(transposed(b, vector), states[0])))]

    (result,) = loop(op, count, [c], step)
    return result if left else transposed(op, result)


def exponential(op: OpBuilder, a: ir.Value) -> ir.Value:
    """exp of square matrices, in double: Taylor's polynomial of degree 18 of a / 2^s, of norm 1 at most, squared s times.

    Source: Higham, "Functions of Matrices", section 10.3.
    """
    a = op.cast(a, _DOUBLE)
    norm = op.reduce("ReduceMax", op.reduce("ReduceSum", op.Abs(a), [-1], keepdims=True), [-2], keepdims=True)
    # A matrix of the batch that isn't finite stays so without squares, and must not count for the others.
    norm = op.Where(op.Less(norm, math.inf), norm, op.const(1.0, _DOUBLE))
    power = op.Ceil(op.Div(op.Log(op.Max(norm, 1.0)), math.log(2.0)))
    scaled = op.Div(a, op.Pow(op.const(2.0, _DOUBLE), power))
    one = identity_like(op, a)
    result = one
    for k in range(18, 0, -1):
        result = op.Add(one, op.Div(op.MatMul(scaled, result), float(k)))

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        more = b.Less(b.cast(k, _DOUBLE), power)
        return [b.Where(more, b.MatMul(states[0], states[0]), states[0])]

    count = op.cast(op.ReduceMax(power, keepdims=0), _INT64)
    return loop(op, count, [result], step)[0]
