"""Operators on boxes and regions, whose work depends on the data."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import torch

from onnxport.opset_maps.cases import f32
from onnxport.opset_maps.from_onnx.axes import scalar
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.pytorch.namespace import TorchNamespace
from onnxport.opset_maps.from_onnx.pytorch.worlds import META, rule
from onnxport.opset_maps.from_onnx.values import Host, optional
from onnxport.opset_maps.maps import pytorch_native

Tensor: TypeAlias = torch.Tensor


def non_max_suppression(
    boxes: Tensor, scores: Tensor, most: int, overlap: float, least: float | None, centred: bool
) -> Tensor:
    """[n, 3]: batch, class and box of each kept box, greatest score first within a class.

    A box is dropped where it overlaps a kept one of its class by more than `overlap` (intersection over union).
    """
    if centred:
        half = boxes[..., 2:] / 2
        corners = torch.cat([boxes[..., :2] - half, boxes[..., :2] + half], -1)
    else:
        corners = torch.cat(
            [torch.minimum(boxes[..., :2], boxes[..., 2:]), torch.maximum(boxes[..., :2], boxes[..., 2:])], -1
        )
    kept: list[tuple[int, int, int]] = []
    for batch in range(boxes.shape[0]):
        for label in range(scores.shape[1]):
            kept += [(batch, label, box) for box in _kept(corners[batch], scores[batch, label], most, overlap, least)]
    return torch.tensor(kept, dtype=torch.int64, device=boxes.device).reshape(-1, 3)


def _kept(corners: Tensor, scores: Tensor, most: int, overlap: float, least: float | None) -> list[int]:
    order = torch.sort(scores, descending=True, stable=True).indices
    if least is not None:
        order = order[scores[order] > least]
    area = (corners[:, 2:] - corners[:, :2]).prod(-1)
    results: list[int] = []
    while order.numel() and len(results) < most:
        best, order = order[0], order[1:]
        results.append(int(best))
        low = torch.maximum(corners[order, :2], corners[best, :2])
        high = torch.minimum(corners[order, 2:], corners[best, 2:])
        shared = (high - low).clamp(min=0).prod(-1)
        union = area[order] + area[best] - shared
        share = torch.where(union > 0, shared / union, torch.zeros_like(union))
        order = order[share <= overlap]
    return results


rule(non_max_suppression, lambda fresh, *_: torch.empty((fresh, 3), dtype=torch.int64, device=META))


@pytorch_native.op("NonMaxSuppression", versions=(10, 11))
def _non_max_suppression(
    xp: TorchNamespace, boxes: Tensor, scores: Tensor, *limits: Host | None, center_point_box: int = 0
) -> Any:
    """Boxes that no better box of their class overlaps."""
    most, overlap, least = optional(limits, 3)
    bounds = (
        0 if most is None else scalar(most),
        0.0 if overlap is None else scalar(overlap),
        None if least is None else scalar(least),
    )
    return xp.call(non_max_suppression, boxes, scores, *bounds, bool(center_point_box))


def roi_align(
    x: Tensor, rois: Tensor, batch: Tensor, size: tuple[int, int], scale: float, samples: int, mode: str, half: bool
) -> Tensor:
    """[regions, C, height, width]: mean or maximum of points sampled bilinearly in each bin of a region.

    Source: He et al., "Mask R-CNN"; ONNX operator specification, RoiAlign-16.
    """
    result = x.new_zeros((rois.shape[0], x.shape[1], *size))
    for index in range(rois.shape[0]):
        image = x[int(batch[index])]
        left, top, right, bottom = ((rois[index] * scale) - (0.5 if half else 0.0)).tolist()
        extents = [bottom - top, right - left]
        if not half:
            extents = [max(extent, 1.0) for extent in extents]
        if samples <= 0 and min(extents) <= 0:  # its bins hold no points, and onnxruntime and the evaluator leave 0
            continue
        grids, counts = [], []
        for start, extent, bins in zip((top, left), extents, size, strict=True):
            count = samples if samples > 0 else math.ceil(extent / bins)
            step = torch.arange(bins * count, dtype=x.dtype, device=x.device)
            grids.append(start + (step + 0.5) * (extent / bins / count))
            counts.append(count)
        parts = _corners(image, grids[0], grids[1])
        shape = (x.shape[1], size[0], counts[0], size[1], counts[1])
        if mode == "avg":
            result[index] = sum(parts).reshape(shape).mean((2, 4))
        else:
            result[index] = torch.stack(parts).amax(0).reshape(shape).amax((2, 4))
    return result


def _corners(image: Tensor, rows: Tensor, columns: Tensor) -> list[Tensor]:
    """The four weighted neighbours of points on a grid; nothing beyond one element outside the image."""
    sides = []
    for place, length in ((rows, image.shape[1]), (columns, image.shape[2])):
        inside = ((place >= -1) & (place <= length)).to(image.dtype)
        place = place.clamp(min=0)
        low = place.floor().long().clamp(max=length - 1)
        high = (low + 1).clamp(max=length - 1)
        share = torch.where(low >= length - 1, torch.zeros_like(place), place - low)
        sides.append(((low, (1 - share) * inside), (high, share * inside)))
    return [
        image[:, row][:, :, column] * (down[:, None] * across[None, :])
        for row, down in sides[0]
        for column, across in sides[1]
    ]


rule(roi_align, lambda fresh, x, rois, batch, size, *_: x.new_empty((rois.shape[0], x.shape[1], *size)))


@pytorch_native.op("RoiAlign", versions=(10, 16, 22))
def _roi_align(
    xp: TorchNamespace,
    x: Tensor,
    rois: Tensor,
    batch: Tensor,
    *,
    coordinate_transformation_mode: str = "output_half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:
    """Regions of images pooled to one size; before opset 16 pixels lie at whole coordinates."""
    half = coordinate_transformation_mode == "half_pixel"
    size = (output_height, output_width)
    return xp.call(roi_align, x, rois, batch, size, spatial_scale, sampling_ratio, mode, half)


def _rounded(x: float) -> int:
    """The nearest int32, halves away from zero, as C converts: what has none becomes the least of all."""
    return int(math.copysign(math.floor(abs(x) + 0.5), x)) if abs(x) < (1 << 31) - 1 else -(1 << 31)


def _extent(start: int, end: int) -> int:
    """Elements from `start` to `end`, at least 1; the difference wraps as onnxruntime's int32 does."""
    return max((end - start + 1 + (1 << 31)) % (1 << 32) - (1 << 31), 1)


