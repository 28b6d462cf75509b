"""Images seen through a projective map or a small window, and boxes drawn on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, f32, i32
from onnxport.opset_maps.lowerings import random
from onnxport.opset_maps.lowerings.arithmetic import trunc
from onnxport.opset_maps.lowerings.axes import size
from onnxport.opset_maps.lowerings.loops import loop
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, static_ints

_FLOAT, _INT64 = ir.DataType.FLOAT, ir.DataType.INT64


def _pixels(op: OpBuilder, images: ir.Value, row: ir.Value, column: ir.Value, fill: ir.Value) -> ir.Value:
    """The pixels at places [batch, height, width] of channels-last images, `fill` beyond the image."""
    rows, columns = size(op, images, 1), size(op, images, 2)
    inside = op.And(
        op.And(op.GreaterOrEqual(row, 0), op.Less(row, rows)),
        op.And(op.GreaterOrEqual(column, 0), op.Less(column, columns)),
    )
    batch = op.Reshape(op.Range(0, size(op, images, 0), 1), [-1, 1, 1])
    place = op.Add(op.Mul(op.Add(op.Mul(batch, rows), row), columns), column)
    flat = op.Reshape(images, op.Concat([-1], op.dim(images, 3), axis=0))
    found = op.Gather(flat, op.Where(inside, place, op.const(0)), axis=0)
    return op.Where(op.Unsqueeze(inside, op.axes(3)), found, fill)


def _reflected(op: OpBuilder, x: ir.Value, length: ir.Value) -> ir.Value:
    """Coordinates mirrored at the borders of pixels: dcba|abcd|dcba."""
    twice = op.Mul(length, 2.0)
    turns = trunc(op, op.Div(op.Neg(x), twice))
    left = op.Where(op.Less(x, twice), op.Add(op.Mul(twice, turns), x), x)
    left = op.Where(op.Less(left, op.Neg(length)), op.Add(left, twice), op.Sub(op.Neg(left), 1.0))
    right = op.Sub(x, op.Mul(twice, trunc(op, op.Div(x, twice))))
    right = op.Where(op.GreaterOrEqual(right, length), op.Sub(op.Sub(twice, right), 1.0), right)
    return _beyond(op, x, length, left, right)


def _wrapped(op: OpBuilder, x: ir.Value, length: ir.Value) -> ir.Value:
    """Coordinates that begin again behind a border: abcd|abcd|abcd."""
    last = op.Sub(length, 1.0)
    left = op.Add(x, op.Mul(length, op.Add(trunc(op, op.Div(op.Neg(x), last)), 1.0)))
    right = op.Sub(x, op.Mul(length, trunc(op, op.Div(x, last))))
    return _beyond(op, x, length, left, right)


def _beyond(op: OpBuilder, x: ir.Value, length: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
    last = op.Sub(length, 1.0)
    inside = op.Where(op.Less(x, 0.0), left, op.Where(op.Greater(x, last), right, x))
    single = op.And(op.LessOrEqual(length, 1.0), op.Or(op.Less(x, 0.0), op.Greater(x, last)))
    return _within(op, op.Where(single, op.const(0.0), inside), length)


def _within(op: OpBuilder, x: ir.Value, length: ir.Value) -> ir.Value:
    return op.node("Min", op.node("Max", x, op.const(0.0)), op.Sub(length, 1.0))


def _anywhere(op: OpBuilder, x: ir.Value, length: ir.Value) -> ir.Value:
    return x


_FILLED: dict[str, Callable[[OpBuilder, ir.Value, ir.Value], ir.Value]] = {
    "REFLECT": _reflected,
    "WRAP": _wrapped,
    "NEAREST": _within,
    "CONSTANT": _anywhere,
}


def _projection_cases() -> list[Case]:
    turned = np.array([[0.8, -0.6, 1.3, 0.55, 0.9, -0.7, 0.01, 0.02], [1, 0, -4.3, 0, 1, 9.4, 0, 0]], np.float32)
    other = np.array([[3.0, 0, -20.2, 0, -2.0, 11.3, 0, 0]], np.float32)

    def call(transforms: np.ndarray, interpolation: str, mode: str, dtype: Any = tf.float32) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            return tf.raw_ops.ImageProjectiveTransformV3(
                images=tf.cast(x, dtype),
                transforms=transforms,
                output_shape=[6, 7],
                fill_value=0.25,
                interpolation=interpolation,
                fill_mode=mode,
            )

        return run

    image = f32(2, 5, 6, 3)
    cases = [
        case(call(transforms, interpolation, mode), image, name=f"{interpolation}-{mode}-{i}")
        for interpolation in ("NEAREST", "BILINEAR")
        for mode in _FILLED
        for i, transforms in enumerate((turned, other))
    ]

    def second(x: Any) -> Any:
        return tf.raw_ops.ImageProjectiveTransformV2(
            images=x, transforms=turned[:1], output_shape=tf.shape(x)[1:3], interpolation="BILINEAR"
        )

    return [*cases, case(second, image), case(call(turned, "NEAREST", "WRAP", tf.int32), i32(2, 5, 6, 3))]


@tensorflow.lower("ImageProjectiveTransformV2 ImageProjectiveTransformV3", cases=_projection_cases())
def projective_transform(
    op: OpBuilder,
    images: ir.Value,
    transforms: ir.Value,
    output_shape: ir.Value,
    fill_value: ir.Value | None = None,
    *,
    interpolation: str,
    fill_mode: str = "CONSTANT",
) -> ir.Value:
    """The pixel at, or the mean of the four around, the point that a projective map gives for each pixel of the result."""
    wanted = int64(op, output_shape)
    rows, columns = (
        op.cast(op.Range(0, op.Squeeze(op.Gather(wanted, [axis], axis=0), op.axes(0)), 1), _FLOAT) for axis in (0, 1)
    )
    y, x = op.Unsqueeze(rows, op.axes(1)), columns
    factors = [op.Reshape(op.Gather(transforms, i, axis=1), [-1, 1, 1]) for i in range(8)]

    def line(i: int, last: ir.Value | float) -> ir.Value:
        return op.Add(op.Add(op.Mul(factors[i], x), op.Mul(factors[i + 1], y)), last)

    depth = line(6, 1.0)
    flat = op.Equal(depth, 0.0)
    divisor = op.Where(flat, op.const(1.0), depth)
    extents = [op.cast(size(op, images, axis), _FLOAT) for axis in (1, 2)]
    mapped = _FILLED[fill_mode]
    down, across = (
        mapped(op, op.Div(line(i, factors[i + 2]), divisor), extent) for i, extent in ((3, extents[0]), (0, extents[1]))
    )
    # One batch of places for each image, also where one map serves all.
    every = op.Mul(op.Reshape(op.cast(op.Range(0, size(op, images, 0), 1), _FLOAT), [-1, 1, 1]), 0.0)
    down, across = op.Add(down, every), op.Add(across, every)
    fill = op.const(0.0) if fill_value is None else fill_value
    if interpolation == "NEAREST":  # C++'s round: halves away from zero
        row, column = (op.cast(_rounded(op, item), _INT64) for item in (down, across))
        result = _pixels(op, images, row, column, op.cast_like(fill, images))
        outside = op.cast_like(fill, images)
    else:
        result, outside = _between(op, op.cast(images, _FLOAT), down, across, fill), fill
    every_flat = op.And(flat, op.GreaterOrEqual(op.Add(down, 1e38), op.const(-np.inf)))
    return op.cast_like(op.Where(op.Unsqueeze(every_flat, op.axes(3)), outside, result), images)


def _rounded(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Rounded, halves away from zero, in double: what is added in float32 may round up to the next number."""
    wide = op.cast(x, ir.DataType.DOUBLE)
    return op.Mul(op.Sign(wide), op.Floor(op.Add(op.Abs(wide), 0.5)))


