"""Gradients of functions of complex numbers, by the conjugate of the function's result, and products that are 0 for a 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings import complex_functions as functions
from onnxport.opset_maps.lowerings.complex_functions import times
from onnxport.opset_maps.lowerings.complex_numbers import Parts, quotient
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.complex_moves import complex_case

_DOUBLE = ir.DataType.DOUBLE
OfTwo = Callable[[OpBuilder, Parts, Parts], Parts]


def _scaled(op: OpBuilder, z: Parts, factor: float) -> Parts:
    return op.Mul(z[0], factor), op.Mul(z[1], factor)


def _less_than_one(op: OpBuilder, z: Parts) -> Parts:
    """1 - z."""
    return op.Sub(1.0, z[0]), op.Neg(z[1])


def _or_zero(op: OpBuilder, x: Parts, result: Parts) -> Parts:
    """0 where x is 0."""
    zero = op.And(op.Equal(x[0], 0.0), op.Equal(x[1], 0.0))
    real, imaginary = (op.Where(zero, op.const(0.0, _DOUBLE), part) for part in result)
    return real, imaginary


def _of_conjugate(gradient: OfTwo) -> OfTwo:
    """`gradient` of the conjugate of the result y, and of dy."""
    return lambda op, y, dy: gradient(op, (y[0], op.Neg(y[1])), dy)


def _tanh(op: OpBuilder, y: Parts, dy: Parts) -> Parts:
    return times(op, dy, _less_than_one(op, times(op, y, y)))


def _sigmoid(op: OpBuilder, y: Parts, dy: Parts) -> Parts:
    return times(op, times(op, dy, y), _less_than_one(op, y))


def _reciprocal(op: OpBuilder, y: Parts, dy: Parts) -> Parts:
    return _scaled(op, times(op, times(op, dy, y), y), -1.0)


def _sqrt(op: OpBuilder, y: Parts, dy: Parts) -> Parts:
    return _or_zero(op, dy, quotient(op, _scaled(op, dy, 0.5), y))


def _rsqrt(op: OpBuilder, y: Parts, dy: Parts) -> Parts:
    return _or_zero(op, dy, times(op, _scaled(op, times(op, dy, y), -0.5), times(op, y, y)))


def _xlogy(op: OpBuilder, x: Parts, y: Parts) -> Parts:
    return _or_zero(op, x, times(op, x, functions.log(op, *y)))


def _xlog1py(op: OpBuilder, x: Parts, y: Parts) -> Parts:
    return _or_zero(op, x, times(op, x, functions.log1p(op, *y)))


# TensorFlow's names, what they are of two operands, how these are named there, what that gives.
_ENTRIES: tuple[tuple[str, OfTwo, tuple[str, str], str], ...] = (
    ("TanhGrad", _tanh, ("y", "dy"), "dy (1 - y y): of y itself, which tf.tanh's gradient conjugates before."),
    ("SigmoidGrad", _sigmoid, ("y", "dy"), "dy y (1 - y): of y itself, as of TanhGrad."),
    ("ReciprocalGrad InvGrad", _of_conjugate(_reciprocal), ("y", "dy"), "-dy y y of the conjugate y."),
    ("SqrtGrad", _of_conjugate(_sqrt), ("y", "dy"), "dy / (2 y) of the conjugate y."),
    ("RsqrtGrad", _of_conjugate(_rsqrt), ("y", "dy"), "-dy y y y / 2 of the conjugate y."),
    ("Xlogy", _xlogy, ("x", "y"), "x log y, 0 where x is 0."),
    ("Xlog1py", _xlog1py, ("x", "y"), "x log(1 + y), 0 where x is 0."),
)


def _register(names: str, function: OfTwo, operands: tuple[str, str], summary: str) -> None:
    def run(first: Any, second: Any) -> list[Any]:
        zeros = tf.where(tf.math.real(first) > 0, first, 0), tf.where(tf.math.real(second) > 0, second, 0)
        pairs = [(first, second), (zeros[0], second)] if operands[0] == "x" else [(first, second), (first, zeros[1])]
        calls = [getattr(tf.raw_ops, name) for name in names.split()]
        return [call(**dict(zip(operands, pair, strict=True))) for call in calls for pair in pairs]

    @tensorflow.lower(names, accepts_complex=True, cases=[complex_case(run, (2, 3), (2, 3))])
    def lower(op: OpBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
        return functions.of_pairs(function)(op, first, second)

    lower.__doc__ = summary


for _row in _ENTRIES:
    _register(*_row)
