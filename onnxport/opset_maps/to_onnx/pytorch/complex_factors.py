"""LU factors and determinants of complex matrices, and what is solved or put together with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings import complex_elimination, eigen
from onnxport.opset_maps.lowerings.axes import size, transposed
from onnxport.opset_maps.lowerings.complex_functions import log
from onnxport.opset_maps.lowerings.complex_matrices import by_columns, embedded
from onnxport.opset_maps.lowerings.complex_numbers import Parts, from_real, joined, mark_complex, parts_of
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.complex import add, complex_case, matmul, mul
from onnxport.opset_maps.to_onnx.pytorch.complex_linalg import solve_triangular
from onnxport.opset_maps.to_onnx.pytorch.linalg import (
    Values,
    info_of,
    order_of_swaps,
    permutation,
    solved,
    triangles,
)


def _factored(op: OpBuilder, z: ir.Value) -> tuple[ir.Value, ir.Value]:
    """LAPACK's compact factors and row exchanges, counted from 1."""
    factors, swaps, _ = complex_elimination.lu(op, z, by_parts=True)
    return op.cast_like(factors, z), op.cast(op.Add(swaps, 1), ir.DataType.INT32)


def _triangles(op: OpBuilder, factors: ir.Value) -> tuple[ir.Value, ir.Value]:
    """L and U of compact factors."""
    (lower, upper), (below, above) = (triangles(op, part) for part in parts_of(op, factors))
    rows, columns = eigen.static_sizes(below)
    one = op.const(np.eye(rows, columns), below.dtype)
    return joined(op, lower, op.Sub(below, one)), joined(op, upper, above)


def _determinant(op: OpBuilder, z: ir.Value) -> tuple[Parts, Parts, ir.Value]:
    """Determinant, its sign and the logarithm of its modulus; of no elements 1, 1 and 0."""
    if z.shape is None or 0 not in list(z.shape)[-3:-1]:
        return complex_elimination.determinant(op, z)
    batch = op.Slice(op.shape(z), [0], [-3], [0])
    one, zero = (op.Expand(op.const(number, ir.DataType.DOUBLE), batch) for number in (1.0, 0.0))
    return (one, zero), (one, zero), zero


def _marked(z: ir.Value) -> ir.Value:
    mark_complex(z)
    return z


def _permutation(op: OpBuilder, order: ir.Value, like: ir.Value) -> ir.Value:
    return from_real(op, permutation(op, order, like.dtype or ir.DataType.FLOAT))


@aten.lower(
    "aten::linalg_det aten::det aten::_linalg_det",
    accepts_complex=True,
    cases=[
        complex_case(torch.linalg.det, (3, 4, 4), dynamic=True),
        complex_case(lambda z: torch.det(z[:, :0, :0]), (2, 3, 3)),
    ],
)
def det(op: OpBuilder, a: ir.Value) -> ir.Value | Values:
    """The product of U's diagonal."""
    value = op.cast_like(joined(op, *_determinant(op, a)[0]), a)
    return (value, *_factored(op, a)) if len(op.results) > 1 else value


@aten.lower(
    "aten::linalg_slogdet aten::slogdet aten::_linalg_slogdet",
    accepts_complex=True,
    cases=[complex_case(torch.linalg.slogdet, (3, 4, 4))],
)
def slogdet(op: OpBuilder, a: ir.Value) -> Values:
    """The product of the units on U's diagonal, and the sum of the logarithms of its moduli."""
    _, sign, logarithm = _determinant(op, a)
    result = op.cast_like(joined(op, *sign), a), op.cast_like(logarithm, a)
    return (*result, *_factored(op, a)) if len(op.results) > 2 else result


@aten.lower("aten::logdet", accepts_complex=True, cases=[complex_case(torch.logdet, (3, 4, 4))])
def logdet(op: OpBuilder, a: ir.Value) -> ir.Value:
    """The logarithm of the sign and of the modulus."""
    _, sign, logarithm = _determinant(op, a)
    real, angle = log(op, *sign)
    return op.cast_like(joined(op, op.Add(real, logarithm), angle), a)


@aten.lower(
    "aten::linalg_lu_factor aten::linalg_lu_factor_ex aten::_lu_with_info",
    accepts_complex=True,
    cases=[
        complex_case(torch.linalg.lu_factor, (2, 4, 4), dynamic=True),
        complex_case(torch.linalg.lu_factor_ex, (5, 3)),
    ],
)
def lu_factor(op: OpBuilder, a: ir.Value, pivot: bool = True, check_errors: bool = False) -> Values:
    """Elimination of the pairs; LAPACK compares the sums of their parts' magnitudes."""
    return (*_factored(op, a), info_of(op, parts_of(op, a)[0]))


