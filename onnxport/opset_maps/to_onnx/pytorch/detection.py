"""Detection: torchvision's operators on boxes and regions, and its deformable convolution."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.kernels import REGIONS_BELOW
from onnxport.opset_maps.cases import case, f32, f64
from onnxport.opset_maps.lowerings import regions, suppression
from onnxport.opset_maps.lowerings.axes import size
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.registry import Undefined

_FLOAT = ir.DataType.FLOAT
_NO_ARGMAX = Undefined("the second result of torchvision's pooling of regions serves its gradient alone")


def _vision(name: str, *args: Any) -> Any:
    if find_spec("torchvision"):
        import_module("torchvision")  # registers the operators; where it is not installed, the tests declare them
    return getattr(torch.ops.torchvision, name)(*args)


_BOXES = np.array(
    [[0, 0, 8, 8], [1, 0, 9, 8], [0, 0, 8, 8], [20, 20, 28, 29], [21, 20, 28, 29], [5, 5, 5, 9], [9, 9, 3, 3]],
    "float32",
)
_SCORES = np.array([0.5, 0.9, 0.5, 0.3, 0.7, 0.2, 0.8], "float32")  # two are equal
_ROIS = np.array(
    [
        [0, 1, 1, 6, 7],
        [1, 0, 0, 9, 9],
        [0, 2.5, 3.5, 4.25, 8.75],
        [1, 4, 4, 4, 4],
        [0, 5, 6, 3, 2],
        [0, -4, -4, 20, 20],
    ],
    "float32",
)
_NONE = np.zeros((0, 5), "float32")


@aten.lower(
    "torchvision::nms",
    cases=[
        case(lambda x, y: _vision("nms", x, y, 0.5), _BOXES, _SCORES, holds=("NonMaxSuppression",)),
        # a third is the quotient of the third and fourth box: what equals the threshold stays
        case(lambda x, y: _vision("nms", x, y, 7 / 9), _BOXES, _SCORES),
        case(lambda x, y: _vision("nms", x, y, 0.1), _BOXES.astype("float64"), _SCORES.astype("float64")),
        case(lambda x, y: _vision("nms", x, y, -0.5), _BOXES, np.full(7, -np.inf, "float32")),
        case(lambda x, y: _vision("nms", x, y, 0.5) + 1, np.zeros((0, 4), "float32"), np.zeros(0, "float32")),
    ],
)
def nms(op: OpBuilder, dets: ir.Value, scores: ir.Value, iou_threshold: float) -> ir.Value:
    """NonMaxSuppression, whose boxes are of float32; of others and for thresholds out of its range a Loop."""
    dtype = dets.dtype or _FLOAT
    if dtype not in (_FLOAT, ir.DataType.DOUBLE):
        raise UnsupportedOperator(f"torchvision::nms of {dtype}; torchvision itself takes float32 and float64")
    limit = _below(iou_threshold, dtype)
    if dtype == _FLOAT and 0 <= float(limit) <= 1:
        return suppression.selected(op, dets, scores, float(limit))
    _, order = op.TopK(scores, op.shape(scores), axis=0, outputs=2)
    # The numbers of the boxes, best first, serve as scores: a loop's -infinity means that a box was taken.
    falling = op.cast(op.Neg(op.Range(0, size(op, scores, 0), 1)), dtype)
    similarity = suppression.corner_overlap_of(op, op.Gather(dets, order, axis=0))
    least = op.const(-np.inf, dtype)
    kept = suppression.greedy(op, falling, similarity, op.shape(scores), op.const(limit), least)
    return op.Gather(order, op.Slice(kept.places, op.const([0]), kept.valid), axis=0)


def _by_class(boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor) -> Any:
    _vision("nms", boxes, scores, 0.5)  # which registers what the operator calls
    return torch.ops.onnxport.batched_nms(boxes, scores, classes, 0.5, _MANY)


_MANY = 50
_CLASSES = np.array([3, 3, 0, 0, 3, 1, 0])
_DRAWN = np.random.default_rng(0)
_CORNERS = _DRAWN.uniform(0, 40, (_MANY + 40, 2)).astype("float32")
_CROWD = np.concatenate([_CORNERS, _CORNERS + _DRAWN.uniform(5, 30, (_MANY + 40, 2)).astype("float32")], axis=1)
_CROWD_SCORES = np.round(_DRAWN.uniform(0, 1, _MANY + 40), 2).astype("float32")  # many are equal


@aten.lower(
    "onnxport::batched_nms",
    cases=[
        case(_by_class, _BOXES, _SCORES, _CLASSES, holds=("NonMaxSuppression",)),
        case(_by_class, _CROWD[:_MANY], _CROWD_SCORES[:_MANY], np.arange(_MANY) % 7),
        case(_by_class, _CROWD, _CROWD_SCORES, np.arange(_MANY + 40) % 90),
        case(_by_class, _BOXES[:0], _SCORES[:0], _CLASSES[:0]),
    ],
)
def batched_nms(
    op: OpBuilder, boxes: ir.Value, scores: ir.Value, idxs: ir.Value, iou_threshold: float, many: int
) -> ir.Value:
    """NonMaxSuppression of each class; up to `many` boxes on ones moved apart by their class, in whose rounding they overlap."""
    dtype = boxes.dtype or _FLOAT
    limit = _below(iou_threshold, dtype)
    if dtype != _FLOAT or not 0 <= float(limit) <= 1:
        raise UnsupportedOperator(f"torchvision's batched_nms of {dtype} with a threshold of {iou_threshold}")
    largest = op.ReduceMax(op.Concat(op.Reshape(boxes, [-1]), op.const([np.finfo(np.float32).min]), axis=0), keepdims=0)
    few = op.LessOrEqual(size(op, scores, 0), many)
    step = op.Where(few, op.Add(largest, 1.0), op.const(0.0))
    apart = op.Add(boxes, op.Unsqueeze(op.Mul(op.cast(idxs, _FLOAT), step), op.axes(1)))
    return suppression.selected_by_class(op, apart, scores, idxs, float(limit))


def _below(threshold: float, dtype: ir.DataType) -> Any:
    """The greatest number of a type that is no greater: torchvision compares in double precision."""
    limit = np.asarray(threshold, dtype.numpy())
    return np.nextafter(limit, np.asarray(-np.inf, limit.dtype)) if float(limit) > threshold else limit


@aten.lower(
    "torchvision::roi_align",
    cases=[
        case(lambda x, r: _vision("roi_align", x, r, 1.0, 3, 2, 2, False), f32(2, 3, 10, 10), _ROIS),
        case(lambda x, r: _vision("roi_align", x, r, 0.3, 3, 2, 2, True), f32(2, 3, 10, 10), _ROIS),
        case(lambda x, r: _vision("roi_align", x, r, 0.5, 3, 2, -1, True), f32(2, 3, 10, 10), _ROIS),
        case(lambda x, r: _vision("roi_align", x, r, 0.3, 2, 2, 0, False), f64(2, 3, 10, 10), _ROIS.astype("float64")),
        case(lambda x, r: _vision("roi_align", x, r, 1.0, 2, 2, -1, False), f32(2, 3, 10, 10), _NONE),
    ],
)
def roi_align(
    op: OpBuilder,
    input: ir.Value,
    rois: ir.Value,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> ir.Value:
    """RoiAlign, up to opset 21; products with the weights of rows and columns from opset 22 on, and of aligned=True below 16."""
    pooled = (pooled_height, pooled_width)
    return regions.aligned(op, input, rois, spatial_scale, pooled, max(sampling_ratio, 0), centred=aligned)


@aten.lower(
    "torchvision::ps_roi_align",
    cases=[
        case(lambda x, r: _vision("ps_roi_align", x, r, 0.5, 2, 3, 2)[0], f32(2, 12, 10, 10), _ROIS),
        case(lambda x, r: _vision("ps_roi_align", x, r, 1.0, 2, 2, -1)[0], f64(2, 8, 10, 10), _ROIS.astype("float64")),
        case(lambda x, r: _vision("ps_roi_align", x, r[r[:, 0] > 5], 1.0, 2, 2, -1)[0], f32(2, 8, 10, 10), _ROIS),
    ],
)
def ps_roi_align(
    op: OpBuilder, input: ir.Value, rois: ir.Value, spatial_scale: float, *window: int
) -> tuple[ir.Value, Undefined]:
    """RoiAlign of all channels, of which each place takes its own; `window` is its height, its width and the samples a place."""
    height, width, sampling_ratio = window
    pooled = (height, width)
    every = regions.aligned(op, input, rois, spatial_scale, pooled, max(sampling_ratio, 0), centred=True)
    result = regions.own_channels(op, every, pooled)
    if sampling_ratio > 0:
        return result, _NO_ARGMAX
    unsampled = regions.without_samples(op, rois, spatial_scale, pooled)
    return op.Where(unsampled, op.const(np.nan, result.dtype), result), _NO_ARGMAX


@aten.lower(
    "torchvision::roi_pool",
    cases=[
        case(lambda x, r: _vision("roi_pool", x, r, 1.0, 3, 2)[0], f32(2, 3, 10, 10), _ROIS),
        case(lambda x, r: _vision("roi_pool", x, r, 0.5, 3, 2)[0], f64(2, 3, 10, 10), _ROIS.astype("float64")),
    ],
)
def roi_pool(
    op: OpBuilder, input: ir.Value, rois: ir.Value, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[ir.Value, Undefined]:
    """MaxRoiPool; from opset 22 on, and of other types than float32, maxima over the bins."""
    pooled = (pooled_height, pooled_width)
    if input.dtype == _FLOAT and op.opset < REGIONS_BELOW:
        return op.MaxRoiPool(input, rois, pooled_shape=pooled, spatial_scale=spatial_scale), _NO_ARGMAX
    return regions.max_pooled(op, input, rois, spatial_scale, pooled), _NO_ARGMAX


@aten.lower(
    "torchvision::ps_roi_pool",
    cases=[
        case(lambda x, r: _vision("ps_roi_pool", x, r, 1.0, 2, 3)[0], f32(2, 12, 10, 10), _ROIS),
        case(lambda x, r: _vision("ps_roi_pool", x, r, 0.5, 2, 2)[0], f64(2, 8, 10, 10), _ROIS.astype("float64")),
        case(lambda x, r: _vision("ps_roi_pool", x, r[r[:, 0] > 5], 1.0, 2, 2)[0], f32(2, 8, 10, 10), _ROIS),
    ],
)
def ps_roi_pool(
    op: OpBuilder, input: ir.Value, rois: ir.Value, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[ir.Value, Undefined]:
    """Means over the bins, each place of its own channels."""
    return regions.own_means(op, input, rois, spatial_scale, (pooled_height, pooled_width)), _NO_ARGMAX


def _deformed(
    x: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor, *, groups: int, offset_groups: int
) -> Any:
    bias, use_mask = torch.arange(float(len(weight))).to(x), mask.ndim == 4
    rest = (1, 2, 1, 0, 1, 2, groups, offset_groups, use_mask)
    return _vision("deform_conv2d", x, weight, offset, mask, bias, *rest)


@aten.lower(
    "torchvision::deform_conv2d",
    cases=[
        case(
            lambda x, w, o, m: _deformed(x, w, o, m, groups=1, offset_groups=1),
            *(f32(2, 4, 6, 7), f32(6, 4, 3, 2), f32(2, 12, 6, 3), f32(2, 6, 6, 3)),
        ),
        case(
            lambda x, w, o, m: _deformed(x, w, o, m, groups=2, offset_groups=2),
            *(f64(2, 4, 6, 7), f64(6, 2, 3, 2), f64(2, 24, 6, 3), f64(2, 1)),
        ),
    ],
    min_opset=19,
)
def deform_conv2d(
    op: OpBuilder,
    input: ir.Value,
    weight: ir.Value,
    offset: ir.Value,
    mask: ir.Value,
    bias: ir.Value,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> ir.Value:
    """DeformConv."""
    operands = (input, weight, offset, bias, *((mask,) if use_mask else ()))
    return op.DeformConv(
        *operands,
        strides=[stride_h, stride_w],
        pads=[pad_h, pad_w, pad_h, pad_w],
        dilations=[dilation_h, dilation_w],
        group=groups,
        offset_group=offset_groups,
    )
