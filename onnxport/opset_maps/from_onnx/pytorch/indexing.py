"""Indexing and sorting in torch."""

# The primitives are described once, in from_onnx/primitives/.
# ruff: noqa: D102

from __future__ import annotations

import operator

import onnx_ir as ir
import torch

from onnxport.opset_maps.from_onnx.pytorch import functions
from onnxport.opset_maps.from_onnx.pytorch.shapes import Shapes
from onnxport.opset_maps.from_onnx.values import Int, Reduction, Tensor


class Indexing(Shapes):
    """Elements by their places, and the places of elements."""

    def take(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        if self.ndim(indices) == 1:
            return self.call(torch.index_select, x, axis, indices)
        return self.call(operator.getitem, x, (slice(None),) * axis + (indices,))

    def take_along_axis(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        return self.call(torch.gather, x, axis, self.astype(indices, ir.DataType.INT64))

    def gather_nd(self, x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
        return self.call(functions.gather_nd, x, indices, batch_dims)

    def scatter_elements(
        self, x: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: Reduction = "none"
    ) -> Tensor:
        return self.call(functions.scatter_elements, x, indices, updates, axis, reduction)

    def scatter_nd(self, x: Tensor, indices: Tensor, updates: Tensor, reduction: Reduction = "none") -> Tensor:
        return self.call(functions.scatter_nd, x, indices, updates, reduction)

    def nonzero(self, x: Tensor) -> Tensor:
        return self.call(functions.nonzero, x)

    def compress(self, x: Tensor, condition: Tensor, axis: int) -> Tensor:
        return self.call(functions.compress, x, condition, axis)

    def unique(self, x: Tensor, axis: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        values, first, inverse, counts = self.call(functions.unique, x, axis)
        return values, first, inverse, counts

    def top_k(self, x: Tensor, k: Int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
        values, indices = self.call(functions.top_k, x, k, axis, largest)
        return values, indices

    def argsort(self, x: Tensor, axis: int, descending: bool = False) -> Tensor:
        return self.call(functions.argsort, x, axis, descending)
