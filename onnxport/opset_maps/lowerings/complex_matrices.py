"""Complex matrices as real ones of twice the size: a + ib becomes the block [[a, -b], [b, a]].

Sums, products, inverses and transposes (of the conjugate) of complex matrices are those of the real ones. As the blocks stand
where the numbers stood, a triangle with real numbers on its diagonal stays a triangle, and so do Cholesky's and QR's factors.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import rank, transposed
from onnxport.opset_maps.lowerings.complex_numbers import conjugate, joined, parts_of
from onnxport.opset_maps.lowerings.linear_algebra import identity_like

_END = 2**31


def _sizes(op: OpBuilder, x: ir.Value, start: int, end: int) -> ir.Value:
    return op.Slice(op.shape(x), [start], [end], [0])


def _reshaped(op: OpBuilder, x: ir.Value, sizes: list[ir.Value], dims: list[int | ir.SymbolicDim | None]) -> ir.Value:
    """Reshape, the rank and what is known of the sizes written down: inference does not follow such a shape at every opset."""
    result: ir.Value = op.Reshape(x, op.Concat(*sizes, axis=0))
    result.shape = ir.Shape(dims)
    return result


def _times(size: int | ir.SymbolicDim | None, factor: int) -> int | None:
    return size * factor if isinstance(size, int) else None


def embedded(op: OpBuilder, z: ir.Value) -> ir.Value:
    """The real matrices [..., 2m, 2n] of pairs [..., m, n, 2], in double.

    Raises:
        UnsupportedOperator: they have no elements.
    """
    if z.shape is not None and 0 in z.shape:
        raise UnsupportedOperator("complex matrices without elements in a batch of dynamic size")
    z = op.cast(z, ir.DataType.DOUBLE)
    real, imaginary = parts_of(op, z)
    upper = joined(op, real, op.Neg(imaginary))
    # The second row of a block is [b, a]: the pair the other way round.
    turned = op.Gather(z, [1, 0], axis=-1)
    blocks = op.Concat(op.Unsqueeze(upper, op.axes(-3)), op.Unsqueeze(turned, op.axes(-3)), axis=-3)
    *batch, m, n, _ = list(z.shape) if z.shape is not None else [None] * rank(z)
    sizes = [_sizes(op, z, 0, len(batch)), op.Mul(_sizes(op, z, len(batch), len(batch) + 2), 2)]
    return _reshaped(op, blocks, sizes, [*batch, _times(m, 2), _times(n, 2)])


def _halved(op: OpBuilder, x: ir.Value, axis: int) -> ir.Value:
    """Every second row or column."""
    return op.Slice(x, [0], [_END], [axis], [2])


def by_columns(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The pairs [..., m, n, 2] of real matrices [..., 2m, 2n], from the first column of each block."""
    half = _halved(op, x, -1)
    *batch, m, n = list(half.shape) if half.shape is not None else [None] * rank(half)
    sizes = [_sizes(op, half, 0, -2), op.const([-1, 2]), _sizes(op, half, -1, _END)]
    return transposed(op, _reshaped(op, half, sizes, [*batch, m // 2 if isinstance(m, int) else None, 2, n]))


def by_rows(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The pairs [..., m, n, 2] of real matrices [..., 2m, 2n], from the first row of each block."""
    half = _halved(op, x, -2)
    *batch, m, n = list(half.shape) if half.shape is not None else [None] * rank(half)
    sizes = [_sizes(op, half, 0, -1), op.const([-1, 2])]
    return conjugate(op, _reshaped(op, half, sizes, [*batch, m, n // 2 if isinstance(n, int) else None, 2]))


def of_hermitian(op: OpBuilder, z: ir.Value) -> ir.Value:
    """The real matrix of `z` with a real diagonal, as a Hermitian matrix has it, whatever stands there."""
    real, imaginary = parts_of(op, z)
    imaginary = op.Sub(imaginary, op.Mul(imaginary, op.cast_like(identity_like(op, real), real)))
    return embedded(op, joined(op, real, imaginary))


def once(op: OpBuilder, values: ir.Value) -> ir.Value:
    """Singular values or eigenvalues in order, each of which the real matrix has twice."""
    return _halved(op, values, -1)
