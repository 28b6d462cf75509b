"""Products of matrices."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder

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
