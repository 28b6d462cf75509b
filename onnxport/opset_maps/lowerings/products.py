"""Products of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import permuted, rank

GEMM_TYPES = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)
# ONNX MatMul takes no narrower integers.
_MATMUL_TYPES = (
    *GEMM_TYPES,
    ir.DataType.BFLOAT16,
    ir.DataType.INT32,
    ir.DataType.INT64,
    ir.DataType.UINT32,
    ir.DataType.UINT64,
)


def exact(op: OpBuilder, product: Callable[[ir.Value, ir.Value], ir.Value], x: ir.Value, y: ir.Value) -> ir.Value:
    """The product of matrices, in INT32 where ONNX has none of their own type: modulo 2^n both agree."""
    if x.dtype in _MATMUL_TYPES or x.dtype is None:
        return product(x, y)
    wide = ir.DataType.INT32
    return op.cast(product(op.cast(x, wide), op.cast(y, wide)), x.dtype)


def matmul(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """MatMul of operands of any type."""
    return exact(op, lambda a, b: op.MatMul(a, b), x, y)


def einsum(op: OpBuilder, operands: Sequence[ir.Value], equation: str) -> ir.Value:
    """Einsum; one product of matrices, or of batches of them, as MatMul.

    Runtimes have faster kernels for that. Where an Einsum exchanges the last axes of a batch of none, one divides by 0.
    """
    if len(operands) == 2 and (parts := _batched_product(equation)) is not None:
        (left, right), result = parts
        if rank(operands[0]) == len(left) and rank(operands[1]) == len(right):
            x, y = (permuted(op, item, perm) for item, perm in zip(operands, (left, right), strict=True))
            return permuted(op, matmul(op, x, y), result)
    return op.Einsum(*operands, equation=equation)


def _batched_product(equation: str) -> tuple[tuple[list[int], list[int]], list[int]] | None:
    """The orders of both operands' axes, and of the product's, that make an equation MatMul; None for any other equation."""
    operands, _, result = equation.partition("->")
    left, _, right = operands.partition(",")
    if "." in equation or any(len(set(term)) < len(term) for term in (left, right, result)):
        return None
    batch = [label for label in result if label in left and label in right]
    summed = [label for label in left if label in right and label not in result]
    rows, columns = ([x for x in term if x not in other] for term, other in ((left, right), (right, left)))
    if not batch or len(summed) != 1 or len(rows) != 1 or len(columns) != 1 or set(rows + columns) - set(result):
        return None
    product = [*batch, *rows, *columns]
    orders = [left.index(x) for x in (*batch, *rows, *summed)], [right.index(x) for x in (*batch, *summed, *columns)]
    return orders, [product.index(label) for label in result]
