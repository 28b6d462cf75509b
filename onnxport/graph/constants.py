"""Python and NumPy constants as tensors and attributes of a graph."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxport.errors import MapEntryError, UnsupportedOperator

# What becomes a constant: a number or a string, nested sequences of them, an array.
Constant = np.ndarray | np.generic | bool | int | float | complex | str | bytes | Sequence["Constant"]
_SMALL = 1 << 10
# Usual element types whose elements lie in a file as in memory, of machines with the order of bytes that files have.
_T = ir.DataType
_WHOLE = frozenset((_T.FLOAT, _T.DOUBLE, _T.INT64, _T.INT32, _T.BOOL) if sys.byteorder == "little" else ())


def as_array(value: Constant, dtype: ir.DataType | None) -> np.ndarray:
    """`value` as an array of `dtype`; without one of the array's own, and for Python values of BOOL, INT64, FLOAT or STRING.

    Raises:
        MapEntryError: numbers with fractions would be cut to whole ones, or other numbers than 0 be strings.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
    elif isinstance(value, float) or (isinstance(value, (list, tuple)) and _holds_float(value)):
        array = np.asarray(value, np.float64 if dtype is not None else np.float32)
    else:
        array = np.asarray(value)
        if array.size == 0 and dtype is None:
            array = array.astype(np.int64)
    if array.dtype.kind in "US":
        array = array.astype(object)
    if dtype == ir.DataType.STRING and array.dtype.kind in "biuf":
        if array.any():
            raise MapEntryError(f"a constant of strings is given numbers: {array.ravel()[:3]}")
        return np.full(array.shape, "", object)  # the zero of strings
    if dtype is None or dtype == ir.DataType.STRING:
        return np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.kind == "f" and dtype.numpy().kind in "iu" and np.any(array != np.trunc(array)):
        raise MapEntryError(
            f"a constant with fractions would be cut to {dtype.name}, the type of the operands beside it"
        )
    return np.ascontiguousarray(array.astype(dtype.numpy())).reshape(array.shape)


def _holds_float(value: Sequence[Constant]) -> bool:
    return any(_holds_float(item) if isinstance(item, (list, tuple)) else isinstance(item, float) for item in value)


def element_type(array: np.ndarray) -> ir.DataType:
    """The element type of an array; objects are strings."""
    return ir.DataType.STRING if array.dtype.kind in "OUS" else ir.DataType.from_numpy(array.dtype)


def constant_tensor(array: np.ndarray, dtype: ir.DataType, name: str) -> ir.TensorProtocol:
    """The tensor that holds `array` in a file."""
    if dtype == ir.DataType.STRING:
        flat = [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel()]
        return ir.StringTensor(flat, shape=ir.Shape(array.shape), name=name)
    return _Whole(array, dtype=dtype, name=name) if dtype in _WHOLE else ir.Tensor(array, dtype=dtype, name=name)


class _Whole(ir.Tensor):
    """A tensor whose array lies in memory as in the file: onnx-ir looks for packed types at each write, which takes longer."""

    __slots__ = ()

    def tobytes(self) -> bytes:
        """Its elements, little-endian."""
        return self.numpy().tobytes()


def small_constants(values: Sequence[ir.Value | None], arrays: Sequence[np.ndarray | None]) -> dict[str, np.ndarray]:
    """The constants among a node's operands by name, as far as shape inference may ask for their elements."""
    pairs = [(value.name or "", array) for value, array in zip(values, arrays, strict=True) if value is not None]
    known = ((name, array) for name, array in pairs if array is not None and array.size <= _SMALL)
    return {name: array for name, array in known if array.dtype.kind in "iufb"}


# Operators that give float32's digits on double operands: their definition holds float32 constants, or a kernel (Erf, Shrink)
# computes so.
_FLOAT32_INSIDE = frozenset(("Erf", "Gelu", "HardSwish", "Selu", "Shrink"))


def require_double(op_type: str, attrs: Sequence[ir.Attr]) -> None:
    """Refuses a node on double operands whose constants have only float32's digits: ONNX has no wider attributes."""
    if op_type in _FLOAT32_INSIDE:
        raise UnsupportedOperator(f"ONNX {op_type} computes with float32's digits and the operands are double")
    for item in attrs:
        if item.type == ir.AttributeType.FLOAT and float(np.float32(item.as_float())) != item.as_float():
            raise UnsupportedOperator(
                f"ONNX {op_type} holds {item.name}={item.as_float()!r} as float32 and the operands are double"
            )


def constant_of(value: ir.Value) -> ir.TensorProtocol | None:
    """The tensor of an initializer or of a Constant's result."""
    if value.const_value is not None:
        return value.const_value
    node = value.producer()
    item = node.attributes.get("value") if node is not None and node.op_type == "Constant" else None
    return None if item is None else item.as_tensor()
