"""QR by reflections, eigenvalues and singular values; the algorithms are in `lowerings/linear_algebra.py` and `eigen.py`."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, f64
from onnxport.opset_maps.lowerings import eigen, indefinite, linear_algebra
from onnxport.opset_maps.lowerings.axes import rank as rank_of
from onnxport.opset_maps.lowerings.axes import size, transposed
from onnxport.opset_maps.lowerings.complex_numbers import from_real, is_complex
from onnxport.opset_maps.lowerings.random import is_drawn
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.registry import Undefined
from onnxport.opset_maps.to_onnx.pytorch.linalg import Values, identities, of_nothing, positive

_DOUBLE = ir.DataType.DOUBLE
Bound = float | ir.Value | None  # a tolerance, as torch takes it
VECTORS = Undefined(
    "the outputs depend on the signs of eigenvectors or singular vectors, which are LAPACK's choice; the values convert, and so "
    "does what no sign changes, as U f(S) V' or pinv"
)


@aten.lower(
    "aten::linalg_qr aten::qr",
    cases=[
        case(torch.linalg.qr, f32(2, 5, 3), dynamic=True),
        case(torch.linalg.qr, f32(3, 5)),
        case(lambda a: torch.linalg.qr(a, "complete"), f32(2, 3, 0)),
        case(lambda a: torch.linalg.qr(a, "complete"), f32(5, 3)),
        case(lambda a: torch.linalg.qr(a, "r")[1], f32(5, 3)),
    ],
)
@of_nothing(identities)
def qr(op: OpBuilder, A: ir.Value, mode: str | bool = "reduced") -> Values:
    """Householder's reflections."""
    q, r = linear_algebra.householder(op, A)
    if mode in ("reduced", "r", True):
        smaller = op.Reshape(op.Min(size(op, A, -2), size(op, A, -1)), [1])
        q, r = op.Slice(q, [0], smaller, [-1]), op.Slice(r, [0], smaller, [-2])
    empty = op.const(np.zeros(0, np.float32), A.dtype)
    return empty if mode == "r" else op.cast_like(q, A), op.cast_like(r, A)


@aten.lower("aten::geqrf", cases=[case(torch.geqrf, f32(2, 5, 3)), case(torch.geqrf, f32(3, 5))])
def geqrf(op: OpBuilder, x: ir.Value) -> Values:
    """R, the reflections' vectors below its diagonal, and their factors."""
    matrix, factors = linear_algebra.reflectors(op, x)
    return op.cast_like(matrix, x), op.cast_like(factors, x)


@aten.lower(
    "aten::linalg_householder_product",
    "aten::orgqr",
    cases=[
        case(lambda a: torch.linalg.householder_product(*torch.geqrf(a)), f32(2, 5, 3)),
        case(lambda a, t: torch.linalg.householder_product(a, t), f32(4, 3), f32(2)),
    ],
)
@of_nothing(identities)
def householder_product(op: OpBuilder, x: ir.Value, tau: ir.Value) -> ir.Value:
    """The reflections applied to the first columns of the identity."""
    square = op.MatMul(x, transposed(op, x))
    first = op.Slice(linear_algebra.identity_like(op, square), [0], op.dim(x, -1), [-1])
    return op.cast_like(linear_algebra.reflected(op, x, tau, first), x)


@aten.lower(
    "aten::ormqr",
    cases=[
        case(lambda a, c: torch.ormqr(*torch.geqrf(a), c), f32(2, 5, 3), f32(2, 5, 4)),
        case(lambda a, c: torch.ormqr(*torch.geqrf(a), c, transpose=True), f32(5, 3), f32(5, 4)),
        case(lambda a, c: torch.ormqr(*torch.geqrf(a), c, left=False), f32(5, 3), f32(4, 5)),
        case(lambda a, c: torch.ormqr(*torch.geqrf(a), c, left=False, transpose=True), f32(5, 3), f32(4, 5)),
    ],
)
def ormqr(
    op: OpBuilder, x: ir.Value, input2: ir.Value, input3: ir.Value, left: bool = True, transpose: bool = False
) -> ir.Value:
    """The reflections one after the other."""
    return op.cast_like(linear_algebra.reflected(op, x, input2, input3, left=left, transpose=transpose), x)


