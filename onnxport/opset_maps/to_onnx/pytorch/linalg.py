"""Linear algebra; the algorithms are in `lowerings/linear_algebra.py`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, f64
from onnxport.opset_maps.lowerings import linear_algebra, loops
from onnxport.opset_maps.lowerings.axes import size, transposed
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.linear import rank

Values = tuple[ir.Value, ...]
Entry = Callable[..., ir.Value | Values]


def _matrices(*shape: int, seed: int = 0) -> np.ndarray:
    """Square matrices far from singular."""
    rng = np.random.default_rng(seed)
    return (rng.uniform(-1, 1, shape) + 2 * np.eye(shape[-1])).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    """Symmetric positive definite matrices."""
    a = _matrices(*shape)
    return np.asarray(a @ a.swapaxes(-1, -2) + np.eye(shape[-1]), np.float32)


def _old_triangular_solve(b: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with warnings.catch_warnings():  # it is deprecated
        warnings.simplefilter("ignore")
        return tuple(torch.triangular_solve(b, a, upper=False, transpose=True))


def info_of(op: OpBuilder, a: ir.Value) -> ir.Value:
    """LAPACK's report of success for each matrix."""
    batch = op.Slice(op.shape(a), [0], [-2], [0])
    return op.Expand(op.const(0, ir.DataType.INT32), batch)


def _info_of_lu(op: OpBuilder, a: ir.Value) -> ir.Value:
    """LAPACK's report: which pivot, counted from 1, is the first that is 0; 0 without one."""
    factors, _, _ = linear_algebra.lu(op, a)
    return linear_algebra.first_on_diagonal(op, factors, op.Equal(factors, 0.0))


Fill = Callable[[list[int]], np.ndarray]


def _ones(shape: list[int]) -> np.ndarray:
    return np.ones(shape)


def _zeros(shape: list[int]) -> np.ndarray:
    return np.zeros(shape)


def identities(shape: list[int]) -> np.ndarray:
    """Identity matrices of a shape; nothing but its zeros for a vector."""
    return np.broadcast_to(np.eye(shape[-2], shape[-1]), shape) if len(shape) > 1 else np.zeros(shape)


def of_nothing(*fills: Fill) -> Callable[[Entry], Entry]:
    """An entry whose results of matrices without elements are constants: `fills` of their shapes, then zeros."""

    def decorator(entry: Entry) -> Entry:
        @functools.wraps(entry)
        def lowered(op: OpBuilder, a: ir.Value, *args: object, **kwargs: object) -> ir.Value | Values:
            if a.shape is None or 0 not in list(a.shape)[-2:]:
                return entry(op, a, *args, **kwargs)
            values = []
            for i, item in enumerate(op.results):
                shape = [size for size in (item.shape if item is not None else None) or () if isinstance(size, int)]
                if item is None or item.shape is None or len(shape) < len(item.shape):
                    raise UnsupportedOperator("matrices without elements in a batch of dynamic size")
                values.append(op.const((fills[i] if i < len(fills) else _zeros)(shape), item.dtype))
            return tuple(values) if len(values) > 1 else values[0]

        return lowered

    return decorator


# -- determinants ------------------------------------------------------------------------------------------------------


@aten.lower(
    "aten::linalg_det aten::det aten::_linalg_det",
    cases=[
        case(torch.linalg.det, f32(3, 4, 4), dynamic=True),
        case(torch.det, f64(5, 5)),
        case(torch.det, f32(2, 0, 0)),
    ],
)
@of_nothing(_ones)
def det(op: OpBuilder, a: ir.Value) -> ir.Value | Values:
    """The product of U's diagonal."""
    value = op.cast_like(linear_algebra.determinant(op, a)[0], a)
    return (value, *_factored(op, a)) if len(op.results) > 1 else value


@aten.lower(
    "aten::linalg_slogdet aten::slogdet aten::_linalg_slogdet",
    cases=[case(torch.linalg.slogdet, f32(3, 4, 4), dynamic=True)],
)
@of_nothing(_ones)
def slogdet(op: OpBuilder, a: ir.Value) -> Values:
    """Sign and logarithm of the product of U's diagonal."""
    _, sign, logarithm = linear_algebra.determinant(op, a)
    result = op.cast_like(sign, a), op.cast_like(logarithm, a)
    return (*result, *_factored(op, a)) if len(op.results) > 2 else result


@aten.lower("aten::logdet", cases=[case(torch.logdet, positive(3, 4, 4))])
@of_nothing()
def logdet(op: OpBuilder, a: ir.Value) -> ir.Value:
    """The logarithm of the determinant, NaN where that is negative."""
    _, sign, logarithm = linear_algebra.determinant(op, a)
    return op.cast_like(op.Where(op.Less(sign, 0.0), op.const(np.nan, ir.DataType.DOUBLE), logarithm), a)


