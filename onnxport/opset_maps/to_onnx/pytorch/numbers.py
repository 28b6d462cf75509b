"""Bits, signs, exponents and divisors of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, case, f32, f64, i32, i64
from onnxport.opset_maps.lowerings.arithmetic import is_negative, isinf, shift_left, shift_right, trunc_mod
from onnxport.opset_maps.lowerings.dtypes import Operand, to_dtype
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.reduction import axes_of

_INT64 = ir.DataType.INT64
_DOUBLE = ir.DataType.DOUBLE
_ZEROS = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf], np.float32)


@aten.lower(
    "aten::bitwise_left_shift",
    "aten::__lshift__",
    cases=[
        case(torch.bitwise_left_shift, i64(3, 4), i64(4, low=0, high=66)),
        case(lambda x: x << 5, i32(6, low=-(2**30), high=2**30)),
    ],
)
def bitwise_left_shift(op: OpBuilder, x: Operand, other: Operand) -> ir.Value:
    """Mul by a power of two, which wraps as a shift does."""
    return op.cast(shift_left(op, to_dtype(op, x, _INT64), to_dtype(op, other, _INT64)), op.result.dtype)


@aten.lower(
    "aten::bitwise_right_shift",
    "aten::__rshift__",
    cases=[
        case(torch.bitwise_right_shift, i64(3, 4, low=-99, high=99), i64(4, low=0, high=66)),
        case(lambda x: x >> 2, i32(6, low=-99, high=99)),
    ],
)
def bitwise_right_shift(op: OpBuilder, x: Operand, other: Operand) -> ir.Value:
    """Division by a power of two, rounded down; beyond the width the sign is left."""
    return op.cast(shift_right(op, to_dtype(op, x, _INT64), to_dtype(op, other, _INT64)), op.result.dtype)


def _common_divisor(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Euclid's algorithm on all elements at once, as long as some remainder is left.

    The magnitude of a type's least number is that number, and remainders have the sign of the dividend, as in C: a divisor
    may be below 0.
    """
    dtype = op.result.dtype
    a, b = (op.cast(op.cast(op.Abs(item), dtype), _INT64) for item in (a, b))
    zero = op.Mul(op.Mul(a, b), 0)
    a, b = op.Add(b, zero), op.Add(a, zero)

    def left(o: OpBuilder, remainder: ir.Value) -> ir.Value:
        sizes = o.Concat(o.Reshape(o.Abs(remainder), [-1]), o.const([0]), axis=0)
        return o.Not(o.Equal(o.ReduceMax(sizes, keepdims=0), 0))

    def step(o: OpBuilder) -> list[ir.Value]:
        o.input("k", _INT64, [])
        o.input("going", ir.DataType.BOOL, [])
        shape = list(a.shape) if a.shape is not None else None
        x, y = o.input("x", _INT64, shape), o.input("y", _INT64, shape)
        done = o.Equal(y, 0)
        rest = o.Where(done, o.const(0, _INT64), trunc_mod(o, x, o.Where(done, o.const(1, _INT64), y)))
        return [left(o, rest), o.Where(done, x, y), rest]

    divisor, _ = op.Loop(None, left(op, b), a, b, body=op.body(step), outputs=2)
    return divisor


@aten.lower(
    "aten::gcd",
    cases=[
        case(torch.gcd, i64(4, 5, low=-60, high=60), i64(5, low=-60, high=60)),
        case(torch.gcd, np.full(5, -128, np.int8), np.array([-127, 15, 0, -128, 64], np.int8)),
    ],
)
def gcd(op: OpBuilder, x: ir.Value, other: ir.Value) -> ir.Value:
    """Euclid's algorithm in a Loop."""
    return op.cast(_common_divisor(op, op.cast(x, _INT64), op.cast(other, _INT64)), op.result.dtype)


@aten.lower(
    "aten::lcm",
    cases=[
        case(torch.lcm, i64(4, 5, low=-60, high=60), i64(5, low=-60, high=60)),
        case(torch.lcm, np.array([2**30, 46341, -7], np.int32), np.array([3, 46342, 2**31 - 1], np.int32)),
    ],
)
def lcm(op: OpBuilder, x: ir.Value, other: ir.Value) -> ir.Value:
    """The product without the common divisor."""
    a, b = op.cast(x, _INT64), op.cast(other, _INT64)
    divisor = _common_divisor(op, a, b)
    safe = op.Where(op.Equal(divisor, 0), op.const(1, _INT64), divisor)
    product = op.Mul(op.Div(a, safe), b)
    if op.result.dtype == ir.DataType.INT32:  # which C computes it in, and so for narrower types
        product = op.cast(product, ir.DataType.INT32)
    return op.cast(op.Abs(product), op.result.dtype)


