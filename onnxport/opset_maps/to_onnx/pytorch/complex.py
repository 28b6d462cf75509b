"""Complex numbers as pairs: arithmetic on the parts, and every operator that treats the parts alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, f32
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.complex_numbers import (
    PART_TYPES,
    Term,
    argument,
    conjugate,
    division,
    from_polar,
    from_real,
    is_complex,
    joined,
    modulus,
    part_type,
    parts_of,
    product,
    total,
)
from onnxport.opset_maps.lowerings.dtypes import to_dtype
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.symbolic import sym_size

Number = ir.Value | bool | int | float | complex


def parts(op: OpBuilder, x: Number, dtype: ir.DataType) -> Term:
    """Real and imaginary part in `dtype`; the latter is None for a real operand."""
    if isinstance(x, complex):
        return op.const(x.real, dtype), op.const(x.imag, dtype)
    if not isinstance(x, ir.Value):
        return op.const(x, dtype), None
    if not is_complex(x):
        return op.cast(x, dtype), None
    return parts_of(op, op.cast(x, dtype))


def complex_case(call: Callable[..., Any], *shapes: tuple[int, ...], **options: Any) -> Case:
    """A case on complex tensors, the inputs and results seen as real ones."""

    def run(*reals: torch.Tensor) -> Any:
        result = call(*(torch.view_as_complex(item) for item in reals))
        leaves = result if isinstance(result, (tuple, list)) else [result]
        return tuple(torch.view_as_real(item.resolve_conj()) if item.is_complex() else item for item in leaves)

    return case(run, *(f32(*shape, 2) for shape in shapes), **options)


_AS_PAIR = [complex_case(lambda z: z, (2, 3), dynamic=True)]


@aten.lower("aten::view_as_complex", "aten::view_as_real", accepts_complex=True, cases=_AS_PAIR)
def same_pair(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The pair itself."""
    return op.Identity(x)


