"""Strings in torch: NumPy object arrays, known only while a model runs."""

from __future__ import annotations

from onnxport.opset_maps.from_onnx.pytorch import text
from onnxport.opset_maps.from_onnx.pytorch.expressions import compiled
from onnxport.opset_maps.from_onnx.pytorch.tensors import TorchTensorFamily
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor


class TorchTextFamily(TorchTensorFamily):
    """What is computed of strings."""

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
