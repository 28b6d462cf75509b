"""Gradients inside the graph: what `tf.GradientTape` and `tf.gradients` leave in a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, f64
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import channels_as, channels_first, int64, rank, spatial

Formula = Callable[[OpBuilder, ir.Value, ir.Value], ir.Value]
_SELU = 1.0507009873554804934193349852946, 1.7580993408473768599402175208123  # scale, scale * alpha


def _slope(function: Callable[..., tf.Tensor]) -> Callable[..., Any]:
    """The gradients of the sum of a function's results."""

    def gradient(*inputs: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            result = function(*inputs)
        return tape.gradient(result, inputs)

    return gradient


def _where(op: OpBuilder, condition: ir.Value, value: ir.Value) -> ir.Value:
    return op.Where(condition, value, op.const(0, value.dtype))


def _between(op: OpBuilder, x: ir.Value, low: float, high: float) -> ir.Value:
    return op.And(op.Greater(x, low), op.Less(x, high))


def _softsign(op: OpBuilder, dy: ir.Value, x: ir.Value) -> ir.Value:
    size = op.Add(op.Abs(x), 1.0)
    return op.Div(dy, op.Mul(size, size))


# By name: the names of tf.raw_ops' arguments (the gradient first), and the formula of both.
_FORMULAS: dict[str, tuple[str, str, Formula]] = {
    "ReluGrad": ("gradients", "features", lambda op, dy, x: _where(op, op.Greater(x, 0.0), dy)),
    "Relu6Grad": ("gradients", "features", lambda op, dy, x: _where(op, _between(op, x, 0.0, 6.0), dy)),
    "EluGrad": ("gradients", "outputs", lambda op, dy, y: op.Where(op.Less(y, 0.0), op.Mul(dy, op.Add(y, 1.0)), dy)),
    "SeluGrad": (
        "gradients",
        "outputs",
        lambda op, dy, y: op.Where(op.Less(y, 0.0), op.Mul(dy, op.Add(y, _SELU[1])), op.Mul(dy, _SELU[0])),
    ),
    "SoftplusGrad": ("gradients", "features", lambda op, dy, x: op.Mul(dy, op.Sigmoid(x))),
    "SoftsignGrad": ("gradients", "features", _softsign),
    "SigmoidGrad": ("dy", "y", lambda op, dy, y: op.Mul(dy, op.Mul(y, op.Sub(1.0, y)))),
    "TanhGrad": ("dy", "y", lambda op, dy, y: op.Mul(dy, op.Sub(1.0, op.Mul(y, y)))),
    "SqrtGrad": ("dy", "y", lambda op, dy, y: op.Div(op.Mul(dy, 0.5), y)),
    "RsqrtGrad": ("dy", "y", lambda op, dy, y: op.Mul(op.Mul(dy, -0.5), op.Mul(y, op.Mul(y, y)))),
    "ReciprocalGrad": ("dy", "y", lambda op, dy, y: op.Neg(op.Mul(dy, op.Mul(y, y)))),
    "InvGrad": ("dy", "y", lambda op, dy, y: op.Neg(op.Mul(dy, op.Mul(y, y)))),
}


def _register(name: str, gradient: str, other: str, formula: Formula) -> None:
    call = getattr(tf.raw_ops, name)
    first = gradient == "gradients"  # of the activations the gradient comes first, of the functions last

    @tensorflow.lower(
        name,
        cases=[
            case(lambda dy, y: call(**{gradient: dy, other: y}), drawn, other_drawn)
            for drawn, other_drawn in (
                (f32(3, 7), f32(3, 7, low=-1 if first else 0.1, high=7 if first else 2)),
                (f64(5), f64(5, low=0.2)),
            )
        ],
    )
    def lower(op: OpBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        return formula(op, a, b) if first else formula(op, b, a)

    lower.__doc__ = f"The gradient times the derivative at the {other}."


for _name, _row in _FORMULAS.items():
    _register(_name, *_row)


@tensorflow.lower(
    "LeakyReluGrad",
    cases=[case(lambda dy, x: tf.raw_ops.LeakyReluGrad(gradients=dy, features=x, alpha=0.3), f32(3, 4), f32(3, 4))],
)
def leaky_relu_grad(op: OpBuilder, gradients: ir.Value, features: ir.Value, *, alpha: float = 0.2) -> ir.Value:
    """The gradient above 0, `alpha` of it elsewhere."""
    return op.Where(op.Greater(features, 0.0), gradients, op.Mul(gradients, alpha))


@tensorflow.lower(
    "BiasAddGrad",
    cases=[
        case(lambda x: tf.raw_ops.BiasAddGrad(out_backprop=x), f32(2, 3, 4, 5), dynamic=True),
        case(lambda x: tf.raw_ops.BiasAddGrad(out_backprop=x, data_format="NCHW"), f32(2, 3, 4, 5)),
    ],
)
def bias_add_grad(op: OpBuilder, out_backprop: ir.Value, *, data_format: str = "NHWC") -> ir.Value:
    """The sum over all axes but the channels'."""
    n = rank(out_backprop)
    kept = 1 if data_format.startswith("NC") else n - 1
    return op.reduce("ReduceSum", out_backprop, [axis for axis in range(n) if axis != kept], keepdims=False)


@tensorflow.lower(
    "BroadcastGradientArgs",
    cases=[
        case(lambda x, y: tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(x), s1=tf.shape(y)), f32(2, 3), f32(3)),
        case(_slope(lambda x, y: x * y), f32(2, 3), f32(3)),
    ],
)
def broadcast_gradient_args(op: OpBuilder, s0: ir.Value, s1: ir.Value) -> Sequence[ir.Value]:
    """The axes along which each of two shapes is broadcast to both."""
    first, second = int64(op, s0), int64(op, s1)
    known = [op.constant(item) for item in (first, second)]
    result = op.result.dtype or ir.DataType.INT32
    if known[0] is not None and known[1] is not None:
        axes = tf.raw_ops.BroadcastGradientArgs(s0=known[0], s1=known[1])
        return [op.const(np.asarray(item), result) for item in axes]
    lengths = [op.Shape(item) for item in (first, second)]
    longest = op.Max(*lengths)
    full = [
        op.Concat(op.Expand(op.const(1), op.Sub(longest, length)), item, axis=0)
        for item, length in zip((first, second), lengths)
    ]
    # Where both are 1 TensorFlow counts the axis for both.
    ones = [op.Equal(item, 1) for item in full]
    missing = [op.Less(op.Range(0, op.Squeeze(longest, [0]), 1), op.Sub(longest, length)) for length in lengths]
    both = op.And(*ones)
    wanted = [
        op.Or(op.Or(op.And(one, op.Not(other)), both), gone) for one, other, gone in zip(ones, ones[::-1], missing)
    ]
    return [op.cast(op.Squeeze(op.NonZero(item), [0]), result) for item in wanted]


@tensorflow.lower(
    "MaxPoolGrad",
    cases=[
        case(
            _slope(lambda x, size=size, padding=padding: tf.nn.max_pool2d(x, size, 2, padding) ** 2),
            f32(2, 6, 6, 3),
            min_opset=16,
        )
        for size, padding in ((2, "VALID"), (3, "SAME"), (3, "VALID"))
    ],
    min_opset=16,
)
def max_pool_grad(
    op: OpBuilder,
    orig_input: ir.Value,
    orig_output: ir.Value,
    grad: ir.Value,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
) -> ir.Value:
    """The gradients added up where ONNX MaxPool says that the greatest elements stand."""
    if padding == "EXPLICIT":
        raise UnsupportedOperator("MaxPoolGrad: explicit paddings have no entry")
    x, dy = (channels_first(op, item, data_format) for item in (orig_input, grad))
    _, places = op.MaxPool(
        x,
        kernel_shape=spatial(ksize, data_format),
        strides=spatial(strides, data_format),
        auto_pad="SAME_UPPER" if padding == "SAME" else "VALID",
        outputs=2,
    )
    zeros = op.Expand(op.const(0, x.dtype), op.Size(x) if x.shape is None else op.Reshape(op.Size(x), [1]))
    flat = op.ScatterElements(zeros, op.Reshape(places, [-1]), op.Reshape(dy, [-1]), axis=0, reduction="add")
    return channels_as(op, op.Reshape(flat, op.shape(x)), data_format)


@tensorflow.lower(
    "AvgPoolGrad AvgPool3DGrad",
    cases=[
        case(_slope(lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID") ** 2), f32(2, 6, 6, 3)),
        case(_slope(lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME") ** 2), f32(2, 6, 5, 3)),
        case(_slope(lambda x: tf.nn.avg_pool3d(x, 2, 2, "VALID") ** 2), f32(2, 4, 4, 4, 3)),
    ],
)
def avg_pool_grad(
    op: OpBuilder,
    orig_input_shape: ir.Value,
    grad: ir.Value,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
    data_format: str = "NHWC",
) -> ir.Value:
    """Each gradient spread over its window: a matrix product an axis, since pooling is one; the matrices are transposed here."""
    shape = op.result.shape
    sizes = spatial([item if isinstance(item, int) else -1 for item in shape or ()], data_format)
    if shape is None or -1 in sizes:
        raise UnsupportedOperator("the gradient of a pooling of a dynamic size")
    result = channels_first(op, grad, data_format)
    axes = range(2, rank(grad))
    for axis, size, kernel, stride in zip(axes, sizes, spatial(ksize, data_format), spatial(strides, data_format)):
        count = -(-size // stride) if padding == "SAME" else -(-(size - kernel + 1) // stride)
        missing = max((count - 1) * stride + kernel - size, 0) if padding == "SAME" else 0
        starts = np.arange(count) * stride - missing // 2
        window = starts[:, None] + np.arange(kernel)
        weights = np.zeros((count, size))
        for row, places in enumerate(window):
            inside = places[(places >= 0) & (places < size)]
            weights[row, inside] = 1.0 / len(inside)
        order = [*(item for item in range(rank(grad)) if item != axis), axis]
        moved = op.MatMul(op.Transpose(result, perm=order), op.const(weights, grad.dtype))
        result = op.Transpose(moved, perm=[order.index(item) for item in range(rank(grad))])
    return channels_as(op, result, data_format)


@tensorflow.lower(
    "StridedSliceGrad",
    cases=[
        case(_slope(lambda x: x[:, 1:4:2] ** 2), f32(3, 5)),
        case(_slope(lambda x: x[1, ..., tf.newaxis, ::-1] ** 2), f32(3, 2, 4)),
    ],
)
def strided_slice_grad(
    op: OpBuilder,
    shape: ir.Value,
    begin: ir.Value,
    end: ir.Value,
    strides: ir.Value,
    dy: ir.Value,
    **options: Any,
) -> ir.Value:
    """The gradient where the slice came from, zeros elsewhere."""
    bounds = [op.constant(item) for item in (begin, end, strides)]
    masks = {name: mask for name, mask in options.items() if name.endswith("_mask")}
    sizes = [item for item in op.result.shape or () if isinstance(item, int)]
    if any(item is None for item in bounds) or len(sizes) != len(op.result.shape or ()):
        raise UnsupportedOperator("the gradient of a slice of a dynamic size or at run-time places")
    total = int(np.prod(sizes))
    numbers = tf.reshape(tf.range(total), sizes)
    begins, ends, steps = bounds
    taken = np.asarray(tf.raw_ops.StridedSlice(input=numbers, begin=begins, end=ends, strides=steps, **masks)).ravel()
    source = np.zeros(total, np.int64)
    source[taken] = np.arange(1, len(taken) + 1)
    padded = op.Concat(op.const(np.zeros(1), dy.dtype), op.Reshape(dy, [-1]), axis=0)
    return op.Gather(padded, op.const(source.reshape(sizes)), axis=0)


@tensorflow.lower(
    "Conv2DBackpropFilter Conv2DBackpropFilterV2",
    cases=[
        case(
            _slope(lambda x, w, padding=padding, stride=stride: tf.nn.conv2d(x, w, stride, padding) ** 2),
            f32(2, 7, 6, 3),
            f32(3, 2, 3, 4),
        )
        for padding, stride in (("VALID", 1), ("SAME", 1), ("SAME", 2), ("VALID", 2))
    ],
)
def conv_2d_backprop_filter(
    op: OpBuilder,
    input: ir.Value,
    filter: ir.Value,
    out_backprop: ir.Value,
    *,
    strides: list[int],
    padding: str,
    use_cudnn_on_gpu: bool = True,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
) -> ir.Value:
    """A convolution of the images, batch and channels exchanged, with the gradient as the kernel, dilated by the strides."""
    shape = [item for item in op.result.shape or () if isinstance(item, int)]
    x, dy = (channels_first(op, item, data_format) for item in (input, out_backprop))
    sizes = [*list(x.shape or ())[2:], *list(dy.shape or ())[2:]]
    known = [item for item in sizes if isinstance(item, int)]
    if padding == "EXPLICIT" or len(shape) != 4 or len(known) != 4:
        raise UnsupportedOperator("the gradient of a convolution of a dynamic size or with explicit paddings")
    step, rate = spatial(strides, data_format), spatial(dilations, data_format)
    before, after = [], []
    for axis in range(2):
        reach = (shape[axis] - 1) * rate[axis] + 1
        missing = max((known[2 + axis] - 1) * step[axis] + reach - known[axis], 0) if padding == "SAME" else 0
        # What the windows reach of the axis, which may end before it: a negative pad cuts.
        used = (known[2 + axis] - 1) * step[axis] + reach
        before.append(missing // 2)
        after.append(used - known[axis] - missing // 2)
    swapped = op.Transpose(x, perm=[1, 0, 2, 3])
    padded = op.Pad(swapped, [0, 0, *before, 0, 0, *after])
    kernel = op.Transpose(dy, perm=[1, 0, 2, 3])
    result = op.Conv(padded, kernel, strides=rate, dilations=step)  # [in, out, height, width]
    return op.Transpose(result, perm=[2, 3, 0, 1])
