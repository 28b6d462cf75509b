"""Factors of symmetric matrices that need not be definite: Bunch and Kaufman's L D L', in double precision.

LAPACK's conventions (sytf2, lower triangle; Golub and Van Loan, "Matrix Computations", 4th edition, section 4.4.4): D has
blocks of one or two rows, the exchanges are counted from 1 and negative, twice, for a block of two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import size, transposed
from onnxport.opset_maps.lowerings.linear_algebra import column_of, counted, row_of, solve, swapped_rows
from onnxport.opset_maps.lowerings.loops import loop

_DOUBLE = ir.DataType.DOUBLE
_ALPHA = (1.0 + math.sqrt(17.0)) / 8.0  # the bound on the growth of elements is the same for blocks of one and of two


def _swapped(op: OpBuilder, a: ir.Value, k: ir.Value, p: ir.Value, rows: ir.Value) -> ir.Value:
    """Rows k and p exchanged, and columns k and p; each is a matrix of one element."""
    return transposed(op, swapped_rows(op, transposed(op, swapped_rows(op, a, k, p, rows)), k, p, rows))


def _largest(op: OpBuilder, values: ir.Value) -> ir.Value:
    return op.reduce("ReduceMax", values, [-2], keepdims=True)


def _pivot(op: OpBuilder, a: ir.Value, k: ir.Value, rows: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The row to exchange, whether a block of two rows is taken, and whether the column is zero."""
    sizes = op.Abs(a)
    column, none = column_of(op, sizes, k), op.const(-1.0, _DOUBLE)
    own, below = row_of(op, column, k), op.Where(op.Greater(rows, k), column, none)
    place, most = op.ArgMax(below, axis=-2, keepdims=1), op.Max(_largest(op, below), op.const(0.0, _DOUBLE))
    other = op.GatherElements(sizes, op.Expand(place, op.Shape(column)), axis=-1)
    there = op.Equal(rows, place)
    corner = _largest(op, op.Where(there, other, none))
    rest = _largest(op, op.Where(op.Or(op.Less(rows, k), there), none, other))
    zero = op.Equal(op.Max(own, most), 0.0)
    large = op.GreaterOrEqual(own, op.Mul(most, _ALPHA))
    large = op.Or(large, op.GreaterOrEqual(own, op.Mul(op.Mul(most, _ALPHA), op.Div(most, rest))))
    stays = op.Or(zero, large)
    pair = op.Not(op.Or(stays, op.GreaterOrEqual(corner, op.Mul(rest, _ALPHA))))
    return op.Where(stays, k, place), pair, zero


