"""Factors of matrices and systems of equations; the algorithms are in `lowerings/linear_algebra.py` and `eigen.py`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, f64
from onnxport.opset_maps.lowerings import eigen, linear_algebra, matrix_functions
from onnxport.opset_maps.lowerings.axes import positions, transposed
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.registry import Undefined
from onnxport.opset_maps.to_onnx.tensorflow.linalg import SQUARE
from onnxport.opset_maps.to_onnx.tensorflow.operands import rank

VECTORS = Undefined(
    "the signs of eigenvectors and singular vectors are the library's choice; their values convert, and so does what no sign "
    "changes, as U f(S) V', pinv or lstsq"
)
_DOUBLE = ir.DataType.DOUBLE


@tensorflow.lower(
    "MatrixDeterminant BatchMatrixDeterminant",
    cases=[
        case(lambda x: tf.linalg.det(x), SQUARE),
        case(lambda x: tf.linalg.det(x), f64(2, 4, 4)),
        case(lambda x: tf.linalg.det(x), np.zeros((2, 2), np.float32)),
    ],
)
def matrix_determinant(op: OpBuilder, input: ir.Value) -> ir.Value:
    """The product of U's diagonal."""
    return op.cast_like(linear_algebra.determinant(op, input)[0], input)


@tensorflow.lower(
    "LogMatrixDeterminant",
    cases=[case(lambda x: tf.linalg.slogdet(x), f32(2, 4, 4)), case(lambda x: tf.linalg.logdet(x), SQUARE)],
)
def log_matrix_determinant(op: OpBuilder, input: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The sign and the logarithm of the magnitude."""
    _, sign, logarithm = linear_algebra.determinant(op, input)
    return op.cast_like(sign, input), op.cast_like(logarithm, input)


@tensorflow.lower(
    "MatrixTriangularSolve BatchMatrixTriangularSolve",
    cases=[
        case(lambda x, y: tf.linalg.triangular_solve(x, y), SQUARE, f32(2, 3, 2)),
        case(lambda x, y: tf.linalg.triangular_solve(x, y, lower=False), SQUARE, f32(2, 3, 2)),
        case(lambda x, y: tf.linalg.triangular_solve(x, y, adjoint=True), SQUARE, f32(3, 2)),
        case(lambda x, y: tf.linalg.cholesky_solve(tf.linalg.cholesky(x), y), SQUARE, f32(2, 3, 2), dynamic=True),
    ],
)
def matrix_triangular_solve(
    op: OpBuilder, matrix: ir.Value, rhs: ir.Value, *, lower: bool = True, adjoint: bool = False
) -> ir.Value:
    """Substitution, row by row."""
    left = transposed(op, matrix) if adjoint else matrix
    return op.cast_like(linear_algebra.solve_triangular(op, left, rhs, upper=lower == adjoint), matrix)


@tensorflow.lower(
    "MatrixSolveLs BatchMatrixSolveLs",
    cases=[
        case(lambda x, y: tf.linalg.lstsq(x, y), f32(2, 5, 3), f32(2, 5, 2)),
        case(lambda x, y: tf.linalg.lstsq(x, y, l2_regularizer=0.3), f32(3, 5), f32(3, 2)),
        case(lambda x, y: tf.linalg.lstsq(x, y, fast=False), f32(5, 3), f32(5, 2)),
        case(lambda x, y: tf.linalg.lstsq(tf.concat([x, x], 1), y, fast=False), f32(5, 2), f32(5, 2)),
    ],
)
def matrix_solve_ls(
    op: OpBuilder, matrix: ir.Value, rhs: ir.Value, l2_regularizer: ir.Value, *, fast: bool = True
) -> ir.Value:
    """The regularised normal equations, or (not `fast`) the pseudo-inverse: the solution of the smallest norm."""
    a, b = op.cast(matrix, _DOUBLE), op.cast(rhs, _DOUBLE)
    rows, columns = eigen.static_sizes(matrix)
    if not fast:
        u, s, v = eigen.reduced_singular(op, a)
        largest = op.reduce("ReduceMax", s, [-1], keepdims=True)
        epsilon = float(np.finfo((matrix.dtype or ir.DataType.FLOAT).numpy()).eps) * min(rows, columns)
        counts = op.Greater(s, op.Mul(largest, epsilon))
        return op.cast_like(op.MatMul(eigen.pseudo_inverse(op, u, s, v, counts), b), matrix)
    other = transposed(op, a)
    gram = op.MatMul(other, a) if rows >= columns else op.MatMul(a, other)
    ridge = op.Mul(linear_algebra.identity_like(op, gram), op.cast(l2_regularizer, _DOUBLE))
    system = op.Add(gram, ridge)
    if rows >= columns:
        return op.cast_like(linear_algebra.solve(op, system, op.MatMul(other, b)), matrix)
    return op.cast_like(op.MatMul(other, linear_algebra.solve(op, system, b)), matrix)


@tensorflow.lower(
    "Qr",
    cases=[
        case(lambda x: tf.linalg.qr(x), f32(2, 5, 3)),
        case(lambda x: tf.linalg.qr(x), f64(3, 5)),
        case(lambda x: tf.linalg.qr(x, full_matrices=True), f32(5, 3)),
    ],
)
def qr(op: OpBuilder, input: ir.Value, *, full_matrices: bool = False) -> tuple[ir.Value, ir.Value]:
    """Householder's reflections."""
    q, r = linear_algebra.householder(op, input)
    if not full_matrices:
        smaller = op.Min(op.dim(input, -2), op.dim(input, -1))
        q, r = op.Slice(q, [0], smaller, [-1]), op.Slice(r, [0], smaller, [-2])
    return op.cast_like(q, input), op.cast_like(r, input)


@tensorflow.lower(
    "Lu",
    cases=[
        case(lambda x: tf.linalg.lu(x), f32(2, 4, 4)),
        case(lambda x: tf.linalg.lu(x, output_idx_type=tf.int64), f64(3, 3)),
    ],
)
def lu(
    op: OpBuilder, input: ir.Value, *, output_idx_type: ir.DataType = ir.DataType.INT32
) -> tuple[ir.Value, ir.Value]:
    """Both triangles in one matrix, and the order of the rows."""
    return in_order(op, input, linear_algebra.lu(op, input), output_idx_type)


def in_order(
    op: OpBuilder, x: ir.Value, elimination: Sequence[ir.Value], index_type: ir.DataType
) -> tuple[ir.Value, ir.Value]:
    """What an elimination of `x` gives as TensorFlow's results: the factors, and the order of the rows as a vector."""
    factors, _, order = elimination
    return op.cast_like(factors, x), op.cast(op.Squeeze(order, op.axes(-1)), index_type)


@tensorflow.lower(
    "Svd BatchSvd",
    cases=[
        case(lambda x: tf.linalg.svd(x, compute_uv=False), f32(2, 5, 3)),
        case(lambda x: tf.linalg.svd(x)[0], f32(3, 4)),
    ],
)
def svd(
    op: OpBuilder, input: ir.Value, *, compute_uv: bool = True, full_matrices: bool = False
) -> tuple[ir.Value, ir.Value | Undefined, ir.Value | Undefined]:
    """Singular values by Hestenes' rotations."""
    empty = op.const(np.zeros(0, np.float32), input.dtype)
    rest = (VECTORS, VECTORS) if compute_uv else (empty, empty)
    return op.cast_like(eigen.singular_values(op, input), input), *rest


@tensorflow.lower(
    "SelfAdjointEigV2 BatchSelfAdjointEigV2",
    cases=[case(lambda x: tf.linalg.eigvalsh(x), SQUARE), case(lambda x: tf.linalg.eigh(x)[0], f64(2, 4, 4))],
    min_opset=14,
)
def self_adjoint_eig(
    op: OpBuilder, input: ir.Value, *, compute_v: bool = True
) -> tuple[ir.Value, ir.Value | Undefined]:
    """Eigenvalues by Jacobi's rotations, from the lower triangle."""
    values = op.cast_like(eigen.symmetric_of(op, input)[0], input)
    return values, VECTORS if compute_v else op.const(np.zeros(0, np.float32), input.dtype)


def _whitened(x: tf.Tensor) -> tf.Tensor:
    values, vectors = tf.linalg.eigh(tf.matmul(x, x, transpose_a=True))
    return x @ vectors @ tf.linalg.diag(tf.math.rsqrt(values + 1.0)) @ tf.linalg.matrix_transpose(vectors)


@tensorflow.lower(
    "onnxport::singular_vectors",
    cases=[
        case(tf.linalg.pinv, f32(2, 5, 3), dynamic=True),
        case(tf.linalg.pinv, f64(3, 4)),
        case(lambda x: tf.linalg.pinv(tf.concat([x, x], -1)), f32(2, 5, 2)),
    ],
)
def singular_vectors(
    op: OpBuilder, input: ir.Value, *, compute_uv: bool = True, full_matrices: bool = False
) -> tuple[ir.Value, ...]:
    """S, U and V in signs of our own: where the outputs do not depend on them."""
    u, s, v = eigen.reduced_singular(op, input)
    return tuple(op.cast_like(item, input) for item in (s, u, v))


@tensorflow.lower(
    "onnxport::eigenvectors",
    cases=[case(_whitened, f32(6, 4), min_opset=14), case(_whitened, f64(2, 6, 3), min_opset=14)],
    min_opset=14,
)
def eigenvectors(op: OpBuilder, input: ir.Value, *, compute_v: bool = True) -> tuple[ir.Value, ...]:
    """Eigenvalues and vectors in signs of our own: where the outputs do not depend on them."""
    return tuple(op.cast_like(item, input) for item in eigen.symmetric_of(op, input))


def three_diagonals(op: OpBuilder, above: ir.Value, main: ir.Value, below: ir.Value) -> ir.Value:
    """The matrix [..., n, n] of row i's elements after, on and before the diagonal, each [..., n]."""
    places = positions(op, main, rank(main) - 1)
    distance = op.Sub(op.Unsqueeze(places, [0]), op.Unsqueeze(places, [1]))
    result = op.const(0.0, main.dtype)
    for shift, elements in ((1, above), (0, main), (-1, below)):
        result = op.Where(op.Equal(distance, shift), op.Unsqueeze(elements, op.axes(-1)), result)
    return result


@tensorflow.lower(
    "TridiagonalSolve",
    cases=[
        case(lambda d, b: tf.linalg.tridiagonal_solve(d, b), f32(2, 3, 5, low=1), f32(2, 5, 2)),
        case(lambda d, b: tf.linalg.tridiagonal_solve(d, b, partial_pivoting=False), f64(3, 4, low=1), f64(4, 1)),
    ],
)
def tridiagonal_solve(
    op: OpBuilder, diagonals: ir.Value, rhs: ir.Value, *, partial_pivoting: bool = True, perturb_singular: bool = False
) -> ir.Value:
    """Elimination with row exchange of the whole matrix."""
    if perturb_singular:
        raise UnsupportedOperator("TridiagonalSolve: perturb_singular=True has no ONNX form")
    above, main, below = (op.Gather(op.cast(diagonals, _DOUBLE), i, axis=-2) for i in range(3))
    return op.cast_like(linear_algebra.solve(op, three_diagonals(op, above, main, below), rhs), diagonals)


@tensorflow.lower(
    "TridiagonalMatMul",
    cases=[
        case(
            lambda a, d, b, x: tf.raw_ops.TridiagonalMatMul(superdiag=a, maindiag=d, subdiag=b, rhs=x),
            *[f32(2, 1, 4)] * 3,
            f32(2, 4, 3),
        )
    ],
)
def tridiagonal_mat_mul(
    op: OpBuilder, superdiag: ir.Value, maindiag: ir.Value, subdiag: ir.Value, rhs: ir.Value
) -> ir.Value:
    """The product with the whole matrix."""
    rows = (op.Squeeze(item, op.axes(-2)) for item in (superdiag, maindiag, subdiag))
    return op.MatMul(three_diagonals(op, *rows), rhs)


def of_bands(op: OpBuilder, bands: ir.Value, *, lower: bool) -> ir.Value:
    """The triangle [..., n, n] of its bands [..., count, n], the main diagonal the first one below, the last one above it."""
    count, _ = eigen.static_sizes(bands)
    places = positions(op, bands, rank(bands) - 1)
    distance = op.Sub(op.Unsqueeze(places, [0]), op.Unsqueeze(places, [1]))  # column - row
    whole = op.const(0.0, bands.dtype)
    for band in range(count):
        shift = -band if lower else count - 1 - band
        elements = op.Unsqueeze(op.Gather(bands, band, axis=-2), op.axes(-1))
        whole = op.Where(op.Equal(distance, shift), elements, whole)
    return whole


@tensorflow.lower(
    "BandedTriangularSolve",
    cases=[
        case(lambda a, b: tf.linalg.banded_triangular_solve(a, b), f32(2, 2, 4, low=1), f32(2, 4, 3)),
        case(lambda a, b: tf.linalg.banded_triangular_solve(a, b, lower=False), f32(3, 4, low=1), f32(4, 2)),
        case(lambda a, b: tf.linalg.banded_triangular_solve(a, b, adjoint=True), f32(2, 4, low=1), f32(4, 2)),
    ],
)
def banded_triangular_solve(
    op: OpBuilder, matrix: ir.Value, rhs: ir.Value, *, lower: bool = True, adjoint: bool = False
) -> ir.Value:
    """Substitution with the whole matrix; band k of a lower one is its k-th diagonal below the main one."""
    whole = of_bands(op, matrix, lower=lower)
    whole = transposed(op, whole) if adjoint else whole
    return op.cast_like(linear_algebra.solve_triangular(op, whole, rhs, upper=lower == adjoint), matrix)


@tensorflow.lower("MatrixSquareRoot", cases=[case(lambda x: tf.linalg.sqrtm(x), SQUARE)])
def matrix_square_root(op: OpBuilder, input: ir.Value) -> ir.Value:
    """The principal root, by Denman and Beavers' iteration."""
    return op.cast_like(matrix_functions.square_root(op, input), input)


@tensorflow.lower(
    "CholeskyGrad",
    cases=[case(lambda dy: tf.raw_ops.CholeskyGrad(l=np.linalg.cholesky(SQUARE), grad=dy), f32(2, 3, 3), min_opset=14)],
    min_opset=14,
)
def cholesky_grad(op: OpBuilder, l: ir.Value, grad: ir.Value) -> ir.Value:
    """L'^-1 P(L' dL) L^-1 made symmetric, P the lower triangle with half of the diagonal.

    Source: Murray, "Differentiation of the Cholesky decomposition", 2016, equation 10.
    """
    lower, dy = op.Trilu(op.cast(l, _DOUBLE), upper=0), op.cast(grad, _DOUBLE)
    product = op.MatMul(transposed(op, lower), op.Trilu(dy, upper=0))
    half = op.Mul(linear_algebra.identity_like(op, product), 0.5)
    phi = op.Mul(op.Trilu(product, upper=0), op.Sub(1.0, half))
    left = linear_algebra.solve_triangular(op, transposed(op, lower), phi, upper=True)
    both = linear_algebra.solve_triangular(op, transposed(op, lower), transposed(op, left), upper=True)
    return op.cast_like(op.Mul(op.Add(both, transposed(op, both)), 0.5), grad)
