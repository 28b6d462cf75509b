"""Integers of TensorFlow's quantised types, which stand in ONNX as integers of the same width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.maps import tensorflow

_FLOAT, _DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE


def _ends(dtype: ir.DataType | None) -> tuple[int, int]:
    info = np.iinfo(np.dtype(dtype.numpy() if dtype is not None else np.uint8))
    return int(info.min), int(info.max)


def _quantising(kind: tf.DType, plain: tf.DType, low: float = -1.5, **given: Any) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        result = tf.raw_ops.QuantizeV2(input=x, min_range=low, max_range=2.0, T=kind, **given)
        return tf.bitcast(result.output, plain), result.output_min, result.output_max

    return run


def _away_from_zero(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Rounded, halves away from zero; numbers below 2^23, so that no sum rounds up."""
    wide = op.cast(x, _DOUBLE)
    return op.Mul(op.Sign(wide), op.Floor(op.Add(op.Abs(wide), 0.5)))


@tensorflow.lower(
    "QuantizeV2",
    cases=[
        case(_quantising(tf.quint8, tf.uint8), f32(5, 7)),
        case(_quantising(tf.qint8, tf.int8, 0.5), f32(5, 7), dynamic=True),
        case(_quantising(tf.qint8, tf.int8, mode="MIN_FIRST"), f32(5, 7)),
        case(_quantising(tf.qint8, tf.int8, mode="SCALED", narrow_range=True), f32(5, 7)),
        case(
            _quantising(tf.quint8, tf.uint8, mode="SCALED", round_mode="HALF_TO_EVEN", ensure_minimum_range=5.0),
            f32(5, 7),
        ),
        case(_quantising(tf.qint16, tf.int16), f32(5, 7)),
    ],
)
def quantize(
    op: OpBuilder,
    input: ir.Value,
    min_range: ir.Value,
    max_range: ir.Value,
    *,
    T: ir.DataType,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    narrow_range: bool = False,
    ensure_minimum_range: float = 0.01,
    **_: Any,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Steps of a range that holds zero, as integers; and the range's ends."""
    least, most = _ends(T)
    if T == ir.DataType.INT32:
        raise UnsupportedOperator("QuantizeV2: qint32 has more steps than float32 tells apart")
    if mode == "MIN_FIRST" and T == ir.DataType.UINT8:
        raise UnsupportedOperator(
            "QuantizeV2: TensorFlow's own kernels of quint8 with mode='MIN_FIRST' differ by a step"
        )
    if mode == "SCALED" and T == ir.DataType.INT8 and round_mode == "HALF_TO_EVEN" and not narrow_range:
        raise UnsupportedOperator(
            "QuantizeV2: TensorFlow's own kernels of qint8 with round_mode='HALF_TO_EVEN' differ by a step"
        )
    low = op.node("Min", min_range, 0.0)
    room = op.Mul(op.Max(op.Max(op.Abs(min_range), op.Abs(max_range)), 1.0), float(np.float32(ensure_minimum_range)))
    high = op.node("Max", op.node("Max", max_range, op.Add(low, room)), 0.0)
    if mode == "SCALED":
        lowest = least + int(narrow_range)
        greatest = op.const(np.finfo(np.float32).max, _FLOAT)
        by_low = op.Where(op.Less(low, 0.0), op.Div(float(lowest), low), greatest) if lowest < 0 else greatest
        by_high = op.Where(op.Greater(high, 0.0), op.Div(float(most), high), greatest)
        scale = op.node("Min", by_low, by_high)
        low, high = op.Div(float(lowest), scale), op.Div(float(most), scale)
    inside = op.node("Max", op.node("Min", input, high), low)
    if mode == "SCALED":
        scaled = op.Mul(inside, scale)
        steps = op.Round(scaled) if round_mode == "HALF_TO_EVEN" else _away_from_zero(op, scaled)
    elif mode == "MIN_COMBINED":
        scaled = op.Mul(op.Sub(inside, low), op.Div(float(most - least), op.Sub(high, low)))
        half = float((most - least + 1) / 2)
        steps = op.Floor(op.Add(scaled, 0.5)) if least == 0 else _away_from_zero(op, op.Sub(scaled, half))
    else:
        count = float(most - least + 1)
        width = op.Sub(op.cast(high, _DOUBLE), op.cast(low, _DOUBLE))
        scale = op.cast(op.Div(count, op.Mul(width, count / (count - 1.0))), _FLOAT)
        offset = op.Sub(op.Round(op.Mul(low, scale)), float(least))
        steps = op.Clip(op.Sub(op.Round(op.Mul(input, scale)), offset), float(least), float(most))
    return op.cast(steps, T), op.identity(low), op.identity(high)


def _dequantising(kind: tf.DType, **given: Any) -> Callable[[Any], Any]:
    return lambda x: tf.raw_ops.Dequantize(input=tf.bitcast(x, kind), min_range=-1.0, max_range=3.3, **given)


_BYTES = np.array([[0, 1, 77], [128, 200, 255]], np.uint8)


@tensorflow.lower(
    "Dequantize",
    cases=[
        *(case(_dequantising(tf.quint8, mode=mode), _BYTES) for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")),
        *(case(_dequantising(tf.qint8, mode=mode), _BYTES.view(np.int8)) for mode in ("MIN_COMBINED", "MIN_FIRST")),
        case(_dequantising(tf.qint8, mode="SCALED", narrow_range=True), _BYTES.view(np.int8), dynamic=True),
    ],
)
def dequantize(
    op: OpBuilder,
    input: ir.Value,
    min_range: ir.Value,
    max_range: ir.Value,
    *,
    mode: str = "MIN_COMBINED",
    narrow_range: bool = False,
    **_: Any,
) -> ir.Value:
    """The numbers of a range that integers stand for."""
    least, most = _ends(input.dtype)
    number = op.cast(input, _FLOAT)
    if mode == "SCALED":
        lowest = least + int(narrow_range)
        scale = op.Div(max_range, float(most))
        scale = scale if lowest == 0 else op.Max(op.Div(min_range, float(lowest)), scale)
        return op.Mul(number, scale)
    if mode == "MIN_COMBINED":
        scale = op.Div(op.Sub(max_range, min_range), float(most - least))
        moved = op.Add(number, float((most - least + 1) / 2)) if least < 0 else number
        return op.Add(op.Mul(moved, scale), min_range)
    count = float(most - least + 1)
    low, high = op.cast(min_range, _DOUBLE), op.cast(max_range, _DOUBLE)
    step = op.Div(op.Mul(op.Sub(high, low), count / (count - 1.0)), count)
    narrow = op.cast(step, _FLOAT)
    start = op.Mul(op.Round(op.Div(min_range, narrow)), narrow)
    wide = op.Mul(op.Sub(op.cast(input, _DOUBLE), float(least)), step)
    return op.cast(op.Add(wide, op.cast(start, _DOUBLE)), _FLOAT)
