"""The array namespace in torch: recorded as a torch.fx graph while importing, executed when the model runs.

Almost everything of an import is resolved while torch.fx records. Only where an operator's rank, element type or an attribute's
value is known no earlier, the traced graph calls a `RunTimeOperator` (`run_time.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.namespace import Call
from onnxport.opset_maps.from_onnx.operands import Operand
from onnxport.opset_maps.from_onnx.primitives.control import Body
from onnxport.opset_maps.from_onnx.pytorch.control import TorchControlFamily
from onnxport.opset_maps.from_onnx.pytorch.dtypes import TORCH
from onnxport.opset_maps.from_onnx.pytorch.elementwise import TorchElementwiseFamily
from onnxport.opset_maps.from_onnx.pytorch.indexing import TorchIndexingFamily
from onnxport.opset_maps.from_onnx.pytorch.run_time import RunTimeOperator
from onnxport.opset_maps.from_onnx.pytorch.shapes import TorchShapeFamily
from onnxport.opset_maps.from_onnx.pytorch.slopes import TorchSlopeFamily
from onnxport.opset_maps.from_onnx.pytorch.strings import TorchTextFamily
from onnxport.opset_maps.from_onnx.pytorch.tensors import TorchTensorFamily
from onnxport.opset_maps.from_onnx.pytorch.traced import Traced
from onnxport.opset_maps.from_onnx.pytorch.windows import TorchWindowFamily
from onnxport.opset_maps.from_onnx.pytorch.worlds import dims_of, example
from onnxport.opset_maps.from_onnx.values import UnknownUntilRun

# Operators whose result has one type, whatever they are given.
_RESULT_TYPES = {"SequenceLength": torch.int64, "OptionalHasElement": torch.bool}


class TorchNamespace(
    TorchSlopeFamily,
    TorchElementwiseFamily,
    TorchShapeFamily,
    TorchIndexingFamily,
    TorchTextFamily,
    TorchWindowFamily,
    TorchControlFamily,
    TorchTensorFamily,
):
    """torch as the ONNX semantics see it: the families of `namespace.FAMILIES`.

    Attributes:
        recorder: the graph being written; None executes.
    """

    def refine(self, x: object, value: ir.Value) -> Any:
        if isinstance(x, Traced) and x.worlds is None and isinstance(value.type, ir.TensorType):
            held = TORCH.get(value.type.dtype)
            if held is not None:
                x.opaque = False
                dims = dims_of(value)
                if dims is not None:
                    x.worlds = example(held, dims, self._root.sizes)
        return x

    def mark(self) -> Any:
        return self.recorder.mark() if self.recorder is not None else None

    def rollback(self, mark: object) -> None:
        if self.recorder is not None:
            self.recorder.rollback(mark)

    def defer(
        self, call: Call, operands: Sequence[Operand], outputs: Sequence[ir.Value], error: UnknownUntilRun
    ) -> Any:
        recorder = self.recorder
        if recorder is None:
            raise UnsupportedOperator(str(error)) from error
        if any(isinstance(item, Body) for item in call.attributes.values()):
            raise UnsupportedOperator(f"{error}; an operator with a subgraph can't wait for that") from error
        result_type = _RESULT_TYPES.get(call.entry.op_type)
        worlds = None if result_type is None else example(result_type, (), recorder.sizes)
        name, module = f"{call.entry.op_type.lower()}_at_run_time", RunTimeOperator(call, TorchNamespace)
        whole = recorder.module(name, module, operands, worlds, opaque=worlds is None)
        if worlds is not None or (call.context.output_count <= 1 and len(outputs) <= 1):
            return whole
        return tuple(recorder.item(whole, index, None) for index in range(len(outputs)))
