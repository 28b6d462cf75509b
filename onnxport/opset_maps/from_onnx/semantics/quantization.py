"""Quantized numbers."""

from __future__ import annotations

from typing import TypedDict, Unpack

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.element_types import element_types
from onnxport.opset_maps.cases import f32
from onnxport.opset_maps.from_onnx.axes import int_op, is_single, per_axis, resolved
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics.linear import centred, matmul_integer
from onnxport.opset_maps.from_onnx.semantics.windows import ConvAttributes, conv
from onnxport.opset_maps.from_onnx.values import Tensor, optional
from onnxport.opset_maps.maps import onnx

_INTEGERS = element_types("UINT8 INT8 UINT16 INT16 UINT4 INT4 UINT2 INT2")


class BlockAttributes(TypedDict, total=False):
    """What a scale or zero point stands for: all elements, a slice along `axis`, or `block_size` of its elements."""

    axis: int
    block_size: int
    output_dtype: int  # of the result


class QuantizeAttributes(BlockAttributes, total=False):
    """Those of QuantizeLinear."""

    precision: int
    saturate: int


def _spread(xp: Namespace, parameter: Tensor, x: Tensor, form: BlockAttributes) -> Tensor:
    """A scale or zero point shaped to be broadcast against x: one, one a slice, or one a block."""
    rank, axis, block_size = xp.ndim(x), form.get("axis", 1), form.get("block_size", 0)
    if xp.ndim(parameter) == 0 or is_single(xp, parameter):
        return xp.reshape(parameter, ())
    along = resolved(axis, rank)
    if xp.ndim(parameter) == 1 and not block_size:
        return per_axis(xp, parameter, rank, along)
    if not block_size:
        raise UnsupportedOperator(f"a scale of rank {xp.ndim(parameter)} without block_size")
    ours = xp.shape(parameter)
    wide = xp.expand_dims(parameter, [along + 1])
    wide = xp.broadcast_to(wide, (*ours[: along + 1], block_size, *ours[along + 1 :]))
    blocks = int_op(xp, "mul", ours[along], block_size)
    wide = xp.reshape(wide, (*ours[:along], blocks, *ours[along + 1 :]))
    return xp.slice(wide, along, 0, xp.shape(x)[along])


@onnx.op(
    "QuantizeLinear",
    versions=(10, 13, 19, 21, 23, 24, 25, 28),
    cases=[
        graph(
            "(float[3, 4] x, float[K] s) => (uint8[3, 4] y) {y = QuantizeLinear <axis = 1> (x, s)}",
            f32(3, 4),
            f32(4, low=0.1, high=1.0),
        )
    ],
)
def quantize_linear(
    xp: Namespace, x: Tensor, scale: Tensor, zero_point: Tensor | None = None, **form: Unpack[QuantizeAttributes]
) -> Tensor:
    """x / scale rounded to nearest even, plus the zero point, saturated."""
    wanted = ir.DataType(form.get("output_dtype") or xp.input_dtype(2) or ir.DataType.UINT8)
    width = ir.DataType(form.get("precision") or _computed(xp, x, scale))
    factor = _spread(xp, xp.astype(scale, width), x, form)
    scaled = xp.divide(xp.astype(x, width), factor)
    zero = None if zero_point is None or wanted not in _INTEGERS else _spread_zero(xp, zero_point, x, form)
    return saturated(xp, scaled, zero, wanted, bool(form.get("saturate", 1)))


def _computed(xp: Namespace, x: Tensor, scale: Tensor) -> ir.DataType:
    dtype = xp.dtype(x) if xp.dtype(x).is_floating_point() else xp.dtype(scale)
    return dtype if dtype.is_floating_point() and dtype.bitwidth >= 16 else ir.DataType.FLOAT


def _spread_zero(xp: Namespace, zero_point: Tensor, x: Tensor, form: BlockAttributes) -> Tensor:
    return _spread(xp, xp.astype(zero_point, ir.DataType.FLOAT), x, form)


def saturated(
    xp: Namespace, scaled: Tensor, zero_point: Tensor | None, dtype: ir.DataType, saturate: bool = True
) -> Tensor:
    """Scaled numbers in a quantized type: integers rounded, moved by a zero point and clipped; small floats cast."""
    if dtype not in _INTEGERS:
        return xp.astype(scaled, dtype, saturate)
    # In FLOAT, in which the sum of a rounded number in range and a zero point is exact.
    rounded = xp.astype(xp.round(scaled), ir.DataType.FLOAT)
    if zero_point is not None:
        rounded = xp.add(rounded, zero_point)
    low = -(1 << (dtype.bitwidth - 1)) if dtype.is_signed() else 0
    high = low + (1 << dtype.bitwidth) - 1
    clipped = xp.clip(rounded, low, high)
    # What is no number is the least one in onnxruntime, and other numbers by framework where it is cast: a scale that was taken
    # from a mask of infinities is infinite, and the mask divided by it NaN.
    whole = xp.astype(xp.where(xp.isnan(clipped), float(low), clipped), dtype)
    return xp.note_slope(whole, scaled, zero_point, low, high)


