"""Matrix products, also of quantized integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

import onnx_ir as ir

from onnxport.opset_maps.from_onnx.axes import per_axis
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import InvalidOperand, Strings, Tensor, known
from onnxport.opset_maps.maps import onnx


class ProductAttributes(TypedDict, total=False):
    """The factor of a product, and which of its matrices are transposed first."""

    alpha: float
    transA: int
    transB: int


class GemmAttributes(ProductAttributes, total=False):
    """Attributes of Gemm."""

    beta: float
    broadcast: int  # before opset 7


@onnx.op("Gemm", versions=(1, 6, 7, 9, 11, 13))
def gemm(xp: Namespace, a: Tensor, b: Tensor, c: Tensor | None = None, **form: Unpack[GemmAttributes]) -> Tensor:
    """alpha A B + beta C, A and B transposed on request."""
    alpha, beta = form["alpha"], form["beta"]
    left = xp.permute_dims(a, (1, 0)) if form["transA"] else a
    right = xp.permute_dims(b, (1, 0)) if form["transB"] else b
    result = xp.matmul(left, right)
    if alpha != 1:
        result = xp.multiply(result, _number(xp, result, alpha))
    if c is None or beta == 0:
        return result
    return xp.add(result, c if beta == 1 else xp.multiply(c, _number(xp, c, beta)))


def _number(xp: Namespace, x: Tensor, value: float) -> float | int:
    return value if xp.dtype(x).is_floating_point() else int(value)


@onnx.op("Einsum", versions=(12, 28))
def einsum(xp: Namespace, *xs: Tensor, equation: str) -> Tensor:
    """Einstein sum, of two operands at a time from the left, as onnxruntime computes it.

    Libraries that choose the order by sizes have NaN where it has an infinity.
    """
    equation = equation.replace(" ", "")
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    _check_labels(xp, xs, terms)
    if len(xs) < 3:
        return xp.einsum(equation, *xs)
    if not arrow:
        output = "..." * ("..." in inputs) + "".join(sorted(c for c in {*inputs} - {*".,"} if inputs.count(c) == 1))
    result, term = xs[0], terms[0]
    for i, x in enumerate(xs[1:], 1):
        behind = "".join([output, *terms[i + 1 :]])
        both = f"{term},{terms[i]}"
        term = output if i == len(xs) - 1 else _kept(both, behind)
        result = xp.einsum(f"{both}->{term}", result, x)
    return result


def _kept(both: str, behind: str) -> str:
    """The labels of two terms that something behind them has too; an ellipsis stays."""
    labels = dict.fromkeys(both.replace(".", "").replace(",", ""))
    return "..." * ("..." in both) + "".join(label for label in labels if label in behind)


def _check_labels(xp: Namespace, xs: Sequence[Tensor], terms: Strings) -> None:
    """Refuses sizes that one label can't stand for.

    Raises:
        InvalidOperand: two differ, and neither is 1, or they are those of one operand.
    """
    sizes: dict[str, int] = {}
    for x, term in zip(xs, terms, strict=False):
        shape, (before, _, after) = xp.shape(x), term.partition("...")
        pairs = [*zip(before, shape, strict=False), *zip(reversed(after), reversed(shape), strict=False)]
        for label, size in pairs:
            if not known(size) or (size == 1 and term.count(label) == 1):
                continue
            if term.count(label) > 1 and any(label == other and known(n) and n != size for other, n in pairs):
                raise InvalidOperand(f"label {label!r} stands for two sizes of one operand")
            if sizes.setdefault(label, int(size)) != size:
                raise InvalidOperand(f"label {label!r} stands for sizes {sizes[label]} and {size}")


def centred(xp: Namespace, x: Tensor, zero_point: Tensor | None, axis: int) -> Tensor:
    """x less its zero point (a scalar, or a vector along `axis`, or of the rank of x), in INT32."""
    wide = xp.astype(x, ir.DataType.INT32)
    if zero_point is None:
        return wide
    offset = xp.astype(zero_point, ir.DataType.INT32)
    if xp.ndim(offset) == 1 and xp.ndim(x) > 1:
        offset = per_axis(xp, offset, xp.ndim(x), axis)
    return xp.subtract(wide, offset)


@onnx.op("MatMulInteger", versions=(10,))
def matmul_integer(
    xp: Namespace, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    """Product of integers less their zero points, INT32; zero points are per row of A and per column of B.

    It is exact: small integers are multiplied as doubles, which every framework does fast.
    """
    left, right = centred(xp, a, a_zero, xp.ndim(a) - 2), centred(xp, b, b_zero, xp.ndim(b) - 1)
    doubles = [xp.with_slope(xp.astype(x, ir.DataType.DOUBLE), of) for x, of in ((left, a), (right, b))]
    wide = xp.matmul(*doubles)
    return xp.note_slope(xp.astype(wide, ir.DataType.INT32), wide)
