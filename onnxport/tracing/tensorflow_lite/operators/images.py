"""Pools, images that change their size, blocks of space, and boxes."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from onnxport.tracing.tensorflow_lite.node import TABLE, Node, activated, builtin, padding, simple


def _windows(node: Node) -> dict[str, Any]:
    o = node.options
    return {"ksize": [o.filterHeight, o.filterWidth], "strides": [o.strideH, o.strideW], "padding": padding(node)}


@builtin("AVERAGE_POOL_2D")
def average_pool_2d(node: Node, x: Any) -> Any:
    """The mean of each window, without what lies outside of the image."""
    return activated(node, tf.nn.avg_pool2d(x, **_windows(node)))


@builtin("MAX_POOL_2D")
def max_pool_2d(node: Node, x: Any) -> Any:
    """The greatest of each window."""
    return activated(node, tf.nn.max_pool2d(x, **_windows(node)))


@builtin("L2_POOL_2D")
def l2_pool_2d(node: Node, x: Any) -> Any:
    """The root of the mean square of each window."""
    return activated(node, tf.sqrt(tf.nn.avg_pool2d(tf.square(x), **_windows(node))))


@builtin("RESIZE_BILINEAR")
def resize_bilinear(node: Node, x: Any, size: Any) -> Any:
    """ResizeBilinear."""
    o = node.options
    result = tf.raw_ops.ResizeBilinear(
        images=x, size=size, align_corners=bool(o.alignCorners), half_pixel_centers=bool(o.halfPixelCenters)
    )
    return tf.cast(result, x.dtype)


@builtin("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest_neighbor(node: Node, x: Any, size: Any) -> Any:
    """ResizeNearestNeighbor."""
    o = node.options
    return tf.raw_ops.ResizeNearestNeighbor(
        images=x, size=size, align_corners=bool(o.alignCorners), half_pixel_centers=bool(o.halfPixelCenters)
    )


@builtin("SPACE_TO_DEPTH")
def space_to_depth(node: Node, x: Any) -> Any:
    """Blocks of space as channels."""
    return tf.nn.space_to_depth(x, node.options.blockSize)


@builtin("DEPTH_TO_SPACE")
def depth_to_space(node: Node, x: Any) -> Any:
    """Channels as blocks of space."""
    return tf.nn.depth_to_space(x, node.options.blockSize)


def _blocks_of_images(raw: Any, name: str) -> Any:
    def function(x: Any, block: Any, borders: Any) -> Any:
        return raw(input=x, block_shape=block, **{name: borders})

    return function


TABLE["SPACE_TO_BATCH_ND"] = simple(_blocks_of_images(tf.raw_ops.SpaceToBatchND, "paddings"))
TABLE["BATCH_TO_SPACE_ND"] = simple(_blocks_of_images(tf.raw_ops.BatchToSpaceND, "crops"))


def _suppression(boxes: Any, scores: Any, count: Any, iou: Any, least: Any) -> dict[str, Any]:
    thresholds = {"iou_threshold": iou, "score_threshold": least}
    return {"boxes": boxes, "scores": scores, "max_output_size": count, **thresholds, "pad_to_max_output_size": True}


@builtin("NON_MAX_SUPPRESSION_V4")
def non_max_suppression_v4(node: Node, boxes: Any, scores: Any, count: Any, iou: Any, least: Any) -> Any:
    """The boxes that remain, filled up with zeros, and how many there are."""
    return tf.raw_ops.NonMaxSuppressionV4(**_suppression(boxes, scores, count, iou, least))


@builtin("NON_MAX_SUPPRESSION_V5")
def non_max_suppression_v5(node: Node, boxes: Any, scores: Any, count: Any, iou: Any, least: Any, sigma: Any) -> Any:
    """The boxes that remain with their scores, filled up with zeros, and how many there are."""
    return tf.raw_ops.NonMaxSuppressionV5(**_suppression(boxes, scores, count, iou, least), soft_nms_sigma=sigma)