def _pair_columns(
    op: OpBuilder, a: ir.Value, k: ir.Value, following: ir.Value, pair: ir.Value, rows: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Both columns of L of a block of two, D among them, and the rest of the matrix."""
    one = op.const(1.0, _DOUBLE)
    first, second = column_of(op, a, k), column_of(op, a, following)
    beside = op.Where(pair, row_of(op, first, following), one)
    high, low = op.Div(row_of(op, second, following), beside), op.Div(row_of(op, first, k), beside)
    factor = op.Div(op.Div(one, op.Sub(op.Mul(high, low), one)), beside)
    under, zero = op.Greater(rows, following), op.const(0.0, _DOUBLE)
    left = op.Where(under, op.Mul(factor, op.Sub(op.Mul(high, first), second)), zero)
    right = op.Where(under, op.Mul(factor, op.Sub(op.Mul(low, second), first)), zero)
    first, second = op.Where(under, first, zero), op.Where(under, second, zero)
    rest = op.Sub(a, op.Add(op.Mul(first, transposed(op, left)), op.Mul(second, transposed(op, right))))
    block = op.Or(op.Equal(rows, k), op.Equal(rows, following))
    left = op.Where(block, column_of(op, a, k), left)
    return left, op.Where(op.Equal(rows, following), column_of(op, a, following), right), rest


def factors(op: OpBuilder, a: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """L and D in one lower triangle, the exchanges, and the first zero column, counted from 1 (0: none).

    Args:
        op: the builder.
        a: matrices [..., n, n], read from the lower triangle.

    Returns:
        [..., n, n] in double; [..., n] and [...] in INT64.
    """
    a = op.cast(a, _DOUBLE)
    n = size(op, a, -1)
    rows, columns = counted(op, n, column=True), counted(op, n, column=False)
    zero = op.const(0.0, _DOUBLE)
    lower = op.Where(op.GreaterOrEqual(rows, columns), a, zero)
    whole = op.Where(op.Less(rows, columns), transposed(op, lower), lower)
    none = op.cast(op.Mul(op.reduce("ReduceMax", a, [-1], keepdims=True), 0.0), ir.DataType.INT64)
    start = op.Slice(none, [0], [1], [-2])

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        matrix, result, exchanges, within, info = states
        active = b.Equal(within, 0)
        p, pair, empty = _pivot(b, matrix, k, rows)
        pair, p = b.And(pair, active), b.Where(active, p, k)
        following = b.Min(b.Add(k, 1), b.Sub(n, 1))
        turned = _swapped(b, matrix, b.Where(pair, following, k), p, rows)
        own = row_of(b, column_of(b, turned, k), k)
        safe = b.Where(b.Equal(own, 0.0), b.const(1.0, _DOUBLE), own)
        column = b.Where(b.Greater(rows, k), b.Div(column_of(b, turned, k), safe), zero)
        rest = b.Sub(turned, b.Mul(b.Mul(column, own), transposed(b, column)))
        left, right, rest_of_pair = _pair_columns(b, turned, k, following, pair, rows)
        left = b.Where(pair, left, b.Where(b.Equal(rows, k), own, column))
        here = b.And(b.Equal(columns, k), b.And(b.GreaterOrEqual(rows, k), active))
        beside = b.And(b.And(b.Equal(columns, following), b.GreaterOrEqual(rows, following)), pair)
        result = b.Where(beside, right, b.Where(here, left, result))
        number = b.Where(pair, b.Sub(b.Neg(p), 1), b.Add(p, 1))
        named = b.And(active, b.Or(b.Equal(rows, k), b.And(pair, b.Equal(rows, following))))
        first = b.And(b.And(active, empty), b.Equal(info, 0))
        return [
            b.Where(active, b.Where(pair, rest_of_pair, rest), matrix),
            result,
            b.Where(named, number, exchanges),
            b.cast(pair, ir.DataType.INT64),
            b.Where(first, b.Add(k, 1), info),
        ]

    _, result, exchanges, _, info = loop(op, n, [whole, op.Mul(whole, 0.0), none, start, start], step)
    return result, op.Squeeze(exchanges, op.axes(-1)), op.Squeeze(info, op.axes(-2, -1))


def solution(op: OpBuilder, a: ir.Value, exchanges: ir.Value, b: ir.Value) -> ir.Value:
    """x with M x = b, in double, for the matrix M of `factors`, which is put together again."""
    a = op.cast(a, _DOUBLE)
    n = size(op, a, -1)
    rows, columns = counted(op, n, column=True), counted(op, n, column=False)
    numbers = op.Unsqueeze(op.cast(exchanges, ir.DataType.INT64), op.axes(-1))
    paired = op.cast(op.Less(numbers, 0), ir.DataType.INT64)
    before = op.CumSum(paired, op.const(-2 % numbers.shape.rank() if numbers.shape is not None else -2), exclusive=1)
    starts = op.Equal(op.Mod(before, 2), 0)
    zero = op.const(0.0, _DOUBLE)
    joins = op.And(op.Equal(rows, op.Add(columns, 1)), transposed(op, op.And(starts, op.Equal(paired, 1))))
    inside = op.Or(op.Equal(rows, columns), joins)
    block = op.Where(inside, a, zero)
    block = op.Where(op.Less(rows, columns), transposed(op, block), block)
    lower = op.Where(op.And(op.Greater(rows, columns), op.Not(joins)), a, zero)

    def step(o: OpBuilder, i: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        k = o.Sub(o.Sub(n, 1), i)
        factor = column_of(o, lower, k)
        matrix = o.Add(states[0], o.Mul(factor, row_of(o, states[0], k)))
        matrix = o.Add(matrix, o.Mul(column_of(o, matrix, k), transposed(o, factor)))
        number = row_of(o, numbers, k)
        begins = row_of(o, starts, k)
        p = o.Where(begins, o.Sub(o.Abs(number), 1), k)
        at = o.Where(o.And(begins, o.Less(number, 0)), o.Add(k, 1), k)
        return [_swapped(o, matrix, at, p, rows)]

    return solve(op, loop(op, n, [block], step)[0], b)
