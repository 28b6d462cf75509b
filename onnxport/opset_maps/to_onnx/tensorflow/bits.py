"""Numbers by their bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i32, i64
from onnxport.opset_maps.lowerings import arithmetic, bits
from onnxport.opset_maps.maps import tensorflow

_SINGLE = np.array(
    [0.0, -0.0, 1.0, -1.5, 3.1415927, 1e-45, -1e-40, 1.1754944e-38, 3.4e38, np.inf, -np.inf, np.nan], np.float32
)
_DOUBLE = np.array(
    [0.0, -0.0, 1.0, -1.5, np.pi, 5e-324, -1e-310, 2.2250738585072014e-308, 1.7e308, np.inf, -np.inf, np.nan, 3e-301]
)


def _to(dtype: Any, *before: Any) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for kind in before:
            x = tf.bitcast(x, kind)
        return tf.bitcast(x, dtype)

    return run


@tensorflow.lower(
    "Bitcast",
    cases=[
        case(_to(tf.uint32), i32(9, low=-90, high=90)),
        case(_to(tf.uint64), i64(9)),
        case(_to(tf.int32), _SINGLE),
        case(_to(tf.uint8), _SINGLE),
        case(_to(tf.int64), _DOUBLE),
        case(_to(tf.int32), _DOUBLE),
        case(_to(tf.float32), _SINGLE.view(np.int32)),
        case(_to(tf.float64), _DOUBLE.view(np.int64)),
        case(_to(tf.float32), i64(2, 3, low=-(2**62), high=2**62)),
        case(_to(tf.float64), f32(3, 4, 2)),
        case(_to(tf.float32), np.arange(24, dtype=np.uint8).reshape(2, 3, 4)),
        case(_to(tf.int64), np.arange(-8, 8, dtype=np.int8).reshape(2, 8)),
        case(_to(tf.int16), np.array([0.0, -0.0, 1.5, -65504, 6e-8, np.inf, -np.inf], np.float16)),
        case(_to(tf.float16), np.arange(-300, 30000, 777, dtype=np.int16)),
        case(_to(tf.int16), _SINGLE.astype(tf.bfloat16.as_numpy_dtype)),
    ],
)
def bitcast(op: OpBuilder, input: ir.Value, *, type: ir.DataType) -> ir.Value:
    """ONNX BitCast of one width from opset 26 on, Cast between integers of one width; else by arithmetic."""
    return bits.bitcast(op, input, type)


def _steps(x: Any, y: Any) -> Any:
    """The neighbours by their bits, which are judged exactly."""
    return tf.bitcast(tf.math.nextafter(x, y), tf.int64)


@tensorflow.lower(
    "NextAfter",
    cases=[
        case(tf.math.nextafter, f32(9), f32(9)),
        # TensorFlow takes numbers below the normal ones for 0 where it compares them with 0.
        case(_steps, np.repeat(_DOUBLE, 3), np.tile(np.array([np.inf, -np.inf, 1.0]), 13)),
        case(_steps, 2.0 ** np.arange(-1074, 1023, 37), np.array(-np.inf)),
        case(_steps, 1.3 * 2.0 ** np.arange(-1074, 1023, 37), np.array(np.inf)),
        case(_steps, 2.0 ** np.arange(-1021, -1016, 0.5), np.array(0.0)),
    ],
)
def next_after(op: OpBuilder, x1: ir.Value, x2: ir.Value) -> ir.Value:
    """The number after the first in the direction of the second."""
    if x1.dtype == ir.DataType.DOUBLE:
        return bits.next_double(op, x1, x2)
    if x1.dtype != ir.DataType.FLOAT:
        raise UnsupportedOperator(f"NextAfter of {x1.dtype}: float32 and float64 are written")
    return arithmetic.next_single(op, x1, x2)
