"""Means over windows in single precision, which onnxruntime's kernel for the newer opsets computes several times slower."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.defect import ALL_OPSETS, Defect, Written, dims, operand, wholes
from onnxport.graph.runtimes.windows import pooled_axes

_END = np.iinfo(np.int64).max
_BLOCK = 16  # channels in whole blocks of so many are pooled by another kernel, as fast as ever


def average_pool(op: OpBuilder, node: ir.Node) -> Written:
    """A convolution of each channel on its own; a window of one element is a step over the axes."""
    x, axes = operand(node, 0), pooled_axes(node)
    sizes = dims(x)
    assert axes is not None
    assert sizes is not None
    kernel, strides = [axis.kernel for axis in axes], [axis.stride for axis in axes]
    pads = [*(axis.before for axis in axes), *(axis.after for axis in axes)]
    if prod(kernel) == 1 and not any(pads):
        return op.Slice(x, [0] * len(axes), [_END] * len(axes), list(range(2, 2 + len(axes))), strides)
    even = not any(pads) or bool(node.attributes.get_int("count_include_pad", 0))
    weight = np.full((sizes[1] or 0, 1, *kernel), 1 / prod(kernel) if even else 1, np.float32)
    sums = op.Conv(x, op.const(weight), kernel_shape=kernel, strides=strides, pads=pads, group=sizes[1])
    if even:
        return sums
    shares = np.ones((1, 1, *[1] * len(axes)))
    for i, axis in enumerate(axes):
        size = axis.size or 0
        starts = np.arange(0, size + axis.before + axis.after - axis.span + 1, axis.stride) - axis.before
        inside = np.minimum(starts + axis.kernel, size) - np.maximum(starts, 0)
        shares = shares / inside.reshape([-1 if place == 2 + i else 1 for place in range(2 + len(axes))])
    return op.Mul(sums, op.const(shares.astype(np.float32)))


def _is_slow(node: ir.Node) -> bool:
    sizes, axes = dims(node.inputs[0]), pooled_axes(node)
    if sizes is None or axes is None or len(sizes) != 4 or None in sizes[1:] or sizes[1] % _BLOCK == 0:  # type: ignore[operator]
        return False
    return not any(axis.ceil for axis in axes) and set(wholes(node, "dilations", [1])) == {1}


POOLS = (
    Defect(
        ("AveragePool",),
        average_pool,
        "a convolution of each channel",
        reason="onnxruntime's kernel from opset 19 on takes up to ten times as long",
        dtypes=frozenset({ir.DataType.FLOAT}),
        opsets=range(19, ALL_OPSETS.stop),
        applies=_is_slow,
    ),
)
