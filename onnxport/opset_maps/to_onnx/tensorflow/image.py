"""Image resizing, cropping and box selection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, f32, i32
from onnxport.opset_maps.lowerings import resize
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import (
    channels_as,
    channels_first,
    int64,
    static_ints,
    static_sizes,
)


class Placement(TypedDict, total=False):
    """Attributes that say how pixels are placed."""

    align_corners: bool
    half_pixel_centers: bool


def _mode(align_corners: bool = False, half_pixel_centers: bool = False) -> resize.Placement:
    """ONNX's name of the way that pixels are placed."""
    return "align_corners" if align_corners else "half_pixel" if half_pixel_centers else "asymmetric"


class _Kernel(TypedDict, total=False):
    """Attributes of the kernel that weights pixels, TensorFlow's defaults where they are left out."""

    kernel_type: str
    antialias: bool


def resized(op: OpBuilder, images: ir.Value, size: ir.Value, **attributes: Any) -> ir.Value:
    """ONNX Resize of the two spatial axes of a channels-last batch."""
    y = resize.resized(op, channels_first(op, images, "NHWC"), [int64(op, size)], **attributes)
    return channels_as(op, y, "NHWC")


def _resizing(name: str, dtype: str = "float32") -> list[Case]:
    def call(size: Sequence[int], **options: bool) -> Callable[[Any], Any]:
        return lambda x: getattr(tf.raw_ops, name)(images=x, size=list(size), **options)

    image = f32(2, 5, 6, 3) if dtype == "float32" else i32(2, 5, 6, 3)
    modes: list[dict[str, bool]] = [{}, {"half_pixel_centers": True}, {"align_corners": True}]
    return [case(call(size, **options), image) for options in modes for size in ((8, 9), (3, 4))]


@tensorflow.lower(
    "ResizeBilinear",
    cases=[
        *_resizing("ResizeBilinear"),
        case(lambda x: tf.image.resize(x, 2 * tf.shape(x)[1:3]), f32(2, 4, 5, 3)),
        case(lambda x: tf.image.resize(x, [13, 26]), f32(2, 10, 20, 3)),
        case(lambda x: tf.map_fn(lambda y: tf.image.resize(y[None], [9, 10])[0], x), f32(2, 33, 17, 3)),
        case(lambda x: tf.image.resize_with_pad(x, 12, 12), f32(2, 8, 10, 3)),
    ],
)
def resize_bilinear(op: OpBuilder, images: ir.Value, size: ir.Value, **placement: Unpack[Placement]) -> ir.Value:
    """ONNX Resize, linear; the result is float32."""
    x = op.cast(images, ir.DataType.FLOAT)
    return resized(op, x, size, mode="linear", coordinate_transformation_mode=_mode(**placement))


