"""Resampling of images: interpolate and its kin."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, f64
from onnxport.opset_maps.lowerings import resize
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.reductions import is_floating
from onnxport.opset_maps.maps import aten

Size = int | ir.Value
Scale = float | Sequence[float] | None
_KERNELS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.INT32, ir.DataType.INT8, ir.DataType.UINT8)
_ROUNDING = 1e-5  # of a place among up to some thousands, in float32
_LONGEST = 1 << 14  # elements along an axis for which a factor is looked at


def _resized(
    op: OpBuilder, x: ir.Value, size: Sequence[Size] | None, scales: Sequence[float | None] | None, **attributes: object
) -> ir.Value:
    """Resize to sizes or, where torch counts by them, by scale factors."""
    if attributes.get("mode") == "linear" and rank(x) == 3:
        # ONNX resizes the axes of a whole tensor: a runtime that takes rank 3 for a picture multiplies other rows by 0.
        one = None if scales is None or None in scales else [1.0, *scales]
        rows = _resized(op, op.Unsqueeze(x, op.axes(2)), None if size is None else [1, *size], one, **attributes)
        return op.Squeeze(rows, op.axes(2))
    if x.dtype not in _KERNELS:
        raise UnsupportedOperator(f"resampling of {x.dtype}: runtimes have no Resize for it")
    if scales and all(scale is not None for scale in scales):
        if any(isinstance(scale, ir.Value) for scale in scales):
            raise UnsupportedOperator("resampling by a factor that depends on the input")
        given = list(x.shape or ())[2:]
        wanted = list(op.result.shape or [None] * rank(x))[2:]
        wanted = [*[1] * (len(given) - len(wanted)), *wanted]
        factors = [_factor(float(item), *sizes) for item, *sizes in zip(scales, given, wanted) if item is not None]
        return op.Resize(x, None, op.const([1.0, 1.0, *factors], ir.DataType.FLOAT), **attributes)
    if size is None:
        raise UnsupportedOperator("resampling without a size")
    return resize.resized(op, x, size, **attributes)


def _factor(scale: float, given: object, wanted: object) -> float:
    """The factor in float32 that gives torch's size (0.9 x 20 is 18, not 17), counted in float32 and in double.

    Runtimes multiply in the one, ONNX's shape inference in the other.
    """
    if not isinstance(given, int) or not isinstance(wanted, int):
        return scale
    near = np.float32(scale)
    for factor in (near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(0))):
        if math.floor(np.float32(given) * factor) == math.floor(given * float(factor)) == wanted:
            return float(factor)
    raise UnsupportedOperator(f"resampling of size {given} to {wanted} by the factor {scale}")


_NEAREST = [
    case(lambda x: F.interpolate(x, size=(7, 5)), f32(2, 3, 4, 6), dynamic=True),
    case(lambda x: F.interpolate(x, scale_factor=2), f32(2, 3, 4, 6), dynamic=True),
    case(lambda x: F.interpolate(x, scale_factor=1.7), f32(2, 3, 5)),
    case(lambda x: F.interpolate(x, scale_factor=(2, 1, 0.5)), f32(1, 2, 3, 4, 6)),
    case(lambda x: F.interpolate(x, scale_factor=(0.7, 1.3)), f32(2, 3, 20, 17)),
    case(lambda x: F.interpolate(x, scale_factor=0.3), f64(2, 3, 33), dynamic=True),
]
_EXACT = [
    case(lambda x: F.interpolate(x, size=(7, 5), mode="nearest-exact"), f32(2, 3, 4, 6)),
    case(lambda x: F.interpolate(x, scale_factor=0.6, mode="nearest-exact"), f32(2, 3, 10)),
    case(lambda x: F.interpolate(x, size=(9, 20), mode="nearest-exact"), f32(2, 3, 33, 36)),
]


def _both_forms(*names: str) -> list[str]:
    """Operators in the form that takes a factor an axis and in the one that takes a list of them."""
    return [f"aten::{name}{form}" for name in names for form in ("", ".vec")]


def _factors(scales: Sequence[Scale]) -> Sequence[float | None] | None:
    """The factors of both forms of an operator: one list of all axes (``.vec``), or a number an axis."""
    if len(scales) == 1 and (scales[0] is None or isinstance(scales[0], Sequence)):
        return scales[0]
    return [None if isinstance(scale, Sequence) else scale for scale in scales]


def _nearest(placement: resize.Placement, rounding: str, summary: str) -> Callable[..., ir.Value]:
    def lower(op: OpBuilder, x: ir.Value, output_size: Sequence[Size] | None, *scales: Scale) -> ir.Value:
        factors = _factors(scales)
        if x.dtype in _KERNELS and _is_exact(op, x, factors):
            given = {"mode": "nearest", "coordinate_transformation_mode": placement, "nearest_mode": rounding}
            return _resized(op, x, output_size, factors, **given)
        for axis in range(2, rank(x)):
            size = output_size[axis - 2] if output_size is not None else None
            x = _nearest_along(op, x, axis, size, factors[axis - 2] if factors else None, placement)
        return x

    lower.__doc__ = summary
    return lower


def _nearest_along(
    op: OpBuilder, x: ir.Value, axis: int, size: Size | None, factor: float | None, placement: resize.Placement
) -> ir.Value:
    before, after = (value.shape[axis] if value.shape is not None else None for value in (x, op.result))
    if isinstance(before, int) and isinstance(after, int):
        picked = _picked(op, before, after, factor)
        return x if list(picked) == list(range(before)) else op.Gather(x, op.const(picked), axis=axis)
    if isinstance(factor, ir.Value):
        raise UnsupportedOperator("resampling by a factor that depends on the input")
    if factor is None:
        if size is None:
            raise UnsupportedOperator("resampling without a size")
        return resize.nearest(op, x, axis, op.shape_vector([size]), placement)
    length = op.Mul(op.cast(op.dim(x, axis), ir.DataType.DOUBLE), op.const(factor, ir.DataType.DOUBLE))
    wanted = op.cast(op.Floor(length), ir.DataType.INT64)
    return resize.nearest(op, x, axis, wanted, placement, op.const(1.0 / factor, ir.DataType.FLOAT))


def _picked(op: OpBuilder, before: int, after: int, factor: float | None) -> np.ndarray:
    """The elements of one axis that torch itself takes."""
    name = op.name.removeprefix("aten::").partition(".")[0]
    operator = getattr(torch.ops.aten, f"{name[:-2]}1d").default
    row = torch.arange(before, dtype=torch.float64).reshape(1, 1, before)
    return np.asarray(operator(row, [after], factor).ravel().numpy(), np.int64)


def _is_exact(op: OpBuilder, x: ir.Value, factors: Sequence[float | None] | None) -> bool:
    """Whether Resize takes torch's elements, however it computes their places."""
    for axis in range(2, rank(x)):
        before, after = (value.shape[axis] if value.shape is not None else None for value in (x, op.result))
        factor = factors[axis - 2] if factors else None
        if isinstance(before, int) and isinstance(after, int):
            if not _agree(op, before, after, factor):
                return False
        elif isinstance(factor, ir.Value) or factor is None or not _is_repetition(op, float(factor)):
            name = re.escape(str(before))
            if before is None or not re.fullmatch(rf"((2|4|8|16|32)\*)?{name}", str(after)):
                return False
    return True


