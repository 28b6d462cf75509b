"""Linear resampling of images in float64, where TensorFlow's operator gives float32 whatever it gets.

It multiplies places by the step in float32, so that its weights lose digits which no move of the image shows.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import cache
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2, graph_pb2, node_def_pb2, types_pb2

_OPERATOR, _RESULT = "ResizeBilinear", "resized_images"
_Kind = tuple[int, bool, bool]  # element type, align_corners, half_pixel_centers


def in_float64(definition: graph_pb2.GraphDef) -> None:
    """Puts calls of a function that computes in float64 in the places of the operators, in a graph whose types are widened."""
    kinds: set[_Kind] = set()
    for node in definition.node:
        _as_call(node, kinds)
    for function in definition.library.function:
        called = {node.name for node in function.node_def if _as_call(node, kinds)}
        renamed = {f"{name}:{_RESULT}:0": f"{name}:output:0" for name in called}
        for node in function.node_def:
            node.input[:] = [renamed.get(name, name) for name in node.input]
        _rename_results(function.ret, renamed)
    definition.library.function.extend(_function(kind) for kind in sorted(kinds))


def _rename_results(results: MutableMapping[str, str], renamed: dict[str, str]) -> None:
    for name, source in list(results.items()):
        results[name] = renamed.get(source, source)


def _as_call(node: node_def_pb2.NodeDef, kinds: set[_Kind]) -> bool:
    if node.op != _OPERATOR:
        return False
    kind = (node.attr["T"].type, node.attr["align_corners"].b, node.attr["half_pixel_centers"].b)
    kinds.add(kind)
    node.op = "PartitionedCall"
    node.attr.clear()
    node.attr["Tin"].list.type.extend((kind[0], types_pb2.DT_INT32))
    node.attr["Tout"].list.type.append(types_pb2.DT_DOUBLE)
    node.attr["f"].func.name = _function(kind).signature.name
    return True


@cache
def _function(kind: _Kind) -> function_pb2.FunctionDef:
    dtype, corners, centred = kind

    def resampled(images: Any, size: Any) -> Any:
        images = tf.cast(images, tf.float64)
        for axis in (1, 2):
            images = _along(images, axis, size[axis - 1], corners, centred)
        return images

    specs = tf.TensorSpec([None] * 4, tf.as_dtype(dtype)), tf.TensorSpec([2], tf.int32)
    concrete = tf.function(resampled, autograph=False).get_concrete_function(*specs)
    result: function_pb2.FunctionDef = concrete.function_def
    return result


def _along(x: Any, axis: int, wanted: Any, corners: bool, centred: bool) -> Any:
    size = tf.shape(x)[axis]
    before, after = tf.cast(size, tf.float64), tf.cast(wanted, tf.float64)
    step = before / after
    if corners:
        step = tf.where(wanted > 1, (before - 1.0) / tf.maximum(after - 1.0, 1.0), step)
    places = tf.range(after, dtype=tf.float64)
    places = (places + 0.5) * step - 0.5 if centred else places * step
    lower = tf.floor(places)
    first = tf.maximum(tf.cast(lower, tf.int32), 0)
    second = tf.minimum(tf.cast(tf.math.ceil(places), tf.int32), size - 1)
    weight = tf.reshape(places - lower, [-1, 1, 1] if axis == 1 else [-1, 1])
    start = tf.gather(x, first, axis=axis)
    return start + (tf.gather(x, second, axis=axis) - start) * weight
