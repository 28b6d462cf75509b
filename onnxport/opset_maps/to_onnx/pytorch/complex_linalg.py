"""Linear algebra of complex matrices, by real ones of twice the size."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings import eigen, linear_algebra
from onnxport.opset_maps.lowerings.axes import size, transposed
from onnxport.opset_maps.lowerings.complex_matrices import by_columns, by_rows, embedded, of_hermitian, once
from onnxport.opset_maps.lowerings.complex_numbers import joined, parts_of
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.registry import Undefined
from onnxport.opset_maps.to_onnx.pytorch.complex import complex_case
from onnxport.opset_maps.to_onnx.pytorch.decompositions import (
    VECTORS,
    Bound,
    pseudo_inverse,
)
from onnxport.opset_maps.to_onnx.pytorch.linalg import info_of, is_vector, solved

_FACTORS = Undefined("LU factors of complex matrices")


def _like(op: OpBuilder, x: ir.Value, like: ir.Value) -> ir.Value:
    return op.cast_like(by_columns(op, x), like)


def _real(op: OpBuilder, z: ir.Value) -> ir.Value:
    return parts_of(op, z)[0]


@aten.lower(
    "aten::linalg_inv aten::inverse aten::linalg_inv_ex",
    accepts_complex=True,
    cases=[
        complex_case(torch.linalg.inv, (2, 3, 3), dynamic=True),
        complex_case(lambda a: torch.linalg.inv_ex(a)[0], (2, 2)),
    ],
)
def inv(op: OpBuilder, A: ir.Value, *, check_errors: bool = False) -> ir.Value | tuple[ir.Value, ...]:
    """The inverse of the real matrix."""
    result = _like(op, linear_algebra.inverse(op, embedded(op, A)), A)
    return (result, info_of(op, _real(op, A))) if len(op.results) > 1 else result


@aten.lower(
    "aten::linalg_solve aten::linalg_solve_ex aten::_linalg_solve_ex",
    accepts_complex=True,
    cases=[
        complex_case(torch.linalg.solve, (2, 3, 3), (2, 3, 2)),
        complex_case(torch.linalg.solve, (2, 3, 3), (2, 3)),
        complex_case(lambda a, b: torch.linalg.solve(a, b, left=False), (3, 3), (2, 3)),
    ],
)
def solve(
    op: OpBuilder, A: ir.Value, B: ir.Value, *, left: bool = True, check_errors: bool = False
) -> ir.Value | tuple[ir.Value | Undefined, ...]:
    """The solution for the real matrix."""
    vector = is_vector(_real(op, A), _real(op, B))
    b = op.Unsqueeze(B, op.axes(-2)) if vector else B
    result = _like(op, solved(op, embedded(op, A), embedded(op, b), left=left or vector), A)
    result = op.Squeeze(result, op.axes(-2)) if vector else result
    if len(op.results) == 1:
        return result
    info = info_of(op, _real(op, A))
    return (result, info) if len(op.results) == 2 else (result, _FACTORS, _FACTORS, info)


@aten.lower(
    "aten::linalg_solve_triangular",
    accepts_complex=True,
    cases=[
        complex_case(lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), (2, 3, 3), (2, 3, 2), min_opset=14),
        complex_case(
            lambda a, b: torch.linalg.solve_triangular(a, b, upper=False, left=False, unitriangular=True),
            (3, 3),
            (2, 3),
            min_opset=14,
        ),
    ],
    min_opset=14,
)
def solve_triangular(
    op: OpBuilder, x: ir.Value, B: ir.Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> ir.Value:
    """The other triangle cut off, then the solution for the real matrix."""
    real, imaginary = (op.Trilu(part, upper=int(upper)) for part in parts_of(op, x))
    if unitriangular:
        one = op.cast_like(linear_algebra.identity_like(op, real), real)
        rest = op.Sub(1.0, one)
        real, imaginary = op.Add(op.Mul(real, rest), one), op.Mul(imaginary, rest)
    pair = joined(op, real, imaginary)
    return _like(op, solved(op, embedded(op, pair), embedded(op, B), left=left), x)


@aten.lower(
    "aten::linalg_matrix_exp",
    "aten::matrix_exp",
    accepts_complex=True,
    cases=[complex_case(torch.matrix_exp, (2, 3, 3))],
)
def matrix_exp(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The exponential of the real matrix."""
    return _like(op, linear_algebra.exponential(op, embedded(op, x)), x)


