"""Linear algebra and diagonals."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.lowerings import linear_algebra
from onnxport.opset_maps.lowerings.axes import positions, transposed
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import rank

SQUARE = np.array(
    [[[4.0, 1.0, 0.5], [1.0, 3.0, -0.5], [0.5, -0.5, 2.0]], [[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 3.0]]],
    np.float32,
)


_INDEFINITE = np.array([[[4.0, 2.0], [2.0, 5.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]], np.float32)


@tensorflow.lower(
    "Cholesky BatchCholesky",
    cases=[
        case(lambda x: tf.linalg.cholesky(x), SQUARE),
        case(lambda x: tf.linalg.band_part(tf.linalg.cholesky(x), -1, 0), _INDEFINITE),
    ],
)
def cholesky(op: OpBuilder, input: ir.Value) -> ir.Value:
    """The lower triangular factor; NaN for all of a matrix that is not positive definite."""
    factor = op.cast_like(linear_algebra.cholesky(op, input), input)
    n = rank(factor)
    rows, columns = (positions(op, factor, n - 2 + place) for place in (0, 1))
    rows, columns = op.Unsqueeze(rows, [1]), op.Unsqueeze(columns, [0])
    beside = op.Not(op.Equal(rows, columns))
    good = op.cast(op.Or(beside, op.Greater(factor, 0.0)), ir.DataType.FLOAT)
    failed = op.Less(op.reduce("ReduceMin", good, [n - 2, n - 1], keepdims=True), 1.0)
    lost = op.And(failed, op.GreaterOrEqual(rows, columns))
    return op.Where(lost, op.const(np.nan, factor.dtype), factor)


@tensorflow.lower("MatrixInverse BatchMatrixInverse", cases=[case(lambda x: tf.linalg.inv(x), SQUARE)])
def matrix_inverse(op: OpBuilder, input: ir.Value, *, adjoint: bool = False) -> ir.Value:
    """The inverse, by LU factors."""
    return op.cast_like(linear_algebra.inverse(op, transposed(op, input) if adjoint else input), input)


@tensorflow.lower(
    "MatrixSolve BatchMatrixSolve", cases=[case(lambda x, y: tf.linalg.solve(x, y), SQUARE, f32(2, 3, 2))]
)
def matrix_solve(op: OpBuilder, matrix: ir.Value, rhs: ir.Value, *, adjoint: bool = False) -> ir.Value:
    """The solution of a linear system, by LU factors."""
    left = transposed(op, matrix) if adjoint else matrix
    return op.cast_like(linear_algebra.solve(op, left, rhs), matrix)


def _on_diagonal(op: OpBuilder, x: ir.Value) -> ir.Value:
    """True on the main diagonal of matrices of the shape of `x`."""
    n = rank(x)
    rows, columns = positions(op, x, n - 2), positions(op, x, n - 1)
    return op.Equal(op.Unsqueeze(rows, [1]), op.Unsqueeze(columns, [0]))


@tensorflow.lower(
    "MatrixDiag BatchMatrixDiag", cases=[case(lambda x: tf.raw_ops.MatrixDiag(diagonal=x), f32(2, 3), dynamic=True)]
)
def matrix_diag(op: OpBuilder, diagonal: ir.Value) -> ir.Value:
    """Each vector on the main diagonal of zeros."""
    places = positions(op, diagonal, rank(diagonal) - 1)
    on = op.Equal(op.Unsqueeze(places, [1]), op.Unsqueeze(places, [0]))
    zero = op.const(0, diagonal.dtype)
    return op.Where(on, op.Unsqueeze(diagonal, [-1]), zero)


@tensorflow.lower(
    "MatrixSetDiag BatchMatrixSetDiag",
    cases=[case(lambda x, y: tf.raw_ops.MatrixSetDiag(input=x, diagonal=y), f32(2, 3, 4), f32(2, 3))],
)
def matrix_set_diag(op: OpBuilder, input: ir.Value, diagonal: ir.Value) -> ir.Value:
    """The main diagonal replaced: its element of each row, padded to the rows' number."""
    n = rank(input)
    rows, length = op.dim(input, n - 2), op.dim(diagonal, n - 2)
    pads = op.Concat(op.const([0] * (2 * n - 3)), op.Sub(rows, length), axis=0)
    return op.Where(_on_diagonal(op, input), op.Unsqueeze(op.Pad(diagonal, pads), [-1]), input)


@tensorflow.lower("Cross", cases=[case(lambda x, y: tf.linalg.cross(x, y), f32(2, 3), f32(2, 3))])
def cross(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """The vector product of the last axis."""
    a1, a2, b1, b2 = (op.Gather(item, index, axis=-1) for item in (a, b) for index in ([1, 2, 0], [2, 0, 1]))
    return op.Sub(op.Mul(a1, b2), op.Mul(a2, b1))


@tensorflow.lower(
    "MatrixDiagPart BatchMatrixDiagPart",
    cases=[case(lambda x: tf.raw_ops.MatrixDiagPart(input=x), f32(2, 3, 4), dynamic=True)],
)
def matrix_diag_part(op: OpBuilder, input: ir.Value) -> ir.Value:
    """The main diagonal: elements of the last two axes with equal indices."""
    n = rank(input)
    rows, columns = op.dim(input, n - 2), op.dim(input, n - 1)
    count = op.Squeeze(op.Min(rows, columns), [0])
    index = op.Unsqueeze(op.Range(0, count, 1), [1])
    moved = op.Transpose(input, perm=[n - 2, n - 1, *range(n - 2)]) if n > 2 else input
    result = op.GatherND(moved, op.Concat(index, index, axis=1))
    return op.Transpose(result, perm=[*range(1, n - 1), 0]) if n > 2 else result


@tensorflow.lower(
    "MatrixBandPart BatchMatrixBandPart",
    cases=[
        case(lambda x: tf.linalg.band_part(x, -1, 0), f32(2, 4, 4)),
        case(lambda x: tf.linalg.band_part(x, 0, -1), f32(3, 5)),
        case(lambda x: tf.linalg.band_part(x, 1, 2), f32(5, 6)),
    ],
)
def matrix_band_part(op: OpBuilder, input: ir.Value, num_lower: ir.Value, num_upper: ir.Value) -> ir.Value:
    """Elements with row - column <= lower and column - row <= upper, negative bounds meaning all; zeros elsewhere."""
    n = rank(input)
    row = op.Unsqueeze(positions(op, input, n - 2), [1])
    column = op.Unsqueeze(positions(op, input, n - 1), [0])
    difference = op.Sub(row, column)

    def within(distance: ir.Value, bound: ir.Value) -> ir.Value:
        bound = op.cast(bound, ir.DataType.INT64)
        return op.Or(op.Less(bound, 0), op.LessOrEqual(distance, bound))

    keep = op.And(within(difference, num_lower), within(op.Neg(difference), num_upper))
    return op.Where(keep, input, op.const(0, input.dtype))
