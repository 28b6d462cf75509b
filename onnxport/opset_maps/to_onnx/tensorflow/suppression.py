"""The boxes of detectors, without those that overlap a better one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case
from onnxport.opset_maps.lowerings.suppression import Kept, greedy, overlap_of
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64

_FLOAT, _INT32 = ir.DataType.FLOAT, ir.DataType.INT32
_BOXES = np.array(
    [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]],
    np.float32,
)
_SCORES = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], np.float32)


def _kept(
    op: OpBuilder,
    boxes: ir.Value,
    scores: ir.Value,
    count: ir.Value,
    iou: ir.Value,
    score: ir.Value | None,
    sigma: ir.Value | None = None,
) -> Kept:
    """ONNX NonMaxSuppression of one batch and one class; another type of boxes, or softer suppression, in a Loop."""
    most = op.Reshape(int64(op, count), [1])
    softness = op.constant(sigma)
    hard = sigma is None or (softness is not None and float(softness) <= 0.0)
    if boxes.dtype != _FLOAT or not hard:
        least = op.const(-np.inf, scores.dtype) if score is None else score
        threshold, lowest = op.cast_like(iou, scores), op.cast_like(least, scores)
        return greedy(op, scores, overlap_of(op, boxes), most, threshold, lowest, None if hard else sigma)
    result = op.NonMaxSuppression(
        op.Unsqueeze(boxes, [0]),
        op.Unsqueeze(scores, op.axes(0, 1)),
        most,
        op.Reshape(op.cast(iou, _FLOAT), [1]),
        op.Reshape(op.cast(score, _FLOAT), [1]) if score is not None else None,
    )
    places = op.Gather(result, 2, axis=1)
    return Kept(places, op.Gather(scores, places, axis=0), op.Shape(places))


def _cut(op: OpBuilder, x: ir.Value, valid: ir.Value) -> ir.Value:
    return op.Slice(x, [0], valid, [0])


def _padded(op: OpBuilder, x: ir.Value, count: ir.Value) -> ir.Value:
    """`x`, with zeros behind it, to `count` elements."""
    most = op.Reshape(int64(op, count), [1])
    return op.Pad(x, op.Concat([0], op.Sub(most, op.Shape(x)), axis=0))


def _first(count: int, *thresholds: float) -> Callable[[Any, Any], Any]:
    def run(boxes: Any, scores: Any) -> Any:
        return tf.image.non_max_suppression(boxes, scores, count, *thresholds)

    return run


_NARROW = _BOXES.astype(np.float16), _SCORES.astype(np.float16)


@tensorflow.lower(
    "NonMaxSuppression",
    cases=[
        case(
            lambda b, s: tf.raw_ops.NonMaxSuppression(boxes=b, scores=s, max_output_size=4, iou_threshold=0.4),
            _BOXES,
            _SCORES,
        )
    ],
)
def non_max_suppression_of_attribute(
    op: OpBuilder, boxes: ir.Value, scores: ir.Value, max_output_size: ir.Value, *, iou_threshold: float = 0.5
) -> ir.Value:
    """ONNX NonMaxSuppression of one batch and one class."""
    return non_max_suppression(op, boxes, scores, max_output_size, op.const(np.float32(iou_threshold)))


@tensorflow.lower(
    "NonMaxSuppressionV3",
    "NonMaxSuppressionV2",
    cases=[
        case(_first(3, 0.5), _BOXES, _SCORES),
        case(_first(6, 0.5, 0.4), _BOXES, _SCORES),
        case(_first(5, 0.5), *_NARROW),
        case(_first(5, 0.5), _BOXES[:0], _SCORES[:0]),
        case(_first(5, 0.5), *(item[:0] for item in _NARROW)),
    ],
)
def non_max_suppression(
    op: OpBuilder,
    boxes: ir.Value,
    scores: ir.Value,
    max_output_size: ir.Value,
    iou_threshold: ir.Value,
    score_threshold: ir.Value | None = None,
) -> ir.Value:
    """ONNX NonMaxSuppression of one batch and one class."""
    kept = _kept(op, boxes, scores, max_output_size, iou_threshold, score_threshold)
    return op.cast(_cut(op, kept.places, kept.valid), _INT32)


@tensorflow.lower(
    "NonMaxSuppressionWithOverlaps",
    cases=[
        case(
            lambda o, s: tf.image.non_max_suppression_overlaps(o, s, 4, 0.5, 0.35),
            np.random.default_rng(3).random((6, 6)).astype(np.float32),
            _SCORES,
        )
    ],
)
def non_max_suppression_with_overlaps(
    op: OpBuilder,
    overlaps: ir.Value,
    scores: ir.Value,
    max_output_size: ir.Value,
    overlap_threshold: ir.Value,
    score_threshold: ir.Value,
) -> ir.Value:
    """The best box again and again, without those whose row says that they overlap it."""
    table = op.Pad(overlaps, op.const([0, 0, 1, 1]))
    most = op.Reshape(int64(op, max_output_size), [1])

    def similarity(b: OpBuilder, i: ir.Value) -> ir.Value:
        return b.Gather(table, i, axis=1)

    kept = greedy(op, scores, similarity, most, overlap_threshold, score_threshold)
    return op.cast(_cut(op, kept.places, kept.valid), _INT32)


def _fourth(pad: bool) -> Callable[[Any, Any], Any]:
    def run(boxes: Any, scores: Any) -> Any:
        return tf.raw_ops.NonMaxSuppressionV4(
            boxes=boxes,
            scores=scores,
            max_output_size=5,
            iou_threshold=0.5,
            score_threshold=0,
            pad_to_max_output_size=pad,
        )

    return run


def _fifth(sigma: float, least: float, pad: bool) -> Callable[[Any, Any], Any]:
    def run(boxes: Any, scores: Any) -> Any:
        kind = scores.dtype
        return tf.raw_ops.NonMaxSuppressionV5(
            boxes=boxes,
            scores=scores,
            max_output_size=5,
            iou_threshold=tf.cast(0.5, kind),
            score_threshold=tf.cast(least, kind),
            soft_nms_sigma=tf.cast(sigma, kind),
            pad_to_max_output_size=pad,
        )

    return run


@tensorflow.lower(
    "NonMaxSuppressionV4 NonMaxSuppressionV5",
    cases=[
        *(case(_fourth(pad), _BOXES, _SCORES) for pad in (False, True)),
        case(lambda b, s: tf.image.non_max_suppression_with_scores(b, s, 6, 0.5, 0.4), _BOXES, _SCORES),
        *(case(_fifth(sigma, 0.2, pad), _BOXES, _SCORES) for sigma in (0.0, 0.3) for pad in (False, True)),
        case(_fifth(0.5, 0.1, False), *_NARROW),
        case(
            lambda b, s, k: tf.image.non_max_suppression_with_scores(b, s, 6, 0.5, 0.1, k[0]),
            _BOXES,
            _SCORES,
            np.array([0.4], np.float32),
        ),
    ],
)
def non_max_suppression_with_count(
    op: OpBuilder,
    boxes: ir.Value,
    scores: ir.Value,
    max_output_size: ir.Value,
    iou_threshold: ir.Value,
    score_threshold: ir.Value,
    soft_nms_sigma: ir.Value | None = None,
    *,
    pad_to_max_output_size: bool = False,
) -> Sequence[ir.Value]:
    """ONNX NonMaxSuppression, padded where asked for, and the number of boxes; with a sigma, also their scores.

    A sigma above 0 lessens the scores in a Loop.
    """
    kept = _kept(op, boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma)
    wanted = (kept.places,) if soft_nms_sigma is None else (kept.places, kept.scores)
    places, *rest = (_cut(op, item, kept.valid) for item in wanted)
    if pad_to_max_output_size:
        places, *rest = (_padded(op, item, max_output_size) for item in (places, *rest))
    return op.cast(places, _INT32), *rest, op.cast(op.Squeeze(kept.valid, op.axes(0)), _INT32)