@aten.lower(
    "aten::signbit", cases=[case(torch.signbit, _ZEROS), case(torch.signbit, i64(4)), case(torch.signbit, boolean(3))]
)
def signbit(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Negative, the negative zero included."""
    if x.dtype == ir.DataType.BOOL:
        return op.Xor(x, x)
    return is_negative(op, x) if x.dtype is not None and x.dtype.is_floating_point() else op.Less(x, 0)


@aten.lower(
    "aten::copysign",
    cases=[case(torch.copysign, f32(6), _ZEROS), case(lambda x: torch.copysign(x, -2), i64(4))],
)
def copysign(op: OpBuilder, x: ir.Value, other: Operand) -> ir.Value:
    """The magnitude of one with the sign of the other."""
    dtype = op.result.dtype
    size = op.Abs(op.cast(x, dtype))
    return op.Where(is_negative(op, to_dtype(op, other, dtype)), op.Neg(size), size)


@aten.lower(
    "aten::frexp", cases=[case(torch.frexp, f32(20, low=-99, high=99)), case(torch.frexp, f64(20, low=0, high=1e-9))]
)
def frexp(op: OpBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The exponent from the logarithm, corrected where rounding has moved it, and the mantissa left by dividing it out."""
    wide = op.cast(x, _DOUBLE)
    special = op.Or(op.Equal(wide, 0.0), op.Or(op.IsNaN(wide), isinf(op, wide)))
    safe = op.Where(special, op.const(1.0, _DOUBLE), wide)
    exponent = op.Add(op.Floor(op.Div(op.Log(op.Abs(safe)), float(np.log(2.0)))), 1.0)
    half = op.Floor(op.Mul(exponent, -0.5))
    two = op.const(2.0, _DOUBLE)
    mantissa = op.Mul(op.Mul(safe, op.Pow(two, half)), op.Pow(two, op.Sub(op.Neg(exponent), half)))
    size = op.Abs(mantissa)
    above, below = op.GreaterOrEqual(size, 1.0), op.Less(size, 0.5)
    mantissa = op.Where(above, op.Mul(mantissa, 0.5), op.Where(below, op.Mul(mantissa, 2.0), mantissa))
    step = op.Sub(op.cast(above, _DOUBLE), op.cast(below, _DOUBLE))
    exponent = op.Where(special, op.const(0.0, _DOUBLE), op.Add(exponent, step))
    return op.cast_like(op.Where(special, wide, mantissa), x), op.cast(exponent, ir.DataType.INT32)


def _bits_of_double(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The 64 bits of doubles as INT64 (IEEE 754, binary64): sign, exponent from 1023 on, mantissa without its first bit."""
    mantissa, exponent = frexp(op, x)
    special = op.Or(op.Equal(x, 0.0), op.Or(op.IsNaN(x), isinf(op, x)))
    tiny = op.And(op.Less(op.Abs(x), 2.0**-1022), op.Not(special))
    fraction = op.cast(op.Mul(op.Sub(op.Abs(mantissa), 0.5), 2.0**53), _INT64)
    normal = op.Add(op.Mul(op.Add(op.cast(exponent, _INT64), 1022), 1 << 52), fraction)
    subnormal = op.cast(op.Mul(op.Mul(op.Abs(op.Where(tiny, x, op.const(0.0, _DOUBLE))), 2.0**537), 2.0**537), _INT64)
    no_number = op.Where(op.IsNaN(x), op.const(0x7FF8 << 48, _INT64), op.const(0x7FF0 << 48, _INT64))
    size = op.Where(special, no_number, op.Where(tiny, subnormal, normal))
    size = op.Where(op.Equal(x, 0.0), op.const(0, _INT64), size)
    return op.Where(op.And(is_negative(op, x), op.Not(op.IsNaN(x))), op.Add(size, -(1 << 63)), size)


@aten.lower(
    "aten::hash_tensor",
    cases=[
        case(torch.hash_tensor, f32(3, 4), min_opset=18),
        case(lambda x: torch.hash_tensor(x, 1, keepdim=True), f64(3, 4), min_opset=18),
        case(lambda x: torch.hash_tensor(x, (0, 2)), i64(2, 3, 4), min_opset=18),
        case(torch.hash_tensor, np.array([np.inf, -0.0, 5e-324, -1e-310, 2.0], np.float64), min_opset=18),
    ],
    min_opset=18,
)
def hash_tensor(
    op: OpBuilder, x: ir.Value, dim: Sequence[int] = (), *, keepdim: bool = False, mode: int = 0
) -> ir.Value:
    """The bits that an odd number of elements have, as doubles or as INT64."""
    floating = x.dtype is not None and x.dtype.is_floating_point()
    bits = _bits_of_double(op, op.cast(x, _DOUBLE)) if floating else op.cast(x, _INT64)
    unsigned, places = ir.DataType.UINT64, op.const(np.arange(64, dtype=np.uint64))
    spread = op.Unsqueeze(op.cast(bits, unsigned), op.axes(-1))
    single = op.cast(op.BitwiseAnd(op.BitShift(spread, places, direction="RIGHT"), op.const(1, unsigned)), _INT64)
    count = op.reduce("ReduceSum", single, axes_of(x, list(dim)), keepdims=keepdim)
    odd = op.Mul(
        op.Mod(count, 2), op.const(np.asarray([1 << k if k < 63 else -(1 << 63) for k in range(64)], np.int64))
    )
    return op.cast(op.reduce("ReduceSum", odd, [-1], keepdims=False), unsigned)


@aten.lower(
    "aten::angle", cases=[case(torch.angle, np.array([1, -1, 0, -0.0, np.nan], np.float32)), case(torch.angle, i64(4))]
)
def angle(op: OpBuilder, x: ir.Value) -> ir.Value:
    """pi for negative numbers."""
    value = op.cast(x, op.result.dtype)
    of_number = op.Where(op.Less(value, 0.0), op.const(np.pi, value.dtype), op.const(0.0, value.dtype))
    return op.Where(op.IsNaN(value), value, of_number)
