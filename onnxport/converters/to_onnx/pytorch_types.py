"""Element types and shapes of what torch traced, as they stand in the ONNX graph."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import from_torch_dtype

from onnxport.graph.builder import OpBuilder
from onnxport.graph.result_types import Expected
from onnxport.opset_maps.lowerings.complex_numbers import PART_TYPES, is_complex, mark_complex
from onnxport.tracing.pytorch_nodes import recorded

# A sparse product leaves out what is 0, also where the other operand has infinity or NaN: not what a dense one gives.
OF_SPARSE = "computes with a sparse tensor, which ONNX has no operators for: make it dense first, with to_dense()"


class Types:
    """Types and shapes of the values that torch traced.

    `symbols` has the user's names of torch's symbolic sizes, `sums` the expressions of those that follow from others.
    """

    def __init__(self, symbols: Mapping[str, str], sums: Mapping[Any, Any]) -> None:
        self._symbols, self._sums = symbols, sums
        self._texts: dict[Any, int | str] = {}

    def expected(self, value: Any) -> Expected | None:
        """Type and shape of what torch traced."""
        if isinstance(value, torch.Tensor):
            return Expected(from_torch_dtype(value.dtype), tuple([self._dim(size) for size in value.shape]))
        if isinstance(value, (bool, torch.SymBool)):
            return Expected(ir.DataType.BOOL, ())
        if isinstance(value, (int, torch.SymInt)):
            return Expected(ir.DataType.INT64, ())
        if isinstance(value, (float, torch.SymFloat)):
            return Expected(ir.DataType.DOUBLE, ())
        return None

    def results(self, value: Any) -> tuple[Expected | None, ...]:
        """Types and shapes of a node's results, one or several."""
        if isinstance(value, (list, tuple)):
            return tuple(self.expected(item) for item in value)
        return (self.expected(value),)

    def _dim(self, size: Any) -> int | str:
        if type(size) is int:
            return size
        expression = size.node.expr
        known = self._texts.get(expression)
        if known is None:
            whole = expression.xreplace(self._sums) if self._sums else expression
            text = re.sub(r"\b[su]\d+\b", lambda match: self._symbols.get(match[0], match[0]), str(whole))
            self._texts[expression] = known = int(whole) if whole.is_Integer else text
        return known


def stored(expected: Expected) -> tuple[ir.DataType, tuple[Any, ...] | None]:
    """How a result stands in the graph: a complex one as its real and imaginary parts along a last axis of 2."""
    part = PART_TYPES.get(expected.dtype)
    if part is None or expected.shape is None:
        return expected.dtype, expected.shape
    return part, (*expected.shape, 2)


def typed(op: OpBuilder, item: Any, expected: Expected | None) -> Any:
    """A result with the source's type and shape on it; what is no value stays as it is."""
    if expected is None or not isinstance(item, ir.Value):
        return item
    dtype, shape = stored(expected)
    if dtype != expected.dtype:
        mark_complex(item)
    return op.typed(item, dtype, shape)


def holds_complex(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operand is complex."""
    for item in (*args, *kwargs.values()):
        if isinstance(item, ir.Value):
            if is_complex(item):
                return True
        elif isinstance(item, (list, tuple)) and any(isinstance(part, ir.Value) and is_complex(part) for part in item):
            return True
    return False


def is_sparse(item: object) -> bool:
    """Whether something is a tensor that is not stored whole: COO, CSR and their like."""
    return isinstance(item, torch.Tensor) and item.layout is not torch.strided


def computes_sparse(node: torch.fx.Node, name: str, inputs: Container[str]) -> bool:
    """Whether a node computes with a sparse tensor; of `inputs` that are sparse in the example, the model takes dense ones."""
    operands = [item for item in node.all_input_nodes if item.name not in inputs]
    return is_sparse(recorded(node)) or (
        not name.startswith("aten::to_dense") and any(map(is_sparse, map(recorded, operands)))
    )
