"""Complex tensors: a real one of their parts along a last axis of size 2, and arithmetic by those parts."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.facts import Fact

Parts = tuple[ir.Value, ir.Value]
_COMPLEX: Fact[bool] = Fact("complex")


def mark_complex(value: ir.Value) -> None:
    """Records that `value` holds a complex tensor's parts along its last axis."""
    _COMPLEX.set(value, True)


def is_complex(value: ir.Value) -> bool:
    """Whether `value` holds a complex tensor's parts along its last axis."""
    return bool(_COMPLEX.of(value))


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
