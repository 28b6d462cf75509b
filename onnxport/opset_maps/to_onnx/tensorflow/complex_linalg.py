"""Products, factors and systems of complex matrices; most by real ones of twice the size (`lowerings/complex_matrices.py`)."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings import complex_elimination, eigen, linear_algebra, matrix_functions
from onnxport.opset_maps.lowerings.axes import size, transposed
from onnxport.opset_maps.lowerings.complex_matrices import by_columns, by_rows, embedded, of_hermitian, once
from onnxport.opset_maps.lowerings.complex_numbers import conjugate, from_real, joined, parts_of, product
from onnxport.opset_maps.lowerings.products import matmul
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.registry import Undefined
from onnxport.opset_maps.to_onnx.tensorflow.complex_moves import complex_case
from onnxport.opset_maps.to_onnx.tensorflow.linear import as_matmul
from onnxport.opset_maps.to_onnx.tensorflow.matrices import VECTORS, in_order, of_bands, three_diagonals
from onnxport.opset_maps.to_onnx.tensorflow.operands import rank


def _like(op: OpBuilder, x: ir.Value, like: ir.Value) -> ir.Value:
    return op.cast_like(by_columns(op, x), like)


def _real_on_diagonal(op: OpBuilder, z: ir.Value) -> ir.Value:
    """A factor whose diagonal is real by definition, without what rounding leaves of imaginary parts there."""
    real, imaginary = parts_of(op, z)
    rows, columns = (linear_algebra.counted(op, size(op, real, axis), column=axis == -2) for axis in (-2, -1))
    return joined(op, real, op.Where(op.Equal(rows, columns), op.const(0.0, imaginary.dtype), imaginary))


def _turned(op: OpBuilder, z: ir.Value, *, adjoint: bool) -> ir.Value:
    """The last two axes of numbers exchanged, and (`adjoint`) the conjugate."""
    n = rank(z)
    z = op.Transpose(z, perm=[*range(n - 3), n - 2, n - 3, n - 1])
    return conjugate(op, z) if adjoint else z


def _multiplied(
    op: OpBuilder, x: ir.Value, y: ir.Value, turned: tuple[bool, bool] = (False, False), *, adjoint: bool = False
) -> ir.Value:
    """Four products of the parts; `turned` names the factors that are transposed first, to their `adjoint` where asked for."""
    x, y = (_turned(op, z, adjoint=adjoint) if turn else z for z, turn in zip((x, y), turned, strict=True))
    return product(op, parts_of(op, x), parts_of(op, y), lambda a, b: matmul(op, a, b))


@tensorflow.lower(
    "MatMul",
    accepts_complex=True,
    cases=[
        complex_case(tf.matmul, (2, 3), (3, 4)),
        complex_case(lambda z, w: tf.matmul(z, w, transpose_a=True, adjoint_b=True), (3, 2), (4, 3)),
    ],
)
def mat_mul(
    op: OpBuilder, a: ir.Value, b: ir.Value, *, transpose_a: bool = False, transpose_b: bool = False
) -> ir.Value:
    """Four products of the parts."""
    return _multiplied(op, a, b, (transpose_a, transpose_b))


@tensorflow.lower(
    "BatchMatMul BatchMatMulV2 BatchMatMulV3",
    accepts_complex=True,
    cases=[
        complex_case(lambda z, w: tf.matmul(z, w, adjoint_b=True), (5, 1, 2, 3), (6, 4, 3)),
        complex_case(lambda z, w: tf.linalg.matvec(z, w), (5, 2, 3), (5, 3)),
    ],
)
def batch_mat_mul(op: OpBuilder, x: ir.Value, y: ir.Value, *, adj_x: bool = False, adj_y: bool = False) -> ir.Value:
    """Four products of the parts."""
    return _multiplied(op, x, y, (adj_x, adj_y), adjoint=True)


@tensorflow.lower(
    "Einsum",
    accepts_complex=True,
    cases=[
        complex_case(lambda z, w: tf.einsum("bij,bkj->bik", z, w), (2, 3, 4), (2, 5, 4)),
        complex_case(lambda z, w: tf.einsum("ij,jk->ik", z, w), (3, 4), (4, 2)),
        complex_case(lambda z: tf.einsum("ij->ji", z), (3, 4)),
    ],
)
def einsum(op: OpBuilder, inputs: list[ir.Value], *, equation: str) -> ir.Value:
    """Of one operand part by part; of two the four products of the parts."""

    def write(*parts: ir.Value) -> ir.Value:
        result = as_matmul(op, *parts, equation.replace(" ", "")) if len(parts) == 2 else None
        return op.Einsum(*parts, equation=equation) if result is None else result

    if len(inputs) == 1:
        return joined(op, *(write(part) for part in parts_of(op, inputs[0])))
    if len(inputs) != 2:
        raise UnsupportedOperator(f"Einsum: {len(inputs)} complex operands")
    return product(op, parts_of(op, inputs[0]), parts_of(op, inputs[1]), write)


@tensorflow.lower(
    "MatrixInverse BatchMatrixInverse", accepts_complex=True, cases=[complex_case(tf.linalg.inv, (2, 3, 3))]
)
def matrix_inverse(op: OpBuilder, input: ir.Value, *, adjoint: bool = False) -> ir.Value:
    """The inverse of the real matrix."""
    wide = embedded(op, input)
    return _like(op, linear_algebra.inverse(op, transposed(op, wide) if adjoint else wide), input)


@tensorflow.lower(
    "MatrixSolve BatchMatrixSolve",
    accepts_complex=True,
    cases=[
        complex_case(tf.linalg.solve, (2, 3, 3), (2, 3, 2)),
        complex_case(lambda z, w: tf.linalg.solve(z, w, adjoint=True), (3, 3), (3, 2)),
    ],
)
def matrix_solve(op: OpBuilder, matrix: ir.Value, rhs: ir.Value, *, adjoint: bool = False) -> ir.Value:
    """The solution for the real matrix; its transpose stands for the conjugate's."""
    return _solved(op, matrix, rhs, adjoint)


