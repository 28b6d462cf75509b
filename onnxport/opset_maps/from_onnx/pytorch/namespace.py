"""The array namespace in torch: recorded as a torch.fx graph while importing, executed when the model runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.call import Call, Operand
from onnxport.opset_maps.from_onnx.primitives.control import Body
from onnxport.opset_maps.from_onnx.pytorch import control, deferred, text
from onnxport.opset_maps.from_onnx.pytorch.dtypes import TORCH
from onnxport.opset_maps.from_onnx.pytorch.expressions import compiled
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor, Traced
from onnxport.opset_maps.from_onnx.pytorch.windows import Windows
from onnxport.opset_maps.from_onnx.pytorch.worlds import dims_of, example
from onnxport.opset_maps.from_onnx.values import Int, UnknownUntilRun


class TorchNamespace(Windows):
    """torch as the ONNX semantics see it.

    Attributes:
        recorder: the graph being written; None executes.
    """

    # -- strings -------------------------------------------------------------------------------------------------------

    def string_case(self, x: TorchTensor, upper: bool) -> TorchTensor:
        return self._text(text.case, x, upper)

    def string_concat(self, a: TorchTensor, b: TorchTensor) -> TorchTensor:
        return self._text(text.concat, a, b)

    def string_split(
        self, x: TorchTensor, delimiter: str | None, maxsplit: int | None
    ) -> tuple[TorchTensor, TorchTensor]:
        values, counts = self._text(text.split, x, delimiter, maxsplit)
        return values, counts

    def regex_full_match(self, x: TorchTensor, pattern: str) -> TorchTensor:
        return self._text(text.full_match, x, compiled(pattern))

    def lookup(self, x: TorchTensor, keys: np.ndarray[Any, Any]) -> TorchTensor:
        if isinstance(x, np.ndarray):
            return text.lookup(x, keys)
        return super().lookup(x, keys)

    # -- control flow --------------------------------------------------------------------------------------------------

    def cond(self, condition: TorchTensor, then_branch: Body, else_branch: Body) -> tuple[TorchTensor, ...]:
        return control.cond(self, condition, then_branch, else_branch)

    def loop(
        self,
        trip_count: Int | None,
        condition: TorchTensor | None,
        carried: Sequence[TorchTensor],
        body: Callable[..., tuple[TorchTensor, ...]],
        scan_count: int,
        formal: Sequence[ir.Value | None],
    ) -> tuple[TorchTensor, ...]:
        return control.loop(self, trip_count, condition, carried, body, scan_count, formal)

    # -- what the walk asks --------------------------------------------------------------------------------------------

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
        if self.recorder is None:
            raise UnsupportedOperator(str(error)) from error
        return deferred.defer(self, call, operands, outputs, error)
