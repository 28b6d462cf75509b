"""Quantized products of com.microsoft, as onnxruntime's quantisers and optimisers write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import f32
from onnxport.opset_maps.from_onnx.axes import int_op, is_single, per_axis
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics import quantization
from onnxport.opset_maps.from_onnx.semantics.linear import ProductAttributes, matmul_integer
from onnxport.opset_maps.from_onnx.semantics.microsoft import microsoft_op
from onnxport.opset_maps.from_onnx.semantics.microsoft_attention import (
    AttentionForm,
    attended,
    cached,
    checked,
    parted,
)
from onnxport.opset_maps.from_onnx.semantics.microsoft_quantized import quantized_case, requantized
from onnxport.opset_maps.from_onnx.values import Tensor, optional

_FLOAT, _UINT8 = ir.DataType.FLOAT, ir.DataType.UINT8

_WEIGHT = (
    "w = Constant <value = int8[4, 5] {1, -2, 3, 4, -5, 6, 7, 8, -9, 10, 11, 12, 13, -14, 15, 16, 17, 18, -19, 20}> () "
    "k = Constant <value = float {0.02}> () v = Constant <value = int8 {1}> () "
    "b = Constant <value = float[5] {0.1, 0.2, -0.3, 0.4, 0.5}> () "
)


def _product(xp: Namespace, a: Tensor, b: Tensor, scale: Tensor, zeros: Sequence[Tensor | None]) -> Tensor:
    """An exact product of integers times a scale."""
    product = matmul_integer(xp, a, b, *zeros)
    return xp.multiply(xp.with_slope(xp.astype(product, _FLOAT), product), scale)


def _columns(xp: Namespace, scale: Tensor, rank: int) -> Tensor:
    """A scale, or one a column."""
    return (
        per_axis(xp, scale, rank, rank - 1)
        if xp.ndim(scale) == 1 and not is_single(xp, scale)
        else xp.reshape(scale, ())
    )


@microsoft_op(
    "MatMulIntegerToFloat",
    quantized_case(
        "y = com.microsoft.MatMulIntegerToFloat (q, w, s, k, z, v, b)",
        "float[N, 5] y",
        f32(3, 4),
        held=_WEIGHT,
    ),
)
def matmul_integer_to_float(
    xp: Namespace,
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    *more: Tensor | None,
) -> Tensor:
    """A product of quantized numbers in floating point, plus a bias."""
    a_zero, b_zero, bias = optional(more, 3)
    rank = max(xp.ndim(a), xp.ndim(b))
    scale = xp.multiply(_columns(xp, a_scale, rank), _columns(xp, b_scale, rank))
    result = _product(xp, a, b, scale, (a_zero, b_zero))
    return result if bias is None else xp.add(result, bias)


@microsoft_op(
    "DynamicQuantizeMatMul",
    quantized_case("y = com.microsoft.DynamicQuantizeMatMul (x, w, k, v, b)", "float[N, 5] y", f32(3, 4), held=_WEIGHT),
    quantized_case("y = com.microsoft.DynamicQuantizeMatMul (x, w, k)", "float[N, 5] y", f32(3, 4), held=_WEIGHT),
)
def dynamic_quantize_matmul(xp: Namespace, a: Tensor, b: Tensor, b_scale: Tensor, *more: Tensor | None) -> Tensor:
    """A product with A quantised by its own range, in floating point, plus a bias."""
    b_zero, bias = optional(more, 2)
    quantized, scale, zero = quantization.dynamic_quantize_linear(xp, a)
    return matmul_integer_to_float(xp, quantized, b, scale, b_scale, zero, b_zero, bias)


@microsoft_op(
    "QGemm",
    quantized_case(
        "y = com.microsoft.QGemm <alpha = 0.5> (q, s, z, w, k, v, c, t, u)",
        "uint8[N, 5] y",
        f32(3, 4),
        held=_WEIGHT + "c = Constant <value = int32[5] {10, -20, 300, 40, 50}> () ",
    ),
    quantized_case("y = com.microsoft.QGemm (q, s, z, w, k, v)", "float[N, 5] y", f32(3, 4), held=_WEIGHT),
)
def qgemm(xp: Namespace, *operands: Tensor | None, **form: Unpack[ProductAttributes]) -> Tensor:
    """alpha A B + C of quantized numbers: C counts in alpha times both scales; quantized where a scale is given."""
    a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero = optional(operands, 9)
    assert a is not None
    assert b is not None
    assert a_scale is not None
    assert b_scale is not None
    a = xp.permute_dims(a, (1, 0)) if form.get("transA") else a
    b = xp.permute_dims(b, (1, 0)) if form.get("transB") else b
    product = matmul_integer(xp, a, b, a_zero, b_zero)
    total = product if c is None else xp.add(product, c)
    scale = xp.multiply(xp.multiply(_columns(xp, a_scale, 2), _columns(xp, b_scale, 2)), form.get("alpha", 1.0))
    wide = xp.multiply(xp.with_slope(xp.astype(total, _FLOAT), product), scale)
    return wide if y_scale is None else requantized(xp, wide, y_scale, y_zero, xp.input_dtype(8) or _UINT8)


_ATTENTION = (
    "w = Constant <value = int8[4, 12] {"
    + ", ".join(str(n) for n in np.random.default_rng(0).integers(-60, 60, 48))
    + "}> () k = Constant <value = float {0.02}> () v = Constant <value = int8 {0}> () "
    "b = Constant <value = float[12] {0.1, 0.2, -0.3, 0.4, 0.5, 0.1, 0.2, -0.3, 0.4, 0.5, 0.1, 0.2}> () "
)


@microsoft_op(
    "QAttention",
    quantized_case(
        "y = com.microsoft.QAttention <num_heads = 2, unidirectional = 1> (q, w, b, s, k, , z, v)",
        "float[N, 3, 4] y",
        f32(2, 3, 4),
        operands="float[N, 3, 4] x",
        held=_ATTENTION,
    ),
)
def qattention(xp: Namespace, *operands: Tensor | None, **form: Unpack[AttentionForm]) -> Any:
    """Self attention of quantized words and weights."""
    checked(form)
    x, weights, bias, x_scale, w_scale, mask, x_zero, w_zero, past = optional(operands, 9)
    assert x is not None
    assert weights is not None
    assert x_scale is not None
    assert w_scale is not None
    joined = matmul_integer_to_float(xp, x, weights, x_scale, w_scale, x_zero, w_zero, bias)
    q, k, v = parted(xp, joined, form)
    k, v, present = cached(xp, k, v, past)
    result = attended(xp, (q, k, v), mask, None, form)
    return result if present is None else (result, present)


class BlockForm(TypedDict, total=False):
    """Attributes of MatMulNBits."""

    K: int
    N: int
    bits: int
    block_size: int
    accuracy_level: int


_BLOCKS = (
    "w = Constant <value = uint8[3, 2, 8] {"
    + ", ".join(str(n) for n in np.random.default_rng(1).integers(0, 256, 48))
    + "}> () k = Constant <value = float[6] {0.1, 0.2, 0.3, 0.15, 0.25, 0.35}> () "
    "o = Constant <value = uint8[3] {120, 7, 200}> () "
)


def _blocks(operands: str) -> Any:
    call = f"y = com.microsoft.MatMulNBits <K = 20, N = 3, bits = 4, block_size = 16> ({operands})"
    return graph(f"(float[N, 20] x) => (float[N, 3] y) {{{_BLOCKS}{call}}}", f32(2, 20))


@microsoft_op("MatMulNBits", _blocks("x, w, k"), _blocks("x, w, k, o"))
def matmul_nbits(
    xp: Namespace, a: Tensor, b: Tensor, scales: Tensor, *more: Tensor | None, **form: Unpack[BlockForm]
) -> Tensor:
    """A product with a matrix whose columns are in blocks of few bits, each with its scale and zero point."""
    zeros, groups, bias = optional(more, 3)
    width, columns, bits, size = form["K"], form["N"], form.get("bits", 4), form["block_size"]
    if groups is not None or bits not in (2, 4, 8):
        raise UnsupportedOperator("groups of its rows" if groups is not None else f"bits={bits}")
    count = -(-width // size)
    whole = _unpacked(xp, xp.reshape(b, (columns, count, -1)), bits, size)
    if zeros is None:
        offset: Any = float(1 << (bits - 1))
    elif xp.dtype(zeros) == _UINT8:
        offset = xp.expand_dims(_unpacked(xp, xp.reshape(zeros, (columns, -1)), bits, count), [2])
    else:
        offset = xp.astype(xp.reshape(zeros, (columns, count, 1)), _FLOAT)
    dtype = xp.dtype(a)
    factor = xp.astype(xp.reshape(scales, (columns, count, 1)), _FLOAT)
    matrix = xp.reshape(xp.multiply(xp.subtract(whole, offset), factor), (columns, count * size))
    matrix = xp.astype(xp.permute_dims(xp.slice(matrix, 1, 0, width), (1, 0)), dtype)
    result = xp.matmul(a, matrix)
    return result if bias is None else xp.add(result, bias)


def _unpacked(xp: Namespace, packed: Tensor, bits: int, count: int) -> Tensor:
    """Numbers of a few bits that lie in bytes along the last axis, the lowest bits first, as floats."""
    wide = xp.astype(packed, ir.DataType.INT32)
    if bits == 8:
        return xp.astype(xp.slice(wide, xp.ndim(wide) - 1, 0, count), _FLOAT)
    base, parts = 1 << bits, []
    for _ in range(8 // bits):
        parts.append(xp.floor_mod(wide, base))
        wide = xp.divide(wide, base)
    joined = xp.stack(parts, xp.ndim(wide))
    ours = xp.shape(packed)
    flat = xp.reshape(joined, (*ours[:-1], int_op(xp, "mul", ours[-1], 8 // bits)))
    return xp.astype(xp.slice(flat, xp.ndim(flat) - 1, 0, count), _FLOAT)
