"""Quantisation: numbers rounded to steps of a range, and the integers that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i32
from onnxport.opset_maps.maps import tensorflow

_FLOAT = ir.DataType.FLOAT


def nudged(
    op: OpBuilder, low: ir.Value, high: ir.Value, num_bits: int, narrow_range: bool
) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
    """The ends of TensorFlow's range, with zero as one of its steps (fake_quant_ops_functor.h), a step, and its inverse."""
    least, most = float(narrow_range), float(2**num_bits - 1)
    step = op.Div(op.Sub(high, low), most - least)
    inverse = op.Div(most - least, op.Sub(high, low))
    start = op.Sub(least, op.Div(low, step))
    zero = op.Where(
        op.Less(start, least),
        op.const(least, _FLOAT),
        op.Where(op.Greater(start, most), op.const(most, _FLOAT), op.Floor(op.Add(start, 0.5))),
    )
    return op.Mul(op.Sub(least, zero), step), op.Mul(op.Sub(most, zero), step), step, inverse


def _fake_quantised(
    op: OpBuilder, x: ir.Value, low: ir.Value, high: ir.Value, num_bits: int, narrow_range: bool
) -> ir.Value:
    bottom, top, step, inverse = nudged(op, low, high, num_bits, narrow_range)
    inside = op.node("Max", op.node("Min", x, top), bottom)
    steps = op.Floor(op.Add(op.Mul(op.Sub(inside, bottom), inverse), 0.5))
    result = op.Add(op.Mul(steps, step), bottom)
    # An empty range gives zeros.
    empty = op.And(op.Equal(low, 0.0), op.Equal(high, 0.0))
    return op.Where(empty, op.const(0.0, _FLOAT), result)


class Steps(TypedDict, total=False):
    """Attributes of numbers that are rounded to the steps of a range."""

    min: float
    max: float
    num_bits: int
    narrow_range: bool


def ends_of(op: OpBuilder, form: Steps) -> tuple[ir.Value, ir.Value, int, bool]:
    """The ends of a range of attributes, how many bits a step has, and whether the lowest step is left out."""
    low, high = (op.const(np.float32(item), _FLOAT) for item in (form.get("min", -6.0), form.get("max", 6.0)))
    return low, high, form.get("num_bits", 8), form.get("narrow_range", False)


QUANTISED: list[dict[str, Any]] = [{}, {"num_bits": 4}, {"narrow_range": True}]


@tensorflow.lower(
    "FakeQuantWithMinMaxArgs",
    cases=[
        case(lambda x, given=given: tf.quantization.fake_quant_with_min_max_args(x, -1.5, 2.0, **given), f32(5, 7))
        for given in QUANTISED
    ],
)
def fake_quant_args(op: OpBuilder, inputs: ir.Value, **form: Unpack[Steps]) -> ir.Value:
    """Rounded to the steps of a range."""
    return _fake_quantised(op, inputs, *ends_of(op, form))


@tensorflow.lower(
    "FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel",
    cases=[
        *(
            case(lambda x, given=given: tf.quantization.fake_quant_with_min_max_vars(x, -1.5, 2.0, **given), f32(5, 7))
            for given in QUANTISED
        ),
        case(
            lambda x: tf.quantization.fake_quant_with_min_max_vars_per_channel(x, [-1.0, 0.0, -2.5], [1.0, 2.0, -0.1]),
            f32(4, 3),
        ),
        case(lambda x: tf.quantization.fake_quant_with_min_max_vars(x, 0.0, 0.0), f32(4, 3)),
        case(lambda x: tf.quantization.fake_quant_with_min_max_vars(x, 1.0, -1.0), f32(4, 3)),
    ],
)
def fake_quant_vars(
    op: OpBuilder, inputs: ir.Value, min: ir.Value, max: ir.Value, *, num_bits: int = 8, narrow_range: bool = False
) -> ir.Value:
    """Rounded to the steps of a range, or of one for each channel."""
    return _fake_quantised(op, inputs, min, max, num_bits, narrow_range)


def _quantise_and_dequantise(**given: Any) -> Callable[[Any], Any]:
    return lambda x: tf.quantization.quantize_and_dequantize_v2(x, -1.5, 2.0, **given)