# -- LU ----------------------------------------------------------------------------------------------------------------


def _factored(op: OpBuilder, a: ir.Value, *, pivot: bool = True) -> tuple[ir.Value, ir.Value]:
    """LAPACK's compact factors and row exchanges, counted from 1."""
    factors, swaps, _ = linear_algebra.lu(op, a, pivot=pivot)
    return op.cast_like(factors, a), op.cast(op.Add(swaps, 1), ir.DataType.INT32)


@aten.lower(
    "aten::linalg_lu_factor aten::linalg_lu_factor_ex aten::_lu_with_info",
    cases=[
        case(torch.linalg.lu_factor, f32(2, 4, 4), dynamic=True),
        case(torch.linalg.lu_factor, f32(5, 3)),
        case(torch.linalg.lu_factor_ex, f32(3, 5)),
        case(lambda a: torch.linalg.lu_factor_ex(a * torch.tensor([1.0, 0, 1]))[2], f32(2, 4, 3)),
    ],
)
@of_nothing()
def lu_factor(op: OpBuilder, a: ir.Value, pivot: bool = True, check_errors: bool = False) -> Values:
    """Gaussian elimination with row exchange."""
    return (*_factored(op, a, pivot=pivot), _info_of_lu(op, a))


def triangles(op: OpBuilder, factors: ir.Value) -> tuple[ir.Value, ir.Value]:
    """L [..., m, k] and U [..., k, n] of compact factors."""
    shape = factors.shape
    if shape is None or not isinstance(shape[-1], int) or not isinstance(shape[-2], int):
        raise UnsupportedOperator("LU factors of matrices of a dynamic size")
    m, n = shape[-2], shape[-1]
    k = min(m, n)
    zero = op.const(0, factors.dtype)
    left, top = op.Slice(factors, [0], [k], [-1]), op.Slice(factors, [0], [k], [-2])
    lower = op.Where(op.const(np.tri(m, k, -1, dtype=bool)), left, zero)
    upper = op.Where(op.const(np.tri(k, n, -1, dtype=bool)), zero, top)
    return op.Add(lower, op.const(np.eye(m, k), factors.dtype)), upper


def order_of_swaps(op: OpBuilder, pivots: ir.Value, count: ir.Value) -> ir.Value:
    """The order of rows [..., m, 1] that the exchanges (from 1) lead to."""
    swaps = op.Unsqueeze(op.Sub(op.cast(pivots, ir.DataType.INT64), 1), op.axes(-1))
    rows = op.Unsqueeze(op.Range(op.const(0), count, op.const(1)), op.axes(1))
    start = op.Expand(
        rows, op.Concat(op.Slice(op.Shape(swaps), [0], [-2], [0]), op.Reshape(count, [1]), op.const([1]), axis=0)
    )

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        p = b.Gather(swaps, b.Unsqueeze(k, b.axes(0)), axis=-2)
        return [linear_algebra.swapped_rows(b, states[0], k, p, rows)]

    return loops.loop(op, size(op, swaps, -2), [start], step)[0]


def permutation(op: OpBuilder, order: ir.Value, dtype: ir.DataType) -> ir.Value:
    """P with P L U = a, of the order of a's rows in L U."""
    columns = op.Range(op.const(0), size(op, order, -2), op.const(1))
    return transposed(op, op.cast(op.Equal(order, columns), dtype))


@aten.lower(
    "aten::linalg_lu",
    cases=[case(torch.linalg.lu, f32(2, 4, 4)), case(torch.linalg.lu, f32(5, 3)), case(torch.linalg.lu, f32(3, 5))],
)
@of_nothing(identities)
def linalg_lu(op: OpBuilder, a: ir.Value, *, pivot: bool = True) -> Values:
    """Permutation, lower and upper triangle."""
    factors, _, order = linear_algebra.lu(op, a, pivot=pivot)
    lower, upper = triangles(op, op.cast_like(factors, a))
    empty = op.const(np.zeros(0, np.float32), a.dtype)
    return permutation(op, order, a.dtype or ir.DataType.FLOAT) if pivot else empty, lower, upper