def _solved(op: OpBuilder, matrix: ir.Value, rhs: ir.Value, adjoint: bool) -> ir.Value:
    wide = embedded(op, matrix)
    return _like(op, linear_algebra.solve(op, transposed(op, wide) if adjoint else wide, embedded(op, rhs)), matrix)


@tensorflow.lower(
    "MatrixTriangularSolve BatchMatrixTriangularSolve",
    accepts_complex=True,
    cases=[
        complex_case(lambda z, w: tf.linalg.triangular_solve(z, w, lower=False), (2, 3, 3), (2, 3, 2), min_opset=14),
        complex_case(lambda z, w: tf.linalg.triangular_solve(z, w, adjoint=True), (3, 3), (3, 2), min_opset=14),
    ],
    min_opset=14,
)
def matrix_triangular_solve(
    op: OpBuilder, matrix: ir.Value, rhs: ir.Value, *, lower: bool = True, adjoint: bool = False
) -> ir.Value:
    """The other triangle cut off, then substitution for the real matrix, whose blocks on the diagonal are no triangles."""
    triangle = joined(op, *(op.Trilu(part, upper=int(not lower)) for part in parts_of(op, matrix)))
    return _solved(op, triangle, rhs, adjoint)


@tensorflow.lower(
    "BandedTriangularSolve",
    accepts_complex=True,
    cases=[
        complex_case(lambda z, w: tf.linalg.banded_triangular_solve(z, w, lower=False), (2, 2, 4), (2, 4, 3)),
        complex_case(lambda z, w: tf.linalg.banded_triangular_solve(z, w, adjoint=True), (3, 4), (4, 2)),
    ],
)
def banded_triangular_solve(
    op: OpBuilder, matrix: ir.Value, rhs: ir.Value, *, lower: bool = True, adjoint: bool = False
) -> ir.Value:
    """The solution for the real matrix of the whole triangle."""
    whole = joined(op, *(of_bands(op, part, lower=lower) for part in parts_of(op, matrix)))
    return _solved(op, whole, rhs, adjoint)


@tensorflow.lower(
    "TridiagonalSolve",
    accepts_complex=True,
    cases=[complex_case(tf.linalg.tridiagonal_solve, (2, 3, 5), (2, 5, 2))],
)
def tridiagonal_solve(
    op: OpBuilder, diagonals: ir.Value, rhs: ir.Value, *, partial_pivoting: bool = True, perturb_singular: bool = False
) -> ir.Value:
    """Elimination with row exchange of the real matrix of the whole one."""
    if perturb_singular:
        raise UnsupportedOperator("TridiagonalSolve: perturb_singular=True has no ONNX form")
    parts = []
    for part in parts_of(op, diagonals):
        above, main, below = (op.Gather(part, i, axis=-2) for i in range(3))
        parts.append(three_diagonals(op, above, main, below))
    return _solved(op, joined(op, *parts), rhs, False)


@tensorflow.lower(
    "Cholesky BatchCholesky",
    accepts_complex=True,
    cases=[
        complex_case(
            lambda z: tf.linalg.cholesky(tf.matmul(z, z, adjoint_b=True) + tf.eye(3, dtype=z.dtype)), (2, 3, 3)
        )
    ],
)
def cholesky(op: OpBuilder, input: ir.Value) -> ir.Value:
    """The triangle of the real matrix; NaN without a factor, where TensorFlow gives zeros and memory that it never wrote."""
    factor = by_columns(op, linear_algebra.cholesky(op, embedded(op, input)))
    return op.cast_like(_real_on_diagonal(op, factor), input)