@tensorflow.lower(
    "QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4",
    cases=[
        case(_quantise_and_dequantise(range_given=True), f32(5, 7)),
        case(_quantise_and_dequantise(range_given=True, signed_input=False), f32(5, 7)),
        case(_quantise_and_dequantise(range_given=False, num_bits=5), f32(5, 7)),
        case(_quantise_and_dequantise(range_given=True, narrow_range=True, round_mode="HALF_UP"), f32(5, 7)),
        case(
            lambda x: tf.raw_ops.QuantizeAndDequantizeV3(
                input=x, input_min=[-1.0, -2.0, 0.0], input_max=[1.0, 1.0, 3.0], num_bits=8, axis=1
            ),
            f32(4, 3),
        ),
    ],
)
def quantize_and_dequantize(
    op: OpBuilder,
    input: ir.Value,
    input_min: ir.Value,
    input_max: ir.Value,
    num_bits: ir.Value | int = 8,
    *,
    signed_input: bool = True,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    narrow_range: bool = False,
    axis: int = -1,
    **_: Any,
) -> ir.Value:
    """Rounded to steps that leave zero as it is; the wider side of the range gives the step."""
    bits = op.constant(num_bits) if isinstance(num_bits, ir.Value) else num_bits
    if bits is None:
        raise UnsupportedOperator(f"{op.name}: num_bits is computed when the model runs")
    count = int(bits)
    low, high = op.cast_like(input_min, input), op.cast_like(input_max, input)
    n = input.shape.rank() if input.shape is not None else 0
    if not range_given:
        axes = [i for i in range(n) if axis == -1 or i != axis]
        low, high = (op.reduce(kind, input, axes, keepdims=True) for kind in ("ReduceMin", "ReduceMax"))
    elif axis != -1:
        shape = [1] * n
        shape[axis] = -1
        low, high = op.Reshape(low, shape), op.Reshape(high, shape)
    least = (-(2 ** (count - 1)) + int(narrow_range)) if signed_input else 0
    most = 2 ** (count - 1) - 1 if signed_input else 2**count - 1
    # The scale by which both ends stay inside; of the ends that say nothing the greatest number.
    greatest = op.const(np.finfo(np.float32).max, input.dtype)
    by_low = op.Where(op.Greater(op.Mul(low, float(least)), 0.0), op.Div(float(least), low), greatest)
    by_high = op.Where(op.Greater(op.Mul(high, float(most)), 0.0), op.Div(float(most), high), greatest)
    narrower = op.Less(by_low, by_high)
    scale = op.Where(narrower, by_low, by_high)
    step = op.Where(narrower, op.Div(low, float(least)) if least else greatest, op.Div(high, float(most)))
    low = op.Where(narrower, low, op.Mul(step, float(least)))
    high = op.Where(narrower, op.Mul(step, float(most)), high)
    scaled = op.Mul(op.node("Min", op.node("Max", input, low), high), scale)
    rounded = op.Round(scaled) if round_mode == "HALF_TO_EVEN" else op.Floor(op.Add(scaled, 0.5))
    return op.Mul(rounded, step)


def _steps(name: str, taken: Any, axis: int | None, zero_point: Any) -> Callable[[Any], Any]:
    """A function that implements one of the operators of this name, of int8."""
    factors = np.array(0.25 if axis is None else [0.5, 0.25, 0.125], np.float32)

    def body(x: Any, scale: Any, zero_point: Any, axis: Any) -> Any:
        zero = tf.cast(zero_point, tf.float32)
        if x.dtype != tf.float32:
            return (tf.cast(x, tf.float32) - zero) * scale
        return tf.cast(tf.clip_by_value(tf.round(x / scale) + zero, -128.0, 127.0), tf.int8)

    def run(x: Any) -> Any:
        scale = tf.constant(factors)
        specs = [tf.TensorSpec(x.shape, taken), tf.TensorSpec(scale.shape), tf.TensorSpec(scale.shape, tf.int8)]
        composite = tf.function(
            body, input_signature=[*specs, tf.TensorSpec([], tf.int32)], experimental_implements=f"onnxport::{name}"
        )
        return composite(tf.cast(x, taken), scale, tf.constant(zero_point, tf.int8), tf.constant(axis or 0))

    return run


_SCALES: tuple[tuple[int | None, int | list[int]], ...] = ((None, 3), (1, [3, 0, -2]))  # axes, and zero points


@tensorflow.lower(
    "onnxport::DequantizeLinear",
    cases=[case(_steps("DequantizeLinear", tf.int8, axis, zero), i32(5, 3)) for axis, zero in _SCALES],
)
def dequantize_linear(op: OpBuilder, x: ir.Value, scale: ir.Value, zero_point: ir.Value, axis: ir.Value) -> ir.Value:
    """The real numbers that whole ones stand for, with a scale for all or for each channel: what TFLite files compute with."""
    if x.dtype == ir.DataType.INT32:  # its zero point can't be other than 0
        return op.DequantizeLinear(x, scale, axis=_axis(op, axis))
    return op.DequantizeLinear(x, scale, zero_point, axis=_axis(op, axis))


@tensorflow.lower(
    "onnxport::QuantizeLinear",
    cases=[case(_steps("QuantizeLinear", tf.float32, axis, zero), f32(5, 3)) for axis, zero in _SCALES],
)
def quantize_linear(op: OpBuilder, x: ir.Value, scale: ir.Value, zero_point: ir.Value, axis: ir.Value) -> ir.Value:
    """The whole numbers that stand for real ones, halves to even, within their type."""
    return op.QuantizeLinear(x, scale, zero_point, axis=_axis(op, axis))


def _axis(op: OpBuilder, axis: ir.Value) -> int:
    number = op.constant(axis)
    if number is None:
        raise UnsupportedOperator(f"{op.name}: the axis is computed when the model runs")
    return int(number)
