"""Matrix products."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, case, f32, i64
from onnxport.opset_maps.lowerings import products
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.dtypes import to_dtype
from onnxport.opset_maps.lowerings.reductions import reduced
from onnxport.opset_maps.maps import aten

_BYTES = np.arange(18, dtype=np.int8).reshape(2, 3, 3)


@aten.lower(
    "aten::linear",
    cases=[
        built(lambda: nn.Linear(3, 4), f32(2, 3), dynamic=True),
        built(lambda: nn.Linear(3, 4, bias=False), f32(2, 5, 3), dynamic=True),
        built(lambda: nn.Linear(3, 4), f32(3)),
        case(lambda x, w: F.linear(x, w), f32(2, 3), f32(3)),
    ],
)
def linear(op: OpBuilder, x: ir.Value, weight: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    """Gemm of matrices; else MatMul with the transposed weight, which runtimes transpose once, when they load."""
    if x.dtype == ir.DataType.BFLOAT16:  # the bias is added before the one rounding, as torch does
        wide = None if bias is None else op.cast(bias, ir.DataType.FLOAT)
        result = linear(op, op.cast(x, ir.DataType.FLOAT), op.cast(weight, ir.DataType.FLOAT), wide)
        return op.cast(result, ir.DataType.BFLOAT16)
    if rank(weight) == 1:
        product = op.MatMul(x, weight)
    elif rank(x) == 2 and (bias is None or rank(bias) == 1) and x.dtype in products.GEMM_TYPES:
        return op.Gemm(x, weight, bias, transB=1)
    else:
        product = op.MatMul(x, op.Transpose(weight, perm=[1, 0]))
    return product if bias is None else op.Add(product, bias)


@aten.lower(
    "aten::matmul aten::mm aten::bmm aten::mv aten::dot aten::vdot aten::linalg_matmul",
    cases=[
        case(torch.matmul, f32(2, 3, 4), f32(4, 5), dynamic=True),
        case(torch.matmul, f32(4), f32(2, 4, 3)),
        case(torch.matmul, i64(2, 3), i64(3, 2)),
        case(torch.bmm, f32(2, 3, 4), f32(2, 4, 5), dynamic=True),
        case(torch.mm, f32(3, 4), f32(4, 5)),
        case(torch.mv, f32(3, 4), f32(4)),
        case(torch.dot, f32(4), f32(4)),
    ],
)
def matmul(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """MatMul."""
    return products.matmul(op, x, y)


@aten.lower(
    "aten::addmm",
    cases=[
        case(torch.addmm, f32(5), f32(3, 4), f32(4, 5), dynamic=False),
        case(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), f32(3, 5), f32(3, 4), f32(4, 5)),
        case(lambda c, a, b: torch.addmm(c, a, b, beta=2), i64(3, 5), i64(3, 4), i64(4, 5)),
        case(lambda c, a, b: torch.addmm(c, a, b, beta=2.9, alpha=-1.2), i64(3, 5), i64(3, 4), i64(4, 5)),
    ],
)
def addmm(op: OpBuilder, x: ir.Value, mat1: ir.Value, mat2: ir.Value, *, beta: float = 1, alpha: float = 1) -> ir.Value:
    """Gemm."""
    if x.dtype in products.GEMM_TYPES:
        return op.Gemm(mat1, mat2, None if beta == 0 else x, alpha=alpha, beta=beta)
    return _added(op, x, matmul(op, mat1, mat2), beta, alpha)


def _added(op: OpBuilder, x: ir.Value, product: ir.Value, beta: float, alpha: float) -> ir.Value:
    if x.dtype is None:
        raise UnsupportedOperator("an operand of unknown type")
    if x.dtype.is_integer():  # torch cuts the factors of whole numbers
        beta, alpha = int(beta), int(alpha)
    product = product if alpha == 1 else op.Mul(product, to_dtype(op, alpha, x.dtype))
    if beta == 0:
        return product
    return op.Add(x if beta == 1 else op.Mul(x, to_dtype(op, beta, x.dtype)), product)


@aten.lower(
    "aten::baddbmm",
    "aten::addmv",
    cases=[
        case(lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), f32(2, 3, 5), f32(2, 3, 4), f32(2, 4, 5)),
        case(torch.addmv, f32(3), f32(3, 4), f32(4)),
        case(lambda c, a, b: torch.addmv(c, a, b, beta=0.5, alpha=1.7), i64(3), i64(3, 4), i64(4)),
    ],
)
def baddbmm(op: OpBuilder, x: ir.Value, a: ir.Value, b: ir.Value, *, beta: float = 1, alpha: float = 1) -> ir.Value:
    """beta x + alpha a b."""
    return _added(op, x, matmul(op, a, b), beta, alpha)


@aten.lower(
    "aten::addbmm",
    cases=[
        case(lambda c, a, b: torch.addbmm(c, a, b, beta=0.5, alpha=2), f32(3, 5), f32(2, 3, 4), f32(2, 4, 5)),
        case(torch.addbmm, _BYTES[0], _BYTES, _BYTES, min_opset=14),
    ],
)
def addbmm(op: OpBuilder, x: ir.Value, a: ir.Value, b: ir.Value, *, beta: float = 1, alpha: float = 1) -> ir.Value:
    """beta x + alpha times the sum of the batch of products."""
    return _added(op, x, reduced(op, "ReduceSum", matmul(op, a, b), [0], keepdims=False), beta, alpha)


@aten.lower("aten::addr", cases=[case(lambda c, a, b: torch.addr(c, a, b, alpha=2), f32(3, 4), f32(3), f32(4))])
def addr(op: OpBuilder, x: ir.Value, a: ir.Value, b: ir.Value, *, beta: float = 1, alpha: float = 1) -> ir.Value:
    """beta x + alpha times the outer product."""
    return _added(op, x, outer(op, a, b), beta, alpha)


@aten.lower("aten::outer", "aten::ger", cases=[case(torch.outer, f32(3), f32(4))])
def outer(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Each product of an element of a and one of b."""
    dtype = op.result.dtype
    return op.Mul(op.Unsqueeze(op.cast(a, dtype), op.axes(1)), op.cast(b, dtype))


