"""Functions that ONNX, or a runtime, lacks, composed of its operators without a loss of digits."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder


def expm1(op: OpBuilder, x: ir.Value) -> ir.Value:
    """exp(x) - 1 without cancellation: with u = exp(x) rounded, (u - 1) x / log(u); x where u = 1.

    Source: Kahan's formula, in Higham, "Accuracy and Stability of Numerical Algorithms", section 1.14.1.
    """
    u = op.Exp(x)
    difference = op.Sub(u, 1.0)
    exact = op.Equal(u, 1.0)
    limit = op.Or(op.Equal(difference, -1.0), op.Equal(difference, u))
    safe_log = op.Where(exact, op.const(1.0, x.dtype), op.Log(u))
    return op.Where(exact, x, op.Where(limit, difference, op.Mul(difference, op.Div(x, safe_log))))


def log1p(op: OpBuilder, x: ir.Value) -> ir.Value:
    """log(1 + x), exact for small x: with u = 1 + x rounded, x log(u) / (u - 1), or x where u = 1.

    Source: Kahan's formula, in Goldberg, "What Every Computer Scientist Should Know About Floating-Point Arithmetic",
    theorem 4.
    """
    u = op.Add(x, 1.0)
    difference = op.Sub(u, 1.0)
    exact = op.Equal(difference, 0.0)
    unbounded = op.Equal(u, difference)
    ratio = op.Div(op.Log(u), op.Where(exact, op.const(1.0, x.dtype), difference))
    return op.Where(exact, x, op.Where(unbounded, op.Log(u), op.Mul(x, ratio)))


def standardized(op: OpBuilder, x: ir.Value, axes: Sequence[int], eps: float) -> ir.Value:
    """(x - mean) / sqrt(variance + eps) over `axes`."""
    centred = op.Sub(x, op.reduce("ReduceMean", x, axes, keepdims=True))
    variance = op.reduce("ReduceMean", op.Mul(centred, centred), axes, keepdims=True)
    return op.Div(centred, op.Sqrt(op.Add(variance, eps)))
