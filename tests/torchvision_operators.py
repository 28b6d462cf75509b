"""torchvision's operators where it is not installed: their schemas, and their published definitions in Python.

Where torchvision is installed, its own are used.
"""

from __future__ import annotations

from importlib.util import find_spec
from itertools import product
from math import ceil, floor

import torch

_SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width,"
    " int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width)"
    " -> (Tensor, Tensor)",
    "ps_roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width,"
    " int sampling_ratio) -> (Tensor, Tensor)",
    "ps_roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width)"
    " -> (Tensor, Tensor)",
    "deform_conv2d": "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h,"
    " SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups,"
    " SymInt offset_groups, bool use_mask) -> Tensor",
}


def declare() -> None:
    """Declares the operators, once, where torchvision is not installed."""
    if find_spec("torchvision") or hasattr(torch.ops.torchvision, "nms"):
        return
    for name, schema in _SCHEMAS.items():
        torch.library.define(f"torchvision::{name}", schema)
        torch.library.impl(f"torchvision::{name}", "CPU", globals()[name])
        torch.library.register_fake(f"torchvision::{name}", globals().get(f"fake_{name}", _fake_pooled))


def nms(dets, scores, iou_threshold):
    order = scores.argsort(descending=True, stable=True).tolist()
    area = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    kept = []
    while order:
        best, *order = order
        kept.append(best)
        shared = (
            torch.minimum(dets[order, 2:], dets[best, 2:]) - torch.maximum(dets[order, :2], dets[best, :2])
        ).clamp(0)
        shared = shared[:, 0] * shared[:, 1]
        alike = (shared / (area[best] + area[order] - shared)).tolist()
        order = [item for item, quotient in zip(order, alike, strict=True) if not quotient > iou_threshold]
    return torch.tensor(kept, dtype=torch.int64)


def fake_nms(dets, scores, iou_threshold):
    return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    result = input.new_zeros(len(rois), input.shape[1], pooled_height, pooled_width)
    for n, roi in enumerate(rois):
        left, top, right, bottom = (roi[1:] * spatial_scale - (0.5 if aligned else 0)).tolist()
        height, width = bottom - top, right - left
        if not aligned:
            height, width = max(height, 1.0), max(width, 1.0)
        high, wide = height / pooled_height, width / pooled_width
        rows, columns = (sampling_ratio if sampling_ratio > 0 else ceil(item) for item in (high, wide))
        for i, j in product(range(pooled_height), range(pooled_width)):
            for a, b in product(range(rows), range(columns)):
                y, x = top + high * (i + (a + 0.5) / rows), left + wide * (j + (b + 0.5) / columns)
                result[n, :, i, j] += _at(input[int(roi[0])], y, x)
            result[n, :, i, j] /= max(rows * columns, 1)
    return result


def fake_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return input.new_empty(rois.shape[0], input.shape[1], pooled_height, pooled_width)


