"""Element types by the names that NumPy and the frameworks share, and what carries a type that they lack."""

from __future__ import annotations

import onnx_ir as ir

_SHARED = (
    "FLOAT16 BFLOAT16 FLOAT8E4M3FN FLOAT8E5M2 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL STRING "
    "COMPLEX64 COMPLEX128"
).split()
# The types that TensorFlow and Keras compute with.
NAMES: dict[ir.DataType, str] = {
    **{ir.DataType[name]: name.lower().replace("float8e", "float8_e") for name in _SHARED},
    ir.DataType.FLOAT: "float32",
    ir.DataType.DOUBLE: "float64",
}


def carrier(dtype: ir.DataType) -> str:
    """The name of the element type in which an ONNX one is held.

    >>> carrier(ir.DataType.FLOAT), carrier(ir.DataType.INT4)
    ('float32', 'int8')
    """
    if dtype in NAMES:
        return NAMES[dtype]
    if dtype.is_floating_point():
        return "float32"
    return "int8" if dtype.is_signed() else "uint8"
