"""Writing by index, where updates of one place may be combined."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder

Reduction = Literal["add", "mul", "max", "min"]
# ScatterElements and ScatterND combine updates by sums and products from opset 16 on, by extremes from 18 on.
_SINCE: dict[Reduction, int] = {"add": 16, "mul": 16, "max": 18, "min": 18}


def require_reduction(op: OpBuilder, reduction: Reduction | None) -> None:
    """Refuses a reduction that the target opset's scattering does not have.

    Raises:
        UnsupportedOperator: as above.
    """
    if reduction is not None and op.opset < _SINCE[reduction]:
        raise UnsupportedOperator(f"scattering with {reduction} needs opset {_SINCE[reduction]}")


def scatter_elements(
    op: OpBuilder, x: ir.Value, indices: ir.Value, updates: ir.Value, axis: int, reduction: Reduction | None = None
) -> ir.Value:
    """`x` with each update at the place that `indices` gives along `axis`, combined with what is there.

    Raises:
        UnsupportedOperator: the target opset has no such reduction.
    """
    require_reduction(op, reduction)
    return op.ScatterElements(x, indices, updates, axis=axis, reduction=reduction)


def scatter_slices(
    op: OpBuilder, x: ir.Value, indices: ir.Value, updates: ir.Value, reduction: Reduction | None = None
) -> ir.Value:
    """`x` with each update, an element or a slice, at the leading indices along the last axis of `indices`.

    Raises:
        UnsupportedOperator: the target opset has no such reduction.
    """
    require_reduction(op, reduction)
    return op.ScatterND(x, indices, updates, reduction=reduction)