def max_roi_pool(x: Tensor, rois: Tensor, size: tuple[int, int], scale: float) -> Tensor:
    """[regions, C, height, width]: greatest element in each bin of a region (batch, left, top, right, bottom).

    Source: Girshick, "Fast R-CNN".
    """
    result = x.new_zeros((rois.shape[0], x.shape[1], *size))
    for index in range(rois.shape[0]):
        factors = (1, scale, scale, scale, scale)
        batch, left, top, right, bottom = (_rounded(n * f) for n, f in zip(rois[index].tolist(), factors, strict=True))
        spans = []
        for start, end, bins, length in ((top, bottom, size[0], x.shape[2]), (left, right, size[1], x.shape[3])):
            step = _extent(start, end) / bins
            edges = [(math.floor(i * step) + start, math.ceil((i + 1) * step) + start) for i in range(bins)]
            spans.append([(min(max(low, 0), length), min(max(high, 0), length)) for low, high in edges])
        for i, (first, last) in enumerate(spans[0]):
            for j, (near, far) in enumerate(spans[1]):
                if last > first and far > near:
                    result[index, :, i, j] = x[batch, :, first:last, near:far].amax((1, 2))
    return result


rule(max_roi_pool, lambda fresh, x, rois, size, scale: x.new_empty((rois.shape[0], x.shape[1], *size)))


@pytorch_native.op(
    "MaxRoiPool",
    versions=(1, 22),
    cases=[
        graph(
            "(float[N, 2, 9, 9] x, float[M, 5] rois) => (float[M, 2, 3, 2] y) {y = MaxRoiPool <pooled_shape = [3, "
            "2], spatial_scale = 0.5> (x, rois)}",
            f32(1, 2, 9, 9),
            np.array([[0, -1, -3, 12, 15], [0, 4, 0, 9, 16]], np.float32),
        )
    ],
)
def _max_roi_pool(
    xp: TorchNamespace, x: Tensor, rois: Tensor, *, pooled_shape: tuple[int, int], spatial_scale: float = 1.0
) -> Any:
    """Regions of images pooled to one size by their maximum."""
    return xp.call(max_roi_pool, x, rois, tuple(pooled_shape), spatial_scale)
