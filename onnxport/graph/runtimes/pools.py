"""Windows in single precision: means, which onnxruntime's kernel for the newer opsets computes several times slower, and greatest
elements of padded images, which it takes without the padding.
"""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.casts import again
from onnxport.graph.runtimes.defect import ALL_OPSETS, Defect, Written, dims, operand, optional, wholes
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


def apart_from_padding(op: OpBuilder, node: ir.Node) -> Written:
    """MaxPool of what is not the result of a Pad itself; Max with the least number leaves NaN."""
    x = operand(node, 0)
    assert x.dtype is not None
    return again(op, node, [op.Max(x, op.const(np.finfo(np.float32).min, x.dtype))])


def _reads_padding(node: ir.Node) -> bool:
    """Whether zeros stand around the image; around numbers of which none is negative they change nothing."""
    pad = operand(node, 0).producer()
    if pad is None or pad.op_type != "Pad" or pad.attributes.get_string("mode", "constant") != "constant":
        return False
    value, before = optional(pad, 2), operand(pad, 0).producer()
    known = None if value is None or value.const_value is None else value.const_value.numpy()
    if value is not None and (known is None or known.any()):
        return False
    whole = not any(wholes(node, "pads", [])) and all(size > 1 for size in wholes(node, "kernel_shape", []))
    return not (whole and before is not None and _is_not_negative(before))


def _is_not_negative(node: ir.Node) -> bool:
    """Whether none of a node's results is below zero."""
    if node.op_type == "Clip":
        least = optional(node, 1)
        return least is not None and least.const_value is not None and bool((least.const_value.numpy() >= 0).all())
    return node.op_type in ("Relu", "Sigmoid", "HardSigmoid", "Abs")


POOLS = (
    Defect(
        ("MaxPool",),
        apart_from_padding,
        "MaxPool apart from the Pad before it",
        reason="onnxruntime makes the zeros of a Pad the padding of the MaxPool behind it, which stands for no number",
        dtypes=frozenset({ir.DataType.FLOAT}),
        applies=_reads_padding,
        misread=True,
    ),
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
