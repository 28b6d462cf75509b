"""Gradients of elementwise operators, biases, normalisation, padding, slices and resizing, as a tape leaves them in a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, f64
from onnxport.opset_maps.lowerings.axes import rank, size
from onnxport.opset_maps.lowerings.scatter import scatter_elements
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.elementwise import or_zero
from onnxport.opset_maps.to_onnx.tensorflow.image import linear_map
from onnxport.opset_maps.to_onnx.tensorflow.operands import channels_as, channels_first, int64, static_ints
from onnxport.opset_maps.to_onnx.tensorflow.slicing import Masks, strided_slice

Gradient = Callable[[OpBuilder, ir.Value, ir.Value], ir.Value]

_SELU_SCALE, _SELU_SCALE_ALPHA = 1.0507009873554804934193349852946, 1.7580993408473768599402175208123


def _masked(op: OpBuilder, dy: ir.Value, condition: ir.Value) -> ir.Value:
    """dy where the condition holds; elsewhere dy times 0, which is NaN for an infinite dy, as TensorFlow's kernels compute it."""
    return op.Mul(dy, op.cast_like(condition, dy))


# Of the gradient and the operator's own operand.
_BY_FEATURES: dict[str, Gradient] = {
    "ReluGrad": lambda op, dy, x: _masked(op, dy, op.Greater(x, 0.0)),
    "Relu6Grad": lambda op, dy, x: _masked(op, dy, op.And(op.Greater(x, 0.0), op.Less(x, 6.0))),
    "SoftplusGrad": lambda op, dy, x: op.Div(dy, op.Add(op.Exp(op.Neg(x)), 1.0)),
    "SoftsignGrad": lambda op, dy, x: op.Div(dy, op.Mul(op.Add(op.Abs(x), 1.0), op.Add(op.Abs(x), 1.0))),
}
# Of the gradient and the operator's result.
_BY_OUTPUTS: dict[str, Gradient] = {
    "EluGrad": lambda op, dy, y: op.Where(op.Less(y, 0.0), op.Mul(op.Add(y, 1.0), dy), dy),
    "SeluGrad": lambda op, dy, y: op.Where(
        op.Less(y, 0.0), op.Mul(dy, op.Add(y, _SELU_SCALE_ALPHA)), op.Mul(dy, _SELU_SCALE)
    ),
}
# Of the operator's result and the gradient.
_BY_RESULT: dict[str, Gradient] = {
    "SigmoidGrad": lambda op, y, dy: op.Mul(op.Mul(dy, y), op.Sub(1.0, y)),
    "TanhGrad": lambda op, y, dy: op.Mul(dy, op.Sub(1.0, op.Mul(y, y))),
    "SqrtGrad": lambda op, y, dy: or_zero(op, dy, op.Div(op.Mul(dy, 0.5), y)),
    "RsqrtGrad": lambda op, y, dy: or_zero(op, dy, op.Mul(op.Mul(op.Mul(dy, y), -0.5), op.Mul(y, y))),
    "ReciprocalGrad InvGrad": lambda op, y, dy: op.Neg(op.Mul(op.Mul(dy, y), y)),
}


