"""Images resampled: Resize, Upsample, GridSample."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias, TypedDict, Unpack

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.axes import int_op, part, per_axis, product, real, resolved, size_operand, sizes
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import (
    Host,
    Int,
    Ints,
    Tensor,
    UnknownUntilRun,
    all_known,
    host_array,
    known,
    optional,
)
from onnxport.opset_maps.maps import onnx

# A number where it is known at import, else a scalar tensor.
Factor: TypeAlias = float | Tensor
Region: TypeAlias = tuple[float, float] | None  # start and end of a crop along an axis

_DOUBLE = ir.DataType.DOUBLE
_INT64 = ir.DataType.INT64


def _number(xp: Namespace, size: Int) -> Any:
    """A size as an operand of double arithmetic."""
    return float(size) if known(size) else xp.astype(xp.from_host(host_array(size), _INT64), _DOUBLE)


def _ratio(xp: Namespace, a: Int, b: Int) -> Any:
    return a / b if known(a) and known(b) else xp.divide(_number(xp, a), _number(xp, b))


def _minus(xp: Namespace, a: Factor, b: float) -> Any:
    return a - b if isinstance(a, (int, float)) else xp.subtract(a, b)


def _times(xp: Namespace, a: Factor, b: float) -> Any:
    return a * b if isinstance(a, (int, float)) else xp.multiply(a, b)


def _gaps(xp: Namespace, width: Factor) -> Any:
    """Distances between `width` points; of a single point, which lies at 0, any number."""
    return width - 1 if isinstance(width, float) else xp.maximum(xp.subtract(width, 1.0), 1.0)


def _places(xp: Namespace, ours: Int, wanted: Int, scale: Factor, mode: str, roi: Region) -> Tensor:
    """Where along an axis of `ours` elements each of `wanted` results lies.

    Source: ONNX operator specification, Resize-19, coordinate_transformation_mode.
    """
    x = xp.astype(xp.arange(0, wanted), _DOUBLE)
    length = _number(xp, ours)
    width = scale * ours if isinstance(scale, float) and known(ours) else xp.multiply(length, scale)
    if isinstance(width, float) and known(wanted) and math.isclose(width, wanted):
        width = float(wanted)  # a scale that was computed from the sizes
    match mode:
        case "asymmetric":
            return xp.divide(x, scale)
        case "align_corners":
            if isinstance(width, float) and width == 1:
                return xp.multiply(x, 0.0)
            return xp.divide(xp.multiply(x, _minus(xp, length, 1.0)), _gaps(xp, width))
        case "tf_crop_and_resize":
            if not isinstance(width, float):
                raise UnknownUntilRun("the size that a crop is resized to is known only when the model runs")
            start, end = roi or (0.0, 1.0)
            last = _minus(xp, length, 1.0)
            if isinstance(width, float) and width == 1:
                return xp.add(xp.multiply(x, 0.0), _times(xp, last, (start + end) / 2))
            moved = xp.divide(xp.multiply(xp.multiply(x, last), end - start), _gaps(xp, width))
            return xp.add(moved, _times(xp, last, start))
        case "tf_half_pixel_for_nn":
            return xp.divide(xp.add(x, 0.5), scale)
    centred = xp.subtract(xp.divide(xp.add(x, 0.5), scale), 0.5)
    match mode:
        case "half_pixel":
            return centred
        case "pytorch_half_pixel":
            if known(wanted):
                return centred if int(wanted) > 1 else xp.multiply(x, 0.0)
            return xp.where(xp.equal(_number(xp, wanted), 1.0), 0.0, centred)
        case "half_pixel_symmetric":
            if not (isinstance(width, float) and known(wanted) and known(ours)):
                raise UnknownUntilRun("how far a size is from its scale is known only when the model runs")
            return xp.add(centred, ours / 2 * (1 - wanted / width))
    raise UnsupportedOperator(f"coordinate_transformation_mode={mode!r} is none of ONNX's")


_NEAREST: dict[str, Callable[[Namespace, Tensor], Tensor]] = {
    "round_prefer_floor": lambda xp, x: xp.ceil(xp.subtract(x, 0.5)),
    "round_prefer_ceil": lambda xp, x: xp.floor(xp.add(x, 0.5)),
    "floor": lambda xp, x: xp.floor(x),
    "ceil": lambda xp, x: xp.ceil(x),
}


def _triangle(xp: Namespace, x: Tensor) -> Tensor:
    return xp.maximum(xp.subtract(1.0, xp.abs(x)), 0.0)


def _cubic(xp: Namespace, x: Tensor, a: float) -> Tensor:
    """Keys' cubic convolution kernel (IEEE ASSP-29, 1981, equation 4)."""
    x = xp.abs(x)
    square = xp.multiply(x, x)
    cube = xp.multiply(square, x)
    near = xp.add(xp.subtract(xp.multiply(cube, a + 2), xp.multiply(square, a + 3)), 1.0)
    far = xp.subtract(xp.add(xp.multiply(cube, a), xp.multiply(x, 8 * a)), xp.add(xp.multiply(square, 5 * a), 4 * a))
    return xp.where(xp.less_equal(x, 1.0), near, xp.where(xp.less(x, 2.0), far, xp.zeros((), _DOUBLE)))