@aten.lower(
    "aten::einsum",
    cases=[
        case(lambda x, y: torch.einsum("bij,bjk->bik", x, y), f32(2, 3, 4), f32(2, 4, 5), dynamic=True),
        case(lambda x, y: torch.einsum("bqhd,bkhd->bhkq", x, y), f32(2, 3, 4, 5), f32(2, 6, 4, 5), holds=("MatMul",)),
        case(lambda x, y: torch.einsum("...i,ji->...j", x, y), f32(2, 3, 4), f32(5, 4)),
        case(lambda x: torch.einsum("ii->i", x), f32(3, 3)),
        case(lambda x, y: torch.einsum("...ik, ...j -> ij", x, y), f32(4, 2, 3), f32(3), dynamic=True),
        case(lambda x, y: torch.einsum("...ik,...kj", x, y), f32(4, 1, 2, 3), f32(5, 3, 2)),
        case(lambda x, y: torch.einsum("bik,bkj->bij", x, y), f32(1, 2, 3), f32(5, 3, 2)),
        case(lambda x, y: torch.einsum("...,...->", x, y), f32(2, 3), f32(3)),
        case(lambda x: torch.einsum("i...->...", x), f32(2, 3)),
        case(lambda x, y: torch.einsum("bik,bkj", x, y), f32(1, 2, 3), f32(5, 3, 2)),
        case(lambda x: torch.einsum("ba", x), f32(2, 3)),
        case(lambda x: torch.einsum("ij->j", x.int()), i64(3, 4)),
    ],
)
def einsum(op: OpBuilder, equation: str, tensors: list[ir.Value], *, path: list[int] | None = None) -> ir.Value:
    """Einsum, in the type of the result: torch sums integers as int64."""
    tensors = [op.cast(item, op.result.dtype) for item in tensors]
    equation = equation.replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    counts = [rank(item) - len(term.replace("...", "")) for term, item in zip(terms, tensors, strict=True)]
    dotted = {count for term, count in zip(terms, counts, strict=True) if "..." in term}
    if len(dotted) < 2 and not (dotted and arrow and "..." not in result) and not any(map(_has_one, tensors)):
        return products.einsum(op, tensors, equation)
    if not arrow:
        labels = left.replace(".", "")
        result = "..." + "".join(item for item in sorted(set(labels) - {","}) if labels.count(item) == 1)
    # Dots stand for fewer axes in one operand than in another, and for none of a result, which sums them; ONNX's do not.
    letters = "".join(item for item in string.ascii_letters if item not in left)[: max(dotted, default=0)]
    terms = [term.replace("...", letters[len(letters) - count :]) for term, count in zip(terms, counts, strict=True)]
    operands = [_narrowed(op, item, term, terms, tensors) for item, term in zip(tensors, terms, strict=True)]
    left = ",".join(term for _, term in operands)
    return products.einsum(op, [item for item, _ in operands], f"{left}->{result.replace('...', letters)}")


