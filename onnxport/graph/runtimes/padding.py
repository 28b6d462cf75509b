"""Pads that onnxruntime does not take."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.defect import Defect, Written, dims, operand, optional


def wrapped(op: OpBuilder, node: ir.Node) -> Written:
    """The end of each axis before it, its beginning behind it."""
    x, pads = operand(node, 0), _pads(node)
    assert pads is not None
    count = len(pads) // 2
    for axis, (before, after) in enumerate(zip(pads[:count], pads[count:], strict=True)):
        parts = [op.Slice(x, [-before], [np.iinfo(np.int64).max], [axis])] if before else []
        parts += [x, op.Slice(x, [0], [after], [axis])] if after else [x]
        x = parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)
    return x


def _pads(node: ir.Node) -> list[int] | None:
    """How much is added to all axes; None where that is not known, something is taken away, or only some axes are named."""
    known = operand(node, 1).const_value
    if known is None or optional(node, 3) is not None:
        return None
    pads = [int(item) for item in known.numpy()]
    return pads if min(pads, default=0) >= 0 else None


def _may_be_empty(node: ir.Node) -> bool:
    sizes, pads = dims(operand(node, 0)), _pads(node)
    if node.attributes.get_string("mode", "constant") != "wrap" or sizes is None or pads is None or None not in sizes:
        return False
    # no more than there is, so that a slice holds it
    pairs = zip(sizes, pads[: len(sizes)], pads[len(sizes) :], strict=True)
    return all(max(before, after) <= (size or 0) for size, before, after in pairs)


PADDING = (
    Defect(
        ("Pad",),
        wrapped,
        "Slice and Concat",
        "onnxruntime 1.31 wraps nothing round where another axis has no elements",
        opsets=range(19, 27),
        applies=_may_be_empty,
    ),
)
