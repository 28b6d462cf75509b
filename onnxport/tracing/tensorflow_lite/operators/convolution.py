"""Convolutions and products of matrices. A filter's order is outputs, space, inputs."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from onnxport.tracing.tensorflow_lite.node import Node, activated, builtin, padding


def biased(node: Node, y: Any, bias: Any) -> Any:
    """y with its bias, activated."""
    return activated(node, y if bias is None else tf.nn.bias_add(y, bias))


def _windows(node: Node, x: Any, kernel: Any) -> Any:
    o = node.options
    dilations = [o.dilationHFactor or 1, o.dilationWFactor or 1]
    return tf.nn.conv2d(x, kernel, [o.strideH, o.strideW], padding(node), dilations=dilations)


def product(node: Node, x: Any, filter: Any) -> Any:
    """What a hybrid operator computes before scales, bias and activation."""
    if node.operator.code == "FULLY_CONNECTED":
        return tf.matmul(x, filter, transpose_b=True)
    return _windows(node, x, tf.transpose(filter, [1, 2, 3, 0] if node.operator.code == "CONV_2D" else [1, 2, 0, 3]))


@builtin("CONV_2D")
def conv_2d(node: Node, x: Any, filter: Any, bias: Any = None) -> Any:
    """Conv2D, in groups where the filter has fewer channels than the images."""
    return biased(node, _windows(node, x, tf.transpose(filter, [1, 2, 3, 0])), bias)


@builtin("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(node: Node, x: Any, filter: Any, bias: Any = None) -> Any:
    """Conv2D of a group a channel: the filter is [1, height, width, channels * multiplier]."""
    return biased(node, _windows(node, x, tf.transpose(filter, [1, 2, 0, 3])), bias)


@builtin("TRANSPOSE_CONV")
def transpose_conv(node: Node, shape: Any, filter: Any, x: Any, bias: Any = None) -> Any:
    """The transpose of Conv2D; the filter's order is its outputs, space, its inputs."""
    strides = [node.options.strideH, node.options.strideW]
    kernel = tf.transpose(filter, [1, 2, 0, 3])
    return biased(node, tf.nn.conv2d_transpose(x, kernel, shape, strides, padding(node)), bias)


@builtin("CONV_3D")
def conv_3d(node: Node, x: Any, filter: Any, bias: Any = None) -> Any:
    """Conv3D; the filter is in TensorFlow's order."""
    o = node.options
    dilations = [1, o.dilationDFactor or 1, o.dilationHFactor or 1, o.dilationWFactor or 1, 1]
    strides = [1, o.strideD, o.strideH, o.strideW, 1]
    return biased(node, tf.nn.conv3d(x, filter, strides, padding(node), dilations=dilations), bias)


@builtin("CONV_3D_TRANSPOSE")
def conv_3d_transpose(node: Node, shape: Any, filter: Any, x: Any, bias: Any = None) -> Any:
    """The transpose of Conv3D; the filter is in TensorFlow's order."""
    o = node.options
    if {o.dilationDFactor, o.dilationHFactor, o.dilationWFactor} - {0, 1}:
        raise node.refused("dilations have no form")
    return biased(
        node, tf.nn.conv3d_transpose(x, filter, shape, [o.strideD, o.strideH, o.strideW], padding(node)), bias
    )


@builtin("FULLY_CONNECTED")
def fully_connected(node: Node, x: Any, filter: Any, bias: Any = None) -> Any:
    """x by the filter's transpose; x becomes a matrix unless its other dimensions are kept."""
    if node.options.weightsFormat:
        raise node.refused("shuffled weights have no form")
    x = as_rows(node, x, filter)
    return biased(node, tf.matmul(x, filter, transpose_b=True), bias)


def as_rows(node: Node, x: Any, filter: Any) -> Any:
    """The operand of a FULLY_CONNECTED as the rows that are multiplied."""
    if node.options.keepNumDims or (x.shape.rank == 2 and x.shape[-1] == filter.shape[-1]):
        return x
    return tf.reshape(x, [-1, filter.shape[-1]])


@builtin("BATCH_MATMUL")
def batch_matmul(node: Node, x: Any, y: Any) -> Any:
    """The products of matrices."""
    return tf.matmul(x, y, transpose_a=bool(node.options.adjX), transpose_b=bool(node.options.adjY))
