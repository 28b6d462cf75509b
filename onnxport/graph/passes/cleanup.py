"""What every written graph goes through before it leaves: onnx-ir's own passes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import Sequential
from onnx_ir.passes.common import (
    CommonSubexpressionEliminationPass,
    IdentityEliminationPass,
    RemoveUnusedNodesPass,
    RemoveUnusedOpsetsPass,
)


def clean(model: ir.Model) -> ir.Model:
    """The model without unused nodes, needless identities and repeated subexpressions; changed in place."""
    passes = Sequential(
        IdentityEliminationPass(),
        CommonSubexpressionEliminationPass(),
        RemoveUnusedNodesPass(),
        RemoveUnusedOpsetsPass(),
    )
    return passes(model).model