@aten.lower(
    "aten::linalg_svd aten::_linalg_svd aten::svd",
    cases=[
        case(torch.linalg.svdvals, f32(2, 5, 3), dynamic=True),
        case(torch.linalg.svdvals, f64(3, 4)),
        case(lambda a: torch.linalg.svdvals(torch.cat([a, a, a * 2])), f32(2, 4)),
        case(lambda a: torch.linalg.matrix_norm(a, "nuc"), f32(2, 4, 3)),
        case(lambda a: torch.linalg.cond(a), f32(2, 4, 4)),
        case(lambda a: torch.linalg.matrix_rank(torch.cat([a, a * 3], -1)), f32(2, 4, 2)),
        case(lambda a: torch.linalg.svd(a).S, f32(2, 4, 3)),
    ],
)
def svd(op: OpBuilder, A: ir.Value, *_: bool, driver: str | None = None) -> tuple[ir.Value | Undefined, ...]:
    """Singular values by Hestenes' rotations; LAPACK's signs of the vectors follow from its rounding.

    Vectors that depend on random numbers, as in `torch.svd_lowrank`, have random signs anyway.
    """
    if is_drawn(A):
        return singular_vectors(op, A)
    return VECTORS, op.cast_like(eigen.singular_values(op, A), A), VECTORS


def _whitened(x: torch.Tensor) -> torch.Tensor:
    values, vectors = torch.linalg.eigh(x.mT @ x)
    return x @ (vectors * (values + 1).rsqrt().unsqueeze(-2)) @ vectors.mT


def _rebuilt(x: torch.Tensor, *, full: bool = False) -> torch.Tensor:
    u, s, v = torch.linalg.svd(x, full_matrices=full)
    count = s.shape[-1]
    return (u[..., :count] * s.tanh().unsqueeze(-2)) @ v[..., :count, :]


@aten.lower(
    "onnxport::singular_vectors",
    cases=[
        case(_rebuilt, f32(3, 5, 4), dynamic=True),
        case(lambda x: _rebuilt(x, full=True), f32(3, 5)),
        case(lambda x: _rebuilt(x, full=True), f64(5, 3)),
    ],
)
def singular_vectors(op: OpBuilder, A: ir.Value, *_: bool, driver: str | None = None) -> Values:
    """U, S, and V' (of `aten::svd` V), in signs of our own: where the outputs do not depend on them."""
    rows, columns = eigen.static_sizes(A)
    if rows >= columns:
        u, s, v = eigen.singular(op, A)
    else:
        v, s, u = eigen.singular(op, transposed(op, A))
    as_columns = op.name.startswith("aten::svd")
    count = min(rows, columns)
    u, v = (
        op.Slice(item, [0], [count], [-1]) if given is not None and given.shape and given.shape[axis] == count else item
        for item, given, axis in ((u, op.results[0], -1), (v, op.results[2], -1 if as_columns else -2))
    )
    right = v if as_columns else transposed(op, v)
    return op.cast_like(u, A), op.cast_like(s, A), op.cast_like(right, A)


@aten.lower(
    "onnxport::eigenvectors",
    cases=[case(_whitened, f32(6, 4), min_opset=14), case(_whitened, f64(2, 6, 3), min_opset=14)],
    min_opset=14,
)
def eigenvectors(op: OpBuilder, A: ir.Value, UPLO: str = "L", compute_v: bool = True) -> Values:
    """Eigenvalues and vectors, in signs of our own: where the outputs do not depend on them."""
    values, vectors = eigen.symmetric_of(op, A, upper=UPLO.upper() == "U")
    return op.cast_like(values, A), op.cast_like(vectors, A)


@aten.lower(
    "aten::linalg_eigh",
    "aten::_linalg_eigh",
    cases=[
        case(torch.linalg.eigvalsh, f32(2, 4, 4), dynamic=True, min_opset=14),
        case(lambda a: torch.linalg.eigvalsh(a, UPLO="U"), f64(5, 5), min_opset=14),
        case(lambda a: torch.linalg.eigh(a)[0], f32(2, 3, 3), min_opset=14),
        case(lambda a: torch.linalg.matrix_rank(a, hermitian=True), positive(4, 4), min_opset=14),
    ],
)
def eigh(op: OpBuilder, A: ir.Value, UPLO: str = "L", compute_v: bool = True) -> tuple[ir.Value, Undefined]:
    """Eigenvalues by Jacobi's rotations; LAPACK's signs of the vectors follow from its rounding."""
    return op.cast_like(eigen.symmetric_of(op, A, upper=UPLO.upper() == "U")[0], A), VECTORS


