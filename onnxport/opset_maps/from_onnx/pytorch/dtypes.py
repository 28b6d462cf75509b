"""ONNX element types in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxport.opset_maps.from_onnx.values import Array

# What a type is held in; the first that names a torch type is the one that this torch type is read back as.
TORCH: dict[ir.DataType, torch.dtype] = {
    ir.DataType.FLOAT: torch.float32,
    ir.DataType.DOUBLE: torch.float64,
    ir.DataType.FLOAT16: torch.float16,
    ir.DataType.BFLOAT16: torch.bfloat16,
    ir.DataType.INT8: torch.int8,
    ir.DataType.INT16: torch.int16,
    ir.DataType.INT32: torch.int32,
    ir.DataType.INT64: torch.int64,
    ir.DataType.UINT8: torch.uint8,
    ir.DataType.BOOL: torch.bool,
    ir.DataType.COMPLEX64: torch.complex64,
    ir.DataType.COMPLEX128: torch.complex128,
    ir.DataType.FLOAT8E4M3FN: torch.float8_e4m3fn,
    ir.DataType.FLOAT8E4M3FNUZ: torch.float8_e4m3fnuz,
    ir.DataType.FLOAT8E5M2: torch.float8_e5m2,
    ir.DataType.FLOAT8E5M2FNUZ: torch.float8_e5m2fnuz,
    ir.DataType.FLOAT8E8M0: torch.float8_e8m0fnu,
    # torch has these types but hardly any arithmetic on them.
    ir.DataType.UINT16: torch.int32,
    ir.DataType.UINT32: torch.int64,
    ir.DataType.UINT64: torch.int64,
    # torch has none of these.
    ir.DataType.INT4: torch.int8,
    ir.DataType.INT2: torch.int8,
    ir.DataType.UINT4: torch.uint8,
    ir.DataType.UINT2: torch.uint8,
    ir.DataType.FLOAT4E2M1: torch.float32,
    ir.DataType.FLOAT6E2M3: torch.float32,
    ir.DataType.FLOAT6E3M2: torch.float32,
}

ONNX: dict[torch.dtype, ir.DataType] = {}
for _dtype, _held in TORCH.items():
    ONNX.setdefault(_held, _dtype)

# Types that come out of the model in a torch type other than the one they are held in.
BOUNDARY: dict[ir.DataType, torch.dtype] = {
    ir.DataType.UINT16: torch.uint16,
    ir.DataType.UINT32: torch.uint32,
    ir.DataType.UINT64: torch.uint64,
}
ONNX.update((held, dtype) for dtype, held in BOUNDARY.items())

FLOAT8 = frozenset(held for dtype, held in TORCH.items() if dtype.name.startswith("FLOAT8"))

# NumPy types of ml_dtypes that torch reads through their bits.
_BITS: dict[Any, tuple[Any, torch.dtype]] = {
    dtype.numpy(): (np.int16 if dtype.bitwidth == 16 else np.uint8, held)
    for dtype, held in TORCH.items()
    if held in FLOAT8 or dtype == ir.DataType.BFLOAT16
}
_NUMPY_HELD = {torch.int8: np.int8, torch.uint8: np.uint8, torch.float32: np.float32}


def from_numpy(array: Array, dtype: ir.DataType | None = None) -> torch.Tensor:
    """A tensor with a copy of `array`, in the type that its ONNX type is held in."""
    bits = _BITS.get(array.dtype)
    if bits is not None:
        return torch.tensor(np.ascontiguousarray(array).view(bits[0])).view(bits[1]).reshape(array.shape)
    if dtype is None:
        dtype = ir.DataType.from_numpy(array.dtype)
    held = TORCH[dtype]
    if dtype in BOUNDARY:
        return torch.tensor(array.astype(np.int32 if held == torch.int32 else np.int64))
    if array.dtype.kind not in "biufc":  # 4-bit types and their like
        return torch.tensor(array.astype(_NUMPY_HELD[held]))
    return torch.tensor(array)
