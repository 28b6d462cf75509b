"""Element types: how operands are cast, and in which type they meet."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder

Operand = ir.Value | bool | int | float
# A size along an axis; where it is dynamic an INT64 scalar or vector of one element.
Size = int | ir.Value


def to_dtype(op: OpBuilder, item: Operand, dtype: ir.DataType) -> ir.Value:
    """An operand as a value of `dtype`; a number becomes a constant, non-zero numbers are true."""
    if isinstance(item, ir.Value):
        return op.cast(item, dtype)
    return op.const(bool(item) if dtype == ir.DataType.BOOL else item, dtype)


_ORDER = [
    ir.DataType.BOOL,
    ir.DataType.UINT8,
    ir.DataType.INT8,
    ir.DataType.INT16,
    ir.DataType.INT32,
    ir.DataType.INT64,
    ir.DataType.FLOAT16,
    ir.DataType.BFLOAT16,
    ir.DataType.FLOAT,
    ir.DataType.DOUBLE,
]


def common_dtype(operands: tuple[Operand, ...]) -> ir.DataType:
    """The type in which operands of a comparison meet: that of the value of highest rank, then kind of the numbers.

    PyTorch's promotion: a dimensioned tensor outranks a 0-d one, which outranks a Python number, within one kind
    (torch.result_type).
    """
    values = [item for item in operands if isinstance(item, ir.Value) and item.dtype is not None]
    dimensioned = [item.dtype for item in values if item.shape is None or item.shape.rank()]
    scalars = [item.dtype for item in values if item.shape is not None and not item.shape.rank()]
    numbers = [_number_dtype(item) for item in operands if not isinstance(item, ir.Value)]
    best: ir.DataType | None = None
    for group in (dimensioned, scalars, numbers):
        for dtype in group:
            if dtype is None:
                continue
            if best is None or (group is dimensioned and _rank(dtype) > _rank(best)) or _kind(dtype) > _kind(best):
                best = _joined(best, dtype) if group is dimensioned else dtype
            elif group is dimensioned or (group is scalars and not dimensioned):
                best = _joined(best, dtype)
    if best is None:
        raise UnsupportedOperator("operands of unknown type")
    return best


def _rank(dtype: ir.DataType) -> int:
    return _ORDER.index(dtype) if dtype in _ORDER else len(_ORDER)


def _kind(dtype: ir.DataType) -> int:
    return 0 if dtype == ir.DataType.BOOL else 2 if dtype.is_floating_point() else 1


def _joined(a: ir.DataType | None, b: ir.DataType) -> ir.DataType:
    if a is None or a == b:
        return b
    if {a, b} == {ir.DataType.UINT8, ir.DataType.INT8}:
        return ir.DataType.INT16
    if {a, b} == {ir.DataType.FLOAT16, ir.DataType.BFLOAT16}:
        return ir.DataType.FLOAT
    return max(a, b, key=_rank)


def _number_dtype(item: Operand) -> ir.DataType:
    return {bool: ir.DataType.BOOL, int: ir.DataType.INT64}.get(type(item), ir.DataType.FLOAT)