def _is_repetition(op: OpBuilder, factor: float) -> bool:
    """Whether a factor is a power of 2, or such a number of times each element that torch's own rounding never shows."""
    if math.log2(factor).is_integer():
        return True
    places = np.floor(np.arange(_LONGEST, dtype=np.float32) * np.float32(1.0 / factor))
    return "exact" not in op.name and factor.is_integer() and np.array_equal(places, np.arange(_LONGEST) // factor)


def _agree(op: OpBuilder, before: int, after: int, factor: float | None) -> bool:
    """Whether no element's place lies on a whole number but for rounding, or all do that without any."""
    step = 1.0 / factor if factor else before / max(after, 1)
    places = (np.arange(after) + (0.5 if "exact" in op.name else 0.0)) * step
    clear = np.abs(places - np.round(places)) > _ROUNDING * (places + 1.0)
    picked = np.clip(np.floor(places), 0, before - 1)
    without = step > 0 and math.log2(step).is_integer()
    return bool(clear[1:].all() or without) and np.array_equal(picked, _picked(op, before, after, factor))


aten.lower(*_both_forms("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"), cases=_NEAREST)(
    _nearest("asymmetric", "floor", "The element before: torch takes that at floor(place / factor).")
)
aten.lower(
    *_both_forms("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"), cases=_EXACT
)(
    _nearest(
        "half_pixel",
        "round_prefer_ceil",
        "The element whose centre is nearest: torch takes that at floor((place + 1/2) / factor).",
    )
)


_SMOOTH = [
    case(lambda x: F.interpolate(x, size=(7, 5), mode="bilinear"), f32(2, 3, 4, 6), dynamic=True),
    case(lambda x: F.interpolate(x, size=(7, 1), mode="bilinear", align_corners=True), f32(2, 3, 4, 6)),
    case(lambda x: F.interpolate(x, scale_factor=1.6, mode="bilinear"), f32(2, 3, 4, 6)),
    case(lambda x: F.interpolate(x, scale_factor=(1.7, 0.9), mode="bilinear"), f32(2, 3, 10, 20)),
    case(lambda x: F.interpolate(x, scale_factor=2, mode="linear"), f32(2, 3, 5)),
    case(lambda x: F.interpolate(x, scale_factor=2, mode="trilinear", align_corners=True), f32(1, 2, 3, 4, 3)),
    case(lambda x: F.interpolate(x, size=(7, 5), mode="bicubic"), f32(2, 3, 4, 6)),
    case(lambda x: F.interpolate(x, size=(7, 5), mode="bicubic", align_corners=True), f32(2, 3, 4, 6)),
]
_ANTIALIASED = [
    case(lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True), f32(2, 3, 8, 9), min_opset=18),
    case(lambda x: F.interpolate(x, size=(5, 12), mode="bicubic", antialias=True), f32(2, 3, 8, 9), min_opset=18),
    case(lambda x: F.interpolate(x, size=(5, 12), mode="bilinear", align_corners=True, antialias=True),
         f32(2, 3, 8, 9), min_opset=18),
]  # fmt: skip


