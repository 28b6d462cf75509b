"""The rows of the shared elementwise table, written in ONNX."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph import compositions, schema
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.elementwise import ROWS, Row
from onnxport.opset_maps.lowerings import arithmetic, bessel, special, trigonometry
from onnxport.opset_maps.lowerings.dtypes import Operand, common_dtype, to_dtype

# The functions that rows name for which ONNX has no operator.
_HOMES = (arithmetic, bessel, compositions, special, trigonometry)
COMPOSITIONS: dict[str, Callable[..., ir.Value]] = {
    row.onnx: next(vars(home)[row.onnx] for home in _HOMES if row.onnx in vars(home)) for row in ROWS if not row.since
}
_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_UNSIGNED = (ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64)

# What floating-point operators do to integers and booleans, which ONNX's forms do not take.
_OF_INTEGERS: dict[str, Callable[..., ir.Value]] = {
    "Ceil": lambda op, x: x,
    "Floor": lambda op, x: x,
    "Round": lambda op, x: x,
    "IsNaN": arithmetic.false_like,
}


def _operand_type(op: OpBuilder, row: Row, operands: tuple[Operand, ...]) -> ir.DataType:
    """The common type that the source gives to the operands."""
    if row.kinds == "b":
        return ir.DataType.BOOL
    if row.result == "same":
        return op.result.dtype
    dtype = common_dtype(operands)
    # Less and its like take no booleans.
    return ir.DataType.INT32 if dtype == ir.DataType.BOOL and row.kinds == "fi" else dtype


def lower_row(row: Row) -> Callable[..., ir.Value]:
    """The function that writes a row: operands are cast to the common type that the source gives, then the operator."""
    compose = COMPOSITIONS[row.onnx] if not row.since else None

    def lower(op: OpBuilder, *operands: Operand) -> ir.Value:
        dtype = _operand_type(op, row, operands)
        if row.is_special and compose is not None and dtype in _HALVES:
            return op.cast(compose(op, *(to_dtype(op, item, ir.DataType.FLOAT) for item in operands)), dtype)
        values = [to_dtype(op, item, dtype) for item in operands]
        if compose is not None:
            return compose(op, *values)
        if dtype == ir.DataType.DOUBLE and row.onnx in trigonometry.COMPOSED:
            return trigonometry.COMPOSED[row.onnx](op, *values)
        if row.onnx in _OF_INTEGERS and not dtype.is_floating_point():
            return _OF_INTEGERS[row.onnx](op, *values)
        if row.onnx.startswith("Bitwise"):
            return arithmetic.bitwise(op, row.onnx.removeprefix("Bitwise"), *values)
        if dtype == ir.DataType.BOOL and row.onnx in arithmetic.OF_BOOLEANS:
            return op.node(arithmetic.OF_BOOLEANS[row.onnx], *values)
        if dtype == ir.DataType.BOOL and row.onnx == "Sign":
            return values[0]
        if row.onnx == "Neg" and dtype in _UNSIGNED:
            return op.Sub(op.const(0, dtype), *values)
        allowed = schema.allowed_dtypes("", row.onnx, op.opset)
        if dtype in _HALVES and dtype not in allowed and ir.DataType.FLOAT in allowed:
            result = op.node(row.onnx, *(op.cast(item, ir.DataType.FLOAT) for item in values))
            return op.cast(result, dtype) if result.dtype == ir.DataType.FLOAT else result
        if dtype not in allowed:
            raise UnsupportedOperator(f"ONNX {row.onnx} takes no {dtype.name} at opset {op.opset}")
        return arithmetic.log(op, *values) if row.onnx == "Log" else op.node(row.onnx, *values)

    lower.__doc__ = f"ONNX {row.onnx}." if row.since else COMPOSITIONS[row.onnx].__doc__
    lower.__name__ = row.onnx
    return lower
