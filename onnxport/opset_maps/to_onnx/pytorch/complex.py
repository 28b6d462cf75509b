"""Complex numbers as pairs: arithmetic on the parts, and every operator that treats the parts alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.result_types import Expected
from onnxport.opset_maps.cases import Case, case, f32
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


def _complex_case(call: Callable[..., Any], *shapes: tuple[int, ...], **options: Any) -> Case:
    """A case on complex tensors, the inputs and results seen as real ones."""

    def run(*reals: torch.Tensor) -> Any:
        result = call(*(torch.view_as_complex(item) for item in reals))
        leaves = result if isinstance(result, (tuple, list)) else [result]
        return tuple(torch.view_as_real(item.resolve_conj()) if item.is_complex() else item for item in leaves)

    return case(run, *(f32(*shape, 2) for shape in shapes), **options)


_AS_PAIR = [_complex_case(lambda z: z, (2, 3), dynamic=True)]


@aten.lower("aten::view_as_complex", "aten::view_as_real", accepts_complex=True, cases=_AS_PAIR)
def same_pair(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The pair itself."""
    return op.Identity(x)


@aten.lower("aten::real", accepts_complex=True, cases=[_complex_case(torch.real, (2, 3))])
def real(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The first part."""
    return parts_of(op, x)[0]


@aten.lower("aten::imag", accepts_complex=True, cases=[_complex_case(torch.imag, (2, 3))])
def imag(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The second part."""
    return parts_of(op, x)[1]


@aten.lower(
    "aten::sym_size.int",
    accepts_complex=True,
    cases=[_complex_case(lambda z: z.reshape(z.shape[0] * 3), (2, 3), dynamic=True)],
)
def size(op: OpBuilder, x: ir.Value, dim: int) -> ir.Value | int:
    """The size of one axis; the axis of the parts does not count."""
    return sym_size(op, x, dim if dim >= 0 else dim - 1)


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
    "aten::conj",
    "aten::_conj",
    "aten::_conj_physical",
    "aten::conj_physical",
    accepts_complex=True,
    cases=[_complex_case(torch.conj, (2, 3))],
)
def conj(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The second part with the other sign."""
    return conjugate(op, x)


@aten.lower("aten::abs", accepts_complex=True, cases=[_complex_case(torch.abs, (2, 3), dynamic=True)])
def abs_(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The hypotenuse of the parts."""
    return modulus(op, x)


@aten.lower("aten::angle", accepts_complex=True, cases=[_complex_case(torch.angle, (2, 3))])
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
    cases=[_complex_case(lambda z, w: (z + w, z + 1.5, z + w.real, z + 2j), (2, 3), (3,))],
)
def add(op: OpBuilder, x: Number, y: Number, *, alpha: Number = 1) -> ir.Value:
    """Add, part by part."""
    return _total(op, x, y, alpha, 1)


@aten.lower(
    "aten::sub",
    "aten::subtract",
    accepts_complex=True,
    cases=[_complex_case(lambda z, w: (z - w, z - 1.5, z - w.real), (2, 3), (3,))],
)
def sub(op: OpBuilder, x: Number, y: Number, *, alpha: Number = 1) -> ir.Value:
    """Sub, part by part."""
    return _total(op, x, y, alpha, -1)


@aten.lower("aten::rsub", accepts_complex=True, cases=[_complex_case(lambda z: 1 - z, (2, 3))])
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
    cases=[_complex_case(lambda z, w: (z * w, z * 2, w.real * z, z * 2j, z * z.conj()), (2, 3), (3,), dynamic=False)],
)
def mul(op: OpBuilder, x: Number, y: Number) -> ir.Value:
    """The product of the sums of parts."""
    return _product(op, x, y, lambda a, b: op.Mul(a, b))


