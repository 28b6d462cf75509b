"""Colours of pixels, crops of images and the boxes of detectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import static_int

_RGB = f32(2, 4, 5, 3, low=0, high=1)


def _channels(op: OpBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    red, green, blue = (op.Gather(x, i, axis=-1) for i in range(3))
    return red, green, blue


def _joined(op: OpBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    return op.Concat(*[op.Unsqueeze(item, op.axes(-1)) for item in parts], axis=-1)


def _extremes(op: OpBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The greatest and the least of the colours as TensorFlow's reduction finds them: the later one where they don't compare."""
    red, green, blue = _channels(op, x)

    def greater(a: ir.Value, b: ir.Value) -> ir.Value:
        return op.Where(op.Less(b, a), a, b)

    def lesser(a: ir.Value, b: ir.Value) -> ir.Value:
        return op.Where(op.Less(a, b), a, b)

    return greater(greater(red, green), blue), lesser(lesser(red, green), blue)


def _hue(
    op: OpBuilder, x: ir.Value, circle: float, extremes: tuple[ir.Value, ir.Value] | None = None
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The hue from 0 to `circle`, the greatest of the colours, and how far that is from the least."""
    red, green, blue = _channels(op, x)
    value, least = extremes or (op.Max(red, green, blue), op.Min(red, green, blue))
    spread = op.Sub(value, least)
    zero = op.const(0.0, x.dtype)
    unit = op.Div(1.0, op.Mul(spread, 6.0 / circle))
    hue = op.Where(
        op.Equal(red, value),
        op.Mul(unit, op.Sub(green, blue)),
        op.Where(
            op.Equal(green, value),
            op.Add(op.Mul(unit, op.Sub(blue, red)), 2.0 * circle / 6.0),
            op.Add(op.Mul(unit, op.Sub(red, green)), 4.0 * circle / 6.0),
        ),
    )
    hue = op.Where(op.Greater(spread, zero), hue, zero)
    return op.Where(op.Less(hue, zero), op.Add(hue, circle), hue), value, spread


def _hsv(
    op: OpBuilder, x: ir.Value, extremes: tuple[ir.Value, ir.Value] | None = None
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Hue, saturation and value, each from 0 to 1."""
    hue, value, spread = _hue(op, x, 1.0, extremes)
    zero = op.const(0.0, x.dtype)
    return hue, op.Where(op.Greater(value, zero), op.Div(spread, value), zero), value


def _parts(op: OpBuilder, sixths: ir.Value) -> list[ir.Value]:
    """How much of red, green and blue a hue from 0 to 6 has."""

    def clipped(x: ir.Value) -> ir.Value:
        return op.Clip(x, 0.0, 1.0)

    red = clipped(op.Sub(op.Abs(op.Sub(sixths, 3.0)), 1.0))
    green = clipped(op.Sub(2.0, op.Abs(op.Sub(sixths, 2.0))))
    blue = clipped(op.Sub(2.0, op.Abs(op.Sub(sixths, 4.0))))
    return [red, green, blue]


def _rgb(op: OpBuilder, hue: ir.Value, saturation: ir.Value, value: ir.Value) -> ir.Value:
    rest = op.Sub(1.0, saturation)
    return _joined(op, [op.Mul(op.Add(rest, op.Mul(saturation, item)), value) for item in _parts(op, op.Mul(hue, 6.0))])


_UNKNOWN = np.array([[np.nan, 0.3, 0.6], [0.3, np.nan, 0.6], [0.6, np.nan, 0.3], [0.3, 0.6, np.nan]], np.float32)


@tensorflow.lower(
    "RGBToHSV",
    cases=[
        case(lambda x: tf.image.rgb_to_hsv(x), _RGB, dynamic=True),
        case(lambda x: tf.image.rgb_to_hsv(x), np.concatenate([_UNKNOWN, 1 - _UNKNOWN]), name="not a number"),
    ],
)
def rgb_to_hsv(op: OpBuilder, images: ir.Value) -> ir.Value:
    """Hue, saturation and value of each pixel."""
    return _joined(op, _hsv(op, images, _extremes(op, images)))


@tensorflow.lower("HSVToRGB", cases=[case(lambda x: tf.image.hsv_to_rgb(x), _RGB, dynamic=True)])
def hsv_to_rgb(op: OpBuilder, images: ir.Value) -> ir.Value:
    """Red, green and blue of each pixel."""
    return _rgb(op, *_channels(op, images))


@tensorflow.lower(
    "AdjustHue",
    cases=[
        *(case(lambda x, d=delta: tf.image.adjust_hue(x, d), _RGB) for delta in (0.2, -0.7)),
        case(lambda x: tf.image.adjust_hue(x, 0.3), f32(2, 4, 5, 3)),
    ],
)
def adjust_hue(op: OpBuilder, images: ir.Value, delta: ir.Value) -> ir.Value:
    """The hue turned, between the least and the greatest of the colours."""
    hue, value, spread = _hue(op, images, 6.0)
    turned = op.Add(hue, op.Mul(op.cast_like(delta, images), 6.0))
    least = op.Sub(value, spread)
    parts = _parts(op, op.Sub(turned, op.Mul(op.Floor(op.Div(turned, 6.0)), 6.0)))
    return _joined(op, [op.Add(least, op.Mul(spread, item)) for item in parts])


@tensorflow.lower("AdjustSaturation", cases=[case(lambda x: tf.image.adjust_saturation(x, 1.8), _RGB)])
def adjust_saturation(op: OpBuilder, images: ir.Value, scale: ir.Value) -> ir.Value:
    """The saturation scaled, to 1 at most."""
    hue, saturation, value = _hsv(op, images)
    return _rgb(op, hue, op.Clip(op.Mul(saturation, op.cast_like(scale, images)), 0.0, 1.0), value)


_BOXES = np.array(
    [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]],
    np.float32,
)


