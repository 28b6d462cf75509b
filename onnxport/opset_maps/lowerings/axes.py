"""Axes in another order."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder


def permuted(op: OpBuilder, x: ir.Value, perm: Sequence[int]) -> ir.Value:
    """`x` with its axes in the order `perm`; `x` itself where that changes nothing."""
    return x if list(perm) == list(range(len(perm))) else op.Transpose(x, perm=list(perm))