def _at(image, y, x):
    """Interpolated at a point that may lie up to a pixel outside."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return image.new_zeros(len(image))
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    i, j = int(y), int(x)
    below, beside = min(i + 1, height - 1), min(j + 1, width - 1)
    upper = image[:, i, j] * (1 - (x - j)) + image[:, i, beside] * (x - j)
    lower = image[:, below, j] * (1 - (x - j)) + image[:, below, beside] * (x - j)
    return upper * (1 - (y - i)) + lower * (y - i)


def ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    every = roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, True)
    result = _own(every, pooled_height, pooled_width)
    if sampling_ratio <= 0:
        lengths = (rois[:, 3:] * spatial_scale - 0.5) - (rois[:, 1:3] * spatial_scale - 0.5)
        unsampled = (lengths / torch.tensor([pooled_width, pooled_height])).ceil() == 0
        result[unsampled.any(1)] = torch.nan
    return result, result.new_zeros(result.shape, dtype=torch.int32)


def _own(every, height, width):
    places = every.unflatten(1, (-1, height, width))
    return torch.stack([places[:, :, i, j, i, j] for i, j in product(range(height), range(width))], 2).unflatten(
        2, (height, width)
    )


def _away(x):
    return floor(abs(x) + 0.5) * (1 if x >= 0 else -1)


def _pooled(input, rois, scale, pooled_height, pooled_width, inclusive, reduced):
    result = input.new_zeros(len(rois), input.shape[1], pooled_height, pooled_width)
    limits = [size - 1 + inclusive for size in input.shape[2:]]
    for n, roi in enumerate(rois):
        left, top, right, bottom = map(_away, (roi[1:] * scale).tolist())
        high = max(bottom - top + inclusive, 1) / pooled_height
        wide = max(right - left + inclusive, 1) / pooled_width
        for i, j in product(range(pooled_height), range(pooled_width)):
            rows = slice(*(min(max(item + top, 0), limits[0]) for item in (floor(i * high), ceil((i + 1) * high))))
            columns = slice(*(min(max(item + left, 0), limits[1]) for item in (floor(j * wide), ceil((j + 1) * wide))))
            part = input[int(roi[0]), :, rows, columns].flatten(1)
            if part.shape[1]:
                result[n, :, i, j] = reduced(part)
    return result


def roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    result = _pooled(input, rois, spatial_scale, pooled_height, pooled_width, 1, lambda part: part.amax(1))
    return result, result.new_zeros(result.shape, dtype=torch.int32)


def ps_roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    every = _pooled(input, rois, spatial_scale, pooled_height, pooled_width, 0, lambda part: part.mean(1))
    result = _own(every, pooled_height, pooled_width)
    return result, result.new_zeros(result.shape, dtype=torch.int32)


def _fake_pooled(input, rois, spatial_scale, pooled_height, pooled_width, *rest):
    result = input.new_empty(rois.shape[0], input.shape[1], pooled_height, pooled_width)
    return result, result.new_empty(result.shape, dtype=torch.int32)


def fake_ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, *rest):
    channels = input.shape[1] // (pooled_height * pooled_width)
    result = input.new_empty(rois.shape[0], channels, pooled_height, pooled_width)
    return result, result.new_empty(result.shape, dtype=torch.int32)


fake_ps_roi_pool = fake_ps_roi_align


def deform_conv2d(
    input,
    weight,
    offset,
    mask,
    bias,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    groups,
    offset_groups,
    use_mask,
):
    (count, channels), (_, per_group, rows, columns) = input.shape[:2], weight.shape
    height, width = offset.shape[2:]
    taps = input.new_zeros(count, channels, rows, columns, height, width)
    padded = torch.nn.functional.pad(input, (1, 1, 1, 1))  # whatever lies a pixel outside counts as 0
    for n, g, a, b, i, j in product(*map(range, (count, offset_groups, rows, columns, height, width))):
        tap = (g * rows + a) * columns + b
        y = i * stride_h - pad_h + a * dilation_h + offset[n, 2 * tap, i, j].item()
        x = j * stride_w - pad_w + b * dilation_w + offset[n, 2 * tap + 1, i, j].item()
        if not (-1 < y < input.shape[2] and -1 < x < input.shape[3]):
            continue
        part = slice(g * channels // offset_groups, (g + 1) * channels // offset_groups)
        value = _at(padded[n, part], y + 1, x + 1)
        taps[n, part, a, b, i, j] = value * mask[n, tap, i, j] if use_mask else value
    taps = taps.unflatten(1, (groups, per_group)).flatten(2, 4).flatten(3)
    products = torch.einsum("ngkp,gok->ngop", taps, weight.unflatten(0, (groups, -1)).flatten(2))
    return products.flatten(1, 2).unflatten(2, (height, width)) + bias[:, None, None]


def fake_deform_conv2d(input, weight, offset, *rest):
    return input.new_empty(input.shape[0], weight.shape[0], *offset.shape[2:])
