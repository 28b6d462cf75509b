"""Operators put off until the model runs: the one place where an imported model enters the ONNX semantics again.

Everything else of an import is resolved while torch.fx records. An operator comes here only where its rank, element type or an
attribute's value is known no earlier; the traced graph then calls a `RunTimeOperator`, which decides with real tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch import nn

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.call import to_tensor
from onnxport.opset_maps.from_onnx.namespace import NodeCall
from onnxport.opset_maps.from_onnx.operands import Operand
from onnxport.opset_maps.from_onnx.primitives.control import Body
from onnxport.opset_maps.from_onnx.pytorch.tensors import TorchTensorFamily
from onnxport.opset_maps.from_onnx.pytorch.worlds import example, leaves
from onnxport.opset_maps.from_onnx.values import UnknownUntilRun

# Operators whose result has one type, whatever they are given.
_RESULT_TYPES = {"SequenceLength": torch.int64, "OptionalHasElement": torch.bool}


class RunTimeOperator(nn.Module):
    """One ONNX operator whose rank, element type or attribute values are known only when the model runs.

    Args:
        call: the operator, its attributes resolved.
        namespace: torch as the semantics see it; without a recorder it executes.
    """

    def __init__(self, call: NodeCall, namespace: type[TorchTensorFamily]) -> None:
        super().__init__()
        self.call = call
        self.namespace = namespace
        self.op_type = call.entry.op_type

    def forward(self, *operands: Operand) -> Any:
        """The operator's outputs."""
        xp = self.namespace()
        xp.run_time_device = next((x.device for x in leaves(operands) if isinstance(x, torch.Tensor)), None)
        result = self.call(xp, list(operands))
        return tuple(to_tensor(xp, x) for x in result) if isinstance(result, tuple) else to_tensor(xp, result)

    def extra_repr(self) -> str:
        """Operator name."""
        return self.op_type


def defer(
    xp: TorchTensorFamily,
    call: NodeCall,
    operands: Sequence[Operand],
    outputs: Sequence[ir.Value],
    error: UnknownUntilRun,
) -> Any:
    """The traced outputs of an operator that is put off until the model runs."""
    if any(isinstance(item, Body) for item in call.attributes.values()):
        raise UnsupportedOperator(f"{error}; an operator with a subgraph can't wait for that") from error
    recorder = xp.recorder
    assert recorder is not None
    result_type = _RESULT_TYPES.get(call.entry.op_type)
    worlds = None if result_type is None else example(result_type, (), recorder.sizes)
    name, module = f"{call.entry.op_type.lower()}_at_run_time", RunTimeOperator(call, type(xp))
    whole = recorder.module(name, module, operands, worlds, opaque=worlds is None)
    if worlds is not None or (call.context.output_count <= 1 and len(outputs) <= 1):
        return whole
    return tuple(recorder.item(whole, index, None) for index in range(len(outputs)))
