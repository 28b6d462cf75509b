"""Operands of operators that read memory by strides: as_strided and the like."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.tracing.pytorch_nodes import lies_in_order, storage_order

_READ = frozenset(("aten::as_strided", "aten::as_strided_copy"))
_STRIDED = _READ | {"aten::as_strided_scatter", "aten::resize", "aten::resize_as"}


def in_storage_order(op: OpBuilder, name: str, node: torch.fx.Node, args: list[Any]) -> list[Any]:
    """The arguments with an operand whose elements lie in memory in their order, where the operator goes by that.

    Raises:
        UnsupportedOperator: the operand has none: it is a view of other memory.
    """
    stem = name.partition(".")[0]
    if stem not in _STRIDED or lies_in_order(node.args[0]):
        return args
    order = storage_order(node.args[0]) if stem in _READ and isinstance(args[0], ir.Value) else None
    if order is None:
        raise UnsupportedOperator("its operand is a view of other memory, or its elements do not lie there in order")
    return [op.Transpose(args[0], perm=order), *args[1:]]
