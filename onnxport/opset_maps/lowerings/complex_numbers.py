"""Complex tensors: a real one of their parts along a last axis of size 2, and arithmetic by those parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.facts import Fact
from onnxport.opset_maps.lowerings.arithmetic import hypot
from onnxport.opset_maps.lowerings.trigonometry import atan2

Parts = tuple[ir.Value, ir.Value]
# An operand of complex arithmetic; a real one has no imaginary part.
Term = tuple[ir.Value, ir.Value | None]
# The types of the parts of complex types.
PART_TYPES = {ir.DataType.COMPLEX64: ir.DataType.FLOAT, ir.DataType.COMPLEX128: ir.DataType.DOUBLE}
_COMPLEX: Fact[bool] = Fact("complex")


def mark_complex(value: ir.Value) -> None:
    """Records that `value` holds a complex tensor's parts along its last axis."""
    _COMPLEX.set(value, True)


def is_complex(value: ir.Value) -> bool:
    """Whether `value` holds a complex tensor's parts along its last axis."""
    return bool(_COMPLEX.of(value))


def part_type(dtype: ir.DataType) -> ir.DataType:
    """The type of a complex type's parts; a real type itself."""
    return PART_TYPES.get(dtype, dtype)


def parts_of(op: OpBuilder, z: ir.Value) -> Parts:
    """Real and imaginary part of a pair."""
    return op.Gather(z, 0, axis=-1), op.Gather(z, 1, axis=-1)


def joined(op: OpBuilder, real: ir.Value, imaginary: ir.Value) -> ir.Value:
    """The pair of two parts; parts of different shapes are broadcast against each other."""
    if real.shape is None or imaginary.shape is None or list(real.shape) != list(imaginary.shape):
        shape = op.shape(op.Add(real, imaginary))
        real, imaginary = op.Expand(real, shape), op.Expand(imaginary, shape)
    return paired(op, real, imaginary)


def from_real(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The pair of a real number and 0: not of 0 x, which is NaN of an infinity."""
    return paired(op, x, op.Expand(op.const(0, x.dtype), op.shape(x)))


def paired(op: OpBuilder, real: ir.Value, imaginary: ir.Value) -> ir.Value:
    """The pair of two parts of one shape."""
    return op.Concat(op.Unsqueeze(real, op.axes(-1)), op.Unsqueeze(imaginary, op.axes(-1)), axis=-1)


def from_polar(op: OpBuilder, modulus: ir.Value, angle: ir.Value) -> ir.Value:
    """r cos t + i r sin t."""
    return joined(op, op.Mul(modulus, op.Cos(angle)), op.Mul(modulus, op.Sin(angle)))


def conjugate(op: OpBuilder, z: ir.Value) -> ir.Value:
    """The imaginary part with the other sign."""
    return op.Mul(z, op.const(np.array([1.0, -1.0]), z.dtype))


def modulus(op: OpBuilder, z: ir.Value) -> ir.Value:
    """The hypotenuse of the parts."""
    return hypot(op, *parts_of(op, z))


def argument(op: OpBuilder, z: ir.Value) -> ir.Value:
    """The angle in [-pi, pi]."""
    real, imaginary = parts_of(op, z)
    return atan2(op, imaginary, real)


def total(op: OpBuilder, x: Term, y: Term, *, sign: int = 1) -> ir.Value:
    """x + y, or with `sign` -1 x - y, of which one has an imaginary part."""
    (a, b), (c, d) = x, y
    real = op.Add(a, c) if sign > 0 else op.Sub(a, c)
    if b is not None and d is not None:
        return joined(op, real, op.Add(b, d) if sign > 0 else op.Sub(b, d))
    if d is not None:
        return joined(op, real, d if sign > 0 else op.Neg(d))
    return joined(op, real, _imaginary(b))


def product(op: OpBuilder, x: Term, y: Term, multiply: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """(a + bi)(c + di) of operands of which one has an imaginary part; `multiply` gives a product of parts."""
    (a, b), (c, d) = x, y
    if b is not None and d is not None:
        return joined(op, op.Sub(multiply(a, c), multiply(b, d)), op.Add(multiply(a, d), multiply(b, c)))
    if d is not None:
        return joined(op, multiply(a, c), multiply(a, d))
    return joined(op, multiply(a, c), multiply(_imaginary(b), c))


def division(op: OpBuilder, x: Term, y: Term) -> ir.Value:
    """x / y of operands of which one has an imaginary part: Smith's quotient, part by part where the divisor is real."""
    (a, b), (c, d) = x, y
    if d is None:
        return joined(op, op.Div(a, c), op.Div(_imaginary(b), c))
    return joined(op, *quotient(op, (a, op.const(0.0, a.dtype) if b is None else b), (c, d)))


def _imaginary(part: ir.Value | None) -> ir.Value:
    if part is None:
        raise UnsupportedOperator("a complex result of real operands")
    return part


def quotient(op: OpBuilder, dividend: Parts, divisor: Parts) -> Parts:
    """(a + bi) / (c + di) by the ratio of the divisor's smaller part to its larger one, so that no square overflows.

    Source: R. Smith, "Algorithm 116: Complex division", Communications of the ACM 5, 1962. A divisor of 0 gives each part over 0.
    """
    (a, b), (c, d) = dividend, divisor
    swapped = op.Less(op.Abs(c), op.Abs(d))
    large, small = op.Where(swapped, d, c), op.Where(swapped, c, d)
    first, second = op.Where(swapped, b, a), op.Where(swapped, a, b)
    ratio = op.Div(small, large)
    length = op.Add(large, op.Mul(small, ratio))
    real = op.Div(op.Add(first, op.Mul(second, ratio)), length)
    imaginary = op.Div(op.Sub(second, op.Mul(first, ratio)), length)
    imaginary = op.Where(swapped, op.Neg(imaginary), imaginary)
    zero = op.Equal(large, op.const(0.0, large.dtype))
    return op.Where(zero, op.Div(a, op.Abs(c)), real), op.Where(zero, op.Div(b, op.Abs(d)), imaginary)
