"""Square roots and logarithms of square matrices, in double precision.

Source: Higham, "Functions of Matrices", 2008: the product form of Denman and Beavers' iteration (equation 6.29), and inverse
scaling and squaring (section 11.5). A complex matrix comes as the real one of twice the size (`complex_matrices`).
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.linear_algebra import identity_like, inverse, solve
from onnxport.opset_maps.lowerings.loops import loop

_DOUBLE = ir.DataType.DOUBLE
# Steps that bring every eigenvalue down to 1e-14 of the norm to its root: each doubles what is small.
_STEPS = 32
_ROOTS, _TERMS = 4, 26


def square_root(op: OpBuilder, a: ir.Value) -> ir.Value:
    """The root whose eigenvalues have positive real parts, of matrices [..., n, n] without eigenvalues on the negative axis."""
    a = op.cast(a, _DOUBLE)
    norm = op.reduce("ReduceMax", op.reduce("ReduceSum", op.Abs(a), [-1], keepdims=True), [-2], keepdims=True)
    norm = op.Where(op.Equal(norm, 0.0), op.const(1.0, _DOUBLE), norm)
    scaled, one = op.Div(a, norm), identity_like(op, a)

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        root, product = states
        inverted = inverse(b, product)
        root = b.Mul(b.MatMul(root, b.Add(one, inverted)), 0.5)
        return [root, b.Mul(b.Add(one, b.Mul(b.Add(product, inverted), 0.5)), 0.5)]

    root, _ = loop(op, op.const(_STEPS), [scaled, scaled], step)
    return op.Mul(root, op.Sqrt(norm))


def logarithm(op: OpBuilder, a: ir.Value) -> ir.Value:
    """The principal logarithm: 2 atanh((x - 1) / (x + 1)) of the sixteenth root x, by its series, times 16."""
    root = op.cast(a, _DOUBLE)
    for _ in range(_ROOTS):
        root = square_root(op, root)
    one = identity_like(op, root)
    ratio = solve(op, op.Add(root, one), op.Sub(root, one))
    square = op.MatMul(ratio, ratio)
    total = op.Mul(one, 1.0 / (2 * _TERMS + 1))
    for k in range(_TERMS - 1, -1, -1):
        total = op.Add(op.MatMul(square, total), op.Mul(one, 1.0 / (2 * k + 1)))
    return op.Mul(op.MatMul(ratio, total), 2.0 * 2**_ROOTS)
