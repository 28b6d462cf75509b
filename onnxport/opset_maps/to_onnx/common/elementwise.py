"""Elementwise operators: the rows of the shared table, and the compositions that ONNX has no operator for."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph import schema
from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import expm1, log1p  # noqa: F401  # expm1 is looked up by its row
from onnxport.opset_maps.elementwise import Row

Operand = ir.Value | bool | int | float


def lower_row(row: Row) -> Callable[..., ir.Value]:
    """The function that writes a row: operands are cast to the common type that the source says, then the operator."""
    compose = globals()[row.onnx] if not row.since else None

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
        if dtype == ir.DataType.DOUBLE:
            from onnxport.opset_maps.to_onnx.common.double import COMPOSED  # which is written with what stands below

            if row.onnx in COMPOSED:
                return COMPOSED[row.onnx](op, *values)
        if row.onnx in _OF_INTEGERS and not dtype.is_floating_point():
            return _OF_INTEGERS[row.onnx](op, *values)
        if dtype not in schema.allowed_dtypes("", row.onnx, op.opset):
            raise UnsupportedOperator(f"ONNX {row.onnx} takes no {dtype.name} at opset {op.opset}")
        return log(op, *values) if row.onnx == "Log" else op.node(row.onnx, *values)

    lower.__doc__ = f"ONNX {row.onnx}." if row.since else globals()[row.onnx].__doc__
    lower.__name__ = row.onnx
    return lower


def _false(op: OpBuilder, x: ir.Value) -> ir.Value:
    return op.Xor(x, x) if x.dtype == ir.DataType.BOOL else op.Less(x, x)


# What floating-point operators do to integers and booleans, which ONNX's forms do not take.
_OF_INTEGERS: dict[str, Callable[..., ir.Value]] = {
    "Ceil": lambda op, x: x,
    "Floor": lambda op, x: x,
    "Round": lambda op, x: x,
    "IsNaN": _false,
}


def to_dtype(op: OpBuilder, item: Operand, dtype: ir.DataType) -> ir.Value:
    """An operand as a value of `dtype`; a number becomes a constant, non-zero numbers are true."""
    if isinstance(item, ir.Value):
        return op.cast(item, dtype)
    return op.const(bool(item) if dtype == ir.DataType.BOOL else item, dtype)


_ORDER = [
    ir.DataType.BOOL,
    ir.DataType.UINT8,
    ir.DataType.INT8,
    ir.DataType.INT16,
    ir.DataType.INT32,
    ir.DataType.INT64,
    ir.DataType.FLOAT16,
    ir.DataType.BFLOAT16,
    ir.DataType.FLOAT,
    ir.DataType.DOUBLE,
]


def common_dtype(operands: tuple[Operand, ...]) -> ir.DataType:
    """The type in which operands of a comparison meet: that of the value of highest rank, then kind of the numbers.

    PyTorch's promotion: a dimensioned tensor outranks a 0-d one, which outranks a Python number, within one kind
    (torch.result_type).
    """
    values = [item for item in operands if isinstance(item, ir.Value) and item.dtype is not None]
    dimensioned = [item.dtype for item in values if item.shape is None or item.shape.rank()]
    scalars = [item.dtype for item in values if item.shape is not None and not item.shape.rank()]
    numbers = [_number_dtype(item) for item in operands if not isinstance(item, ir.Value)]
    best: ir.DataType | None = None
    for group in (dimensioned, scalars, numbers):
        for dtype in group:
            if dtype is None:
                continue
            if best is None or (group is dimensioned and _rank(dtype) > _rank(best)) or _kind(dtype) > _kind(best):
                best = _joined(best, dtype) if group is dimensioned else dtype
            elif group is dimensioned or (group is scalars and not dimensioned):
                best = _joined(best, dtype)
    if best is None:
        raise UnsupportedOperator("operands of unknown type")
    return best


def _rank(dtype: ir.DataType) -> int:
    return _ORDER.index(dtype) if dtype in _ORDER else len(_ORDER)


def _kind(dtype: ir.DataType) -> int:
    return 0 if dtype == ir.DataType.BOOL else 2 if dtype.is_floating_point() else 1


def _joined(a: ir.DataType | None, b: ir.DataType) -> ir.DataType:
    if a is None or a == b:
        return b
    if {a, b} == {ir.DataType.UINT8, ir.DataType.INT8}:
        return ir.DataType.INT16
    if {a, b} == {ir.DataType.FLOAT16, ir.DataType.BFLOAT16}:
        return ir.DataType.FLOAT
    return max(a, b, key=_rank)


def _number_dtype(item: Operand) -> ir.DataType:
    return (
        ir.DataType.BOOL
        if isinstance(item, bool)
        else ir.DataType.INT64
        if isinstance(item, int)
        else ir.DataType.FLOAT
    )


def _is_integer(x: ir.Value) -> bool:
    return x.dtype is not None and x.dtype.is_integer()


def square(op: OpBuilder, x: ir.Value) -> ir.Value:
    """x x."""
    return op.Mul(x, x)


def rsqrt(op: OpBuilder, x: ir.Value) -> ir.Value:
    """1 / sqrt(x)."""
    return op.Reciprocal(op.Sqrt(x))


def exp2(op: OpBuilder, x: ir.Value) -> ir.Value:
    """2 to the x."""
    return op.Pow(op.const(2.0, x.dtype), x)


def log(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The logarithm; of Sigmoid(x), which runtimes give as 0 from -18 on (float64: -37), that of 1 / (1 + exp(-x))."""
    node = x.producer()
    given = node.inputs[0] if node is not None and node.op_type == "Sigmoid" else None
    return op.Log(x if given is None else op.Reciprocal(op.Add(op.Exp(op.Neg(given)), 1.0)))