@onnx.op("DequantizeLinear", versions=(10, 13, 19, 21, 23, 24, 25, 28))
def dequantize_linear(
    xp: Namespace, x: Tensor, scale: Tensor, zero_point: Tensor | None = None, **form: Unpack[BlockAttributes]
) -> Tensor:
    """(x - zero point) scale."""
    wanted = ir.DataType(form.get("output_dtype") or xp.dtype(scale))
    width = xp.dtype(scale) if xp.dtype(scale).bitwidth > 16 else ir.DataType.FLOAT
    if zero_point is None:
        moved = xp.astype(x, width)
    elif xp.dtype(x).is_floating_point():
        moved = xp.subtract(xp.astype(x, width), xp.astype(_spread_zero(xp, zero_point, x, form), width))
    else:
        offset = _spread(xp, xp.astype(zero_point, ir.DataType.INT32), x, form)
        moved = xp.astype(xp.subtract(xp.astype(x, ir.DataType.INT32), offset), width)
    factor = _spread(xp, xp.astype(scale, width), x, form)
    return xp.astype(xp.multiply(xp.with_slope(moved, x), factor), wanted)


@onnx.op("DynamicQuantizeLinear", versions=(11,))
def dynamic_quantize_linear(xp: Namespace, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x as UINT8 with the scale and zero point of its own range, which includes 0; of zeros alone runtimes give a scale of 1."""
    low, high = xp.minimum(xp.min(x), 0), xp.maximum(xp.max(x), 0)
    scale = xp.divide(xp.subtract(high, low), 255)
    safe = xp.where(xp.equal(scale, 0), 1.0, scale)
    zero = xp.round(xp.clip(xp.divide(xp.negative(low), safe), 0, 255))
    quantized = saturated(xp, xp.divide(x, safe), zero, ir.DataType.UINT8)
    return quantized, safe, xp.astype(zero, ir.DataType.UINT8)


@onnx.op("QLinearMatMul", versions=(10, 21))
def qlinear_matmul(xp: Namespace, *operands: Tensor) -> Tensor:
    """Product of quantized matrices, quantized."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = operands
    wanted = xp.input_dtype(7) or xp.dtype(y_zero)
    if _is_float8(xp.input_dtype(0)) or _is_float8(xp.input_dtype(3)):
        left, right = (_as_floats(xp, x, zero, axis) for x, zero, axis in ((a, a_zero, -2), (b, b_zero, -1)))
        product = xp.matmul(left, right)
    else:
        product = matmul_integer(xp, a, b, a_zero, b_zero)
    width = ir.DataType.FLOAT
    rows = _column(xp, xp.astype(a_scale, width), product, -2)
    columns = _column(xp, xp.astype(b_scale, width), product, -1)
    factor = xp.divide(xp.multiply(rows, columns), xp.astype(y_scale, width))
    zero = xp.astype(y_zero, width)
    real = xp.with_slope(xp.astype(product, width), product)
    return saturated(xp, xp.multiply(real, factor), zero, wanted)


def _is_float8(dtype: ir.DataType | None) -> bool:
    return dtype is not None and dtype.name.startswith("FLOAT8")


def _as_floats(xp: Namespace, x: Tensor, zero: Tensor, axis: int) -> Tensor:
    """Numbers less their zero points, in FLOAT."""
    return xp.subtract(xp.astype(x, ir.DataType.FLOAT), _column(xp, xp.astype(zero, ir.DataType.FLOAT), x, axis))


def _column(xp: Namespace, scale: Tensor, like: Tensor, axis: int) -> Tensor:
    rank = xp.ndim(like)
    return per_axis(xp, scale, rank, axis + rank) if xp.ndim(scale) == 1 else scale


@onnx.op("ConvInteger", versions=(10,))
def conv_integer(
    xp: Namespace, x: Tensor, w: Tensor, *zeros: Tensor | None, **attributes: Unpack[ConvAttributes]
) -> Tensor:
    """Convolution of integers less their zero points, exact, INT32."""
    x_zero, w_zero = optional(zeros, 2)
    image = xp.with_slope(xp.astype(centred(xp, x, x_zero, 1), ir.DataType.DOUBLE), x)
    result = conv(xp, image, xp.astype(centred(xp, w, w_zero, 0), ir.DataType.DOUBLE), **attributes)
    return xp.note_slope(xp.astype(xp.round(result), ir.DataType.INT32), result)


@onnx.op("QLinearConv", versions=(10,))
def qlinear_conv(xp: Namespace, *operands: Tensor, **attributes: Unpack[ConvAttributes]) -> Tensor:
    """Convolution of quantized numbers, quantized; weights may be scaled per output channel."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = operands
    wanted = xp.input_dtype(7) or xp.dtype(y_zero)
    product = conv_integer(xp, x, w, x_zero, w_zero, **attributes)
    rank = xp.ndim(product)
    result = xp.add(product, per_axis(xp, bias[0], rank, 1)) if bias else product
    factor = xp.divide(xp.multiply(x_scale, w_scale), y_scale)
    if xp.ndim(factor) == 1:
        factor = per_axis(xp, factor, rank, 1)
    scaled = xp.multiply(xp.with_slope(xp.astype(result, ir.DataType.FLOAT), product), factor)
    return saturated(xp, scaled, xp.astype(y_zero, ir.DataType.FLOAT), wanted)
