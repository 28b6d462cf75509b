"""Boxes cut out of images at another size, and the gradients of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.lowerings.scatter import scatter_slices
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, static_ints

_FLOAT, _INT64 = ir.DataType.FLOAT, ir.DataType.INT64
_CROPS = (
    np.array([[0, 0, 1, 1], [0.2, -0.1, 0.9, 0.6], [0.8, 0.1, 0.3, 1.2]], np.float32),
    np.array([0, 1, 1], np.int32),
)


@dataclass(frozen=True)
class _Points:
    """The points of a crop along one axis, [boxes, size].

    Attributes:
        below: the pixel before a point, INT64.
        above: the pixel behind it; the same where the point is a pixel.
        weight: how far it is from the pixel before it.
        inside: whether it lies in the image.
        most: the last pixel, a FLOAT vector of one element.
    """

    below: ir.Value
    above: ir.Value
    weight: ir.Value
    inside: ir.Value
    most: ir.Value


def _points(op: OpBuilder, boxes: ir.Value, extent: ir.Value, axis: int, size: int, method: str) -> _Points:
    first, last = (op.Gather(boxes, [axis + side], axis=1) for side in (0, 2))
    most = op.cast(op.Sub(extent, 1), _FLOAT)
    if size > 1:
        step = op.Div(op.Mul(op.Sub(last, first), most), float(size - 1))
        points = op.Add(op.Mul(first, most), op.Mul(op.const(np.arange(size, dtype=np.float32)), step))
    else:
        points = op.Mul(op.Mul(op.Add(first, last), 0.5), most)
    inside = op.And(op.GreaterOrEqual(points, 0.0), op.LessOrEqual(points, most))
    # Also of a box that is infinite or NaN, whose points are no places.
    points = op.Where(inside, points, op.const(0.0))
    weight = op.Sub(points, op.Floor(points))
    if method == "nearest":  # C++'s round: halves away from zero
        nearest = op.cast(op.Floor(op.Add(points, 0.5)), _INT64)
        return _Points(nearest, nearest, weight, inside, most)
    below, above = (op.cast(kind, _INT64) for kind in (op.Floor(points), op.Ceil(points)))
    return _Points(below, above, weight, inside, most)


class _Crops:
    """The points of boxes in images, channels last.

    Attributes:
        down: along the rows.
        across: along the columns.
        inside: which points lie in their image, [boxes, rows, columns, 1].
    """

    def __init__(
        self,
        op: OpBuilder,
        extents: Sequence[ir.Value],
        boxes: ir.Value,
        box_ind: ir.Value,
        sizes: Sequence[int],
        method: str,
    ) -> None:
        self.down, self.across = (
            _points(op, boxes, extents[axis], axis, size, method) for axis, size in enumerate(sizes)
        )
        self.inside = op.And(op.Unsqueeze(self.down.inside, [2, 3]), op.Unsqueeze(self.across.inside, [1, 3]))
        self._base = op.Mul(op.Unsqueeze(op.cast(box_ind, _INT64), [1]), extents[0])
        self._width = extents[1]

    def places(self, op: OpBuilder, row: ir.Value, column: ir.Value) -> ir.Value:
        """The numbers of pixels of the whole batch, [boxes, rows, columns]."""
        rows = op.Unsqueeze(op.Mul(op.Add(self._base, row), self._width), [2])
        return op.Add(rows, op.Unsqueeze(column, [1]))

    def weights(self, op: OpBuilder) -> tuple[ir.Value, ir.Value]:
        """How far points are from the pixels above and left of them, to broadcast to crops."""
        return op.Unsqueeze(self.down.weight, [2, 3]), op.Unsqueeze(self.across.weight, [1, 3])


@tensorflow.lower(
    "CropAndResize",
    cases=[
        case(lambda x: tf.image.crop_and_resize(x, *_CROPS, [3, 4]), f32(2, 5, 6, 3)),
        case(lambda x: tf.image.crop_and_resize(x, *_CROPS, [4, 3], "nearest", 7.0), f32(2, 5, 6, 3)),
        case(lambda x, b: tf.image.crop_and_resize(x, b, [0, 1, 1], [1, 2]), f32(2, 5, 6, 3), _CROPS[0]),
    ],
)
def crop_and_resize(
    op: OpBuilder,
    image: ir.Value,
    boxes: ir.Value,
    box_ind: ir.Value,
    crop_size: ir.Value,
    *,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> ir.Value:
    """The pixels that the points of each box lie between, weighted; points beyond the image give one value."""
    x, sizes = op.cast(image, _FLOAT), static_ints(op, crop_size, "crop_size")
    crops = _Crops(op, [op.dim(x, 1), op.dim(x, 2)], boxes, box_ind, sizes, method)
    (top, left), (bottom, right) = _corners(op, x, crops)
    down, across = crops.weights(op)

    def between(a: ir.Value, b: ir.Value, weight: ir.Value) -> ir.Value:
        return op.Add(a, op.Mul(op.Sub(b, a), weight))

    result = between(top, left, across)
    result = result if method == "nearest" else between(result, between(bottom, right, across), down)
    return op.Where(crops.inside, result, op.const(extrapolation_value))


def _corners(op: OpBuilder, x: ir.Value, crops: _Crops) -> list[tuple[ir.Value, ir.Value]]:
    """The pixels left and right above each point, then those below."""
    flat = op.Reshape(x, op.Concat([-1], op.dim(x, 3), axis=0))
    columns = crops.across.below, crops.across.above
    rows = crops.down.below, crops.down.above
    pairs = [[op.Gather(flat, crops.places(op, row, column), axis=0) for column in columns] for row in rows]
    return [(left, right) for left, right in pairs]


def _crop_size(grads: ir.Value) -> list[int]:
    sizes = [item for item in (grads.shape or ())[1:3] if isinstance(item, int)]
    if len(sizes) != 2:
        raise UnsupportedOperator("the gradient of crops of dynamic size has no entry")
    return sizes


def _image_grad(method: str, dtype: Any = tf.float32) -> Callable[[Any], Any]:
    def run(dy: Any) -> Any:
        return tf.raw_ops.CropAndResizeGradImage(
            grads=dy, boxes=_CROPS[0], box_ind=_CROPS[1], image_size=[2, 5, 6, 3], T=dtype, method=method
        )

    return run


@tensorflow.lower(
    "CropAndResizeGradImage",
    min_opset=16,
    cases=[
        case(_image_grad("bilinear"), f32(3, 3, 4, 3)),
        case(_image_grad("nearest"), f32(3, 4, 3, 3)),
        case(_image_grad("bilinear", tf.float64), f32(3, 1, 2, 3)),
    ],
)
def crop_and_resize_grad_image(
    op: OpBuilder,
    grads: ir.Value,
    boxes: ir.Value,
    box_ind: ir.Value,
    image_size: ir.Value,
    *,
    T: ir.DataType,
    method: str = "bilinear",
) -> ir.Value:
    """Each gradient added, by its weights, to the pixels around its point."""
    sizes = int64(op, image_size)
    crops = _Crops(op, [op.Gather(sizes, [axis]) for axis in (1, 2)], boxes, box_ind, _crop_size(grads), method)
    down, across = crops.weights(op)
    shares = [(crops.down.below, op.Sub(1.0, down)), (crops.down.above, down)]
    columns = [(crops.across.below, op.Sub(1.0, across)), (crops.across.above, across)]
    grads = op.Where(crops.inside, grads, op.const(0.0))
    if method == "nearest":
        pairs = [(crops.places(op, crops.down.below, crops.across.below), grads)]
    else:
        pairs = [
            (crops.places(op, row, column), op.Mul(op.Mul(grads, share), part))
            for row, share in shares
            for column, part in columns
        ]
    channels = op.Concat([-1], op.dim(grads, 3), axis=0)
    places = op.Concat(*(op.Reshape(place, [-1, 1]) for place, _ in pairs), axis=0)
    # a point beyond the image adds nothing to the first pixel
    updates = op.Concat(*(op.Reshape(update, channels) for _, update in pairs), axis=0)
    pixels = op.reduce("ReduceProd", op.Slice(sizes, [0], [3], [0]), [0], keepdims=True)
    zeros = op.Expand(op.const(0, T), op.Concat(pixels, op.Gather(sizes, [3]), axis=0))
    return op.Reshape(scatter_slices(op, zeros, places, op.cast(updates, T), "add"), sizes)


@tensorflow.lower(
    "CropAndResizeGradBoxes",
    cases=[
        case(
            lambda dy, x: tf.raw_ops.CropAndResizeGradBoxes(grads=dy, image=x, boxes=_CROPS[0], box_ind=_CROPS[1]),
            f32(3, *size, 3),
            f32(2, 5, 6, 3),
        )
        for size in ((3, 4), (1, 2))
    ],
)
def crop_and_resize_grad_boxes(
    op: OpBuilder, grads: ir.Value, image: ir.Value, boxes: ir.Value, box_ind: ir.Value, *, method: str = "bilinear"
) -> ir.Value:
    """What moving each side of a box changes: the slope of the image at each point, by the point's place in the box."""
    x, sizes = op.cast(image, _FLOAT), _crop_size(grads)
    crops = _Crops(op, [op.dim(x, 1), op.dim(x, 2)], boxes, box_ind, sizes, "bilinear")
    (top_left, top_right), (bottom_left, bottom_right) = _corners(op, x, crops)
    down, across = crops.weights(op)

    def mixed(a: ir.Value, b: ir.Value, weight: ir.Value) -> ir.Value:
        return op.Add(op.Mul(a, op.Sub(1.0, weight)), op.Mul(b, weight))

    slopes = [
        mixed(op.Sub(bottom_left, top_left), op.Sub(bottom_right, top_right), across),
        mixed(op.Sub(top_right, top_left), op.Sub(bottom_right, bottom_left), down),
    ]
    sides: dict[int, ir.Value] = {}
    for axis, (slope, points) in enumerate(zip(slopes, (crops.down, crops.across), strict=True)):
        change = op.Where(crops.inside, op.Mul(slope, grads), op.const(0.0))
        along = op.reduce("ReduceSum", change, [2 - axis, 3], keepdims=False)
        count = sizes[axis]
        if count > 1:
            end = op.Mul(op.const(np.arange(count, dtype=np.float32)), op.Div(points.most, float(count - 1)))
            start = op.Sub(points.most, end)
        else:
            start = end = op.Mul(points.most, 0.5)
        for place, factor in ((axis, start), (axis + 2, end)):
            sides[place] = op.reduce("ReduceSum", op.Mul(along, factor), [1], keepdims=True)
    return op.Concat(*(sides[place] for place in range(4)), axis=1)
