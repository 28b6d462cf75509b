"""Nodes of bfloat16 where an operator does not take it at the target's opset: computed in float32, rounded once at the end."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from onnxport.graph import schema as schemas

NARROW, WIDE = ir.DataType.BFLOAT16, ir.DataType.FLOAT


def lacking(schema: onnx.defs.OpSchema, operands: Sequence[ir.Value | None]) -> frozenset[int]:
    """The operands of BFLOAT16 whose places take FLOAT but no BFLOAT16."""
    narrow = [index for index, item in enumerate(operands) if item is not None and item.dtype == NARROW]
    places = {index: schemas.parameter(schema, index).dtypes for index in narrow}
    return frozenset(i for i, dtypes in places.items() if NARROW not in dtypes and WIDE in dtypes)


def narrow_outputs(schema: onnx.defs.OpSchema, widened: frozenset[int], count: int) -> list[bool]:
    """Whether each output has the type of an operand that was widened."""
    variables = {schemas.parameter(schema, index).type_str for index in widened} - {""}
    formal = list(schema.outputs)
    return [formal[min(index, len(formal) - 1)].type_str in variables for index in range(count)]