def _register(names: str, gradient: Gradient, operands: tuple[str, str]) -> None:
    """An entry of two operands, which TensorFlow names `operands`."""

    def run(first: Any, second: Any) -> list[Any]:
        return [
            getattr(tf.raw_ops, name)(**dict(zip(operands, (first, second), strict=True))) for name in names.split()
        ]

    cases = [case(run, f32(3, 4, low=-8.0, high=8.0), f32(3, 4, low=-8.0, high=8.0)), case(run, f64(4), f64(4))]

    @tensorflow.lower(names, cases=cases)
    def lower(op: OpBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
        return gradient(op, first, second)

    lower.__doc__ = "The gradient's formula, in the order of TensorFlow's kernel."


for _table, _operands in (
    (_BY_FEATURES, ("gradients", "features")),
    (_BY_OUTPUTS, ("gradients", "outputs")),
    (_BY_RESULT, ("y", "dy")),
):
    for _names, _gradient in _table.items():
        _register(_names, _gradient, _operands)


@tensorflow.lower(
    "LeakyReluGrad",
    cases=[case(lambda dy, x: tf.raw_ops.LeakyReluGrad(gradients=dy, features=x, alpha=0.3), f32(3, 4), f32(3, 4))],
)
def leaky_relu_grad(op: OpBuilder, gradients: ir.Value, features: ir.Value, *, alpha: float = 0.2) -> ir.Value:
    """The gradient, times alpha where the operand was not positive."""
    return op.Where(op.Greater(features, 0.0), gradients, op.Mul(gradients, alpha))


@tensorflow.lower(
    "BiasAddGrad",
    cases=[
        case(lambda x: tf.raw_ops.BiasAddGrad(out_backprop=x), f32(2, 4, 5, 3), dynamic=True),
        case(lambda x: tf.raw_ops.BiasAddGrad(out_backprop=x, data_format="NCHW"), f32(2, 3, 4, 5)),
    ],
)
def bias_add_grad(op: OpBuilder, out_backprop: ir.Value, *, data_format: str = "NHWC") -> ir.Value:
    """The sum over all axes but the channels'."""
    n = rank(out_backprop)
    channels = 1 if data_format == "NCHW" and n > 2 else n - 1
    return op.reduce("ReduceSum", out_backprop, [axis for axis in range(n) if axis != channels], keepdims=False)


def _of_shapes(x: Any, y: Any) -> Any:
    return tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(x), s1=tf.shape(y))


