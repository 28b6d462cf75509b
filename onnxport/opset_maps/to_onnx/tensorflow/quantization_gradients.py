"""Gradients of numbers rounded to steps of a range: they pass inside of it, and what lies outside moves its ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, f32
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.quantization import QUANTISED, Steps, ends_of, nudged


def _gradient_cases(name: str, *inputs: Any, **given: Any) -> list[Case]:
    def call(options: dict[str, Any]) -> Callable[[Any, Any], Any]:
        def run(dy: Any, x: Any) -> Any:
            return getattr(tf.raw_ops, name)(gradients=dy, inputs=x, **given, **options)

        return run

    return [case(call(options), *inputs) for options in QUANTISED]


@tensorflow.lower(
    "FakeQuantWithMinMaxArgsGradient",
    cases=_gradient_cases("FakeQuantWithMinMaxArgsGradient", f32(5, 7), f32(5, 7), min=-1.5, max=2.0),
)
def fake_quant_args_gradient(op: OpBuilder, gradients: ir.Value, inputs: ir.Value, **form: Unpack[Steps]) -> ir.Value:
    """The gradient inside of the range, 0 outside."""
    return _passed(op, gradients, inputs, *ends_of(op, form))[0]


@tensorflow.lower(
    "FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannelGradient",
    cases=[
        *_gradient_cases("FakeQuantWithMinMaxVarsGradient", f32(5, 7), f32(5, 7), min=-1.5, max=2.0),
        *_gradient_cases(
            "FakeQuantWithMinMaxVarsPerChannelGradient",
            f32(2, 5, 3),
            f32(2, 5, 3),
            min=[-1.0, 0.0, -2.5],
            max=[1.0, 0.0, -0.1],
        ),
    ],
)
def fake_quant_vars_gradient(
    op: OpBuilder,
    gradients: ir.Value,
    inputs: ir.Value,
    min: ir.Value,
    max: ir.Value,
    *,
    num_bits: int = 8,
    narrow_range: bool = False,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The gradient inside of the range, and the sums of what lies below and above it."""
    return _passed(op, gradients, inputs, min, max, num_bits, narrow_range)


def _passed(
    op: OpBuilder,
    dy: ir.Value,
    x: ir.Value,
    low: ir.Value,
    high: ir.Value,
    num_bits: int,
    narrow_range: bool,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    bottom, top, _, _ = nudged(op, low, high, num_bits, narrow_range)
    empty = op.And(op.Equal(low, 0.0), op.Equal(high, 0.0))
    axes = list(range(rank(x) - rank(low)))
    zero = op.const(0.0)

    def total(outside: ir.Value) -> ir.Value:
        summed = op.reduce("ReduceSum", op.Where(outside, dy, zero), axes, keepdims=False)
        return op.Where(empty, zero, summed)

    below, above = op.Less(x, bottom), op.Greater(x, top)
    inside = op.Where(op.Or(below, above), zero, dy)
    return op.Where(empty, dy, inside), total(below), total(above)


def _of_range(axis: int, low: Any, high: Any) -> Callable[[Any, Any], Any]:
    def run(dy: Any, x: Any) -> Any:
        return tf.raw_ops.QuantizeAndDequantizeV4Grad(
            gradients=dy, input=x, input_min=np.float32(low), input_max=np.float32(high), axis=axis
        )

    return run


@tensorflow.lower(
    "QuantizeAndDequantizeV4Grad",
    cases=[
        case(_of_range(-1, -1.0, 2.0), f32(4, 3), f32(4, 3)),
        case(_of_range(1, [-1.0, 0.0, -2.0], [1.0, 2.0, 0.5]), f32(4, 3), f32(4, 3)),
    ],
)
def quantize_and_dequantize_grad(
    op: OpBuilder, gradients: ir.Value, input: ir.Value, input_min: ir.Value, input_max: ir.Value, *, axis: int = -1
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The gradient inside of the range; zeros for its ends."""
    ends = [input_min, input_max]
    if axis != -1:
        shape = [1] * rank(input)
        shape[axis] = -1
        ends = [op.Reshape(item, shape) for item in ends]
    inside = op.And(op.GreaterOrEqual(input, ends[0]), op.LessOrEqual(input, ends[1]))
    zero = op.const(0.0, gradients.dtype)
    return op.Where(inside, gradients, zero), op.Mul(input_min, 0.0), op.Mul(input_max, 0.0)
