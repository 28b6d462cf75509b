"""torchvision's `batched_nms` while tracing, as one operator.

It asks how many boxes there are, which a trace of boxes chosen by their scores does not know: none, or so many that each class
is suppressed by itself instead of all at once, moved apart by their class. The operator holds both ways.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

_MANY = 1000  # boxes: of more than these torchvision suppresses each class by itself, on a CPU
_HOME = "torchvision.ops.boxes"
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


_replaced: list[Callable[..., Tensor]] = []  # torchvision's own, while another stands in its place


@contextmanager
def boxes_by_class() -> Iterator[None]:
    """While it is active, `batched_nms` is the operator, wherever torchvision has been imported: its function gets other code."""
    function: Any = getattr(sys.modules.get(_HOME), "batched_nms", None)
    if not isinstance(function, FunctionType) or function.__code__ is _batched_nms.__code__:
        yield
        return
    own = function.__code__
    _replaced.append(FunctionType(own, function.__globals__))
    function.__code__ = _batched_nms.__code__
    try:
        yield
    finally:
        function.__code__ = own
        _replaced.pop()


def by_class(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """The operator, or torchvision's own function for what NonMaxSuppression does not take."""
    taken = boxes.dtype == torch.float32 and 0 <= iou_threshold <= 1
    if not taken:
        return _replaced[-1](boxes, scores, idxs, iou_threshold)
    return operator()(boxes, scores, idxs, iou_threshold, _MANY)


def _batched_nms(boxes, scores, idxs, iou_threshold):  # type: ignore[no-untyped-def]
    import sys  # this code runs among torchvision's names

    return sys.modules["onnxport.tracing.pytorch_detection"].by_class(boxes, scores, idxs, iou_threshold)
