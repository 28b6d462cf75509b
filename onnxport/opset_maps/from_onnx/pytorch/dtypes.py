"""ONNX element types in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxport.graph.element_types import element_types
from onnxport.opset_maps.from_onnx.values import TYPE_NAMES, Array, carrier

# What a type is held in; the first that names a torch type is the one that this torch type is read back as.
TORCH: dict[ir.DataType, torch.dtype] = {
    **{dtype: getattr(torch, name) for dtype, name in TYPE_NAMES.items() if dtype != ir.DataType.STRING},
    ir.DataType.FLOAT8E4M3FNUZ: torch.float8_e4m3fnuz,
    ir.DataType.FLOAT8E5M2FNUZ: torch.float8_e5m2fnuz,
    **dict.fromkeys(element_types("FLOAT8E8M0"), torch.float8_e8m0fnu),
    # torch has these types but hardly any arithmetic on them.
    ir.DataType.UINT16: torch.int32,
    ir.DataType.UINT32: torch.int64,
    ir.DataType.UINT64: torch.int64,
}
# torch has none of these.
_ABSENT = element_types("INT4 INT2 UINT4 UINT2 FLOAT4E2M1 FLOAT6E2M3 FLOAT6E3M2")
TORCH.update((dtype, getattr(torch, carrier(dtype))) for dtype in _ABSENT)

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
    return torch.tensor(array if min(array.strides, default=0) >= 0 else array.copy())  # torch reads none backwards
