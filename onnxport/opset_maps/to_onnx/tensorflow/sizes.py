"""Sizes that TensorFlow computes when the model runs and that are known already."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.origins import behind, number


def target_shape(op: OpBuilder, x: ir.Value, shape: ir.Value) -> list[int] | None:
    """The constant form of a target such as ``[tf.shape(x)[0], 3, -1]``, where x has one dynamic axis and keeps it.

    The rest of the elements is counted here, since a runtime can't tell it from nothing when the dynamic axis is empty.
    """
    vector = behind(shape, "Cast")
    node = vector.producer()
    if node is None or node.op_type != "Concat" or x.shape is None:
        return None
    dynamic = [axis for axis, size in enumerate(x.shape) if not isinstance(size, int)]
    target = [_element(op, x, value) for value in node.inputs if value is not None]
    kept = [place for place, item in enumerate(target) if item == "dynamic"]
    sizes = [item for item in target if isinstance(item, int)]
    if len(dynamic) != 1 or len(kept) != 1 or len(kept) + len(sizes) != len(target) or sizes.count(-1) != 1:
        return None
    count = math.prod(size for size in x.shape if isinstance(size, int))
    given = -math.prod(sizes)
    if given <= 0 or not count or count % given:
        return None
    return [-1 if item == "dynamic" else count // given if item == -1 else int(item or 0) for item in target]


def _element(op: OpBuilder, x: ir.Value, vector: ir.Value) -> int | str | None:
    """What a vector of one element holds: a number, the size of x's dynamic axis, or something else."""
    known = op.constant(vector)
    if known is not None:
        return int(known[0]) if known.size == 1 else None
    node = behind(vector, "Cast").producer()
    if node is None or node.op_type != "Unsqueeze" or node.inputs[0] is None:
        return None
    gather = behind(node.inputs[0], "Cast").producer()
    if gather is None or gather.op_type != "Gather" or gather.inputs[0] is None or x.shape is None:
        return None
    sizes, axis = behind(gather.inputs[0], "Cast").producer(), number(op, gather.inputs[1])
    if sizes is None or sizes.op_type != "Shape" or sizes.inputs[0] is not x or axis is None:
        return None
    return None if isinstance(x.shape[int(axis)], int) else "dynamic"
