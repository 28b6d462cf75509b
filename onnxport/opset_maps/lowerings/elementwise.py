"""The rows of the shared elementwise table, written in ONNX."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph import compositions, schema
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.elementwise import Row
from onnxport.opset_maps.lowerings import arithmetic, special, trigonometry
from onnxport.opset_maps.lowerings.dtypes import Operand, common_dtype, to_dtype

# What rows name for which ONNX has no operator.
COMPOSITIONS: dict[str, Callable[..., ir.Value]] = {
    "square": arithmetic.square,
    "rsqrt": arithmetic.rsqrt,
    "exp2": arithmetic.exp2,
    "expm1": compositions.expm1,
    "log1p": compositions.log1p,
    "log2": arithmetic.log2,
    "log10": arithmetic.log10,
    "erfc": special.erfc,
    "trunc": arithmetic.trunc,
    "frac": arithmetic.frac,
    "silu": arithmetic.silu,
    "log_sigmoid": arithmetic.log_sigmoid,
    "relu6": arithmetic.relu6,
    "isfinite": arithmetic.isfinite,
    "isinf": arithmetic.isinf,
    "not_equal": arithmetic.not_equal,
    "real_div": arithmetic.real_div,
    "floor_div": arithmetic.floor_div,
    "floor_quotient": arithmetic.floor_quotient,
    "floor_mod": arithmetic.floor_mod,
    "trunc_mod": arithmetic.trunc_mod,
    "atan2": trigonometry.atan2,
    "squared_difference": arithmetic.squared_difference,
    "xlogy": arithmetic.xlogy,
    "div_no_nan": arithmetic.div_no_nan,
    "hypot": arithmetic.hypot,
    "logaddexp": arithmetic.logaddexp,
}

# What floating-point operators do to integers and booleans, which ONNX's forms do not take.
_OF_INTEGERS: dict[str, Callable[..., ir.Value]] = {
    "Ceil": lambda op, x: x,
    "Floor": lambda op, x: x,
    "Round": lambda op, x: x,
    "IsNaN": arithmetic.false_like,
}


def lower_row(row: Row) -> Callable[..., ir.Value]:
    """The function that writes a row: operands are cast to the common type that the source gives, then the operator."""
    compose = COMPOSITIONS[row.onnx] if not row.since else None

    def lower(op: OpBuilder, *operands: Operand) -> ir.Value:
        dtype = (
            ir.DataType.BOOL
            if row.kinds == "b"
            else op.result.dtype
            if row.result == "same"
            else common_dtype(operands)
        )
        values = [to_dtype(op, item, dtype) for item in operands]
        if compose is not None:
            return compose(op, *values)
        if dtype == ir.DataType.DOUBLE and row.onnx in trigonometry.COMPOSED:
            return trigonometry.COMPOSED[row.onnx](op, *values)
        if row.onnx in _OF_INTEGERS and not dtype.is_floating_point():
            return _OF_INTEGERS[row.onnx](op, *values)
        if dtype not in schema.allowed_dtypes("", row.onnx, op.opset):
            raise UnsupportedOperator(f"ONNX {row.onnx} takes no {dtype.name} at opset {op.opset}")
        return arithmetic.log(op, *values) if row.onnx == "Log" else op.node(row.onnx, *values)

    lower.__doc__ = f"ONNX {row.onnx}." if row.since else COMPOSITIONS[row.onnx].__doc__
    lower.__name__ = row.onnx
    return lower