def _taps(
    xp: Namespace, places: Tensor, ours: Int, scale: Factor, form: ResizeAttributes
) -> list[tuple[Tensor, Tensor]]:
    """For each element of the filter its index (clamped into the axis) and weight along the results."""
    mode, antialias, exclude_outside = form.get("mode"), form.get("antialias", 0), form.get("exclude_outside", 0)
    shrink = 1.0
    if antialias:
        if not isinstance(scale, float):
            raise UnknownUntilRun("the width of an antialiasing filter is known only when the model runs")
        shrink = min(scale, 1.0)
    support = 1 if mode == "linear" else 2
    start = math.floor(-support / shrink) + 1
    base = xp.floor(places)
    ratio = xp.subtract(places, base)
    last = int_op(xp, "sub", ours, 1)
    results = []
    for i in range(start, 2 - start):
        distance = xp.multiply(xp.subtract(float(i), ratio), shrink)
        weight = _triangle(xp, distance) if mode == "linear" else _cubic(xp, distance, form.get("cubic_coeff_a", -0.75))
        index = xp.add(base, float(i))
        inside = xp.clip(index, 0.0, _number(xp, last))
        if exclude_outside:
            weight = xp.where(xp.equal(inside, index), weight, xp.zeros((), _DOUBLE))
        results.append((xp.astype(inside, _INT64), weight))
    if exclude_outside or antialias:
        total = reduce(xp.add, (weight for _, weight in results))
        results = [(index, xp.divide(weight, total)) for index, weight in results]
    return results


def resample(
    xp: Namespace, x: Tensor, axis: int, wanted: Int, scale: Factor, form: ResizeAttributes, roi: Region = None
) -> Tensor:
    """x resized along one axis."""
    transform = form.get("coordinate_transformation_mode", "half_pixel")
    ours = xp.shape(x)[axis]
    places = _places(xp, ours, wanted, scale, transform, roi)
    last = _number(xp, int_op(xp, "sub", ours, 1))
    if form.get("mode", "nearest") == "nearest":
        nearest = _NEAREST[form.get("nearest_mode", "round_prefer_floor")]
        result = xp.take(x, xp.astype(xp.clip(nearest(xp, places), 0.0, last), _INT64), axis)
    else:
        dtype = xp.dtype(x)
        wide = x if dtype.is_floating_point() else xp.astype(x, ir.DataType.FLOAT)
        width = xp.dtype(wide)
        parts = [
            xp.multiply(xp.take(wide, index, axis), per_axis(xp, xp.astype(weight, width), xp.ndim(x), axis))
            for index, weight in _taps(xp, places, ours, scale, form)
        ]
        result = xp.astype(reduce(xp.add, parts), dtype)
    if transform == "tf_crop_and_resize":
        outside = xp.logical_or(xp.less(places, 0.0), xp.greater(places, last))
        fill = xp.full((), form.get("extrapolation_value", 0.0), xp.dtype(x))
        result = xp.where(per_axis(xp, outside, xp.ndim(x), axis), fill, result)
    return result


def targets(
    xp: Namespace, ours: Sequence[Int], scales: Host | None, wanted: Host | None, policy: str
) -> list[tuple[Int, Any]]:
    """For each resized axis the size of the result and the scale."""
    if wanted is None or not wanted.size:
        assert scales is not None
        results = []
        for n, scale in zip(ours, scales.reshape(-1), strict=True):
            if not isinstance(scale, (float, int)) and not hasattr(scale, "item"):
                raise UnknownUntilRun("a scale is known only when the model runs")
            factor = float(scale)
            whole = factor.is_integer() and factor >= 1
            if not known(n) and not whole:
                up, down = factor.as_integer_ratio()
                if 0 < up < 1 << 8 and down < 1 << 8:  # the product is exact, as a float32 too
                    grown = n if up == 1 else int_op(xp, "mul", n, up)
                    results.append((int_op(xp, "floor_div", grown, down), factor))
                    continue
                raise UnknownUntilRun("a size times a fraction is known only when the model runs")
            # scales are float32, and so is the product with a size in ONNX's shape inference and in runtimes
            size = math.floor(np.float32(n) * np.float32(factor)) if known(n) else int_op(xp, "mul", n, int(factor))
            results.append((size, factor))
        return results
    asked = sizes(wanted)
    if policy == "stretch":
        return [(size, _ratio(xp, size, n)) for size, n in zip(asked, ours, strict=True)]
    if not (all_known(asked) and all_known(ours)):
        raise UnknownUntilRun("the aspect ratio is known only when the model runs")
    ratios = [size / n for size, n in zip(asked, ours, strict=True)]
    factor = min(ratios) if policy == "not_larger" else max(ratios)
    return [(math.floor(factor * n + 0.5), factor) for n in ours]


