"""What the array namespace's primitives compute with: tensors, sizes, host values, and the annotations that name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict, TypeGuard, TypeVar

import numpy as np
import onnx_ir as ir
from numpy.typing import DTypeLike

from onnxport.errors import OnnxportError, UnsupportedOperator


class Tensor(Protocol):
    """A framework's tensor, symbolic or real.

    The semantics hand it from primitive to primitive; only a namespace looks into it. The members are those of the array API
    standard's array object that every framework's symbolic tensor has too; their values are the framework's own.
    """

    @property
    def dtype(self) -> Any:
        """Element type, in the framework's terms; `Namespace.dtype` gives ONNX's."""

    @property
    def shape(self) -> Any:
        """Sizes, in the framework's terms; `Namespace.shape` gives them as `Int`."""


class SymbolicInt(Protocol):
    """A framework's int that is known only when the model runs; `Namespace.int_op` has the arithmetic that is not here."""

    def __add__(self, other: object, /) -> Any: ...
    def __radd__(self, other: object, /) -> Any: ...
    def __sub__(self, other: object, /) -> Any: ...
    def __rsub__(self, other: object, /) -> Any: ...
    def __mul__(self, other: object, /) -> Any: ...
    def __rmul__(self, other: object, /) -> Any: ...
    def __floordiv__(self, other: object, /) -> Any: ...
    def __neg__(self) -> Any: ...


class OperandKind(Enum):
    """In what form a semantics function takes an operand; carried by the annotation of its parameter."""

    TENSOR = "a tensor"
    HOST = "a NumPy array, perhaps with dynamic ints among its elements"
    NUMBER = "a Python number where the operand is a constant, else a scalar tensor"
    KNOWN = "a NumPy array where the operand is a constant, else a tensor"


Int: TypeAlias = int | SymbolicInt
Ints: TypeAlias = Sequence[int]
Reals: TypeAlias = Sequence[float]
Strings: TypeAlias = Sequence[str]
Array: TypeAlias = np.ndarray[Any, Any]
Scalar: TypeAlias = Tensor | complex  # an operand of an elementwise primitive: a tensor, or a Python number of its type
Host: TypeAlias = Annotated[np.ndarray[Any, Any], OperandKind.HOST]
Number: TypeAlias = Annotated[float | Tensor, OperandKind.NUMBER]
Known: TypeAlias = Annotated[np.ndarray[Any, Any] | Tensor, OperandKind.KNOWN]
Axes: TypeAlias = tuple[int, ...] | None
Pads: TypeAlias = Sequence[tuple[Int, Int]]
Reduction: TypeAlias = Literal["none", "add", "mul", "max", "min"]
Law: TypeAlias = Literal["uniform", "normal"]
PadMode: TypeAlias = Literal["constant", "edge", "reflect", "wrap"]
_Item = TypeVar("_Item")


class Strides(TypedDict):
    """How windows move over the spatial axes: their steps, and how far a window's elements are apart."""

    strides: Sequence[int]
    dilations: Sequence[int]


class GroupedStrides(Strides):
    """Those of a convolution whose channels fall into groups."""

    groups: NotRequired[int]


class PaddedStrides(GroupedStrides):
    """Those of a convolution of a padded image."""

    pads: Pads


IntArithmetic: TypeAlias = Literal[
    "add", "sub", "mul", "div", "floor_div", "ceil_div", "mod", "min", "max", "neg", "abs"
]
IntOp: TypeAlias = IntArithmetic | Literal["eq", "lt", "le", "and", "or", "not", "where"]


class InvalidOperand(ValueError):
    """A node is given what its operator's specification rules out."""


class UnknownUntilRun(OnnxportError):
    """An operator needs to know something of its inputs that only the running model has."""


@dataclass(frozen=True)
class HostValue:
    """A small tensor that stays on the Python side: ONNX's shape arithmetic.

    Attributes:
        array: its elements: of the NumPy type of `dtype`, or objects among which are dynamic ints.
        dtype: its ONNX element type.
    """

    array: Host
    dtype: ir.DataType = ir.DataType.INT64

    @classmethod
    def of(cls, elements: Sequence[Int] | Int, dtype: ir.DataType = ir.DataType.INT64) -> HostValue:
        """A vector of `elements`, or a scalar of one."""
        return cls(host_array(elements, dtype.numpy()), dtype)

    @property
    def is_static(self) -> bool:
        """Whether every element is known at import."""
        return self.array.dtype != object or self.dtype == ir.DataType.STRING


def known(n: object) -> TypeGuard[int]:
    """Whether a size is known at import.

    >>> known(3), known("s0")
    (True, False)
    """
    return isinstance(n, (int, np.integer, np.bool_))


def all_known(sizes: Sequence[object]) -> TypeGuard[Sequence[int]]:
    """Whether every size is known at import."""
    return all(known(n) for n in sizes)


def optional(operands: Sequence[_Item | None], count: int) -> tuple[_Item | None, ...]:
    """`count` operands at the end of a node's list: None for those that it leaves out.

    Raises:
        UnsupportedOperator: there are more.

    >>> optional(["bias"], 3)
    ('bias', None, None)
    """
    if len(operands) > count:
        raise UnsupportedOperator("it is called with more inputs than are known")
    return (*operands, *[None] * (count - len(operands)))


def host_array(elements: object, dtype: DTypeLike = np.int64) -> Host:
    """`elements` (a number or a flat sequence) as an array of `dtype` where all are known, else of objects.

    NumPy never gets to look into a framework's symbolic objects, which would try to run them.
    """
    scalar = not isinstance(elements, (list, tuple, np.ndarray))
    items = list(elements) if isinstance(elements, (list, tuple, np.ndarray)) else [elements]
    if all(isinstance(item, (int, float, np.generic)) for item in items):
        array = np.asarray(items, dtype)
    else:
        array = object_array(items, (len(items),))
    return array.reshape(()) if scalar else array


def object_array(items: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """An array of objects into which NumPy does not look."""
    result = np.empty(len(items), object)
    for index, part in enumerate(items):
        result[index] = part
    return result.reshape(shape)


# Names of element types that NumPy and the frameworks share.
_SHARED = (
    "FLOAT16 BFLOAT16 FLOAT8E4M3FN FLOAT8E5M2 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL STRING "
    "COMPLEX64 COMPLEX128"
).split()
# The types that TensorFlow and Keras compute with.
TYPE_NAMES: dict[ir.DataType, str] = {
    **{ir.DataType[name]: name.lower().replace("float8e", "float8_e") for name in _SHARED},
    ir.DataType.FLOAT: "float32",
    ir.DataType.DOUBLE: "float64",
}


def carrier(dtype: ir.DataType) -> str:
    """The name of the element type in which an ONNX one is held.

    >>> carrier(ir.DataType.FLOAT), carrier(ir.DataType.INT4)
    ('float32', 'int8')
    """
    if dtype in TYPE_NAMES:
        return TYPE_NAMES[dtype]
    if dtype.is_floating_point():
        return "float32"
    return "int8" if dtype.is_signed() else "uint8"