@aten.lower(
    "aten::lu_unpack",
    cases=[case(lambda a: torch.lu_unpack(*torch.linalg.lu_factor(a)), f32(2, 4, 4))],
)
@of_nothing(identities)
def lu_unpack(
    op: OpBuilder, LU_data: ir.Value, LU_pivots: ir.Value, unpack_data: bool = True, unpack_pivots: bool = True
) -> Values:
    """Permutation, lower and upper triangle of compact factors."""
    empty = op.const(np.zeros(0, np.float32), LU_data.dtype)
    lower, upper = triangles(op, LU_data) if unpack_data else (empty, empty)
    if not unpack_pivots:
        return empty, lower, upper
    order = order_of_swaps(op, LU_pivots, size(op, LU_data, -2))
    return permutation(op, order, LU_data.dtype or ir.DataType.FLOAT), lower, upper


@aten.lower(
    "aten::linalg_lu_solve",
    cases=[
        case(lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b), _matrices(2, 4, 4), f32(2, 4, 3)),
        case(
            lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, adjoint=True), _matrices(4, 4), f32(4, 3)
        ),
        case(lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, left=False), _matrices(4, 4), f32(3, 4)),
    ],
)
def lu_solve(
    op: OpBuilder, LU: ir.Value, pivots: ir.Value, B: ir.Value, *, left: bool = True, adjoint: bool = False
) -> ir.Value:
    """The matrix put together again, and solved with."""
    lower, upper = triangles(op, op.cast(LU, ir.DataType.DOUBLE))
    order = order_of_swaps(op, pivots, size(op, LU, -2))
    a = op.MatMul(permutation(op, order, ir.DataType.DOUBLE), op.MatMul(lower, upper))
    a = transposed(op, a) if adjoint else a
    return op.cast_like(solved(op, a, B, left=left), B)


@aten.lower(
    "aten::lu_solve",
    cases=[case(lambda a, b: torch.lu_solve(b, *torch.linalg.lu_factor(a)), _matrices(2, 4, 4), f32(2, 4, 3))],
)
def old_lu_solve(op: OpBuilder, x: ir.Value, LU_data: ir.Value, LU_pivots: ir.Value) -> ir.Value:
    """The solution by LU factors."""
    return lu_solve(op, LU_data, LU_pivots, x)


# -- equations ---------------------------------------------------------------------------------------------------------


def solved(op: OpBuilder, a: ir.Value, b: ir.Value, *, left: bool) -> ir.Value:
    """x with a x = b or (not `left`) x a = b."""
    if left:
        return linear_algebra.solve(op, a, b)
    return transposed(op, linear_algebra.solve(op, transposed(op, a), transposed(op, b)))


def is_vector(a: ir.Value, b: ir.Value) -> bool:
    """torch's rule: one vector, or as many vectors as there are matrices."""
    if rank(b) == 1:
        return True
    return (
        rank(b) == rank(a) - 1 and a.shape is not None and b.shape is not None and list(b.shape) == list(a.shape)[:-1]
    )


@aten.lower(
    "aten::linalg_solve aten::linalg_solve_ex aten::_linalg_solve_ex",
    cases=[
        case(torch.linalg.solve, _matrices(2, 4, 4), f32(2, 4, 3)),
        case(torch.linalg.solve, _matrices(2, 4, 4), f32(2, 4)),
        case(lambda a, b: torch.linalg.solve(a, b, left=False), _matrices(4, 4), f32(2, 3, 4)),
    ],
)
@of_nothing()
def solve(
    op: OpBuilder, A: ir.Value, B: ir.Value, *, left: bool = True, check_errors: bool = False
) -> ir.Value | Values:
    """Gauss and Jordan's elimination with row exchange."""
    vector = is_vector(A, B)
    b = op.Unsqueeze(B, op.axes(-1)) if vector else B
    result = solved(op, A, b, left=left or vector)
    result = op.cast_like(op.Squeeze(result, op.axes(-1)) if vector else result, A)
    if len(op.results) == 1:
        return result
    info = _info_of_lu(op, A)
    return (result, info) if len(op.results) == 2 else (result, *_factored(op, A), info)


@aten.lower(
    "aten::linalg_inv aten::inverse aten::linalg_inv_ex",
    cases=[
        case(torch.linalg.inv, _matrices(2, 4, 4), dynamic=True),
        case(torch.linalg.inv_ex, _matrices(3, 3)),
        case(lambda a: torch.linalg.inv_ex(a * torch.tensor([1.0, 1, 0]))[1], _matrices(2, 3, 3)),
    ],
)
@of_nothing()
def inv(op: OpBuilder, A: ir.Value, *, check_errors: bool = False) -> ir.Value | Values:
    """The solution for the identity."""
    result = op.cast_like(linear_algebra.inverse(op, A), A)
    return (result, _info_of_lu(op, A)) if len(op.results) > 1 else result


