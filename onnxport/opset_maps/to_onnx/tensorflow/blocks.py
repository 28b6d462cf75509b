"""Blocks of elements moved between space, channels and batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.graph.facts import Fact
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import channels_as, channels_first, int64, rank, static_ints
from onnxport.opset_maps.to_onnx.tensorflow.shape import padded


class _Spread(NamedTuple):
    """Of what SpaceToBatchND gives its operands."""

    whole: ir.Value
    paddings: ir.Value
    blocks: tuple[int, ...]


_SPREAD: Fact[_Spread] = Fact("spread")
_AROUND = frozenset(("Conv", "Transpose", "Squeeze", "Unsqueeze"))


def _convolved(x: tf.Tensor) -> tf.Tensor:
    """Over a length that is known only when the model runs TensorFlow itself computes how much is padded and cut."""
    kernel = tf.constant(np.linspace(-1, 1, 36, dtype=np.float32).reshape(3, 3, 4))
    return tf.nn.convolution(x, kernel, padding="VALID", dilations=[2])


@tensorflow.lower("DepthToSpace", cases=[case(lambda x: tf.nn.depth_to_space(x, 2), f32(2, 3, 4, 8), dynamic=True)])
def depth_to_space(op: OpBuilder, input: ir.Value, *, block_size: int, data_format: str = "NHWC") -> ir.Value:
    """ONNX DepthToSpace in depth-column-row order."""
    y = op.DepthToSpace(channels_first(op, input, data_format), blocksize=block_size, mode="DCR")
    return channels_as(op, y, data_format)


@tensorflow.lower("SpaceToDepth", cases=[case(lambda x: tf.nn.space_to_depth(x, 2), f32(2, 4, 6, 3), dynamic=True)])
def space_to_depth(op: OpBuilder, input: ir.Value, *, block_size: int, data_format: str = "NHWC") -> ir.Value:
    """ONNX SpaceToDepth."""
    return channels_as(op, op.SpaceToDepth(channels_first(op, input, data_format), blocksize=block_size), data_format)


@tensorflow.lower(
    "SpaceToBatchND",
    cases=[
        case(lambda x: tf.space_to_batch_nd(x, [2, 3], [[0, 1], [1, 1]]), f32(2, 5, 7, 3), dynamic=True),
        case(
            lambda x, pads: tf.space_to_batch_nd(x, [2, 3], pads), f32(2, 5, 7, 3), np.array([[0, 1], [1, 1]], np.int32)
        ),
        case(_convolved, f32(2, 9, 3), dynamic=True),
    ],
)
def space_to_batch(op: OpBuilder, input: ir.Value, block_shape: ir.Value, paddings: ir.Value) -> ir.Value:
    """Pad, split each spatial axis into blocks, and move the position in the block before the batch."""
    blocks, pads = static_ints(op, block_shape, "block_shape"), op.constant(paddings)
    m, n = len(blocks), rank(input)
    whole = _padded(op, input, paddings, m) if pads is None or pads.any() else input
    dims = [op.dim(whole, axis) for axis in range(n)]
    inner: list[int | ir.Value] = [dims[0]]
    for axis, block in enumerate(blocks):
        inner += [op.Div(dims[axis + 1], block), block]
    x = op.Reshape(whole, op.shape_vector([*inner, *dims[m + 1 :]]), allowzero=1 if op.opset >= 14 else None)
    rest = list(range(1 + 2 * m, 1 + 2 * m + n - m - 1))
    x = op.Transpose(x, perm=[*(2 + 2 * i for i in range(m)), 0, *(1 + 2 * i for i in range(m)), *rest])
    batch = op.Mul(dims[0], int(np.prod(blocks)))
    outer = [op.Div(dims[axis + 1], block) for axis, block in enumerate(blocks)]
    y = op.Reshape(x, op.shape_vector([batch, *outer, *dims[m + 1 :]]), allowzero=1 if op.opset >= 14 else None)
    _SPREAD.set(y, _Spread(input, paddings, tuple(blocks)))
    return y


@tensorflow.lower(
    "BatchToSpaceND",
    cases=[
        case(lambda x: tf.batch_to_space(x, [2, 3], [[0, 1], [1, 1]]), f32(12, 3, 3, 4), dynamic=False),
        case(
            lambda x, cuts: tf.batch_to_space(x, [2, 3], cuts),
            f32(12, 3, 3, 4),
            np.array([[0, 1], [1, 1]], np.int32),
            dynamic=False,
        ),
    ],
)
def batch_to_space(op: OpBuilder, input: ir.Value, block_shape: ir.Value, crops: ir.Value) -> ir.Value:
    """The reverse of SpaceToBatchND; with one convolution between them, as TensorFlow dilates, the same convolution dilated."""
    blocks = static_ints(op, block_shape, "block_shape")
    m, n = len(blocks), rank(input)
    if (dilated := _dilated(op, input, tuple(blocks), crops)) is not None:
        return dilated
    dims = [op.dim(input, axis) for axis in range(n)]
    batch = op.Div(dims[0], int(np.prod(blocks)))
    x = op.Reshape(input, op.shape_vector([*blocks, batch, *dims[1:]]), allowzero=1 if op.opset >= 14 else None)
    order = [m]
    for i in range(m):
        order += [m + 1 + i, i]
    x = op.Transpose(x, perm=[*order, *range(2 * m + 1, m + n)])
    outer = [op.Mul(dims[axis + 1], block) for axis, block in enumerate(blocks)]
    x = op.Reshape(x, op.shape_vector([batch, *outer, *dims[m + 1 :]]), allowzero=1 if op.opset >= 14 else None)
    return _cropped(op, x, outer, crops)


def _cropped(op: OpBuilder, x: ir.Value, sizes: Sequence[ir.Value | int], crops: ir.Value) -> ir.Value:
    """`x`, whose axes behind the first have `sizes`, without what `crops` cuts at their two ends."""
    axes, cuts = list(range(1, len(sizes) + 1)), op.constant(crops)
    if cuts is None:
        starts, ends = (op.Gather(int64(op, crops), place, axis=1) for place in (0, 1))
        return op.Slice(x, starts, op.Sub(op.shape_vector(list(sizes)), ends), axes)
    if not cuts.any():
        return x
    return op.Slice(x, [int(cut) for cut in cuts[:, 0]], [-int(cut) if cut else 2**31 - 1 for cut in cuts[:, 1]], axes)


def _padded(op: OpBuilder, x: ir.Value, paddings: ir.Value, axes: int) -> ir.Value:
    """`x` padded by zeros along the `axes` behind the first."""
    others = [op.const(np.zeros((count, 2), np.int64)) for count in (1, rank(x) - 1 - axes)]
    return padded(op, x, op.Concat(others[0], int64(op, paddings), others[1], axis=0), "constant")


def _dilated(op: OpBuilder, x: ir.Value, blocks: tuple[int, ...], crops: ir.Value) -> ir.Value | None:
    """What a convolution gives whose operand is spread over blocks, as the dilated convolution of the whole; None for others.

    A convolution without strides and padding of every block-th element is that with its taps so far apart.
    """
    chain: list[ir.Node] = []
    while (spread := _SPREAD.of(x)) is None:
        node = x.producer()
        operand = node.inputs[0] if node is not None and node.op_type in _AROUND else None
        if node is None or operand is None:
            return None
        chain.insert(0, node)
        x = operand
    if spread.blocks != blocks or [node.op_type for node in chain].count("Conv") != 1:
        return None
    axes = list(range(len(blocks) + 1))  # of the batch and of the blocks
    for node in chain:
        if node.op_type == "Transpose":
            perm = list(node.attributes.get_ints("perm"))
            axes = [perm.index(axis) for axis in axes]
        elif node.op_type == "Conv":
            rate = _rates(node, axes, blocks)
            if rate is None:
                return None
        else:
            inserts = node.op_type == "Unsqueeze"
            whole, places = node.outputs[0] if inserts else node.inputs[0], node.inputs[1]
            if whole is None or places is None:
                return None
            changed = [axis % rank(whole) for axis in static_ints(op, places, "axes")]
            for axis in sorted(changed, reverse=not inserts):
                step = 1 if inserts else -1
                axes = [place + step if place >= axis else place for place in axes]
    if axes != list(range(len(blocks) + 1)):
        return None
    pads, cuts = op.constant(spread.paddings), op.constant(crops)
    needed = None  # TensorFlow pads to whole blocks, and cuts what comes of that: known sizes need neither
    if pads is not None and cuts is not None and not cuts[:, 0].any() and (pads[:, 1] >= cuts[:, 1]).all():
        needed = np.asarray(pads - cuts, np.int64)
    y = spread.whole
    if needed is None or needed.any():
        y = _padded(op, y, spread.paddings if needed is None else op.const(needed), len(blocks))
    for node in chain:
        attributes = {name: item.value for name, item in node.attributes.items()}
        if node.op_type == "Conv":
            attributes["dilations"] = rate
        y = getattr(op, node.op_type)(y, *node.inputs[1:], **attributes)
    sizes = [op.dim(y, axis) for axis in range(1, len(blocks) + 1)]
    return y if needed is not None else _cropped(op, y, sizes, crops)


def _rates(convolution: ir.Node, axes: Sequence[int], blocks: Sequence[int]) -> list[int] | None:
    """How far apart the taps are along each axis of the kernel; None for a convolution with strides, padding or dilation."""
    attributes, kernel = convolution.attributes, convolution.inputs[1]
    if kernel is None or kernel.shape is None or axes[0] != 0 or min(axes[1:]) < 2:
        return None
    plain = attributes.get_string("auto_pad", "NOTSET") in ("NOTSET", "VALID") and not any(
        attributes.get_ints("pads", [])
    )
    if not plain or {*attributes.get_ints("strides", []), *attributes.get_ints("dilations", [])} - {1}:
        return None
    rates = [1] * (len(kernel.shape) - 2)
    for axis, block in zip(axes[1:], blocks, strict=True):
        rates[axis - 2] = block
    return rates