@aten.lower("aten::real", accepts_complex=True, cases=[complex_case(torch.real, (2, 3))])
def real(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The first part."""
    return parts_of(op, x)[0]


@aten.lower("aten::imag", accepts_complex=True, cases=[complex_case(torch.imag, (2, 3))])
def imag(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The second part."""
    return parts_of(op, x)[1]


@aten.lower(
    "aten::sym_size.int",
    accepts_complex=True,
    cases=[complex_case(lambda z: z.reshape(z.shape[0] * 3), (2, 3), dynamic=True)],
)
def size(op: OpBuilder, x: ir.Value, dim: int) -> ir.Value | int:
    """The size of one axis; the axis of the parts does not count."""
    return sym_size(op, x, dim if dim >= 0 else dim - 1)


@aten.lower(
    "aten::scalar_tensor",
    accepts_complex=True,
    cases=[complex_case(lambda z: z + torch.scalar_tensor(2 + 1j, dtype=torch.complex64), (2, 3))],
)
def scalar_tensor(op: OpBuilder, s: Number, **_: object) -> ir.Value:
    """A number's parts."""
    return full(op, [], s)


@aten.lower(
    "aten::size.default",
    "aten::sym_size.default",
    accepts_complex=True,
    cases=[complex_case(torch.kron, (2, 3), (4, 2))],
)
def sizes(op: OpBuilder, x: ir.Value) -> tuple[ir.Value | int, ...]:
    """The size of every axis but that of the parts."""
    return tuple(sym_size(op, x, axis) for axis in range(rank(x) - 1))


@aten.lower(
    "aten::complex",
    accepts_complex=True,
    cases=[case(lambda x, y: torch.view_as_real(torch.complex(x, y)), f32(2, 3), f32(3))],
)
def complex_(op: OpBuilder, real: ir.Value, imag: ir.Value) -> ir.Value:
    """The parts, broadcast, side by side."""
    return joined(op, real, imag)


@aten.lower(
    "aten::polar",
    accepts_complex=True,
    cases=[case(lambda r, t: torch.view_as_real(torch.polar(r, t)), f32(2, 3), f32(2, 3))],
)
def polar(op: OpBuilder, abs: ir.Value, angle: ir.Value) -> ir.Value:
    """r cos and r sin of the angle."""
    return from_polar(op, abs, angle)


@aten.lower(
    "aten::conj aten::_conj aten::_conj_physical aten::conj_physical",
    accepts_complex=True,
    cases=[complex_case(torch.conj, (2, 3))],
)
def conj(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The second part with the other sign."""
    return conjugate(op, x)


@aten.lower("aten::abs", accepts_complex=True, cases=[complex_case(torch.abs, (2, 3), dynamic=True)])
def abs_(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The hypotenuse of the parts."""
    return modulus(op, x)


@aten.lower("aten::angle", accepts_complex=True, cases=[complex_case(torch.angle, (2, 3))])
def angle(op: OpBuilder, x: ir.Value) -> ir.Value:
    """atan2 of the parts."""
    return argument(op, x)


def _total(op: OpBuilder, x: Number, y: Number, alpha: Number, sign: int) -> ir.Value:
    dtype = part_type(op.result.dtype)
    c, d = parts(op, y, dtype)
    if isinstance(alpha, (ir.Value, complex)):
        raise UnsupportedOperator("a complex or dynamic alpha")
    if alpha != 1:
        c, d = op.Mul(c, float(alpha)), None if d is None else op.Mul(d, float(alpha))
    return total(op, parts(op, x, dtype), (c, d), sign=sign)


@aten.lower(
    "aten::add",
    accepts_complex=True,
    cases=[complex_case(lambda z, w: (z + w, z + 1.5, z + w.real, z + 2j), (2, 3), (3,))],
)
def add(op: OpBuilder, x: Number, y: Number, alpha: Number = 1) -> ir.Value:
    """Add, part by part."""
    return _total(op, x, y, alpha, 1)


@aten.lower(
    "aten::sub",
    "aten::subtract",
    accepts_complex=True,
    cases=[complex_case(lambda z, w: (z - w, z - 1.5, z - w.real), (2, 3), (3,))],
)
def sub(op: OpBuilder, x: Number, y: Number, alpha: Number = 1) -> ir.Value:
    """Sub, part by part."""
    return _total(op, x, y, alpha, -1)


@aten.lower("aten::rsub", accepts_complex=True, cases=[complex_case(lambda z: 1 - z, (2, 3))])
def rsub(op: OpBuilder, x: Number, y: Number, alpha: Number = 1) -> ir.Value:
    """Sub with the operands exchanged."""
    if not isinstance(alpha, (int, float)) or alpha != 1:
        raise UnsupportedOperator("rsub of complex numbers with alpha")
    return _total(op, y, x, 1, -1)


def _product(op: OpBuilder, x: Number, y: Number, multiply: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    dtype = part_type(op.result.dtype)
    return product(op, parts(op, x, dtype), parts(op, y, dtype), multiply)


@aten.lower(
    "aten::mul",
    "aten::multiply",
    accepts_complex=True,
    cases=[complex_case(lambda z, w: (z * w, z * 2, w.real * z, z * 2j, z * z.conj()), (2, 3), (3,), dynamic=False)],
)
def mul(op: OpBuilder, x: Number, y: Number) -> ir.Value:
    """The product of the sums of parts."""
    return _product(op, x, y, lambda a, b: op.Mul(a, b))


@aten.lower(
    "aten::matmul aten::mm aten::bmm",
    accepts_complex=True,
    cases=[complex_case(torch.matmul, (2, 3), (3, 4)), complex_case(torch.bmm, (2, 3, 4), (2, 4, 2))],
)
def matmul(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """MatMul of the parts."""
    return _product(op, x, y, lambda a, b: op.MatMul(a, b))


@aten.lower("aten::reciprocal", accepts_complex=True, cases=[complex_case(torch.reciprocal, (2, 3))])
def reciprocal(op: OpBuilder, x: ir.Value) -> ir.Value:
    """1 over the number."""
    return division(op, (op.const(1.0, x.dtype), None), parts_of(op, x))


@aten.lower(
    "aten::div aten::divide aten::true_divide",
    accepts_complex=True,
    cases=[complex_case(lambda z, w: (z / w, z / 2.0, z / w.real, 1.0 / z), (2, 3), (3,))],
)
def div(op: OpBuilder, x: Number, y: Number, *, rounding_mode: str | None = None) -> ir.Value:
    """Smith's quotient; part by part where the divisor is real."""
    dtype = part_type(op.result.dtype)
    return division(op, parts(op, x, dtype), parts(op, y, dtype))


@aten.lower(
    "aten::to aten::_to_copy prims::convert_element_type",
    accepts_complex=True,
    cases=[
        complex_case(lambda z: z.to(torch.complex128), (2, 3)),
        case(lambda x: torch.view_as_real(x.to(torch.complex64)), f32(3)),
    ],
)
def to(op: OpBuilder, x: ir.Value, *_: object, **__: object) -> ir.Value:
    """Cast of the parts; a real operand gets the imaginary part 0."""
    dtype = part_type(op.result.dtype)
    if is_complex(x):
        return op.cast(x, dtype) if op.result.dtype in PART_TYPES else op.cast(parts_of(op, x)[0], dtype)
    return from_real(op, op.cast(x, dtype))


@aten.lower(
    "aten::ne", "aten::not_equal", accepts_complex=True, cases=[complex_case(lambda z, w: z != w, (2, 3), (2, 3))]
)
def ne(op: OpBuilder, x: Number, y: Number) -> ir.Value:
    """One of the parts differs."""
    return op.Not(eq(op, x, y))


@aten.lower("aten::eq", accepts_complex=True, cases=[complex_case(lambda z: z == z.clone(), (2, 3))])
def eq(op: OpBuilder, x: Number, y: Number) -> ir.Value:
    """Both parts are equal."""
    dtype = x.dtype if isinstance(x, ir.Value) and x.dtype is not None else ir.DataType.FLOAT
    a, b = parts(op, x, dtype)
    c, d = parts(op, y, dtype)
    zero = op.const(0.0, dtype)
    return op.And(op.Equal(a, c), op.Equal(b if b is not None else zero, d if d is not None else zero))


@aten.lower(
    "aten::full",
    "aten::full_like",
    accepts_complex=True,
    cases=[
        complex_case(lambda z: torch.full_like(z, 2 - 1j), (2, 3)),
        complex_case(lambda z: torch.full_like(z, 2, dtype=torch.float64), (2, 3), dynamic=True),
    ],
)
def full(op: OpBuilder, size: Any, fill_value: Number, **_: object) -> ir.Value:
    """The number's parts, expanded."""
    dtype = part_type(op.result.dtype)
    first, second = parts(op, fill_value, dtype)
    if op.result.dtype == dtype:  # real numbers in the shape of complex ones
        shape = op.Slice(op.Shape(size), [0], [-1], [0]) if isinstance(size, ir.Value) else op.shape_vector([*size])
        return op.Expand(first, shape)
    both = joined(op, first, second if second is not None else op.const(0.0, dtype))
    if isinstance(size, ir.Value):
        shape = op.shape(size)
        return op.Expand(both, shape if is_complex(size) else op.Concat(shape, op.const([2]), axis=0))
    return op.Expand(both, op.shape_vector([*size, 2]))


@aten.lower(
    "aten::zeros aten::ones aten::ones_like aten::empty aten::empty_like aten::empty_strided aten::empty_permuted",
    "aten::new_empty aten::new_empty_strided",
    accepts_complex=True,
    cases=[
        case(lambda x: torch.view_as_real(torch.zeros(2, 3, dtype=torch.complex64) + x), f32(2, 3)),
        complex_case(lambda z: torch.ones_like(z, dtype=torch.int64), (2, 3), dynamic=True),
    ],
)
def zeros(op: OpBuilder, size: Any, *rest: Any, **_: object) -> ir.Value:
    """0 or 1, expanded; what is not set is 0."""
    size = rest[0] if op.name.startswith("aten::new_") else size
    return full(op, size, 1 if "ones" in op.name else 0)


@aten.lower("aten::sgn", accepts_complex=True, cases=[complex_case(torch.sgn, (2, 3))])
def sgn(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The number over its modulus."""
    length = op.Unsqueeze(modulus(op, x), op.axes(-1))
    zero = op.Equal(length, 0.0)
    return op.Div(x, op.Where(zero, to_dtype(op, 1, x.dtype or ir.DataType.FLOAT), length))
