"""Reductions along axes, sums so far, and segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from onnxport.tracing.tensorflow_lite.node import TABLE, Node, builtin, simple


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(node: Node, x: Any, axes: Any) -> Any:
        return function(x, axes, keepdims=bool(node.options.keepDims))

    return reduced


TABLE.update(
    {
        f"REDUCE_{kind.upper()}": _reduction(getattr(tf, f"reduce_{kind}"))
        for kind in ("prod", "max", "min", "any", "all")
    },
    MEAN=_reduction(tf.reduce_mean),
    SUM=_reduction(tf.reduce_sum),
    SEGMENT_SUM=simple(tf.math.segment_sum),
    UNSORTED_SEGMENT_MAX=simple(tf.math.unsorted_segment_max),
    UNSORTED_SEGMENT_MIN=simple(tf.math.unsorted_segment_min),
    UNSORTED_SEGMENT_PROD=simple(tf.math.unsorted_segment_prod),
    UNSORTED_SEGMENT_SUM=simple(tf.math.unsorted_segment_sum),
)


@builtin("ARG_MAX")
def arg_max(node: Node, x: Any, axis: Any) -> Any:
    """The place of the greatest element."""
    return tf.raw_ops.ArgMax(input=x, dimension=axis, output_type=node.result.dtype)


@builtin("ARG_MIN")
def arg_min(node: Node, x: Any, axis: Any) -> Any:
    """The place of the least element."""
    return tf.raw_ops.ArgMin(input=x, dimension=axis, output_type=node.result.dtype)


@builtin("CUMSUM")
def cumsum(node: Node, x: Any, axis: Any) -> Any:
    """Sums so far."""
    o = node.options
    return tf.raw_ops.Cumsum(x=x, axis=axis, exclusive=bool(o.exclusive), reverse=bool(o.reverse))


@builtin("TOPK_V2")
def top_k(node: Node, x: Any, k: Any) -> Any:
    """The greatest elements and their places."""
    return tf.raw_ops.TopKV2(input=x, k=k, index_type=node.outputs[1].dtype)
