"""The array namespace in torch: recorded as a torch.fx graph while importing, executed when the model runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.namespace import NodeCall
from onnxport.opset_maps.from_onnx.operands import Operand
from onnxport.opset_maps.from_onnx.pytorch import deferred
from onnxport.opset_maps.from_onnx.pytorch.control import TorchControlFamily
from onnxport.opset_maps.from_onnx.pytorch.dtypes import TORCH
from onnxport.opset_maps.from_onnx.pytorch.elementwise import TorchElementwiseFamily
from onnxport.opset_maps.from_onnx.pytorch.indexing import TorchIndexingFamily
from onnxport.opset_maps.from_onnx.pytorch.shapes import TorchShapeFamily
from onnxport.opset_maps.from_onnx.pytorch.strings import TorchTextFamily
from onnxport.opset_maps.from_onnx.pytorch.tensors import TorchTensorFamily
from onnxport.opset_maps.from_onnx.pytorch.traced import Traced
from onnxport.opset_maps.from_onnx.pytorch.windows import TorchWindowFamily
from onnxport.opset_maps.from_onnx.pytorch.worlds import dims_of, example
from onnxport.opset_maps.from_onnx.values import UnknownUntilRun


class TorchNamespace(
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
        self, call: NodeCall, operands: Sequence[Operand], outputs: Sequence[ir.Value], error: UnknownUntilRun
    ) -> Any:
        if self.recorder is None:
            raise UnsupportedOperator(str(error)) from error
        return deferred.defer(self, call, operands, outputs, error)
