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
from onnxport.opset_maps.lowerings.dtypes import Operand, to_dtype
from onnxport.opset_maps.maps import aten

_FLOAT = ir.DataType.FLOAT
_BYTES = (ir.DataType.UINT8, ir.DataType.INT8)
_STORAGES = (*_BYTES, ir.DataType.UINT16, ir.DataType.INT16)


def _steps(dtype: ir.DataType) -> tuple[int, int]:
    """The least and the greatest step of an integer type."""
    limits = np.iinfo(dtype.numpy())
    return int(limits.min), int(limits.max)


def _storage(op: OpBuilder, low: int, high: int) -> ir.DataType:
    """The narrowest integer type that holds the steps.

    Raises:
        UnsupportedOperator: the opset quantises to none.
    """
    for dtype in _STORAGES if op.opset >= 21 else _BYTES:
        least, most = _steps(dtype)
        if least <= low and high <= most:
            return dtype
    raise UnsupportedOperator(f"quantisation to steps {low} to {high} at opset {op.opset}")


def quantized(
    op: OpBuilder, x: ir.Value, scale: ir.Value, zero: ir.Value, low: int, high: int, axis: int | None
) -> ir.Value:
    """QuantizeLinear to the type of `zero`, cut to the steps that are allowed."""
    result = op.QuantizeLinear(op.cast(x, _FLOAT), scale, zero, axis=axis)
    dtype = zero.dtype or ir.DataType.INT8
    if (low, high) == _steps(dtype):
        return result
    wide = ir.DataType.INT32
    return op.cast(op.Clip(op.cast(result, wide), op.const(low, wide), op.const(high, wide)), dtype)


def _parameters(
    op: OpBuilder, scale: Operand, zero_point: Operand, dtype: ir.DataType, axis: int | None
) -> tuple[ir.Value, ir.Value]:
    """Scale and zero point in the types that QuantizeLinear takes: scalars, or (`axis`) one for each channel."""
    step, zero = to_dtype(op, scale, _FLOAT), to_dtype(op, zero_point, dtype)
    if axis is not None:
        return step, zero
    scalar = np.zeros(0, np.int64)
    return op.Reshape(step, scalar), op.Reshape(zero, scalar)


def _faked(
    op: OpBuilder, x: ir.Value, scale: Operand, zero_point: Operand, low: int, high: int, axis: int | None
) -> ir.Value:
    step, zero = _parameters(op, scale, zero_point, _storage(op, low, high), axis)
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
    op: OpBuilder, x: ir.Value, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int
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


_EXAMPLE = Array("int8", (4, 5), -100, 100)


@aten.lower(
    "quantized_decomposed::quantize_per_tensor",
    cases=[
        case(lambda x: _pt2e("quantize_per_tensor", x, 0.125, 3, -128, 127, torch.int8), f32(4, 5)),
        case(lambda x: _pt2e("quantize_per_tensor", x, 0.25, 3, 0, 100, torch.uint8), f32(4, 5)),
    ],
)
def quantize_per_tensor(
    op: OpBuilder, x: ir.Value, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int, dtype: ir.DataType
) -> ir.Value:
    """QuantizeLinear."""
    return quantized(op, x, *_parameters(op, scale, zero_point, dtype, None), quant_min, quant_max, None)


@aten.lower(
    "quantized_decomposed::dequantize_per_tensor",
    cases=[case(lambda x: _pt2e("dequantize_per_tensor", x, 0.1, 3, -128, 127, torch.int8), _EXAMPLE)],
)
def dequantize_per_tensor(
    op: OpBuilder,
    x: ir.Value,
    scale: Operand,
    zero_point: Operand,
    quant_min: int,
    quant_max: int,
    dtype: ir.DataType,
    *,
    out_dtype: ir.DataType | None = None,
) -> ir.Value:
    """DequantizeLinear."""
    return op.cast(op.DequantizeLinear(x, *_parameters(op, scale, zero_point, dtype, None)), op.result.dtype)


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
    return quantized(op, x, *_parameters(op, scales, zero_points, dtype, axis), quant_min, quant_max, axis)


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