def _tolerance(op: OpBuilder, largest: ir.Value, atol: Bound, rtol: Bound, default: float) -> ir.Value:
    """The greatest singular value [..., 1] that counts as zero: torch's rule for tolerances that are not given."""

    def wide(item: float | ir.Value) -> ir.Value:
        return (
            op.cast(op.Unsqueeze(item, op.axes(-1)), _DOUBLE) if isinstance(item, ir.Value) else op.const(item, _DOUBLE)
        )

    absolute = wide(atol if atol is not None else 0.0)
    if rtol is None:
        rtol_value = op.Where(op.Greater(absolute, 0.0), op.const(0.0, _DOUBLE), op.const(default, _DOUBLE))
    else:
        rtol_value = wide(rtol)
    return op.Max(absolute, op.Mul(rtol_value, largest))


@aten.lower(
    "aten::linalg_pinv",
    cases=[
        case(torch.linalg.pinv, f32(2, 4, 3)),
        case(torch.linalg.pinv, f32(3, 5)),
        case(lambda a: torch.linalg.pinv(torch.cat([a, a * 2], -1)), f32(4, 2)),
        case(lambda a: torch.linalg.pinv(a, hermitian=True), positive(4, 4), min_opset=14),
        case(lambda a, r: torch.linalg.pinv(a, rtol=r), f32(2, 4, 3), np.array([0.1, 0.9], np.float32)),
        case(lambda a: torch.linalg.pinv(a, atol=0.8), f32(2, 4, 3)),
    ],
)
def pinv(
    op: OpBuilder, x: ir.Value, rcond: Bound = None, hermitian: bool = False, *, atol: Bound = None, rtol: Bound = None
) -> ir.Value:
    """V S^-1 U', without the singular values that count as zero."""
    bound = rtol if rcond is None else rcond
    return op.cast_like(pseudo_inverse(op, x, bound, hermitian, atol, max(eigen.static_sizes(x)))[0], x)