@tensorflow.lower(
    "CombinedNonMaxSuppression",
    cases=[
        case(
            lambda s: tuple(tf.image.combined_non_max_suppression(_BOXES[None, :, None] / 101, s, 3, 5, 0.5, 0.2)),
            f32(1, 6, 3, low=0, high=1),
        ),
        case(
            lambda b, s: tuple(
                tf.image.combined_non_max_suppression(b, s, 2, 9, 0.5, 0.3, pad_per_class=True, clip_boxes=False)
            ),
            np.stack([_BOXES] * 2, 1)[None].repeat(2, 0),
            f32(2, 6, 2, low=0, high=1),
        ),
    ],
)
def combined_non_max_suppression(
    op: OpBuilder,
    boxes: ir.Value,
    scores: ir.Value,
    max_output_size_per_class: ir.Value,
    max_total_size: ir.Value,
    iou_threshold: ir.Value,
    score_threshold: ir.Value,
    *,
    pad_per_class: bool = False,
    clip_boxes: bool = True,
) -> Sequence[ir.Value]:
    """ONNX NonMaxSuppression of each class, then the best of all classes of an image; padded with zeros."""
    classes = scores.shape[2] if scores.shape is not None and scores.shape.rank() == 3 else None
    own = boxes.shape[2] if boxes.shape is not None and boxes.shape.rank() == 4 else None
    if not isinstance(classes, int) or not isinstance(own, int):
        raise UnsupportedOperator("CombinedNonMaxSuppression: the number of classes is dynamic")
    total, per_class = (static_int(op, item, "size") for item in (max_total_size, max_output_size_per_class))
    total = min(total, per_class * classes) if pad_per_class else total
    least = op.const(-np.inf, ir.DataType.FLOAT)
    batch = op.dim(scores, 0)
    if not isinstance(
        scores.shape[1] if scores.shape is not None else None, int
    ):  # a box that is never chosen, for no boxes
        boxes = op.Concat(boxes, op.Expand(op.const(0.0), op.Concat(batch, [1, own, 4], axis=0)), axis=1)
        scores = op.Concat(scores, op.Expand(least, op.Concat(batch, [1, classes], axis=0)), axis=1)
    count = op.dim(scores, 1)
    # Each class of each image is a batch entry of its own.
    by_class = op.Transpose(boxes, perm=[0, 2, 1, 3])
    if own != classes:
        by_class = op.Expand(by_class, op.Concat(batch, [classes], count, [4], axis=0))
    flat_scores = op.Reshape(op.Transpose(scores, perm=[0, 2, 1]), [-1])
    kept = op.NonMaxSuppression(
        op.Reshape(by_class, op.Concat([-1], count, [4], axis=0)),
        op.Reshape(flat_scores, op.Concat([-1, 1], count, axis=0)),
        op.const([per_class]),
        op.Reshape(op.cast(iou_threshold, ir.DataType.FLOAT), [1]),
        op.Reshape(op.cast(score_threshold, ir.DataType.FLOAT), [1]),
    )
    target = op.Add(op.Mul(op.Gather(kept, 0, axis=1), count), op.Gather(kept, 2, axis=1))
    chosen = op.ScatterElements(
        op.Expand(least, op.Shape(flat_scores)), target, op.Gather(flat_scores, target, axis=0), axis=0
    )
    # As many more places as are wanted, so that there are always enough.
    spare = op.Expand(least, op.Concat(batch, [total], axis=0))
    candidates = op.Concat(op.Reshape(chosen, op.Concat(batch, [-1], axis=0)), spare, axis=1)
    values, index = op.TopK(candidates, [total], axis=1)
    valid = op.Greater(values, least)
    index = op.Where(valid, index, op.const(0))
    places = op.Expand(op.Unsqueeze(index, op.axes(2)), op.const([1, 1, 4]))
    best = op.GatherElements(op.Reshape(by_class, op.Concat(batch, [-1, 4], axis=0)), places, axis=1)
    best = op.Clip(best, 0.0, 1.0) if clip_boxes else best
    zero = op.const(0.0)
    return (
        op.Where(op.Unsqueeze(valid, op.axes(2)), best, zero),
        op.Where(valid, values, zero),
        op.Where(valid, op.cast(op.Div(index, count), ir.DataType.FLOAT), zero),
        op.reduce("ReduceSum", op.cast(valid, ir.DataType.INT32), [1], keepdims=False),
    )
