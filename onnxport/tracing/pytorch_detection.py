"""torchvision's functions that ask how many boxes there are, which a trace of boxes chosen by their scores does not know.

`batched_nms` suppresses each class by itself where there are many, and else all at once, moved apart by their class: the
operator that stands for it holds both ways. `paste_masks_in_image` goes through the masks one by one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType

import torch
from torch import Tensor

_MANY = 1000  # boxes: of more than these torchvision suppresses each class by itself, on a CPU
_BOXES, _ROIS = "torchvision.ops.boxes", "torchvision.models.detection.roi_heads"
_SCHEMA = "(Tensor boxes, Tensor scores, Tensor idxs, float iou_threshold, int many) -> Tensor"


@cache
def operator() -> Callable[..., Tensor]:
    """``onnxport::batched_nms``, defined when it is first asked for: a definition takes torch some milliseconds.

    Of boxes [n, 4], scores [n] and classes [n] the places of those that stay, best first, INT64 [kept]; of more than `many` boxes
    each class by itself.
    """
    defined = torch.library.custom_op("onnxport::batched_nms", _run, mutates_args=(), schema=_SCHEMA)
    defined.register_fake(_shape)
    return defined


def _run(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float, many: int) -> Tensor:
    nms = torch.ops.torchvision.nms
    if not len(boxes):
        return torch.empty(0, dtype=torch.int64)
    if len(boxes) <= many:
        apart = boxes + (idxs.to(boxes) * (boxes.max() + 1))[:, None]
        return torch.as_tensor(nms(apart, scores, iou_threshold))
    groups = [torch.where(idxs == number)[0] for number in torch.unique(idxs)]
    kept = torch.cat([group[nms(boxes[group], scores[group], iou_threshold)] for group in groups]).sort()[0]
    return kept[scores[kept].sort(descending=True, stable=True)[1]]


def _shape(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float, many: int) -> Tensor:
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


_replaced: dict[str, FunctionType] = {}  # torchvision's own, while others stand in their place


@contextmanager
def without_counting() -> Iterator[None]:
    """While it is active, torchvision's functions that ask how many boxes there are do without, in whatever has imported them.

    They keep their identity and get other code.
    """
    functions = []
    for (home, name), other in _STANDING.items():
        item = getattr(sys.modules.get(home), name, None)
        if isinstance(item, FunctionType) and name not in _replaced:
            functions.append((name, item))
            _replaced[name] = FunctionType(item.__code__, item.__globals__, name, item.__defaults__)
            item.__code__ = other.__code__
    try:
        yield
    finally:
        for name, item in functions:
            item.__code__ = _replaced.pop(name).__code__


def by_class(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """The operator, or torchvision's own function for what NonMaxSuppression does not take."""
    taken = boxes.dtype == torch.float32 and 0 <= iou_threshold <= 1
    if not taken:
        return torch.as_tensor(_replaced["batched_nms"](boxes, scores, idxs, iou_threshold))
    return operator()(boxes, scores, idxs, iou_threshold, _MANY)


def pasted(masks: Tensor, boxes: Tensor, img_shape: tuple[int, int], padding: int) -> Tensor:
    """Each mask in a picture [boxes, 1, height, width], enlarged to its box: products with the weights of rows and of columns.

    torchvision enlarges one after the other to the size of its box, bilinearly with ``align_corners=False``.
    """
    home = sys.modules[_ROIS]
    masks, scale = home.expand_masks(masks, padding=padding)
    left, top, right, bottom = home.expand_boxes(boxes, scale).to(torch.int64).unbind(1)
    rows = _weights(top, bottom, masks.shape[-2], img_shape[0], masks.dtype)
    columns = _weights(left, right, masks.shape[-1], img_shape[1], masks.dtype)
    return (rows @ masks[:, 0] @ columns.mT)[:, None]


def _weights(first: Tensor, last: Tensor, held: int, wanted: int, dtype: torch.dtype) -> Tensor:
    """How much of each of the `held` rows of a mask is in the `wanted` rows of its picture [boxes, wanted, held]."""
    place = torch.arange(wanted, device=first.device) - first[:, None]
    length = (last - first + 1)[:, None]
    source = ((held / length.clamp(min=1).to(dtype)) * (place + 0.5) - 0.5).clamp(0, held - 1)
    weights = (1 - (source[..., None] - torch.arange(held, device=first.device)).abs()).clamp(min=0)
    return torch.where(((place >= 0) & (place < length))[..., None], weights, 0)


def _batched_nms(boxes, scores, idxs, iou_threshold):  # type: ignore[no-untyped-def]
    import sys  # this code and the next run among torchvision's names

    return sys.modules["onnxport.tracing.pytorch_detection"].by_class(boxes, scores, idxs, iou_threshold)


def _paste_masks_in_image(masks, boxes, img_shape, padding=1):  # type: ignore[no-untyped-def]
    import sys

    return sys.modules["onnxport.tracing.pytorch_detection"].pasted(masks, boxes, img_shape, padding)


_STANDING = {(_BOXES, "batched_nms"): _batched_nms, (_ROIS, "paste_masks_in_image"): _paste_masks_in_image}