class ResizeAttributes(TypedDict, total=False):
    """Attributes of Resize."""

    antialias: int
    axes: Ints | None
    coordinate_transformation_mode: str
    cubic_coeff_a: float
    exclude_outside: int
    extrapolation_value: float
    keep_aspect_ratio_policy: str
    mode: str
    nearest_mode: str


@onnx.op("Resize", versions=(10, 11, 13, 18, 19))
def resize(xp: Namespace, x: Tensor, *operands: Host | None, **form: Unpack[ResizeAttributes]) -> Tensor:
    """Resized along axes by nearest, linear or cubic interpolation, axis by axis."""
    roi, scales, wanted = optional(operands, 3)
    if xp.version == 10:
        roi, scales = None, roi
    crop = form.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    chosen = resized_axes(xp.ndim(x), form)
    ours = [xp.shape(x)[axis] for axis in chosen]
    policy = form.get("keep_aspect_ratio_policy", "stretch")
    for i, (size, scale) in enumerate(targets(xp, ours, scales, wanted, policy)):
        if not crop and (size is ours[i] or (isinstance(scale, float) and scale == 1.0)):
            continue
        if xp.version == 10:
            nearest = "ceil" if isinstance(scale, float) and scale < 1 else "floor"
            form = {**form, "coordinate_transformation_mode": "asymmetric", "nearest_mode": nearest}
        region = (real(roi[i]), real(roi[i + len(chosen)])) if crop and roi is not None else None
        x = resample(xp, x, chosen[i], size, scale, form, region)
    return x


def resized_axes(rank: int, form: ResizeAttributes) -> list[int]:
    """The axes that scales and sizes are given for: all by default."""
    axes = form.get("axes")
    return list(range(rank)) if axes is None else [resolved(axis, rank) for axis in axes]


@onnx.op("Upsample", versions=(1, 7, 9, 10))
def upsample(
    xp: Namespace, x: Tensor, scales: Host | None = None, *, mode: str = "nearest", **attributes: Any
) -> Tensor:
    """Enlarged by nearest or linear interpolation; the scales are attributes before opset 9."""
    factors = [1.0, 1.0, attributes["height_scale"], attributes["width_scale"]] if scales is None else list(scales)
    form: ResizeAttributes = {"mode": {"bilinear": "linear"}.get(mode, mode), "nearest_mode": "floor"}
    form["coordinate_transformation_mode"] = "asymmetric"
    return enlarged(xp, x, factors, form)


def enlarged(xp: Namespace, x: Tensor, factors: Sequence[Any], form: ResizeAttributes) -> Tensor:
    """Enlarged along each axis by its factor."""
    array = host_array([real(item) for item in factors], float)
    for axis, (size, scale) in enumerate(targets(xp, xp.shape(x), array, None, "stretch")):
        if scale != 1.0:
            x = resample(xp, x, axis, size, scale, form)
    return x


def _reflected(xp: Namespace, x: Tensor, low: Factor, span: Factor) -> Tensor:
    """Coordinates mirrored at `low` and `low` + `span` into between them."""
    distance = xp.abs(xp.subtract(x, low))
    flips = xp.floor(xp.divide(distance, span))
    rest = xp.subtract(distance, xp.multiply(flips, span))
    odd = xp.equal(xp.subtract(flips, xp.multiply(xp.floor(xp.divide(flips, 2.0)), 2.0)), 1.0)
    return xp.where(odd, xp.add(xp.subtract(span, rest), low), xp.add(rest, low))


def _bounded(xp: Namespace, x: Tensor, length: Factor, padding: str, align: bool) -> Tensor:
    """Coordinates outside an axis moved into it by the rule `padding`."""
    last = _minus(xp, length, 1.0)
    if padding == "reflection":
        x = _reflected(xp, x, 0.0, last) if align else _reflected(xp, x, -0.5, length)
    return x if padding == "zeros" else xp.clip(x, 0.0, last)