def log2(op: OpBuilder, x: ir.Value) -> ir.Value:
    """log(x) / log(2)."""
    return op.Div(op.Log(x), math.log(2.0))


def log10(op: OpBuilder, x: ir.Value) -> ir.Value:
    """log(x) / log(10)."""
    return op.Div(op.Log(x), math.log(10.0))


def erfc(op: OpBuilder, x: ir.Value) -> ir.Value:
    """1 - erf(x) without cancellation."""
    from onnxport.opset_maps.to_onnx.common.special import erfc as accurate  # which is written with log1p, below

    return accurate(op, x)


def trunc(op: OpBuilder, x: ir.Value) -> ir.Value:
    """x rounded toward zero."""
    if _is_integer(x):
        return x
    return op.Mul(op.Sign(x), op.Floor(op.Abs(x)))


def frac(op: OpBuilder, x: ir.Value) -> ir.Value:
    """What trunc takes away."""
    return op.Sub(x, trunc(op, x))


def silu(op: OpBuilder, x: ir.Value) -> ir.Value:
    """x sigmoid(x); Swish from opset 24."""
    if op.opset >= 24:
        return op.Swish(x)
    return op.Mul(x, op.Sigmoid(x))


def log_sigmoid(op: OpBuilder, x: ir.Value) -> ir.Value:
    """-softplus(-x)."""
    return op.Neg(op.Softplus(op.Neg(x)))


def relu6(op: OpBuilder, x: ir.Value) -> ir.Value:
    """min(max(x, 0), 6)."""
    return op.Clip(x, op.const(0.0, x.dtype), op.const(6.0, x.dtype))


def isnan(op: OpBuilder, x: ir.Value) -> ir.Value:
    """No number, which of whole numbers none is."""
    return op.IsNaN(x) if x.dtype is None or x.dtype.is_floating_point() else _false(op, x)


def bitwise(op: OpBuilder, operator: str, *values: ir.Value) -> ir.Value:
    """And, Or, Xor or Not of booleans; of the bits of integers BitwiseAnd and so on, BitwiseNot before opset 18 as -1 - x."""
    dtype = values[0].dtype
    if dtype == ir.DataType.BOOL:
        found: ir.Value = op.node(operator, *values)
        return found
    if operator == "Not" and op.opset < 18:
        return op.Sub(op.const(-1, dtype), values[0])
    of_bits: ir.Value = op.node(f"Bitwise{operator}", *values)
    return of_bits


