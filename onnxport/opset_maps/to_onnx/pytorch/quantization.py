"""Quantisation: QuantizeLinear and DequantizeLinear, which runtimes fuse into integer kernels.

ONNX divides by the scale where PyTorch multiplies by its reciprocal; a number within an ulp of the middle between two
steps may therefore land on the other one.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Array, case, f32
from onnxport.opset_maps.lowerings.dtypes import to_dtype
from onnxport.opset_maps.maps import aten

Number = ir.Value | int | float
_FLOAT = ir.DataType.FLOAT
_RANGES = {
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT16: (0, 65535),
    ir.DataType.INT16: (-32768, 32767),
}


def _storage(op: OpBuilder, low: int, high: int) -> ir.DataType:
    """The narrowest integer type that holds the steps.

    Raises:
        UnsupportedOperator: the opset quantises to none.
    """
    for dtype, (least, most) in _RANGES.items():
        if least <= low and high <= most and (op.opset >= 21 or dtype in (ir.DataType.UINT8, ir.DataType.INT8)):
            return dtype
    raise UnsupportedOperator(f"quantisation to steps {low} to {high} at opset {op.opset}")


def quantized(
    op: OpBuilder, x: ir.Value, scale: ir.Value, zero: ir.Value, low: int, high: int, axis: int | None
) -> ir.Value:
    """QuantizeLinear to the type of `zero`, cut to the steps that are allowed."""
    result = op.QuantizeLinear(op.cast(x, _FLOAT), scale, zero, axis=axis)
    dtype = zero.dtype or ir.DataType.INT8
    if (low, high) == _RANGES[dtype]:
        return result
    return op.cast(
        op.Clip(
            op.cast(result, ir.DataType.INT32), op.const(low, ir.DataType.INT32), op.const(high, ir.DataType.INT32)
        ),
        dtype,
    )


def _faked(
    op: OpBuilder, x: ir.Value, scale: Number, zero_point: Number, low: int, high: int, axis: int | None
) -> ir.Value:
    storage = _storage(op, low, high)
    step = to_dtype(op, scale, _FLOAT)
    zero = to_dtype(op, zero_point, storage)
    if axis is None:
        step, zero = (op.Reshape(item, np.zeros(0, np.int64)) for item in (step, zero))
    whole = quantized(op, x, step, zero, low, high, axis)
    return op.cast_like(op.DequantizeLinear(whole, step, zero, axis=axis), x)


@aten.lower(
    "aten::fake_quantize_per_tensor_affine",
    cases=[
        case(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.125, 3, 0, 255), f32(4, 5)),
        case(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.03, 0, -127, 127), f32(4, 5, low=-9.0, high=9.0)),
        case(
            lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, -128, 127),
            f32(4, 5),
            np.array([0.25], np.float32),
            np.array([1], np.int32),
        ),
    ],
)
def fake_quantize_per_tensor(
    op: OpBuilder, x: ir.Value, scale: Number, zero_point: Number, quant_min: int, quant_max: int
) -> ir.Value:
    """QuantizeLinear and DequantizeLinear."""
    return _faked(op, x, scale, zero_point, quant_min, quant_max, None)


@aten.lower(
    "aten::fake_quantize_per_channel_affine",
    cases=[
        case(
            lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -128, 127),
            f32(4, 3),
            np.array([0.25, 0.5, 0.125], np.float32),
            np.array([0, 1, -2], np.int32),
        )
    ],
)
def fake_quantize_per_channel(
    op: OpBuilder, x: ir.Value, scale: ir.Value, zero_point: ir.Value, axis: int, quant_min: int, quant_max: int
) -> ir.Value:
    """QuantizeLinear and DequantizeLinear with a scale for each channel."""
    return _faked(op, x, scale, zero_point, quant_min, quant_max, axis)


def _pt2e(name: str, *args: object) -> torch.Tensor:
    import torch.ao.quantization.fx._decomposed  # registers the operators

    result: torch.Tensor = getattr(torch.ops.quantized_decomposed, name)(*args)
    return result


_BYTES = Array("int8", (4, 5), -100, 100)


@aten.lower(
    "quantized_decomposed::quantize_per_tensor",
    cases=[
        case(lambda x: _pt2e("quantize_per_tensor", x, 0.125, 3, -128, 127, torch.int8), f32(4, 5)),
        case(lambda x: _pt2e("quantize_per_tensor", x, 0.25, 3, 0, 100, torch.uint8), f32(4, 5)),
    ],
)
def quantize_per_tensor(
    op: OpBuilder, x: ir.Value, scale: Number, zero_point: Number, quant_min: int, quant_max: int, dtype: ir.DataType
) -> ir.Value:
    """QuantizeLinear."""
    scalar = np.zeros(0, np.int64)
    step, zero = (op.Reshape(to_dtype(op, item, kind), scalar) for item, kind in ((scale, _FLOAT), (zero_point, dtype)))
    return quantized(op, x, step, zero, quant_min, quant_max, None)


@aten.lower(
    "quantized_decomposed::dequantize_per_tensor",
    cases=[case(lambda x: _pt2e("dequantize_per_tensor", x, 0.1, 3, -128, 127, torch.int8), _BYTES)],
)
def dequantize_per_tensor(
    op: OpBuilder,
    x: ir.Value,
    scale: Number,
    zero_point: Number,
    quant_min: int,
    quant_max: int,
    dtype: ir.DataType,
    *,
    out_dtype: ir.DataType | None = None,
) -> ir.Value:
    """DequantizeLinear."""
    scalar = np.zeros(0, np.int64)
    step, zero = (op.Reshape(to_dtype(op, item, kind), scalar) for item, kind in ((scale, _FLOAT), (zero_point, dtype)))
    return op.cast(op.DequantizeLinear(x, step, zero), op.result.dtype)


@aten.lower(
    "quantized_decomposed::quantize_per_channel",
    cases=[
        case(
            lambda x, s, z: _pt2e("quantize_per_channel", x, s, z, 0, -127, 127, torch.int8),
            f32(2, 5),
            np.array([0.25, 0.125], np.float32),
            np.array([0, 1]),
        )
    ],
)
def quantize_per_channel(
    op: OpBuilder,
    x: ir.Value,
    scales: ir.Value,
    zero_points: ir.Value,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: ir.DataType,
) -> ir.Value:
    """QuantizeLinear with a scale for each channel."""
    return quantized(op, x, op.cast(scales, _FLOAT), op.cast(zero_points, dtype), quant_min, quant_max, axis)


@aten.lower(
    "quantized_decomposed::dequantize_per_channel",
    cases=[
        case(
            lambda x, s, z: _pt2e("dequantize_per_channel", x, s, z, 0, -128, 127, torch.int8),
            Array("int8", (2, 5), -100, 100),
            np.array([0.25, 0.125], np.float32),
            np.array([0, 1]),
        )
    ],
)
def dequantize_per_channel(
    op: OpBuilder,
    x: ir.Value,
    scales: ir.Value,
    zero_points: ir.Value | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: ir.DataType,
    *,
    out_dtype: ir.DataType | None = None,
) -> ir.Value:
    """DequantizeLinear with a scale for each channel."""
    zero = None if zero_points is None else op.cast(zero_points, dtype)
    return op.cast(op.DequantizeLinear(x, op.cast(scales, _FLOAT), zero, axis=axis), op.result.dtype)