@onnx.op("AffineGrid", versions=(20,))
def affine_grid(xp: Namespace, theta: Tensor, size: Host, *, align_corners: int = 0) -> Tensor:
    """Where the places of an image (N, C, d1, d2, ...) lie in [-1, 1] under an affine map, innermost axis first."""
    outs, dtype = sizes(size)[2:], xp.dtype(theta)
    rank = len(outs)
    between = list(range(1, rank + 1))
    grid = xp.expand_dims(part(xp, theta, 2, rank), between)
    for column, axis in enumerate(reversed(range(rank))):
        count = int_op(xp, "max", int_op(xp, "sub", outs[axis], 1), 1) if align_corners else outs[axis]
        width = size_operand(xp, count, dtype)
        i = xp.multiply(xp.astype(xp.arange(0, outs[axis]), dtype), 2.0)
        if align_corners:
            places = xp.subtract(xp.divide(i, width), 1.0)
        else:
            places = xp.subtract(xp.divide(xp.add(i, 1.0), width), 1.0)
        slope = xp.expand_dims(part(xp, theta, 2, column), between)
        grid = xp.add(grid, xp.multiply(slope, per_axis(xp, places, rank + 2, axis + 1)))
    return grid


class GridSampleAttributes(TypedDict, total=False):
    """Attributes of GridSample."""

    align_corners: int
    mode: str
    padding_mode: str


@onnx.op("GridSample", versions=(16, 20, 22))
def grid_sample(xp: Namespace, x: Tensor, grid: Tensor, **form: Unpack[GridSampleAttributes]) -> Tensor:
    """Images (N, C, d1, d2, ...) sampled at places given in [-1, 1], innermost axis first."""
    align_corners, padding_mode = form.get("align_corners", 0), form.get("padding_mode", "zeros")
    ours = xp.shape(x)
    rank = len(ours) - 2
    outs = xp.shape(grid)[1:-1]
    count = product(xp, outs)
    dtype = xp.dtype(x)
    width = xp.dtype(grid)
    flat = xp.reshape(x, (*ours[:2], product(xp, ours[2:])))
    mode = form.get("mode", "linear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    axes: list[list[tuple[Tensor, Tensor]]] = []
    for i in range(rank):
        last = xp.ndim(grid) - 1
        g = xp.reshape(xp.slice(grid, last, rank - 1 - i, rank - i), (ours[0], count))
        size = ours[2 + i]
        length = float(size) if known(size) else xp.astype(_number(xp, size), width)
        if align_corners:
            place = xp.multiply(xp.divide(xp.add(g, 1.0), 2.0), _minus(xp, length, 1.0))
        else:
            place = xp.divide(xp.subtract(xp.multiply(xp.add(g, 1.0), length), 1.0), 2.0)
        axes.append(_grid_taps(xp, place, length, mode, padding_mode, bool(align_corners)))
    combos: list[tuple[Any, Any]] = [(None, None)]
    for i, taps in enumerate(axes):
        extent = size_operand(xp, ours[2 + i])
        combos = [
            (
                index if before is None else xp.add(xp.multiply(before, extent), index),
                weight if factor is None else xp.multiply(factor, weight),
            )
            for before, factor in combos
            for index, weight in taps
        ]
    parts = []
    for index, weight in combos:
        chosen = xp.broadcast_to(xp.expand_dims(index, [1]), (*ours[:2], count))
        part = xp.take_along_axis(flat, chosen, 2)
        parts.append(xp.multiply(part, xp.expand_dims(xp.astype(weight, dtype), [1])))
    return xp.reshape(reduce(xp.add, parts), (*ours[:2], *outs))


def _grid_taps(
    xp: Namespace, place: Tensor, length: Factor, mode: str, padding: str, align: bool
) -> list[tuple[Tensor, Tensor]]:
    """Index and weight of each element of the filter around fractional places."""
    last = _minus(xp, length, 1.0)
    dtype = xp.dtype(place)
    if mode != "cubic":
        place = _bounded(xp, place, length, padding, align)
    base = xp.round(place) if mode == "nearest" else xp.floor(place)
    steps = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[mode]
    results = []
    for step in steps:
        index = xp.add(base, float(step))
        if mode == "nearest":
            weight = xp.ones((), dtype)
        else:
            distance = xp.astype(xp.subtract(index, place), _DOUBLE)
            weight = _triangle(xp, distance) if mode == "linear" else _cubic(xp, distance, -0.75)
            weight = xp.astype(weight, dtype)
        if mode == "cubic":
            index = _bounded(xp, index, length, padding, align)
        inside = xp.clip(index, 0.0, last)
        weight = xp.where(xp.equal(inside, index), weight, xp.zeros((), dtype))
        results.append((xp.astype(inside, _INT64), weight))
    return results
