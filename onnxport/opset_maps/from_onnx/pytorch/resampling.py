"""Resize and GridSample as torch's own functions."""

from __future__ import annotations

from typing import Unpack

import torch.nn.functional as F

from onnxport.opset_maps.from_onnx.pytorch.namespace import TorchNamespace
from onnxport.opset_maps.from_onnx.pytorch.operators import floating
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor
from onnxport.opset_maps.from_onnx.semantics.image import GridSampleAttributes, ResizeAttributes, resized_axes, targets
from onnxport.opset_maps.from_onnx.values import Host, known
from onnxport.opset_maps.maps import pytorch_native

_INTERPOLATION = {
    ("linear", 1): "linear",
    ("linear", 2): "bilinear",
    ("linear", 3): "trilinear",
    ("cubic", 2): "bicubic",
}


@pytorch_native.op("Resize", versions=(11, 13, 18, 19))
def resize(xp: TorchNamespace, x: TorchTensor, *operands: Host | None, **form: Unpack[ResizeAttributes]) -> TorchTensor:
    """torch's interpolate, where the modes mean the same and sizes are whole multiples by their scales."""
    _, scales, wanted = (*operands, None, None, None)[:3]
    transform = form.get("coordinate_transformation_mode", "half_pixel")
    ours = xp.shape(x)
    interpolation = _interpolation(len(ours) - 2, transform, form)
    if interpolation is None or form.get("keep_aspect_ratio_policy", "stretch") != "stretch" or not floating(xp, x):
        return NotImplemented
    axes = resized_axes(len(ours), form)
    results = list(ours)
    for axis, (size, scale) in zip(axes, targets(xp, [ours[a] for a in axes], scales, wanted, "stretch"), strict=True):
        factor, length = scale if isinstance(scale, float) else None, ours[axis]
        if axis < 2:
            if size is not length and factor != 1.0:
                return NotImplemented
            continue
        exact = factor is not None and known(length) and size == factor * length
        if wanted is None and not exact and not (factor is not None and factor.is_integer()):
            return NotImplemented
        if transform == "half_pixel" and not (known(size) and size > 1) and interpolation[0] == "bicubic":
            return NotImplemented
        results[axis] = size
    mode, align_corners = interpolation
    return xp.call(F.interpolate, x, size=tuple(results[2:]), mode=mode, align_corners=align_corners)


def _interpolation(spatial: int, transform: str, form: ResizeAttributes) -> tuple[str, bool | None] | None:
    """torch's mode and align_corners; None where torch has no such interpolation."""
    if not 1 <= spatial <= 3 or form.get("exclude_outside") or form.get("antialias"):
        return None
    mode = form.get("mode", "nearest")
    if mode == "nearest":
        return ("nearest", None) if transform == "asymmetric" and form.get("nearest_mode") == "floor" else None
    name = _INTERPOLATION.get((mode, spatial))
    if name is None or (mode == "cubic" and abs(form.get("cubic_coeff_a", -0.75) + 0.75) > 1e-6):
        return None
    return {"half_pixel": (name, False), "align_corners": (name, True)}.get(transform)


@pytorch_native.op("GridSample", versions=(16, 20, 22))
def grid_sample(
    xp: TorchNamespace, x: TorchTensor, grid: TorchTensor, **form: Unpack[GridSampleAttributes]
) -> TorchTensor:
    """torch's grid_sample, of images with two or three axes."""
    rank = xp.ndim(x)
    mode = form.get("mode", "linear")
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    if rank not in (4, 5) or (mode == "bicubic" and rank == 5) or not floating(xp, x, grid):
        return NotImplemented
    return xp.call(F.grid_sample, x, grid, mode, form.get("padding_mode", "zeros"), bool(form.get("align_corners", 0)))