def _has_one(x: ir.Value) -> bool:
    return x.shape is not None and 1 in list(x.shape)


def _narrowed(
    op: OpBuilder, x: ir.Value, term: str, terms: Sequence[str], tensors: Sequence[ir.Value]
) -> tuple[ir.Value, str]:
    """An operand of einsum and its labels without axes of one that are stretched to another operand's: ONNX stretches none."""
    if x.shape is None or len(set(term)) < len(term):
        return x, term
    wider = {
        label
        for labels, item in zip(terms, tensors, strict=True)
        for label, length in zip(labels, item.shape or ())
        if length != 1
    }
    once = [axis for axis, label in enumerate(term) if x.shape[axis] == 1 and label in wider]
    rest = "".join(label for axis, label in enumerate(term) if axis not in once)
    return (op.Squeeze(x, op.axes(*once)), rest) if once else (x, term)


@aten.lower(
    "aten::bilinear",
    cases=[built(lambda: nn.Bilinear(3, 4, 5), f32(2, 3), f32(2, 4), dynamic=True)],
)
def bilinear(op: OpBuilder, x: ir.Value, y: ir.Value, weight: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    """x A y + b for every output's matrix A."""
    product = op.Einsum(x, weight, y, equation="...i,oij,...j->...o")
    return product if bias is None else op.Add(product, bias)


def _experts(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """torch traces its own operator in bfloat16 alone, of rows of whole 16 bytes."""
    return torch._grouped_mm(x.bfloat16(), weight.bfloat16(), ends.to(torch.int32)).float()


@aten.lower(
    "aten::_grouped_mm",
    "transformers::grouped_mm_fallback",
    cases=[
        case(_experts, f32(6, 8), f32(3, 8, 16), np.array([2, 2, 6])),
        case(lambda x, w: torch._grouped_mm(x.bfloat16(), w.bfloat16()).float(), f32(3, 2, 8), f32(3, 8, 16)),
    ],
)
def grouped_mm(
    op: OpBuilder,
    x: ir.Value,
    weight: ir.Value,
    offs: ir.Value | None = None,
    bias: ir.Value | None = None,
    out_dtype: torch.dtype | None = None,
) -> ir.Value:
    """The rows of x [rows, in], sorted by group, times the matrix of their group, weight [groups, in, out].

    Group i ends before row offs[i]; rows behind the last group become 0, where torch leaves them undefined. One MatMul a group,
    of its own rows, so that no expert of a mixture computes for a token that does not reach it.
    """
    if bias is not None or out_dtype is not None:
        raise UnsupportedOperator("a grouped product with a bias or an element type of its own")
    if offs is None:
        return matmul(op, x, weight)
    groups = weight.shape[0] if weight.shape is not None else None
    if x.dtype is None or rank(x) != 2 or rank(weight) != 3 or not isinstance(groups, int):
        raise UnsupportedOperator("a grouped product of other than [rows, in] and [groups, in, out]")
    ends = op.cast(offs, ir.DataType.INT64)
    starts = op.Concat(op.const([0]), ends, axis=0)
    lengths = op.Sub(op.Concat(ends, op.shape_vector([op.dim(x, 0)]), axis=0), starts)
    *parts, rest = op.Split(x, lengths, axis=0, outputs=groups + 1)
    own = [matmul(op, part, op.Gather(weight, op.const(i), axis=0)) for i, part in enumerate(parts)]
    behind = op.Expand(to_dtype(op, 0, x.dtype), op.shape_vector([op.dim(rest, 0), op.dim(weight, 2)]))
    return op.Concat(*own, behind, axis=0)
