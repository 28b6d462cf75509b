"""The one place where an imported model enters the ONNX semantics again when it is called.

All that can be resolved is resolved at import. What remains is an operator whose rank, element type or attributes' values only
the model's own operands tell: it stands in the module as a `RunTimeOperator`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from onnxport.opset_maps.from_onnx.namespace import Call, to_tensor
from onnxport.opset_maps.from_onnx.operands import Operand
from onnxport.opset_maps.from_onnx.pytorch.tensors import TorchTensorFamily
from onnxport.opset_maps.from_onnx.pytorch.traced import leaves


class RunTimeOperator(nn.Module):
    """One ONNX operator that is resolved when the model runs.

    Args:
        call: the operator, its attributes resolved.
        arrays: makes the namespace that executes.
    """

    def __init__(self, call: Call, arrays: Callable[[], TorchTensorFamily]) -> None:
        super().__init__()
        self.call, self.arrays = call, arrays

    def forward(self, *operands: Operand) -> Any:
        """The operator's outputs."""
        xp = self.arrays()
        xp.run_time_device = next((x.device for x in leaves(operands) if isinstance(x, torch.Tensor)), None)
        result = self.call(xp, list(operands))
        return tuple(to_tensor(xp, x) for x in result) if isinstance(result, tuple) else to_tensor(xp, result)

    def extra_repr(self) -> str:
        """Operator name."""
        return self.call.entry.op_type
