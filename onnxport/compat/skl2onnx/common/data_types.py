"""The types of columns and matrices, as ``skl2onnx.common.data_types`` spells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from onnxport.compat.absent import refusing
from onnxport.errors import InvalidInputError
from onnxport.graph.rows import columns_of

__getattr__ = refusing(__name__)


class DataType:
    """The type of a column or matrix: ``FloatTensorType([None, 4])``."""

    numpy: Any = np.float32

    def __init__(self, shape: Sequence[int | str | None] | None = None, doc_string: str = "") -> None:
        if isinstance(shape, str) or not all(item is None or isinstance(item, (int, str)) for item in shape or ()):
            raise InvalidInputError(f"{type(self).__name__}({shape!r}): sizes, names or None, as in [None, 4]")
        self.shape: list[int | str | None] = list(shape or ())  # empty where it is open
        self.doc_string = doc_string

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape})"

    def to_onnx_type(self) -> onnx.TypeProto:
        """The type as ONNX writes it."""
        kind: onnx.TypeProto = onnx.helper.make_tensor_type_proto(guess_proto_type(self), self.shape)
        return kind


class TensorType(DataType):
    """A matrix of one type."""

    def __init__(
        self,
        shape: Sequence[int | str | None] | None = None,
        doc_string: str = "",
        denotation: str | None = None,
        channel_denotations: Sequence[str] | None = None,
    ) -> None:
        super().__init__(shape, doc_string)
        self.denotation, self.channel_denotations = denotation, channel_denotations


def _type(name: str, dtype: Any) -> type[TensorType]:
    return type(name, (TensorType,), {"numpy": dtype, "__doc__": f"{np.dtype(dtype).name} numbers or strings."})


Float16TensorType: type[TensorType] = _type("Float16TensorType", np.float16)
FloatTensorType: type[TensorType] = _type("FloatTensorType", np.float32)
DoubleTensorType: type[TensorType] = _type("DoubleTensorType", np.float64)
_SIZES = (8, 16, 32, 64)
Int8TensorType, Int16TensorType, Int32TensorType, Int64TensorType = (
    _type(f"Int{size}TensorType", np.dtype(f"int{size}").type) for size in _SIZES
)
UInt8TensorType, UInt16TensorType, UInt32TensorType, UInt64TensorType = (
    _type(f"UInt{size}TensorType", np.dtype(f"uint{size}").type) for size in _SIZES
)
BooleanTensorType: type[TensorType] = _type("BooleanTensorType", np.bool_)
StringTensorType: type[TensorType] = _type("StringTensorType", np.object_)
Complex64TensorType: type[TensorType] = _type("Complex64TensorType", np.complex64)
Complex128TensorType: type[TensorType] = _type("Complex128TensorType", np.complex128)


class SequenceType(DataType):
    """A list of what is of another type."""

    def __init__(self, element_type: DataType, shape: Sequence[int | str | None] | None = None) -> None:
        super().__init__(shape)
        self.element_type = element_type


class DictionaryType(DataType):
    """A map of one type to another."""

    def __init__(
        self, key_type: DataType, value_type: DataType, shape: Sequence[int | str | None] | None = None
    ) -> None:
        super().__init__(shape)
        self.key_type, self.value_type = key_type, value_type


def _scalar(name: str, dtype: Any) -> type[DataType]:
    def start(self: DataType, doc_string: str = "") -> None:
        DataType.__init__(self, [1, 1], doc_string)

    return type(name, (DataType,), {"numpy": dtype, "__init__": start, "__doc__": f"One {np.dtype(dtype).name}."})


Int64Type, FloatType, DoubleType, StringType, BooleanType, Int8Type, UInt8Type = (
    _scalar(name, dtype)
    for name, dtype in {
        "Int64Type": np.int64,
        "FloatType": np.float32,
        "DoubleType": np.float64,
        "StringType": np.object_,
        "BooleanType": np.bool_,
        "Int8Type": np.int8,
        "UInt8Type": np.uint8,
    }.items()
)

KNOWN: dict[str, type[TensorType]] = {
    kind.__name__: kind
    for kind in (
        Float16TensorType,
        FloatTensorType,
        DoubleTensorType,
        Int8TensorType,
        Int16TensorType,
        Int32TensorType,
        Int64TensorType,
        UInt8TensorType,
        UInt16TensorType,
        UInt32TensorType,
        UInt64TensorType,
        BooleanTensorType,
        StringTensorType,
    )
}


def copy_type(vtype: DataType, empty: bool = True) -> DataType:
    """A type like another, with its shape or without one."""
    return type(vtype)() if empty or not isinstance(vtype, TensorType) else type(vtype)(vtype.shape)


def guess_data_type(rows: Any) -> list[tuple[str, DataType]]:
    """Names and types of the inputs that rows stand for: one a column of a DataFrame, else one matrix, ``input``.

    Raises:
        InvalidInputError: an element type is none of those that are known.
    """
    columns = columns_of(rows)
    arrays = {"input": np.asarray(rows)} if columns is None else columns
    return [(name, _typed(name, array)) for name, array in arrays.items()]


def guess_tensor_type(rows: Any) -> DataType:
    """The type of a matrix like an array or like another type."""
    return type(rows)(rows.shape) if isinstance(rows, DataType) else _typed("input", np.asarray(rows))


def guess_numpy_type(kind: Any) -> Any:
    """NumPy's type of what a type of ours, an instance or the class, holds; of a NumPy type that itself."""
    return np.dtype(kind).type if isinstance(kind, (str, np.dtype)) else getattr(kind, "numpy", kind)


def guess_proto_type(kind: Any) -> int:
    """The number of ONNX's element type."""
    held = guess_numpy_type(kind)
    return onnx.TensorProto.STRING if held is np.object_ else int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(held)))


def of_array(dtype: Any, shape: Sequence[int | str | None]) -> DataType:
    """The type of a matrix of a NumPy type.

    Raises:
        InvalidInputError: it is none of those that are known.
    """
    return type(_typed("X", np.zeros(1, dtype)))(shape)


def _typed(name: str, array: np.ndarray) -> DataType:
    kinds = {np.dtype(kind.numpy): kind for kind in KNOWN.values()}
    kind = kinds.get(np.dtype(object) if array.dtype.kind in "OUS" else array.dtype)
    if kind is None:
        raise InvalidInputError(f"skl2onnx.guess_data_type: {name!r} holds {array.dtype}: one of {', '.join(KNOWN)}")
    return kind([None, *array.shape[1:]])