def _between(op: OpBuilder, images: ir.Value, down: ir.Value, across: ir.Value, fill: ir.Value) -> ir.Value:
    top, left = op.Floor(down), op.Floor(across)
    bottom, right = op.Add(top, 1.0), op.Add(left, 1.0)

    def row(at: ir.Value) -> ir.Value:
        pixels = (_pixels(op, images, op.cast(at, _INT64), op.cast(item, _INT64), fill) for item in (left, right))
        first, second = (op.Unsqueeze(item, op.axes(3)) for item in (op.Sub(right, across), op.Sub(across, left)))
        here, behind = pixels
        return op.Add(op.Mul(first, here), op.Mul(second, behind))

    upper, lower = (op.Unsqueeze(item, op.axes(3)) for item in (op.Sub(bottom, down), op.Sub(down, top)))
    return op.Add(op.Mul(upper, row(top)), op.Mul(lower, row(bottom)))


# -- glimpses ----------------------------------------------------------------------------------------------------------

_OFFSETS = np.array([[0.1, -0.4], [-0.9, 0.8]], np.float32)


def _glimpse_cases() -> list[Case]:
    def call(name: str, centered: bool, normalized: bool) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            return getattr(tf.raw_ops, name)(
                input=x,
                size=[3, 4],
                offsets=_OFFSETS if normalized else _OFFSETS * 4.3,
                centered=centered,
                normalized=normalized,
                uniform_noise=False,
                noise="zero",
            )

        return run

    return [
        case(call(name, *flags), f32(2, 5, 7, 3))
        for name in ("ExtractGlimpse", "ExtractGlimpseV2")
        for flags in itertools.product((True, False), repeat=2)
    ]