@aten.lower(
    "aten::linalg_lu",
    accepts_complex=True,
    cases=[complex_case(torch.linalg.lu, (2, 4, 4)), complex_case(torch.linalg.lu, (3, 5))],
)
def linalg_lu(op: OpBuilder, a: ir.Value, *, pivot: bool = True) -> Values:
    """Permutation, lower and upper triangle."""
    factors, _, order = complex_elimination.lu(op, a, by_parts=True)
    return (_permutation(op, order, a), *_triangles(op, op.cast_like(factors, a)))


@aten.lower(
    "aten::lu_unpack",
    accepts_complex=True,
    cases=[complex_case(lambda a: torch.lu_unpack(*torch.linalg.lu_factor(a)), (2, 4, 4))],
)
def lu_unpack(
    op: OpBuilder, LU_data: ir.Value, LU_pivots: ir.Value, unpack_data: bool = True, unpack_pivots: bool = True
) -> Values:
    """Permutation, lower and upper triangle of compact factors."""
    empty = op.const(np.zeros((0, 2)), LU_data.dtype)
    lower, upper = _triangles(op, LU_data) if unpack_data else (empty, empty)
    if not unpack_pivots:
        return empty, lower, upper
    order = order_of_swaps(op, LU_pivots, size(op, LU_data, -3))
    return _permutation(op, order, LU_data), lower, upper


@aten.lower(
    "aten::linalg_lu_solve",
    accepts_complex=True,
    cases=[
        complex_case(lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b), (2, 4, 4), (2, 4, 3)),
        complex_case(lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, adjoint=True), (3, 3), (3, 2)),
        complex_case(lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, left=False), (3, 3), (2, 3)),
    ],
)
def lu_solve(
    op: OpBuilder, LU: ir.Value, pivots: ir.Value, B: ir.Value, *, left: bool = True, adjoint: bool = False
) -> ir.Value:
    """The real matrix of twice the size put together again, and solved with."""
    order = order_of_swaps(op, pivots, size(op, LU, -3))
    parts: Sequence[ir.Value] = (_permutation(op, order, LU), *_triangles(op, LU))
    first, lower, upper = (embedded(op, item) for item in parts)
    a = op.MatMul(first, op.MatMul(lower, upper))
    a = transposed(op, a) if adjoint else a
    return op.cast_like(by_columns(op, solved(op, a, embedded(op, B), left=left)), B)


@aten.lower(
    "aten::lu_solve",
    accepts_complex=True,
    cases=[complex_case(lambda a, b: torch.lu_solve(b, *torch.linalg.lu_factor(a)), (2, 4, 4), (2, 4, 3))],
)
def old_lu_solve(op: OpBuilder, x: ir.Value, LU_data: ir.Value, LU_pivots: ir.Value) -> ir.Value:
    """The solution by LU factors."""
    return lu_solve(op, LU_data, LU_pivots, x)


@aten.lower(
    "aten::triangular_solve",
    accepts_complex=True,
    cases=[
        complex_case(lambda b, a: torch.ops.aten.triangular_solve(b, a, True, True), (2, 3, 2), (2, 3, 3), min_opset=14)
    ],
    min_opset=14,
)
def triangular_solve(
    op: OpBuilder, x: ir.Value, A: ir.Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Values:
    """Substitution, and the coefficients as they were."""
    count = len(A.shape) if A.shape is not None else 3
    order = [*range(count - 3), count - 2, count - 3, count - 1]
    a = op.Transpose(A, perm=order) if transpose else A
    result = solve_triangular(op, a, x, upper=upper != transpose, unitriangular=unitriangular)
    shape = op.Concat(op.Slice(op.Shape(result), [0], [-3], [0]), op.Slice(op.Shape(A), [-3], [2**31], [0]), axis=0)
    return result, op.Expand(A, shape)


@aten.lower(
    "aten::addbmm",
    accepts_complex=True,
    cases=[complex_case(lambda c, a, b: torch.addbmm(c, a, b, beta=0.5, alpha=2), (3, 5), (2, 3, 4), (2, 4, 5))],
)
def addbmm(
    op: OpBuilder, x: ir.Value, a: ir.Value, b: ir.Value, *, beta: complex | float = 1, alpha: complex | float = 1
) -> ir.Value:
    """beta x + alpha times the sum of the batch of products."""
    total = op.reduce("ReduceSum", matmul(op, a, b), [0], keepdims=False)
    terms = [item if factor == 1 else mul(op, _marked(item), factor) for item, factor in ((x, beta), (total, alpha))]
    return add(op, *(_marked(item) for item in terms))
