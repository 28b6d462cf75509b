"""Blocks of elements moved between space, channels and batch."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import channels_as, channels_first, rank, static_ints


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
    cases=[case(lambda x: tf.space_to_batch_nd(x, [2, 3], [[0, 1], [1, 1]]), f32(2, 5, 7, 3), dynamic=True)],
)
def space_to_batch(op: OpBuilder, input: ir.Value, block_shape: ir.Value, paddings: ir.Value) -> ir.Value:
    """Pad, split each spatial axis into blocks, and move the position in the block before the batch."""
    blocks, pads = static_ints(op, block_shape, "block_shape"), static_ints(op, paddings, "paddings")
    m, n, x = len(blocks), rank(input), input
    if any(pads):
        rest = [0] * (n - m - 1)
        x = op.Pad(input, [0, *pads[::2], *rest, 0, *pads[1::2], *rest])
    dims = [op.dim(x, axis) for axis in range(n)]
    inner: list[int | ir.Value] = [dims[0]]
    for axis, block in enumerate(blocks):
        inner += [op.Div(dims[axis + 1], block), block]
    x = op.Reshape(x, op.shape_vector([*inner, *dims[m + 1 :]]), allowzero=1 if op.opset >= 14 else None)
    rest = list(range(1 + 2 * m, 1 + 2 * m + n - m - 1))
    x = op.Transpose(x, perm=[*(2 + 2 * i for i in range(m)), 0, *(1 + 2 * i for i in range(m)), *rest])
    batch = op.Mul(dims[0], int(np.prod(blocks)))
    outer = [op.Div(dims[axis + 1], block) for axis, block in enumerate(blocks)]
    return op.Reshape(x, op.shape_vector([batch, *outer, *dims[m + 1 :]]), allowzero=1 if op.opset >= 14 else None)


@tensorflow.lower(
    "BatchToSpaceND",
    cases=[case(lambda x: tf.batch_to_space(x, [2, 3], [[0, 1], [1, 1]]), f32(12, 3, 3, 4), dynamic=False)],
)
def batch_to_space(op: OpBuilder, input: ir.Value, block_shape: ir.Value, crops: ir.Value) -> ir.Value:
    """The reverse of SpaceToBatchND."""
    blocks = static_ints(op, block_shape, "block_shape")
    m, n = len(blocks), rank(input)
    dims = [op.dim(input, axis) for axis in range(n)]
    batch = op.Div(dims[0], int(np.prod(blocks)))
    x = op.Reshape(input, op.shape_vector([*blocks, batch, *dims[1:]]), allowzero=1 if op.opset >= 14 else None)
    order = [m]
    for i in range(m):
        order += [m + 1 + i, i]
    x = op.Transpose(x, perm=[*order, *range(2 * m + 1, m + n)])
    outer = [op.Mul(dims[axis + 1], block) for axis, block in enumerate(blocks)]
    x = op.Reshape(x, op.shape_vector([batch, *outer, *dims[m + 1 :]]), allowzero=1 if op.opset >= 14 else None)
    cuts = static_ints(op, crops, "crops")
    if not any(cuts):
        return x
    ends = [-cut if cut else 2**31 - 1 for cut in cuts[1::2]]
    return op.Slice(x, cuts[::2], ends, list(range(1, m + 1)))