def pseudo_inverse(
    op: OpBuilder, x: ir.Value, rtol: Bound, hermitian: bool, atol: Bound, longest: int
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The pseudo-inverse in double, the singular values, and which of them count.

    `longest` is the side of the matrix that torch's default tolerance counts.
    """
    if hermitian:
        s, v = eigen.symmetric_of(op, x)
        u = v
    else:
        u, s, v = eigen.reduced_singular(op, x)
    lengths = op.Abs(s)
    largest = op.reduce("ReduceMax", lengths, [-1], keepdims=True)
    default = float(np.finfo((x.dtype or ir.DataType.FLOAT).numpy()).eps) * longest
    counts = op.Greater(lengths, _tolerance(op, largest, atol, rtol, default))
    return eigen.pseudo_inverse(op, u, s, v, counts), s, counts


@aten.lower(
    "aten::linalg_lstsq",
    cases=[
        case(torch.linalg.lstsq, f32(4, 3), f32(4, 2)),
        case(torch.linalg.lstsq, f32(2, 3, 4), f32(2, 3)),
        # Not by "gelsy": on dependent columns PyTorch's own answer differs from call to call (LAPACK's pivots are not set).
        case(lambda a, b: torch.linalg.lstsq(torch.cat([a, a], 1), b, driver="gelsd"), f32(5, 2), f32(5, 2)),
        case(lambda a, b: torch.linalg.lstsq(a, b, driver="gels"), f32(2, 4, 3), f32(2, 4, 2)),
        case(lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd"), f32(4, 3), f32(4, 2)),
        case(lambda a, b: torch.linalg.lstsq(a, b, rcond=0.4, driver="gelss")[::2], f32(2, 4, 4), f32(2, 4, 2)),
    ],
)
def lstsq(
    op: OpBuilder, x: ir.Value, b: ir.Value, rcond: float | None = None, *, driver: str | None = None
) -> tuple[ir.Value, ir.Value | Undefined, ir.Value, ir.Value]:
    """The pseudo-inverse times b, which is the least-squares solution of the smallest norm."""
    rows, columns = eigen.static_sizes(x)
    matrix = op.cast(b, _DOUBLE)
    is_vector = rank_of(b) < rank_of(x)
    matrix = op.Unsqueeze(matrix, op.axes(-1)) if is_vector else matrix
    inverse, s, counts = pseudo_inverse(op, x, rcond, False, None, max(rows, columns))
    solution = op.MatMul(inverse, matrix)
    empty = op.const(np.zeros(0, np.float32), x.dtype)
    rank = op.reduce("ReduceSum", op.cast(counts, ir.DataType.INT64), [-1], keepdims=False)
    residuals: ir.Value | Undefined = empty
    if rows > columns and driver not in (None, "gelsy"):
        residuals = _residuals(op, x, matrix, solution, rank if driver != "gels" else None)
    solution = op.Squeeze(solution, op.axes(-1)) if is_vector else solution
    return (
        op.cast_like(solution, x),
        residuals,
        op.const(np.zeros(0, np.int64)) if driver == "gels" else rank,
        op.cast_like(s, x) if driver in ("gelss", "gelsd") else empty,
    )


def _residuals(
    op: OpBuilder, x: ir.Value, b: ir.Value, solution: ir.Value, rank: ir.Value | None
) -> ir.Value | Undefined:
    """The squared length of each column that is left; with a `rank`, none at all where that is below the columns' number."""
    rest = op.Sub(b, op.MatMul(op.cast(x, _DOUBLE), solution))
    squares = op.cast_like(op.reduce("ReduceSum", op.Mul(rest, rest), [-2], keepdims=False), x)
    if rank is None:
        return squares
    if rank.shape is None or len(rank.shape):
        return Undefined(
            "the residuals of several matrices are of another rank where one matrix has linearly dependent columns"
        )
    full = op.cast(op.Equal(rank, op.Squeeze(op.dim(x, -1), op.axes(0))), ir.DataType.INT64)
    return op.Slice(squares, [0], op.Mul(op.dim(squares, 0), full), [0])


@aten.lower(
    "aten::pinverse", cases=[case(torch.pinverse, f32(4, 3)), case(lambda a: torch.pinverse(a, 0.5), f32(4, 3))]
)
def pinverse(op: OpBuilder, x: ir.Value, rcond: float = 1e-15) -> ir.Value:
    """The pseudo-inverse with a tolerance relative to the largest singular value."""
    return pinv(op, x, rcond)


@aten.lower(
    "aten::linalg_ldl_factor_ex aten::linalg_ldl_factor",
    cases=[
        case(torch.linalg.ldl_factor_ex, f32(3, 5, 5), dynamic=True),
        case(torch.linalg.ldl_factor, f64(4, 4)),
        case(lambda a: torch.linalg.ldl_factor_ex(a * torch.tensor([[1.0, 0, 0]])), f32(2, 3, 3)),
    ],
)
@of_nothing()
def ldl_factor(op: OpBuilder, x: ir.Value, *, hermitian: bool = False, check_errors: bool = False) -> Values:
    """Bunch and Kaufman's pivots."""
    triangle, exchanges, info = indefinite.factors(op, x)
    values = op.cast_like(triangle, x), op.cast(exchanges, ir.DataType.INT32)
    return values if len(op.results) == 2 else (*values, op.cast(info, ir.DataType.INT32))


@aten.lower(
    "aten::linalg_ldl_solve",
    cases=[
        case(lambda a, b: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a), b), f32(3, 5, 5), f32(3, 5, 2)),
        case(lambda a, b: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a), b), f64(4, 4), f64(2, 4, 1)),
    ],
)
def ldl_solve(op: OpBuilder, LD: ir.Value, pivots: ir.Value, B: ir.Value, *, hermitian: bool = False) -> ir.Value:
    """The matrix put together again, and solved with."""
    return op.cast_like(indefinite.solution(op, LD, pivots, B), B)


@aten.lower(
    "aten::linalg_eig",
    "aten::linalg_eigvals",
    "aten::_linalg_eigvals",
    accepts_complex=True,
    cases=[
        case(lambda a: torch.view_as_real(torch.linalg.eigvals(a)), f32(3, 1, 1), dynamic=True),
        case(lambda a: [torch.view_as_real(item) for item in torch.linalg.eig(a)], f32(1, 1)),
    ],
)
def eig(op: OpBuilder, x: ir.Value) -> ir.Value | tuple[ir.Value, ir.Value]:
    """Of matrices of one element alone: which eigenvalue comes first follows from LAPACK's rounding."""
    matrix = x if is_complex(x) else from_real(op, x)
    if matrix.shape is None or list(matrix.shape)[-3:-1] != [1, 1]:
        raise UnsupportedOperator(
            "the order of a general matrix' eigenvalues is LAPACK's choice; eigvalsh of a symmetric matrix converts",
            final=True,
        )
    values = op.Squeeze(matrix, op.axes(-2))
    one = op.const(np.array([1.0, 0.0]), matrix.dtype)
    return values if len(op.results) == 1 else (values, op.Expand(one, op.shape(matrix)))
