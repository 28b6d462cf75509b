"""Indexing and sorting in torch."""

# The primitives are described once, in from_onnx/primitives/.
# ruff: noqa: D102

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxport.opset_maps.from_onnx.pytorch import functions, text
from onnxport.opset_maps.from_onnx.pytorch.tensors import TorchTensorFamily
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor
from onnxport.opset_maps.from_onnx.values import Int, Reduction


class TorchIndexingFamily(TorchTensorFamily):
    """Elements by their places, and the places of elements."""

    def take(self, x: TorchTensor, indices: TorchTensor, axis: int) -> TorchTensor:
        if self.ndim(indices) == 1:
            return self.call(torch.index_select, x, axis, indices)
        return self.call(operator.getitem, x, (slice(None),) * axis + (indices,))

    def take_along_axis(self, x: TorchTensor, indices: TorchTensor, axis: int) -> TorchTensor:
        return self.call(torch.gather, x, axis, self.astype(indices, ir.DataType.INT64))

    def gather_nd(self, x: TorchTensor, indices: TorchTensor, batch_dims: int = 0) -> TorchTensor:
        return self.call(functions.gather_nd, x, indices, batch_dims)

    def scatter_elements(
        self, x: TorchTensor, indices: TorchTensor, updates: TorchTensor, axis: int, reduction: Reduction = "none"
    ) -> TorchTensor:
        return self.call(functions.scatter_elements, x, indices, updates, axis, reduction)

    def scatter_nd(
        self, x: TorchTensor, indices: TorchTensor, updates: TorchTensor, reduction: Reduction = "none"
    ) -> TorchTensor:
        return self.call(functions.scatter_nd, x, indices, updates, reduction)

    def nonzero(self, x: TorchTensor) -> TorchTensor:
        return self.call(functions.nonzero, x)

    def compress(self, x: TorchTensor, condition: TorchTensor, axis: int) -> TorchTensor:
        return self.call(functions.compress, x, condition, axis)

    def unique(self, x: TorchTensor, axis: int | None) -> tuple[TorchTensor, TorchTensor, TorchTensor, TorchTensor]:
        values, first, inverse, counts = self.call(functions.unique, x, axis)
        return values, first, inverse, counts

    def top_k(self, x: TorchTensor, k: Int, axis: int, largest: bool) -> tuple[TorchTensor, TorchTensor]:
        values, indices = self.call(functions.top_k, x, k, axis, largest)
        return values, indices

    def argsort(self, x: TorchTensor, axis: int, descending: bool = False) -> TorchTensor:
        return self.call(functions.argsort, x, axis, descending)

    def lookup(self, x: TorchTensor, keys: np.ndarray[Any, Any]) -> TorchTensor:
        if isinstance(x, np.ndarray):
            return text.lookup(x, keys)
        return super().lookup(x, keys)