@tensorflow.lower(
    "BroadcastGradientArgs",
    cases=[
        case(lambda a, b: tf.raw_ops.BroadcastGradientArgs(s0=a, s1=b), *(np.array(v, np.int32) for v in pair))
        for pair in (([1, 3], [1, 3]), ([1, 3], [1, 1]), ([2, 1], [3]), ([1], [2, 1]), ([1, 3], [3]), ([4], [2, 1, 4]))
    ]
    + [case(_of_shapes, f32(3, 4), f32(4), dynamic=True)],
)
def broadcast_gradient_args(op: OpBuilder, s0: ir.Value, s1: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The axes along which each of two shapes was broadcast: those where it has 1, unless the shapes are equal."""
    first, second = int64(op, s0), int64(op, s1)
    lengths = [op.dim(first, 0), op.dim(second, 0)]
    longest = op.Max(*lengths)
    padded = [
        op.Concat(op.Expand(op.const([1]), op.Sub(longest, length)), shape, axis=0)
        for shape, length in zip((first, second), lengths, strict=True)
    ]
    gap = op.reduce("ReduceSum", op.Abs(op.Sub(*padded)), [0], keepdims=True)
    differ = op.Or(op.Not(op.Equal(*lengths)), op.Greater(gap, 0))
    axes = [op.Reshape(op.NonZero(op.And(op.Equal(shape, 1), differ)), [-1]) for shape in padded]
    return op.cast_like(axes[0], s0), op.cast_like(axes[1], s1)


def _norm_grad(is_training: bool, data_format: str = "NHWC") -> Callable[..., Any]:
    def run(dy: Any, x: Any, scale: Any, mean: Any, variance: Any) -> Any:
        result = tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=dy,
            x=x,
            scale=scale,
            reserve_space_1=mean,
            reserve_space_2=variance,
            reserve_space_3=tf.constant([], tf.float32),
            epsilon=1e-2,
            data_format=data_format,
            is_training=is_training,
        )
        return result[:3]

    return run


def _training_gradient(x: Any, scale: Any, shift: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([x, scale, shift])
        y = tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=shift, mean=[], variance=[], epsilon=1e-2)[0]
        loss = tf.reduce_sum(y * y * y)
    return tape.gradient(loss, [x, scale, shift])


_STATISTICS = (f32(3), f32(3), f32(3, low=0.1))


@tensorflow.lower(
    "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3",
    cases=[
        case(_norm_grad(is_training=False), f32(2, 4, 5, 3), f32(2, 4, 5, 3), *_STATISTICS),
        case(_norm_grad(is_training=True), f32(2, 4, 5, 3), f32(2, 4, 5, 3), *_STATISTICS, name="training"),
        case(_training_gradient, f32(2, 4, 5, 3), f32(3), f32(3), name="tape"),
    ],
)
def fused_batch_norm_grad(
    op: OpBuilder,
    y_backprop: ir.Value,
    x: ir.Value,
    scale: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    *_: ir.Value,
    epsilon: float = 1e-4,
    data_format: str = "NHWC",
    is_training: bool = True,
) -> Sequence[ir.Value | None]:
    """Gradients of the operand, the scale and the shift (Ioffe & Szegedy, "Batch Normalization", section 3)."""
    dy, features = (channels_first(op, item, data_format) for item in (y_backprop, x))
    n = rank(features)
    axes = [0, *range(2, n)]
    per_channel = [1, -1, *[1] * (n - 2)]
    scale, mean, variance = (op.Reshape(item, per_channel) for item in (scale, mean, variance))
    deviation = op.Sub(features, mean)
    inverse = op.Reciprocal(op.Sqrt(op.Add(variance, epsilon)))
    reach = op.reduce("ReduceSum", op.Mul(dy, deviation), axes, keepdims=True)
    total = op.reduce("ReduceSum", dy, axes, keepdims=True)
    slope = op.Mul(scale, inverse)
    if is_training:
        count = op.cast_like(op.Div(op.Size(features), size(op, features, 1)), dy)
        drift = op.Mul(deviation, op.Mul(op.Mul(inverse, inverse), op.Div(reach, count)))
        dy = op.Sub(op.Sub(dy, op.Div(total, count)), drift)
    dx = channels_as(op, op.Mul(dy, slope), data_format)
    return [dx, op.Reshape(op.Mul(reach, inverse), [-1]), op.Reshape(total, [-1]), None, None]


def _places_of_slice(
    op: OpBuilder, sizes: ir.Value, count: int | None, slices: tuple[ir.Value, ir.Value, ir.Value], masks: Masks
) -> ir.Value:
    """The places that a slice has in a tensor of some sizes, flattened."""
    every = op.Range(0, op.Squeeze(op.reduce("ReduceProd", sizes, [0], keepdims=True), op.axes(0)), 1)
    places = op.typed(op.Reshape(every, sizes), shape=None if count is None else [None] * count)
    return strided_slice(op, places, *slices, **masks)


@tensorflow.lower(
    "StridedSliceGrad",
    cases=[
        case(
            lambda dy: tf.raw_ops.StridedSliceGrad(
                shape=[4, 5], begin=[1, 3], end=[0, -6], strides=[1, -2], dy=dy, end_mask=1, shrink_axis_mask=0
            ),
            f32(3, 2),
        ),
        case(
            lambda dy: tf.raw_ops.StridedSliceGrad(
                shape=[4, 5], begin=[0, 3], end=[0, 0], strides=[1, 1], dy=dy, ellipsis_mask=1, shrink_axis_mask=2
            ),
            f32(4),
        ),
        case(lambda x: _gradient_of(lambda a: tf.reduce_sum(a[:, 1:, -1] ** 3.0), x), f32(3, 4, 2), dynamic=True),
    ],
)
def strided_slice_grad(
    op: OpBuilder,
    shape: ir.Value,
    begin: ir.Value,
    end: ir.Value,
    strides: ir.Value,
    dy: ir.Value,
    **masks: Unpack[Masks],
) -> ir.Value:
    """Zeros with the gradient at the elements of the slice: their places are the slice of a tensor of places."""
    sizes = int64(op, shape)
    count = None if op.result.shape is None else len(op.result.shape)
    sliced = _places_of_slice(op, sizes, count, (begin, end, strides), masks)
    zeros = op.Expand(op.const(0, dy.dtype), op.reduce("ReduceProd", sizes, [0], keepdims=True))
    flat = scatter_elements(op, zeros, op.Reshape(sliced, [-1]), op.Reshape(dy, [-1]), 0)
    return op.Reshape(flat, sizes)


@tensorflow.lower(
    "TensorStridedSliceUpdate",
    cases=[
        case(
            lambda x, y: tf.raw_ops.TensorStridedSliceUpdate(
                input=x, begin=[1, 3], end=[0, -6], strides=[1, -2], value=y, end_mask=1
            ),
            f32(4, 5),
            f32(3, 2),
        ),
        case(
            lambda x, y: tf.raw_ops.TensorStridedSliceUpdate(
                input=x, begin=[0, 3], end=[0, 0], strides=[1, 1], value=y, ellipsis_mask=1, shrink_axis_mask=2
            ),
            f32(4, 5),
            f32(),
        ),
    ],
)
def tensor_strided_slice_update(
    op: OpBuilder,
    input: ir.Value,
    begin: ir.Value,
    end: ir.Value,
    strides: ir.Value,
    value: ir.Value,
    **masks: Unpack[Masks],
) -> ir.Value:
    """The elements of a slice in the place of those that stand there."""
    places = _places_of_slice(op, op.shape(input), rank(input), (begin, end, strides), masks)
    updates = op.Reshape(op.Expand(value, op.shape(places)), [-1])
    flat = scatter_elements(op, op.Reshape(input, [-1]), op.Reshape(places, [-1]), updates, 0)
    return op.Reshape(flat, op.shape(input))


def _gradient_of(function: Callable[[Any], Any], x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


@tensorflow.lower(
    "MirrorPadGrad",
    cases=[
        case(lambda x: tf.raw_ops.MirrorPadGrad(input=x, paddings=[[0, 0], [2, 1]], mode="REFLECT"), f32(2, 7)),
        case(lambda x: tf.raw_ops.MirrorPadGrad(input=x, paddings=[[1, 2], [2, 1]], mode="SYMMETRIC"), f32(6, 7)),
    ],
)
def mirror_pad_grad(op: OpBuilder, input: ir.Value, paddings: ir.Value, *, mode: str) -> ir.Value:
    """The inner part, plus what the mirrored borders give back to it, an axis at a time."""
    pairs = np.reshape(static_ints(op, paddings, "paddings"), [-1, 2])
    skipped, x = int(mode == "REFLECT"), input
    for axis, (before, after) in enumerate(pairs.tolist()):
        whole = x.shape[axis] if x.shape is not None else None
        if not (before or after):
            continue
        if not isinstance(whole, int):
            raise UnsupportedOperator("MirrorPadGrad: a padded axis of dynamic size has no entry")
        n = whole - before - after
        inner = np.arange(n)
        mirrored = np.pad(inner, (before, after), "reflect" if skipped else "symmetric")
        parts = [op.Slice(x, [before], [before + n], [axis])]
        for start, stop in ((0, before), (whole - after, whole)):
            if stop > start:  # the mirrored elements run backward through consecutive places
                low = int(mirrored[start:stop].min())
                pads = np.zeros((2, rank(x)), np.int64)
                pads[:, axis] = low, n - low - (stop - start)
                back = op.Gather(x, op.const(np.arange(start, stop)[::-1]), axis=axis)
                parts.append(op.Pad(back, op.const(pads.ravel())))
        x = parts[0]
        for part in parts[1:]:
            x = op.Add(x, part)
    return x


def _lrn_window(op: OpBuilder, x: ir.Value, radius: int) -> ir.Value:
    """The sum over `radius` channels, the last axis, on both sides of each."""
    ones = op.const(np.ones((1, 1, 2 * radius + 1)), x.dtype)
    rows = op.Reshape(x, op.Concat([-1, 1], op.dim(x, rank(x) - 1), axis=0))
    return op.Reshape(op.Conv(rows, ones, pads=[radius, radius]), op.shape(x))


def _lrn_grad(dy: Any, x: Any) -> Any:
    y = tf.nn.lrn(x, depth_radius=2, bias=1.5, alpha=0.3, beta=0.6)
    return tf.raw_ops.LRNGrad(
        input_grads=dy, input_image=x, output_image=y, depth_radius=2, bias=1.5, alpha=0.3, beta=0.6
    )


@tensorflow.lower("LRNGrad", cases=[case(_lrn_grad, f32(2, 3, 4, 7), f32(2, 3, 4, 7))])
def lrn_grad(
    op: OpBuilder,
    input_grads: ir.Value,
    input_image: ir.Value,
    output_image: ir.Value,
    *,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> ir.Value:
    """dy norm^-beta - 2 alpha beta x sum(dy y / norm), the sum over the channels near each."""
    norm = op.Add(op.Mul(_lrn_window(op, op.Mul(input_image, input_image), depth_radius), alpha), bias)
    share = _lrn_window(op, op.Div(op.Mul(input_grads, output_image), norm), depth_radius)
    direct = op.Mul(input_grads, op.Pow(norm, -beta))
    return op.Sub(direct, op.Mul(op.Mul(input_image, 2.0 * alpha * beta), share))


def _resize_grad_cases(name: str) -> list[Any]:
    def run(**options: bool) -> Callable[[Any], Any]:
        if name == "ResizeNearestNeighborGrad":
            return lambda dy: tf.raw_ops.ResizeNearestNeighborGrad(grads=dy, size=[5, 6], **options)
        return lambda dy: getattr(tf.raw_ops, name)(grads=dy, original_image=tf.zeros([2, 5, 6, 3]), **options)

    modes: list[dict[str, bool]] = [{}, {"half_pixel_centers": True}, {"align_corners": True}]
    cases = [case(run(**options), f32(2, *shape, 3)) for options in modes for shape in ((8, 9), (3, 4))]
    if name == "ResizeNearestNeighborGrad":  # sums that float32 does not hold
        wide = np.arange(2**24, 2**24 + 72, dtype=np.int32).reshape(1, 8, 9, 1)
        return [*cases, case(run(), f64(2, 8, 9, 3)), case(run(), wide)]
    image = np.zeros([2, 5, 6, 3])  # the gradient is float32, the result float64
    return [*cases, case(lambda dy: getattr(tf.raw_ops, name)(grads=dy, original_image=image), f32(2, 8, 9, 3))]


def _summed_in(result: ir.DataType) -> ir.DataType:
    """The type of the matrix products: whole numbers wrap around as TensorFlow's do, float64 sums keep their digits."""
    if result == ir.DataType.DOUBLE:
        return result
    return ir.DataType.INT32 if result.is_integer() else ir.DataType.FLOAT


def _register_resize_grad(name: str) -> None:
    @tensorflow.lower(name, cases=_resize_grad_cases(name))
    def lower(
        op: OpBuilder,
        grads: ir.Value,
        original: ir.Value,
        *,
        align_corners: bool = False,
        half_pixel_centers: bool = False,
    ) -> ir.Value:
        given, placement = op.result.shape, {"align_corners": align_corners, "half_pixel_centers": half_pixel_centers}
        sizes = list(given)[1:3] if given is not None else []
        if len(sizes) != 2 or not all(isinstance(item, int) for item in sizes):
            raise UnsupportedOperator(f"{name}: needs an image of static size")
        whole = [int(item) for item in sizes]  # type: ignore[arg-type]

        def apply(dy: Any, axis: int) -> Any:
            if name == "ResizeNearestNeighborGrad":
                return tf.raw_ops.ResizeNearestNeighborGrad(grads=dy, size=[whole[axis], 1], **placement)
            image = tf.zeros([1, whole[axis], 1, dy.shape[-1]])
            return getattr(tf.raw_ops, name)(grads=dy, original_image=image, **placement)

        result = op.result.dtype or ir.DataType.FLOAT
        return op.cast(linear_map(op, grads, whole, apply, _summed_in(result)), result)

    lower.__doc__ = "Two matrix products, the transposed weights of resizing; TensorFlow itself gives the matrices."


for _name in ("ResizeBilinearGrad", "ResizeNearestNeighborGrad", "ResizeBicubicGrad"):
    _register_resize_grad(_name)