@tensorflow.lower("ExtractGlimpse ExtractGlimpseV2", cases=_glimpse_cases())
def extract_glimpse(
    op: OpBuilder,
    input: ir.Value,
    size_: ir.Value,
    offsets: ir.Value,
    *,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    noise: str = "uniform",
) -> ir.Value:
    """The pixels of a window at an offset; what lies beyond the image is zero, or noise drawn when the graph runs."""
    window = static_ints(op, size_, "size")
    kind = noise or ("uniform" if uniform_noise else "gaussian")
    places = []
    for axis, length in enumerate(window):
        extent = op.cast(size(op, input, axis + 1), _FLOAT)
        at = op.Gather(offsets, axis, axis=1)
        if normalized:
            at = op.Mul(at, extent)
        if centered:
            at = op.Mul(at, 0.5) if normalized else at
            at = op.Add(at, op.Mul(extent, 0.5))
        if op.name == "ExtractGlimpse" or (centered and normalized):  # the first version takes every offset as a centre
            at = op.Sub(at, length / 2.0)
        if op.name == "ExtractGlimpse" and centered and not normalized:  # and keeps such a window inside
            at = op.Max(op.Min(at, op.Sub(extent, float(length))), 0.0)
        first = op.Reshape(op.cast(trunc(op, at), _INT64), [-1, 1])
        places.append(op.Add(first, op.const(np.arange(length))))
    down, across = op.Unsqueeze(places[0], op.axes(2)), op.Unsqueeze(places[1], op.axes(1))
    return _pixels(op, input, down, across, _noise(op, input, window, kind))


def _noise(op: OpBuilder, images: ir.Value, window: Sequence[int], kind: str) -> ir.Value:
    """What fills a glimpse beyond the image: zero, numbers of the image's range, or of each channel's mean and deviation."""
    if kind == "zero":
        return op.const(0.0)
    shape = op.Concat(op.dim(images, 0), op.const(list(window)), op.dim(images, 3), axis=0)
    axes = [1, 2, 3] if kind == "uniform" else [1, 2]
    least, most = (op.reduce(item, images, axes, keepdims=True) for item in ("ReduceMin", "ReduceMax"))
    if kind == "uniform":
        return op.Add(least, op.Mul(random.uniform(op, shape), op.Sub(most, least)))
    mean = op.reduce("ReduceMean", images, axes, keepdims=True)
    gap = op.Sub(images, mean)
    deviation = op.Sqrt(op.reduce("ReduceMean", op.Mul(gap, gap), axes, keepdims=True))
    drawn = op.Add(mean, op.Mul(random.normal(op, shape), deviation))
    return op.Max(op.Min(drawn, most), least)