@tensorflow.lower(
    "ResizeNearestNeighbor",
    cases=[
        *_resizing("ResizeNearestNeighbor"),
        *_resizing("ResizeNearestNeighbor", "int32"),
        case(lambda x: tf.image.resize(x, 2 * tf.shape(x)[1:3], "nearest"), f32(2, 4, 5, 3)),
        case(lambda x: tf.image.resize(x, (3 * tf.shape(x)[1:3]) // 10, "nearest"), f32(2, 30, 50, 3)),
        case(
            lambda x: tf.raw_ops.ResizeNearestNeighbor(images=x, size=tf.shape(x)[1:3] - 4, align_corners=True),
            f32(2, 10, 21, 3),
        ),
    ],
)
def resize_nearest(op: OpBuilder, images: ir.Value, size: ir.Value, **placement: Unpack[Placement]) -> ir.Value:
    """The rows and columns that TensorFlow picks, gathered."""
    height, width = (images.shape[1], images.shape[2]) if images.shape is not None else (None, None)
    wanted = op.constant(size)
    if wanted is None or not isinstance(height, int) or not isinstance(width, int):
        sizes = int64(op, size)
        for axis in (1, 2):
            images = resize.nearest(op, images, axis, op.Slice(sizes, [axis - 1], [axis]), _mode(**placement))
        return images
    for axis, before, after in ((1, height, int(wanted[0])), (2, width, int(wanted[1]))):
        positions = tf.reshape(tf.range(before, dtype=tf.float32), [1, before, 1, 1])
        picked = tf.raw_ops.ResizeNearestNeighbor(images=positions, size=[after, 1], **placement)
        index = picked.numpy().ravel().astype(np.int64)
        images = op.Gather(images, op.const(index), axis=axis) if list(index) != list(range(before)) else images
    return images


def linear_map(
    op: OpBuilder,
    images: ir.Value,
    sizes: Sequence[int],
    apply: Callable[[Any, int], Any],
    dtype: ir.DataType = ir.DataType.FLOAT,
) -> ir.Value:
    """A separable linear map of both spatial axes as two matrix products in `dtype`; TensorFlow itself gives the matrices."""
    before = [images.shape[1], images.shape[2]] if images.shape is not None else [None, None]
    if not all(isinstance(item, int) for item in before):
        raise UnsupportedOperator("needs images of static size: ONNX has no operator with these weights")
    x = channels_first(op, op.cast(images, dtype), "NHWC")
    rows, columns = (
        apply(tf.reshape(tf.eye(int(size)), [1, int(size), 1, int(size)]), axis).numpy().reshape(sizes[axis], int(size))  # type: ignore[arg-type]
        for axis, size in enumerate(before)
    )
    left, right = op.const(rows, dtype, name="rows"), op.const(np.ascontiguousarray(columns.T), dtype, name="columns")
    y = op.MatMul(op.MatMul(left, x), right)
    return channels_as(op, y, "NHWC")


def _register_linear_map(name: str, cases: list[Case], summary: str) -> None:
    @tensorflow.lower(name, cases=cases)
    def lower(op: OpBuilder, images: ir.Value, size: ir.Value, **placement: Unpack[Placement]) -> ir.Value:
        sizes, call = static_ints(op, size, "size"), getattr(tf.raw_ops, name)
        return linear_map(op, images, sizes, lambda x, axis: call(images=x, size=[sizes[axis], 1], **placement))

    lower.__doc__ = summary


_register_linear_map(
    "ResizeBicubic",
    _resizing("ResizeBicubic"),
    "Two matrix products: TensorFlow takes the cubic's weights from a table of 1024 steps, which ONNX Resize does not.",
)
_register_linear_map(
    "ResizeArea",
    [case(lambda x: tf.image.resize(x, [3, 8], "area"), f32(2, 5, 6, 3))],
    "Two matrix products that average areas.",
)


@tensorflow.lower(
    "ScaleAndTranslate",
    cases=[
        case(lambda x: tf.image.resize(x, [3, 8], "lanczos3", antialias=True), f32(2, 5, 6, 3)),
        case(lambda x: tf.image.resize(x, [3, 8], "bilinear", antialias=True), f32(2, 5, 6, 3)),
    ],
)
def scale_and_translate(
    op: OpBuilder,
    images: ir.Value,
    size: ir.Value,
    scale: ir.Value,
    translation: ir.Value,
    **kernel: Unpack[_Kernel],
) -> ir.Value:
    """Two matrix products with the kernel's weights."""
    sizes = static_ints(op, size, "size")
    factors, moves = op.constant(scale), op.constant(translation)
    if factors is None or moves is None:
        raise UnsupportedOperator("ScaleAndTranslate: a scale that is computed when the model runs has no ONNX form")

    def apply(x: Any, axis: int) -> Any:
        return tf.raw_ops.ScaleAndTranslate(
            images=x,
            size=[sizes[axis], 1],
            scale=[float(factors[axis]), 1.0],
            translation=[float(moves[axis]), 0.0],
            **kernel,
        )

    return linear_map(op, images, sizes, apply)


@tensorflow.lower(
    "ScaleAndTranslateGrad",
    cases=[
        case(
            lambda dy, kernel=kernel, antialias=antialias: tf.raw_ops.ScaleAndTranslateGrad(
                grads=dy,
                original_image=tf.zeros([2, 5, 6, 3]),
                scale=[0.6, 1.4],
                translation=[0.2, -0.4],
                kernel_type=kernel,
                antialias=antialias,
            ),
            f32(2, 3, 8, 3),
        )
        for kernel, antialias in (("lanczos3", True), ("triangle", False))
    ],
)
def scale_and_translate_grad(
    op: OpBuilder,
    grads: ir.Value,
    original_image: ir.Value,
    scale: ir.Value,
    translation: ir.Value,
    **kernel: Unpack[_Kernel],
) -> ir.Value:
    """Two matrix products with the kernel's weights, transposed."""
    sizes = static_sizes(list(original_image.shape)[1:3]) if original_image.shape is not None else None
    factors, moves = op.constant(scale), op.constant(translation)
    if sizes is None or factors is None or moves is None:
        raise UnsupportedOperator("ScaleAndTranslateGrad: needs an image of static size, and a constant scale")

    def apply(dy: Any, axis: int) -> Any:
        return tf.raw_ops.ScaleAndTranslateGrad(
            grads=dy,
            original_image=tf.zeros([1, sizes[axis], 1, dy.shape[-1]]),
            scale=[float(factors[axis]), 1.0],
            translation=[float(moves[axis]), 0.0],
            **kernel,
        )

    return linear_map(op, grads, sizes, apply)


@tensorflow.lower("AdjustContrastv2", cases=[case(lambda x: tf.image.adjust_contrast(x, 1.7), f32(2, 4, 5, 3))])
def adjust_contrast(op: OpBuilder, images: ir.Value, contrast_factor: ir.Value) -> ir.Value:
    """The distance from each channel's mean, scaled."""
    n = len(images.shape or ())
    mean = op.reduce("ReduceMean", images, [n - 3, n - 2], keepdims=True)
    return op.Add(op.Mul(op.Sub(images, mean), op.cast_like(contrast_factor, images)), mean)