@aten.lower(
    "aten::matmul",
    "aten::mm",
    "aten::bmm",
    accepts_complex=True,
    cases=[_complex_case(torch.matmul, (2, 3), (3, 4)), _complex_case(torch.bmm, (2, 3, 4), (2, 4, 2))],
)
def matmul(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """MatMul of the parts."""
    return _product(op, x, y, lambda a, b: op.MatMul(a, b))


@aten.lower("aten::reciprocal", accepts_complex=True, cases=[_complex_case(torch.reciprocal, (2, 3))])
def reciprocal(op: OpBuilder, x: ir.Value) -> ir.Value:
    """1 over the number."""
    return division(op, (op.const(1.0, x.dtype), None), parts_of(op, x))


@aten.lower(
    "aten::div",
    "aten::divide",
    "aten::true_divide",
    accepts_complex=True,
    cases=[_complex_case(lambda z, w: (z / w, z / 2.0, z / w.real, 1.0 / z), (2, 3), (3,))],
)
def div(op: OpBuilder, x: Number, y: Number, *, rounding_mode: str | None = None) -> ir.Value:
    """Smith's quotient; part by part where the divisor is real."""
    dtype = part_type(op.result.dtype)
    return division(op, parts(op, x, dtype), parts(op, y, dtype))


@aten.lower("aten::exp", accepts_complex=True, cases=[_complex_case(torch.exp, (2, 3))])
def exp(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The modulus is the exponential of the first part, the angle the second part."""
    real, imaginary = parts_of(op, x)
    return from_polar(op, op.Exp(real), imaginary)


@aten.lower("aten::log", accepts_complex=True, cases=[_complex_case(torch.log, (2, 3))])
def log(op: OpBuilder, x: ir.Value) -> ir.Value:
    """log of the modulus, and the angle."""
    return joined(op, op.Log(modulus(op, x)), argument(op, x))


@aten.lower("aten::pow.Tensor_Scalar", accepts_complex=True, cases=[_complex_case(lambda z: (z**2, z**3), (2, 3))])
def pow_(op: OpBuilder, x: ir.Value, exponent: Number) -> ir.Value:
    """A repeated product; other powers than small integers are refused."""
    if not isinstance(exponent, (int, float)) or exponent not in (1, 2, 3, 4):
        raise UnsupportedOperator(f"a complex number to the {exponent}: only 1 to 4")
    result = base = parts_of(op, x)
    for _ in range(int(exponent) - 1):
        result = parts_of(op, product(op, result, base, lambda a, b: op.Mul(a, b)))
    return joined(op, *result)


@aten.lower(
    "aten::to",
    "aten::_to_copy",
    "prims::convert_element_type",
    accepts_complex=True,
    cases=[
        _complex_case(lambda z: z.to(torch.complex128), (2, 3)),
        case(lambda x: torch.view_as_real(x.to(torch.complex64)), f32(3)),
    ],
)
def to(op: OpBuilder, x: ir.Value, *_: object, **__: object) -> ir.Value:
    """Cast of the parts; a real operand gets the imaginary part 0."""
    dtype = part_type(op.result.dtype)
    if is_complex(x):
        return op.cast(x, dtype) if op.result.dtype in PART_TYPES else op.cast(parts_of(op, x)[0], dtype)
    return from_real(op, op.cast(x, dtype))


@aten.lower("aten::eq", accepts_complex=True, cases=[_complex_case(lambda z: z == z.clone(), (2, 3))])
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
    cases=[_complex_case(lambda z: torch.full_like(z, 2 - 1j), (2, 3))],
)
def full(op: OpBuilder, size: Any, fill_value: Number, **_: object) -> ir.Value:
    """The number's parts, expanded."""
    dtype = part_type(op.result.dtype)
    first, second = parts(op, fill_value, dtype)
    both = joined(op, first, second if second is not None else op.const(0.0, dtype))
    if isinstance(size, ir.Value):
        return op.Expand(both, op.shape(size))
    return op.Expand(both, op.shape_vector([*size, 2]))


@aten.lower(
    "aten::zeros",
    "aten::ones",
    accepts_complex=True,
    cases=[case(lambda x: torch.view_as_real(torch.zeros(2, 3, dtype=torch.complex64) + x), f32(2, 3))],
)
def zeros(op: OpBuilder, size: Sequence[Any], **_: object) -> ir.Value:
    """0 or 1, expanded."""
    return full(op, size, 1 if "ones" in op.name else 0)


def lifted(name: str) -> Callable[..., Any]:
    """The real entry of `name` applied to both parts: for operators that are linear or only move elements."""

    def lower(op: OpBuilder, *args: Any, **kwargs: Any) -> Any:
        entry = aten.find(name)
        if entry is None:
            raise UnsupportedOperator(f"{name} has no mapping")
        expected = [None if item is None else Expected(part_type(item.dtype), item.shape) for item in op.results]
        result = []
        for index in (0, 1):
            with op.at(None, expected):
                result.append(
                    entry.function(
                        op,
                        *_part_of(op, args, index, name),
                        **dict(zip(kwargs, _part_of(op, list(kwargs.values()), index, name))),
                    )
                )
        if isinstance(result[0], (tuple, list)):
            return tuple(joined(op, first, second) for first, second in zip(result[0], result[1], strict=True))
        return joined(op, result[0], result[1])

    lower.__doc__ = "The real form, on both parts."
    return lower


def _part_of(op: OpBuilder, args: Sequence[Any], index: int, name: str) -> list[Any]:
    """The arguments with each operand's part; the second part of a real operand is 0."""
    result: list[Any] = []
    for item in args:
        if isinstance(item, ir.Value) and is_complex(item):
            result.append(op.Gather(item, index, axis=-1))
        elif isinstance(item, ir.Value) and index and _is_data(item, name):
            result.append(op.Expand(op.const(0, item.dtype), op.shape(item)))
        elif isinstance(item, (list, tuple)) and not (name in _FILLED and all(isinstance(part, int) for part in item)):
            result.append(_part_of(op, item, index, name))
        elif isinstance(item, complex):
            result.append(item.imag if index else item.real)
        elif index and name in _FILLED and isinstance(item, (int, float)):
            result.append(0.0)
        else:
            result.append(item)
    return result


def _is_data(item: ir.Value, name: str) -> bool:
    """A real operand that joins complex ones, and is no index and no mask."""
    return name in ("aten::cat", "aten::stack") or bool(item.dtype and item.dtype.is_floating_point())


# Their only number is what they fill with.
_FILLED = ("aten::pad", "aten::constant_pad_nd")


_LIFTED: dict[str, Case] = {
    "aten::view": _complex_case(lambda z: z.view(z.shape[0], -1), (2, 3, 4), dynamic=True),
    "aten::reshape": _complex_case(lambda z: z.reshape(-1), (2, 3)),
    "aten::flatten": _complex_case(lambda z: z.flatten(1), (2, 3, 4)),
    "aten::unflatten": _complex_case(lambda z: z.unflatten(1, (2, 2)), (2, 4)),
    "aten::permute": _complex_case(lambda z: z.permute(2, 0, 1), (2, 3, 4)),
    "aten::transpose.int": _complex_case(lambda z: z.transpose(0, -1), (2, 3, 4)),
    "aten::t": _complex_case(torch.t, (2, 3)),
    "aten::unsqueeze": _complex_case(lambda z: z.unsqueeze(-1), (2, 3)),
    "aten::squeeze": _complex_case(lambda z: z.squeeze(1), (2, 1, 3)),
    "aten::expand": _complex_case(lambda z: z.expand(4, 3), (1, 3)),
    "aten::select.int": _complex_case(lambda z: z[:, -1], (2, 3)),
    "aten::slice.Tensor": _complex_case(lambda z: z[:, 1:-1], (2, 4)),
    "aten::narrow": _complex_case(lambda z: z.narrow(1, 1, 2), (2, 4)),
    "aten::cat": _complex_case(lambda z, w: torch.cat([z, w, w.real, w.real > 0], -1), (2, 3), (2, 4)),
    "aten::stack": _complex_case(lambda z, w: torch.stack([z, w], -1), (2, 3), (2, 3)),
    "aten::split": _complex_case(lambda z: z.split(2, 1), (2, 4)),
    "aten::chunk": _complex_case(lambda z: z.chunk(2, 1), (2, 4)),
    "aten::unbind": _complex_case(lambda z: z.unbind(1), (2, 3)),
    "aten::flip": _complex_case(lambda z: z.flip(0), (2, 3)),
    "aten::roll": _complex_case(lambda z: z.roll(1, 1), (2, 3)),
    "aten::repeat": _complex_case(lambda z: z.repeat(2, 1), (2, 3)),
    "aten::sum": _complex_case(lambda z: z.sum(1), (2, 3)),
    "aten::mean": _complex_case(lambda z: z.mean(1), (2, 3)),
    "aten::neg": _complex_case(torch.neg, (2, 3)),
    "aten::diagonal": _complex_case(torch.diagonal, (3, 3)),
    "aten::index_select": _complex_case(lambda z: z.index_select(1, torch.tensor([0, 2])), (2, 3)),
    "aten::index.Tensor": _complex_case(lambda z: z[:, torch.tensor([0, 2])], (2, 3)),
    "aten::where.self": _complex_case(
        lambda z, w: (torch.where(z.real > 0, z, w), torch.where(z.real > 0, z, w.real)), (2, 3), (2, 3)
    ),
    "aten::pad": _complex_case(lambda z: torch.nn.functional.pad(z, (1, 2)), (2, 3)),
    "aten::constant_pad_nd": _complex_case(lambda z: torch.nn.functional.pad(z, (1, 0), value=1), (2, 3)),
    "aten::clone": _complex_case(torch.clone, (2, 3)),
    "aten::contiguous": _complex_case(lambda z: z.contiguous(), (2, 3)),
    "aten::resolve_conj": _complex_case(lambda z: z.conj().resolve_conj(), (2, 3)),
    "aten::zeros_like": _complex_case(torch.zeros_like, (2, 3)),
    "aten::tril": _complex_case(torch.tril, (3, 3)),
    "aten::triu": _complex_case(torch.triu, (3, 3)),
}
for _name, _case in _LIFTED.items():
    aten.lower(_name, accepts_complex=True, cases=[_case])(lifted(_name))


@aten.lower("aten::sgn", accepts_complex=True, cases=[_complex_case(torch.sgn, (2, 3))])
def sgn(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The number over its modulus."""
    length = op.Unsqueeze(modulus(op, x), op.axes(-1))
    zero = op.Equal(length, 0.0)
    return op.Div(x, op.Where(zero, to_dtype(op, 1, x.dtype or ir.DataType.FLOAT), length))