def isinf(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Infinite of either sign."""
    if not (x.dtype and x.dtype.is_floating_point()):
        return op.And(op.Equal(x, x), False)
    if x.dtype in schema.allowed_dtypes("", "IsInf", op.opset):
        return op.IsInf(x)
    return op.IsInf(op.cast(x, ir.DataType.FLOAT))


def isfinite(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Neither infinite nor NaN."""
    if not (x.dtype and x.dtype.is_floating_point()):
        return op.Equal(x, x)
    return op.Not(op.Or(isinf(op, x), op.IsNaN(x)))


def not_equal(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """not a = b."""
    return op.Not(op.Equal(a, b))


def real_div(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """a / b of floating-point operands."""
    return op.Div(a, b)


def floor_div(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Python's //: the quotient rounded toward minus infinity, computed through the exact remainder.

    Source: CPython's float_floor_div, which NumPy and PyTorch follow: 1.0 // 0.1 is 9, though 1.0 / 0.1 rounds to 10.
    """
    if _is_integer(a):
        return _integer_floor_div(op, a, b)
    remainder = op.Mod(a, b, fmod=1)
    quotient = op.Div(op.Sub(a, remainder), b)
    wrong_side = op.And(op.Not(op.Equal(remainder, 0.0)), op.Less(op.Mul(op.Sign(remainder), op.Sign(b)), 0.0))
    quotient = op.Where(wrong_side, op.Sub(quotient, 1.0), quotient)
    floor = op.Floor(quotient)
    floor = op.Where(op.Greater(op.Sub(quotient, floor), 0.5), op.Add(floor, 1.0), floor)
    return op.Where(op.Equal(b, 0.0), op.Div(a, b), floor)


def floor_quotient(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """floor(a / b), TensorFlow's //; ONNX's own integer division rounds toward zero."""
    return _integer_floor_div(op, a, b) if _is_integer(a) else op.Floor(op.Div(a, b))


def _integer_floor_div(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    quotient = op.Div(a, b)
    if not (a.dtype and a.dtype.is_signed()):
        return quotient
    remainder = op.Sub(a, op.Mul(quotient, b))
    wrong_side = op.And(op.Not(op.Equal(remainder, 0)), op.Xor(op.Less(remainder, 0), op.Less(b, 0)))
    return op.Sub(quotient, op.cast_like(wrong_side, a))


def floor_mod(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """The remainder with the sign of the divisor (Python's %)."""
    if _is_integer(a):
        return op.Mod(a, b)
    remainder = op.Mod(a, b, fmod=1)
    wrong_side = op.And(op.Not(op.Equal(remainder, 0.0)), op.Less(op.Mul(op.Sign(remainder), op.Sign(b)), 0.0))
    return op.Where(wrong_side, op.Add(remainder, b), remainder)


def trunc_mod(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """The remainder with the sign of the dividend (C's fmod)."""
    return op.Sub(a, op.Mul(op.Div(a, b), b)) if a.dtype == ir.DataType.INT64 else op.Mod(a, b, fmod=1)


def atan2(op: OpBuilder, y: ir.Value, x: ir.Value) -> ir.Value:
    """The angle of the point (x, y), in [-pi, pi], with C's conventions for zeros and infinities of either sign.

    The angle of the first quadrant, atan(|y| / |x|), is mirrored by the signs of x and y (C standard, annex F.10.1.4).
    """
    from onnxport.opset_maps.to_onnx.common.double import atan  # which is written with what stands here

    height, width = op.Abs(y), op.Abs(x)
    one = op.const(1.0, x.dtype)
    both_infinite = op.And(isinf(op, y), isinf(op, x))
    ratio = op.Div(op.Where(both_infinite, one, height), op.Where(both_infinite, one, width))
    origin = op.And(op.Equal(height, 0.0), op.Equal(width, 0.0))
    tangent = op.Where(origin, op.const(0.0, x.dtype), ratio)
    angle = atan(op, tangent) if x.dtype == ir.DataType.DOUBLE else op.Atan(tangent)
    angle = op.Where(is_negative(op, x), op.Sub(op.const(math.pi, x.dtype), angle), angle)
    return op.Where(is_negative(op, y), op.Neg(angle), angle)


def is_negative(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Negative, the negative zero included: 1/x tells the two zeros apart."""
    return op.Or(op.Less(x, 0.0), op.Less(op.Reciprocal(x), 0.0))


def squared_difference(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """(a - b)(a - b)."""
    return square(op, op.Sub(a, b))


def xlogy(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x log(y), 0 where x is 0 and y is a number."""
    zero = op.And(op.Equal(x, 0.0), op.Not(op.IsNaN(y)))
    return op.Where(zero, op.const(0.0, x.dtype), op.Mul(x, op.Log(y)))


def div_no_nan(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """a / b, 0 where b is 0."""
    zero = op.Equal(b, 0.0)
    return op.Where(zero, op.const(0.0, a.dtype), op.Div(a, op.Where(zero, op.const(1.0, a.dtype), b)))


def hypot(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """sqrt(a a + b b), scaled by the larger operand so that squares do not overflow; infinite where an operand is."""
    large, small = op.Max(op.Abs(a), op.Abs(b)), op.Min(op.Abs(a), op.Abs(b))
    zero = op.Equal(large, 0.0)
    ratio = op.Div(small, op.Where(zero, op.const(1.0, a.dtype), large))
    length = op.Mul(large, op.Sqrt(op.Add(op.Mul(ratio, ratio), 1.0)))
    infinite = op.Or(isinf(op, a), isinf(op, b))
    return op.Where(infinite, op.const(math.inf, a.dtype), length)


def logaddexp(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """log(exp(a) + exp(b)) from the larger operand: max + log1p(exp(-|a - b|)); equal infinities stay."""
    large = op.Max(a, b)
    same = op.Equal(a, b)
    gap = op.Where(same, op.const(0.0, a.dtype), op.Neg(op.Abs(op.Sub(a, b))))
    return op.Add(large, log1p(op, op.Exp(gap)))