@aten.lower(
    "aten::linalg_solve_triangular",
    cases=[
        case(lambda a, b: torch.linalg.solve_triangular(a.tril(), b, upper=False), _matrices(2, 4, 4), f32(2, 4, 3)),
        case(lambda a, b: torch.linalg.solve_triangular(a.triu(), b, upper=True), _matrices(4, 4), f32(2, 4, 3)),
        case(
            lambda a, b: torch.linalg.solve_triangular(a, b, upper=True, left=False, unitriangular=True),
            _matrices(4, 4),
            f32(3, 4),
        ),
    ],
)
def solve_triangular(
    op: OpBuilder, x: ir.Value, B: ir.Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> ir.Value:
    """Substitution."""
    if left:
        return op.cast_like(linear_algebra.solve_triangular(op, x, B, upper=upper, unit=unitriangular), x)
    a, b = transposed(op, x), transposed(op, B)
    result = linear_algebra.solve_triangular(op, a, b, upper=not upper, unit=unitriangular)
    return op.cast_like(transposed(op, result), x)


@aten.lower(
    "aten::triangular_solve",
    cases=[case(_old_triangular_solve, f32(2, 4, 3), _matrices(2, 4, 4))],
)
def triangular_solve(
    op: OpBuilder, x: ir.Value, A: ir.Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Values:
    """Substitution, and the coefficients as they were."""
    a = transposed(op, A) if transpose else A
    result = linear_algebra.solve_triangular(op, a, x, upper=upper != transpose, unit=unitriangular)
    return op.cast_like(result, x), op.Expand(
        A, op.Concat(op.Slice(op.Shape(result), [0], [-2], [0]), op.Slice(op.Shape(A), [-2], [2**31], [0]), axis=0)
    )


# -- Cholesky ----------------------------------------------------------------------------------------------------------


@aten.lower(
    "aten::linalg_cholesky aten::cholesky aten::linalg_cholesky_ex",
    cases=[
        case(torch.linalg.cholesky, positive(2, 4, 4), dynamic=True),
        case(lambda a: torch.linalg.cholesky_ex(a, upper=True), positive(4, 4)),
        case(lambda a: torch.linalg.cholesky_ex(a - torch.tensor([[[0.0]], [[2.5]]]))[1], positive(2, 4, 4)),
    ],
)
@of_nothing()
def cholesky(op: OpBuilder, x: ir.Value, upper: bool = False, check_errors: bool = False) -> ir.Value | Values:
    """The lower triangle, turned on request."""
    factor = linear_algebra.cholesky(op, transposed(op, x) if upper else x)
    result = op.cast_like(transposed(op, factor) if upper else factor, x)
    if len(op.results) == 1:
        return result
    return result, linear_algebra.first_on_diagonal(op, factor, op.IsNaN(factor))  # of a pivot that is not above 0


@aten.lower(
    "aten::cholesky_solve",
    cases=[
        case(lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a)), positive(2, 4, 4), f32(2, 4, 3)),
        case(lambda a, b: torch.cholesky_solve(b, a.triu(), upper=True), _matrices(4, 4), f32(4, 3)),
    ],
)
def cholesky_solve(op: OpBuilder, x: ir.Value, input2: ir.Value, upper: bool = False) -> ir.Value:
    """Two substitutions."""
    lower = transposed(op, input2) if upper else input2
    half = linear_algebra.solve_triangular(op, lower, x, upper=False)
    return op.cast_like(linear_algebra.solve_triangular(op, transposed(op, lower), half, upper=True), x)


@aten.lower(
    "aten::cholesky_inverse",
    cases=[
        case(lambda a: torch.cholesky_inverse(torch.linalg.cholesky(a)), positive(4, 4)),
        case(lambda a: torch.cholesky_inverse(a, upper=True), _matrices(2, 4, 4)),
    ],
)
def cholesky_inverse(op: OpBuilder, x: ir.Value, upper: bool = False) -> ir.Value:
    """The solution for the identity."""
    wide = op.cast(x, ir.DataType.DOUBLE)
    return op.cast_like(cholesky_solve(op, linear_algebra.identity_like(op, wide), wide, upper), x)


# -- others ------------------------------------------------------------------------------------------------------------


@aten.lower(
    "aten::linalg_matrix_exp",
    "aten::matrix_exp",
    cases=[
        case(torch.matrix_exp, f32(2, 4, 4), dynamic=True),
        case(torch.matrix_exp, f64(3, 3)),
        case(torch.matrix_exp, np.stack([np.full((2, 2), np.nan), [[3, 1], [2, 4]]]).astype(np.float32)),
    ],
)
def matrix_exp(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Scaling and squaring."""
    if x.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        raise UnsupportedOperator("PyTorch's own result is NaN in this type; convert it in float32", final=True)
    return op.cast_like(linear_algebra.exponential(op, x), x) if x.shape is not None and 0 not in x.shape else x
