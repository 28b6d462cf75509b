"""Tensors themselves: what is known of one, how one is created, its element type; and the node that is being computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeGuard, TypeVar

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.values import Array, Host, Int, IntOp, Law, Tensor

Method = TypeVar("Method", bound=Callable[..., Any])


def primitive(method: Method) -> Method:
    """A method that a framework has to define: until it does, it refuses by name."""

    @wraps(method)
    def absent(self: TensorFamily, *_: object, **__: object) -> Any:
        raise UnsupportedOperator(f"the {self.framework} namespace has no primitive {method.__name__!r}")

    return absent  # type: ignore[return-value]


@dataclass
class Context:
    """What a semantics function may ask about the node it stands for.

    Attributes:
        version: since_version of the node's schema.
        opset: version of the node's domain that the model imports.
        output_count: how many outputs the node lists, omitted ones at the end not counted.
        wanted: for each listed output whether it has a name.
        input_dtypes: ONNX element types of the inputs; None where unknown or no tensor. Element types that the framework
            lacks travel in another one (int4 in int8), so that only this tells them apart.
        output_dtypes: likewise of the outputs, as far as the model and ONNX's inference declare them.
    """

    version: int = 1
    opset: int = 1
    output_count: int = 1
    wanted: tuple[bool, ...] = (True,)
    input_dtypes: tuple[ir.DataType | None, ...] = ()
    output_dtypes: tuple[ir.DataType | None, ...] = ()


class TensorFamily:
    """Tensors themselves: what is known of them, how they are created, their element types.

    Attributes:
        framework: ``"pytorch"``, ``"tensorflow"``, ``"keras"``.
        context: the node being computed.
    """

    framework: str = ""

    def __init__(self) -> None:
        self.context = Context()

    @property
    def version(self) -> int:
        """since_version of the node's schema."""
        return self.context.version

    @property
    def output_count(self) -> int:
        """How many outputs the node lists."""
        return self.context.output_count

    def wants(self, index: int) -> bool:
        """Whether output `index` is listed and named."""
        return index < len(self.context.wanted) and self.context.wanted[index]

    def input_dtype(self, index: int) -> ir.DataType | None:
        """ONNX element type of input `index`; None where it is unknown or left out."""
        return self.context.input_dtypes[index] if index < len(self.context.input_dtypes) else None

    def output_dtype(self, index: int = 0) -> ir.DataType | None:
        """ONNX element type of output `index` as far as the model declares it."""
        return self.context.output_dtypes[index] if index < len(self.context.output_dtypes) else None

    @primitive
    def shape(self, x: Tensor) -> tuple[Int, ...]:
        """Sizes: ints where they are known at import, else dynamic ints."""

    @primitive
    def ndim(self, x: Tensor) -> int:
        """Rank."""

    @primitive
    def dtype(self, x: Tensor) -> ir.DataType:
        """Element type in which `x` is held."""

    @primitive
    def is_tensor(self, x: object) -> TypeGuard[Tensor]:
        """Whether `x` is a tensor of the framework (not a sequence, None or a map)."""

    @primitive
    def constant(self, array: Array, dtype: ir.DataType | None = None) -> Tensor:
        """A tensor of a NumPy array (ml_dtypes for bfloat16, float8 and 4-bit types; objects of dtype STRING for strings)."""

    @primitive
    def parameter(self, value: ir.Value) -> Tensor:
        """An initializer of the model, under its own name; the same tensor each time it is asked for."""

    @primitive
    def from_host(self, array: Host, dtype: ir.DataType) -> Tensor:
        """A tensor whose elements are Python numbers and dynamic ints."""

    @primitive
    def to_host(self, x: Tensor) -> Host:
        """The elements of a tensor of rank 0 or 1 and known length as an array of dynamic ints (`host_array`)."""

    def is_size(self, n: Int) -> bool:
        """Whether a dynamic int is surely the size of an axis, not a number that the model computed."""
        return False

    def is_whole(self, n: object) -> bool:
        """Whether a dynamic number is surely an int, not a floating-point element of a tensor."""
        return False

    @primitive
    def int_op(self, name: IntOp, *operands: Int) -> Int:
        """Arithmetic of sizes, of which at least one is dynamic.

        div rounds toward zero, floor_div and ceil_div down and up, mod has the divisor's sign. Comparisons give a dynamic
        truth value, which `and`, `or`, `not` and `where` (condition, a, b) take.
        """

    @primitive
    def full(self, shape: Sequence[Int], fill_value: object, dtype: ir.DataType) -> Tensor:
        """A constant tensor; `fill_value` is a Python number or a scalar tensor."""

    @primitive
    def arange(
        self, start: object, stop: object = None, step: object = 1, dtype: ir.DataType = ir.DataType.INT64
    ) -> Tensor:
        """start, start + step, ... below stop; the arguments are Python numbers, dynamic ints or scalar tensors."""

    @primitive
    def random(
        self, law: Law, shape: Sequence[Int], a: float, b: float, dtype: ir.DataType, seed: float | None
    ) -> Tensor:
        """Drawn anew in each call from [a, b), or normally around a with deviation b; with a seed, the same in each run."""

    def zeros(self, shape: Sequence[Int], dtype: ir.DataType) -> Tensor:
        """A tensor of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: Sequence[Int], dtype: ir.DataType) -> Tensor:
        """A tensor of ones."""
        return self.full(shape, 1, dtype)

    @primitive
    def astype(self, x: Tensor, dtype: ir.DataType, saturate: bool = True) -> Tensor:
        """`x` converted as ONNX's Cast does between numbers: float to integer truncates, to bool is non-zero, integers wrap.

        To float8, out of range is the greatest value with `saturate`, else infinity or NaN; float4, float6 saturate always.
        Strings are read and written as numbers are in decimal notation.
        """

    def note_slope(
        self,
        whole: Tensor,
        smooth: Tensor,
        offset: Tensor | None = None,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> Tensor:
        """`whole`; known from now on as what `smooth` plus `offset` was rounded to within limits, where a framework trains so."""
        return whole

    def with_slope(self, x: Tensor, of: Tensor) -> Tensor:
        """`x`, computed from the rounded numbers `of`, with the slope that these have without their rounding."""
        return x

    @primitive
    def bitcast(self, x: Tensor, dtype: ir.DataType) -> Tensor:
        """The bits of `x` read as another element type of the same size."""

    @primitive
    def complex(self, real: Tensor, imag: Tensor) -> Tensor:
        """real + i imag."""

    @primitive
    def real(self, x: Tensor) -> Tensor:
        """Real part."""

    @primitive
    def imag(self, x: Tensor) -> Tensor:
        """Imaginary part."""
