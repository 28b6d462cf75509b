"""The one place where an imported model enters the ONNX semantics again when it is called.

All that can be resolved is resolved at import. What remains is an operator whose rank, element type or attributes' values only
the model's own operands tell: it stands in the module as a `RunTimeOperator`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps import maps
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

    def __getstate__(self) -> dict[str, Any]:
        """The module with its operator by name: the functions of the tables have no names that pickle finds."""
        return {**self.__dict__, "call": _named(self.call)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "call": _call(state["call"])})

    def forward(self, *operands: Operand) -> Any:
        """The operator's outputs; the first alone where the node lists no other."""
        xp = self.arrays()
        xp.run_time_device = next((x.device for x in leaves(operands) if isinstance(x, torch.Tensor)), None)
        result = self.call(xp, list(operands))
        if isinstance(result, tuple) and self.call.context.output_count <= 1:
            result = result[0]
        return tuple(to_tensor(xp, x) for x in result) if isinstance(result, tuple) else to_tensor(xp, result)

    def extra_repr(self) -> str:
        """Operator name."""
        return self.call.entry.op_type


_TABLES = {"onnx": maps.onnx, "pytorch": maps.pytorch_native}


def _named(call: Call | None) -> Any:
    """A call without its function, and those that it falls back to."""
    if call is None:
        return None
    entry = call.entry
    table = next(name for name, table in _TABLES.items() if any(item is entry for item in table))
    key = (table, entry.domain, entry.op_type, entry.versions)
    return key, call.attributes, call.context, _named(call.otherwise)


def _call(stored: Any) -> Call | None:
    if stored is None:
        return None
    (table, domain, op_type, versions), attributes, context, otherwise = stored
    entry = _TABLES[table].find(domain, op_type, max(versions))
    if entry is None:
        raise UnsupportedOperator(
            f"{domain}::{op_type} has no entry here; it was registered where the module was saved"
        )
    return Call(entry, attributes, context, _call(otherwise))