@aten.lower(*_both_forms("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"), cases=_ANTIALIASED, min_opset=18)
@aten.lower(
    *_both_forms("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"),
    cases=_SMOOTH,
)
def smooth(
    op: OpBuilder, x: ir.Value, output_size: Sequence[Size] | None, align_corners: bool, *scales: Scale
) -> ir.Value:
    """Resize, linear or cubic by the operator's name; with "_aa" (opset 18) low frequencies only, as Pillow filters them."""
    if not is_floating(x):
        raise UnsupportedOperator(
            "resampling of whole numbers: torch's rounding depends on the processor; resample x.float() and round it",
            final=True,
        )
    cubic, antialias = "bicubic" in op.name, "_aa" in op.name
    by_factors = output_size is not None and any(_factors(scales) or ())
    if antialias and (align_corners or by_factors or x.dtype == ir.DataType.DOUBLE):
        return _filtered(op, x, align_corners, _factors(scales) or (None, None))
    attributes: dict[str, object] = {
        "mode": "cubic" if cubic else "linear",
        "coordinate_transformation_mode": "align_corners" if align_corners else "half_pixel",
    }
    if cubic:
        attributes["cubic_coeff_a"] = -0.5 if antialias else -0.75
    if antialias:
        attributes.update(antialias=1, exclude_outside=1)
    return _resized(op, x, output_size, _factors(scales), **attributes)


def _filtered(op: OpBuilder, x: ir.Value, align_corners: bool, scales: Sequence[float | None]) -> ir.Value:
    """Products with torch's weights for each axis, where ONNX's Resize filters otherwise."""
    sizes = [item for shape in (x.shape, op.result.shape) for item in list(shape or ())[2:] if isinstance(item, int)]
    if len(sizes) != 4:
        raise UnsupportedOperator("antialiasing by given factors or with aligned corners needs a static size")
    operator = getattr(torch.ops.aten, op.name.removeprefix("aten::").partition(".")[0]).default

    def weights(size: int, wanted: int, scale: float | None) -> ir.Value:
        units = torch.eye(size, dtype=torch.float64).reshape(1, size, size, 1).expand(-1, -1, -1, 2)
        result = operator(units.contiguous(), [wanted, 2], align_corners, scale, None)
        return op.const(result[0, :, :, 0].numpy(), x.dtype)

    height, width, wanted_height, wanted_width = sizes
    rows = op.MatMul(op.Transpose(weights(height, wanted_height, scales[0]), perm=[1, 0]), x)
    return op.MatMul(rows, weights(width, wanted_width, scales[1]))
