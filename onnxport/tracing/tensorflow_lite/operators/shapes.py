"""Shapes, and what moves elements without changing them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from onnxport.tracing.tensorflow_lite.node import TABLE, Node, activated, builtin, simple

TABLE.update(
    BROADCAST_TO=simple(tf.broadcast_to),
    BROADCAST_ARGS=simple(tf.broadcast_dynamic_shape),
    EXPAND_DIMS=simple(tf.expand_dims),
    FILL=simple(tf.fill),
    RANGE=simple(tf.range),
    RANK=simple(tf.rank),
    SLICE=simple(tf.slice),
    TILE=simple(tf.tile),
    TRANSPOSE=simple(tf.transpose),
    PAD=simple(tf.pad),
    PADV2=simple(lambda x, borders, value: tf.raw_ops.PadV2(input=x, paddings=borders, constant_values=value)),
    REVERSE_V2=simple(tf.reverse),
    MATRIX_DIAG=simple(tf.linalg.diag),
    MATRIX_SET_DIAG=simple(tf.linalg.set_diag),
)


@builtin("RESHAPE")
def reshape(node: Node, x: Any, shape: Any = None) -> Any:
    """x in a shape, an operand or a part of the options."""
    if shape is None or shape.shape.rank != 1:
        shape = node.options.newShape
    return tf.reshape(x, shape)


@builtin("SQUEEZE")
def squeeze(node: Node, x: Any) -> Any:
    """x without dimensions of size 1."""
    axes = node.options.squeezeDims
    return tf.squeeze(x, None if axes is None or len(axes) == 0 else [int(axis) for axis in axes])


@builtin("SHAPE")
def shape(node: Node, x: Any) -> Any:
    """The sizes of x."""
    return tf.shape(x, node.result.dtype)


@builtin("CONCATENATION")
def concatenation(node: Node, *operands: Any) -> Any:
    """The operands one behind the other."""
    return activated(node, tf.concat(operands, node.options.axis))


@builtin("PACK")
def pack(node: Node, *operands: Any) -> Any:
    """The operands along a new axis."""
    return tf.stack(operands, node.options.axis)


@builtin("UNPACK")
def unpack(node: Node, x: Any) -> Any:
    """The slices along an axis, without it."""
    return tf.unstack(x, node.options.num, node.options.axis)


@builtin("SPLIT")
def split(node: Node, axis: Any, x: Any) -> Any:
    """Equal parts along an axis."""
    return tf.split(x, node.options.numSplits, axis)


@builtin("SPLIT_V")
def split_v(node: Node, x: Any, sizes: Any, axis: Any) -> Any:
    """Parts of given sizes along an axis."""
    return tf.split(x, sizes, axis, num=node.options.numSplits)


@builtin("STRIDED_SLICE")
def strided_slice(node: Node, x: Any, begin: Any, end: Any, strides: Any) -> Any:
    """StridedSlice; with `offset` the end counts from the beginning."""
    o = node.options
    return tf.strided_slice(
        x,
        begin,
        begin + end if o.offset else end,
        strides,
        begin_mask=o.beginMask,
        end_mask=o.endMask,
        ellipsis_mask=o.ellipsisMask,
        new_axis_mask=o.newAxisMask,
        shrink_axis_mask=o.shrinkAxisMask,
    )


@builtin("MIRROR_PAD")
def mirror_pad(node: Node, x: Any, borders: Any) -> Any:
    """Borders that mirror x, with its edge or without."""
    return tf.raw_ops.MirrorPad(input=x, paddings=borders, mode="SYMMETRIC" if node.options.mode else "REFLECT")


@builtin("REVERSE_SEQUENCE")
def reverse_sequence(node: Node, x: Any, lengths: Any) -> Any:
    """The first elements of each sequence backwards."""
    return tf.reverse_sequence(x, lengths, seq_axis=node.options.seqDim, batch_axis=node.options.batchDim)
