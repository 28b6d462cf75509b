"""Resampling of images."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import rank


def resized(op: OpBuilder, x: ir.Value, sizes: Sequence[int | ir.Value], **attributes: object) -> ir.Value:
    """Resize of the spatial axes, channels on axis 1, to `sizes`; below opset 18 the sizes of all axes are written."""
    if op.opset >= 18:
        return op.Resize(x, None, None, op.shape_vector(sizes), axes=list(range(2, rank(x))), **attributes)
    return op.Resize(x, None, None, op.shape_vector([op.dim(x, 0), op.dim(x, 1), *sizes]), **attributes)
