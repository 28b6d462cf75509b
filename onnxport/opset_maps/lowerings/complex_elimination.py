"""Gaussian elimination of complex matrices given as pairs, in double precision: factors, determinants."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings import complex_functions as functions
from onnxport.opset_maps.lowerings.axes import size
from onnxport.opset_maps.lowerings.complex_numbers import Parts, paired, parts_of, quotient
from onnxport.opset_maps.lowerings.linear_algebra import counted, identity_like, swapped_rows
from onnxport.opset_maps.lowerings.loops import loop

_DOUBLE = ir.DataType.DOUBLE


def _taken(op: OpBuilder, parts: Parts, k: ir.Value, axis: int) -> Parts:
    at = op.Unsqueeze(k, op.axes(0))
    return op.Gather(parts[0], at, axis=axis), op.Gather(parts[1], at, axis=axis)


def _kept(op: OpBuilder, condition: ir.Value, parts: Parts) -> Parts:
    zero = op.const(0.0, _DOUBLE)
    return op.Where(condition, parts[0], zero), op.Where(condition, parts[1], zero)


def lu(op: OpBuilder, z: ir.Value, *, by_parts: bool = False) -> tuple[ir.Value, ir.Value, ir.Value]:
    """L below the diagonal (its own diagonal of ones left out) and U on and above it; exchanges; the order of the rows.

    As `linear_algebra.lu`: the pivot is the first element of the largest modulus (GvL algorithm 3.4.1); `by_parts`, as LAPACK
    has it, of the largest sum of its parts' magnitudes.

    Args:
        op: the builder.
        z: pairs [..., m, n, 2].
        by_parts: how magnitudes are compared.

    Returns:
        Factors [..., m, n, 2] in double; exchanges [..., min(m, n)] from 0; order [..., m, 1].
    """
    real, imaginary = parts_of(op, op.cast(z, _DOUBLE))
    m, n = size(op, real, -2), size(op, real, -1)
    count = op.Min(m, n)
    rows, columns = counted(op, m, column=True), counted(op, n, column=False)
    steps = counted(op, count, column=True)
    order = op.Expand(rows, op.Shape(op.reduce("ReduceMax", real, [-1], keepdims=True)))
    batch = op.Slice(op.Shape(real), [0], [-2], [0])
    swaps = op.Expand(steps, op.Concat(batch, op.Unsqueeze(count, op.axes(0)), op.const([1]), axis=0))

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        column = _taken(b, (states[0], states[1]), k, -1)
        sizes = b.Add(*(b.Abs(part) if by_parts else b.Mul(part, part) for part in column))
        pivot = b.ArgMax(b.Where(b.Less(rows, k), b.const(-1.0, _DOUBLE), sizes), axis=-2, keepdims=1)
        first, second, places = (swapped_rows(b, item, k, pivot, rows) for item in states[:3])
        head = _taken(b, (first, second), k, -2)
        top = _taken(b, head, k, -1)
        singular = b.And(*(b.Equal(part, 0.0) for part in top))
        safe = (b.Where(singular, b.const(1.0, _DOUBLE), top[0]), top[1])
        factors = quotient(b, _taken(b, (first, second), k, -1), safe)
        factors = _kept(b, b.And(b.Greater(rows, k), b.Not(singular)), factors)
        taken = functions.times(b, factors, _kept(b, b.Greater(columns, k), head))
        here = b.And(b.Greater(rows, k), b.Equal(columns, k))
        rest = (
            b.Where(here, factor, b.Sub(matrix, product))
            for factor, matrix, product in zip(factors, (first, second), taken, strict=True)
        )
        return [*rest, places, b.Where(b.Equal(steps, k), pivot, states[3])]

    real, imaginary, order, swaps = loop(op, count, [real, imaginary, order, swaps], step)
    return paired(op, real, imaginary), op.Squeeze(swaps, op.axes(-1)), order


def determinant(op: OpBuilder, z: ir.Value) -> tuple[Parts, Parts, ir.Value]:
    """Determinant, its sign (of modulus 1, or 0) and the logarithm of its modulus: of the product of U's diagonal."""
    factors, swaps, _ = lu(op, z)
    real, imaginary = parts_of(op, factors)
    one = identity_like(op, real)
    a, b = (op.reduce("ReduceSum", op.Mul(part, one), [-1], keepdims=False) for part in (real, imaginary))
    n = size(op, a, -1)
    still = counted(op, n, column=False)
    length = op.Sqrt(op.Add(op.Mul(a, a), op.Mul(b, b)))
    zero = op.Equal(length, 0.0)
    safe = op.Where(zero, op.const(1.0, _DOUBLE), length)
    signs = op.Where(op.Equal(swaps, still), op.const(1.0, _DOUBLE), op.const(-1.0, _DOUBLE))
    units = (op.Mul(op.Div(a, safe), signs), op.Mul(op.Div(b, safe), signs))

    def step(o: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        return list(functions.times(o, (states[0], states[1]), _taken(o, units, k, -1)))

    start = op.Slice(op.Mul(a, 0.0), [0], [1], [-1])
    sign = loop(op, n, [op.Add(start, 1.0), start], step)
    sign = tuple(op.Squeeze(part, op.axes(-1)) for part in sign)
    magnitude = op.reduce("ReduceProd", length, [-1], keepdims=False)
    logarithm = op.reduce("ReduceSum", op.Log(length), [-1], keepdims=False)
    return (op.Mul(sign[0], magnitude), op.Mul(sign[1], magnitude)), (sign[0], sign[1]), logarithm