@aten.lower(
    "aten::linalg_cholesky aten::cholesky aten::linalg_cholesky_ex",
    accepts_complex=True,
    cases=[
        complex_case(lambda a: torch.linalg.cholesky(a @ a.mH + torch.eye(3)), (2, 3, 3)),
        complex_case(lambda a: torch.linalg.cholesky_ex(a @ a.mH + torch.eye(3), upper=True)[0], (3, 3)),
    ],
)
def cholesky(
    op: OpBuilder, x: ir.Value, upper: bool = False, check_errors: bool = False
) -> ir.Value | tuple[ir.Value, ...]:
    """The triangle of the real matrix."""
    wide = embedded(op, x)
    result = linear_algebra.cholesky(op, transposed(op, wide) if upper else wide)
    result = _like(op, transposed(op, result) if upper else result, x)
    return (result, info_of(op, _real(op, x))) if len(op.results) > 1 else result


@aten.lower(
    "aten::linalg_qr",
    "aten::qr",
    accepts_complex=True,
    cases=[
        complex_case(torch.linalg.qr, (2, 4, 3)),
        complex_case(torch.linalg.qr, (3, 4)),
        complex_case(lambda a: torch.linalg.qr(a, "complete"), (4, 2)),
        complex_case(lambda a: torch.linalg.qr(a, "r")[1], (4, 2)),
    ],
)
def qr(op: OpBuilder, A: ir.Value, mode: str | bool = "reduced") -> tuple[ir.Value | Undefined, ...]:
    """The reflections of the real matrix; of each pair of columns the first, whose sign is LAPACK's."""
    wide = embedded(op, A)
    q, r = linear_algebra.householder(op, wide)
    if mode in ("reduced", "r", True):
        smaller = op.Reshape(op.Min(size(op, wide, -2), size(op, wide, -1)), [1])
        q, r = op.Slice(q, [0], smaller, [-1]), op.Slice(r, [0], smaller, [-2])
    return op.const(np.zeros((0, 2)), A.dtype) if mode == "r" else _like(op, q, A), op.cast_like(by_rows(op, r), A)


@aten.lower(
    "aten::linalg_svd aten::_linalg_svd aten::svd",
    accepts_complex=True,
    cases=[
        complex_case(torch.linalg.svdvals, (2, 4, 3)),
        complex_case(lambda a: torch.linalg.cond(a), (3, 3)),
        complex_case(lambda a: torch.linalg.matrix_norm(a, "nuc"), (2, 4)),
    ],
)
def svd(op: OpBuilder, A: ir.Value, *_: bool, driver: str | None = None) -> tuple[Undefined, ir.Value, Undefined]:
    """Every second singular value of the real matrix."""
    return VECTORS, op.cast_like(once(op, eigen.singular_values(op, embedded(op, A))), A), VECTORS


@aten.lower(
    "aten::linalg_eigh",
    "aten::_linalg_eigh",
    accepts_complex=True,
    cases=[
        complex_case(lambda a: torch.linalg.eigvalsh(a @ a.mH), (2, 3, 3), min_opset=14),
        complex_case(lambda a: torch.linalg.eigvalsh(a, UPLO="U"), (2, 8, 8), min_opset=14),
    ],
    min_opset=14,
)
def eigh(op: OpBuilder, A: ir.Value, UPLO: str = "L", compute_v: bool = True) -> tuple[ir.Value, Undefined]:
    """Every second eigenvalue of the real matrix, which the given triangle makes."""
    values, _ = eigen.symmetric_of(op, of_hermitian(op, A), upper=UPLO.upper() == "U")
    return op.cast_like(once(op, values), A), VECTORS


@aten.lower(
    "aten::linalg_pinv aten::pinverse",
    accepts_complex=True,
    cases=[
        complex_case(torch.linalg.pinv, (2, 4, 3)),
        complex_case(lambda a: torch.linalg.pinv(torch.cat([a, a * 2], -1)), (4, 2)),
        complex_case(lambda a: torch.pinverse(a), (3, 4)),
        complex_case(lambda a: torch.linalg.pinv(a, hermitian=True), (3, 3), min_opset=14),
    ],
)
def pinv(
    op: OpBuilder, x: ir.Value, rcond: Bound = None, hermitian: bool = False, *, atol: Bound = None, rtol: Bound = None
) -> ir.Value:
    """The pseudo-inverse of the real matrix."""
    if rcond is None and op.name.startswith("aten::pinverse"):
        rcond = 1e-15
    wide = op.cast_like((of_hermitian if hermitian else embedded)(op, x), x)  # its type tells the default tolerance
    rtol = rtol if rcond is None else rcond
    result, *_ = pseudo_inverse(op, wide, rtol, hermitian, atol, max(eigen.static_sizes(wide)) // 2)
    return _like(op, result, x)