@tensorflow.lower(
    "Lu",
    accepts_complex=True,
    cases=[
        complex_case(tf.linalg.lu, (2, 4, 4)),
        complex_case(lambda z, w: tf.linalg.lu_solve(*tf.linalg.lu(z), w), (3, 3), (3, 1), min_opset=14),
    ],
)
def lu(
    op: OpBuilder, input: ir.Value, *, output_idx_type: ir.DataType = ir.DataType.INT32
) -> tuple[ir.Value, ir.Value]:
    """Elimination of the pairs themselves, since rows are exchanged by moduli."""
    return in_order(op, input, complex_elimination.lu(op, input), output_idx_type)


@tensorflow.lower(
    "MatrixDeterminant BatchMatrixDeterminant", accepts_complex=True, cases=[complex_case(tf.linalg.det, (2, 3, 3))]
)
def matrix_determinant(op: OpBuilder, input: ir.Value) -> ir.Value:
    """The product of U's diagonal."""
    return op.cast_like(joined(op, *complex_elimination.determinant(op, input)[0]), input)


@tensorflow.lower("LogMatrixDeterminant", accepts_complex=True, cases=[complex_case(tf.linalg.slogdet, (2, 3, 3))])
def log_matrix_determinant(op: OpBuilder, input: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The sign and, as a complex number, the logarithm of the modulus."""
    _, sign, logarithm = complex_elimination.determinant(op, input)
    return op.cast_like(joined(op, *sign), input), op.cast_like(from_real(op, logarithm), input)


@tensorflow.lower(
    "Qr",
    accepts_complex=True,
    cases=[
        complex_case(tf.linalg.qr, (2, 4, 3)),
        complex_case(tf.linalg.qr, (3, 4)),
        complex_case(lambda z: tf.linalg.qr(z, full_matrices=True), (4, 2)),
    ],
)
def qr(op: OpBuilder, input: ir.Value, *, full_matrices: bool = False) -> tuple[ir.Value, ir.Value]:
    """The reflections of the real matrix; of each pair of columns the first."""
    wide = embedded(op, input)
    q, r = linear_algebra.householder(op, wide)
    if not full_matrices:
        smaller = op.Reshape(op.Min(size(op, wide, -2), size(op, wide, -1)), [1])
        q, r = op.Slice(q, [0], smaller, [-1]), op.Slice(r, [0], smaller, [-2])
    return _like(op, q, input), op.cast_like(_real_on_diagonal(op, by_rows(op, r)), input)


@tensorflow.lower(
    "Svd BatchSvd",
    accepts_complex=True,
    cases=[complex_case(lambda z: tf.linalg.svd(z, compute_uv=False), (2, 4, 3))],
)
def svd(
    op: OpBuilder, input: ir.Value, *, compute_uv: bool = True, full_matrices: bool = False
) -> tuple[ir.Value, ir.Value | Undefined, ir.Value | Undefined]:
    """Every second singular value of the real matrix, as complex numbers."""
    empty = op.const(np.zeros((0, 2)), input.dtype)
    rest = (VECTORS, VECTORS) if compute_uv else (empty, empty)
    values = once(op, eigen.singular_values(op, embedded(op, input)))
    return op.cast_like(from_real(op, values), input), *rest


@tensorflow.lower(
    "SelfAdjointEigV2 BatchSelfAdjointEigV2",
    accepts_complex=True,
    cases=[complex_case(lambda z: tf.linalg.eigvalsh(tf.matmul(z, z, adjoint_b=True)), (2, 3, 3), min_opset=14)],
    min_opset=14,
)
def self_adjoint_eig(
    op: OpBuilder, input: ir.Value, *, compute_v: bool = True
) -> tuple[ir.Value, ir.Value | Undefined]:
    """Every second eigenvalue of the real matrix, as complex numbers."""
    values, _ = eigen.symmetric_of(op, of_hermitian(op, input))
    rest = VECTORS if compute_v else op.const(np.zeros((0, 2)), input.dtype)
    return op.cast_like(from_real(op, once(op, values)), input), rest


_FUNCTIONS = {"MatrixLogarithm": matrix_functions.logarithm, "MatrixSquareRoot": matrix_functions.square_root}


@tensorflow.lower(
    " ".join(_FUNCTIONS),
    accepts_complex=True,
    cases=[
        complex_case(lambda z, call=call: call(tf.linalg.eye(3, dtype=z.dtype) * 4 + z), (3, 3), low=-1.0)
        for call in (tf.linalg.logm, tf.linalg.sqrtm)
    ],
)
def matrix_function(op: OpBuilder, input: ir.Value) -> ir.Value:
    """The logarithm or root of the real matrix."""
    return _like(op, _FUNCTIONS[op.name](op, embedded(op, input)), input)