# -- boxes -------------------------------------------------------------------------------------------------------------

_BOXES = np.array(
    [
        [[0.1, 0.1, 0.6, 0.7], [-0.3, 0.3, 0.9, 1.4], [0.9, 0.2, 0.1, 0.3]],
        [[0, 0, 1, 1], [1.3, 0, 2, 1], [0.4, -0.6, 0.4, 0.5]],
    ],
    np.float32,
)
_COLOURS = np.array(
    [[1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1], [0.5, 0.5, 0, 1], [0.5, 0, 0, 1],
     [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]], np.float32)  # fmt: skip


@tensorflow.lower(
    "DrawBoundingBoxes DrawBoundingBoxesV2",
    cases=[
        case(lambda x: tf.raw_ops.DrawBoundingBoxes(images=x, boxes=_BOXES), f32(2, 7, 9, 3)),
        case(lambda x: tf.raw_ops.DrawBoundingBoxes(images=x, boxes=_BOXES), f32(2, 7, 9, 1)),
        case(
            lambda x, b: tf.raw_ops.DrawBoundingBoxesV2(images=x, boxes=b, colors=[[0.5, 0.1, 0.2, 1], [0, 1, 0, 1]]),
            f32(2, 7, 9, 4),
            _BOXES,
        ),
    ],
)
def draw_bounding_boxes(op: OpBuilder, images: ir.Value, boxes: ir.Value, colors: ir.Value | None = None) -> ir.Value:
    """The lines of one box after the other; a box that is inverted, or wholly outside of the image, is not drawn."""
    depth = images.shape[3] if images.shape is not None else None
    if not isinstance(depth, int):
        raise UnsupportedOperator(f"{op.name}: the number of channels is not known before the model runs")
    table = _table(op, depth, colors)
    count = size(op, table, 0)
    extents = [size(op, images, axis) for axis in (1, 2)]
    rows = op.Reshape(op.Range(0, extents[0], 1), [1, -1, 1])
    columns = op.Reshape(op.Range(0, extents[1], 1), [1, 1, -1])

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        corners = b.Gather(boxes, k, axis=1)
        ends = []
        for i in range(4):
            most = b.cast(b.Sub(extents[i % 2], 1), _FLOAT)
            ends.append(b.Reshape(b.cast(trunc(b, b.Mul(b.Gather(corners, i, axis=1), most)), _INT64), [-1, 1, 1]))
        top, left, bottom, right = ends
        upright = b.And(b.LessOrEqual(top, bottom), b.LessOrEqual(left, right))
        in_rows = b.And(b.GreaterOrEqual(rows, top), b.LessOrEqual(rows, bottom))
        in_columns = b.And(b.GreaterOrEqual(columns, left), b.LessOrEqual(columns, right))
        on_rows = b.Or(b.Equal(rows, top), b.Equal(rows, bottom))
        on_columns = b.Or(b.Equal(columns, left), b.Equal(columns, right))
        line = b.And(upright, b.Or(b.And(on_rows, in_columns), b.And(on_columns, in_rows)))
        return [b.Where(b.Unsqueeze(line, b.axes(3)), b.Gather(table, b.Mod(k, count), axis=0), states[0])]

    return loop(op, size(op, boxes, 1), [images], step)[0]


def _table(op: OpBuilder, depth: int, colors: ir.Value | None) -> ir.Value:
    """The colours [n, depth], TensorFlow's own where none are given."""
    if colors is None:
        table = _COLOURS.copy()
        table[:, 0] = 1.0 if depth == 1 else table[:, 0]
        return op.const(table[:, :depth], op.result.dtype)
    if colors.shape is None or not colors.shape.is_static() or 0 in colors.shape:
        raise UnsupportedOperator("DrawBoundingBoxesV2: how many colours there are is only known when the model runs")
    return op.cast(op.Slice(colors, [0], [depth], [1]), op.result.dtype or _FLOAT)
