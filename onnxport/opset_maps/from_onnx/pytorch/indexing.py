"""Indexing and sorting in torch."""

from __future__ import annotations

import operator

import numpy as np
import onnx_ir as ir
import torch

from onnxport.opset_maps.from_onnx.pytorch import functions, text
from onnxport.opset_maps.from_onnx.pytorch.tensors import TorchTensorFamily, calling
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor
from onnxport.opset_maps.from_onnx.values import Array, Int


class TorchIndexingFamily(TorchTensorFamily):
    """Elements by their places, and the places of elements."""

    def take(self, x: TorchTensor, indices: TorchTensor, axis: int) -> TorchTensor:
        if self.ndim(indices) == 1:
            return self.call(torch.index_select, x, axis, indices)
        return self.call(operator.getitem, x, (slice(None),) * axis + (indices,))

    def take_along_axis(self, x: TorchTensor, indices: TorchTensor, axis: int) -> TorchTensor:
        return self.call(torch.gather, x, axis, self.astype(indices, ir.DataType.INT64))

    gather_nd = calling(functions.gather_nd)
    scatter_elements = calling(functions.scatter_elements)
    scatter_nd = calling(functions.scatter_nd)
    compress = calling(functions.compress)
    argsort = calling(functions.argsort)

    # Their results are taken apart here, which puts the operator off where it is not known yet how many there are.

    def unique(self, x: TorchTensor, axis: int | None) -> tuple[TorchTensor, TorchTensor, TorchTensor, TorchTensor]:
        values, first, inverse, counts = self.call(functions.unique, x, axis)
        return values, first, inverse, counts

    def top_k(self, x: TorchTensor, k: Int, axis: int, largest: bool) -> tuple[TorchTensor, TorchTensor]:
        values, indices = self.call(functions.top_k, x, k, axis, largest)
        return values, indices

    def nonzero(self, x: TorchTensor) -> TorchTensor:
        return self.call(functions.nonzero, text.filled(x) if isinstance(x, np.ndarray) else x)

    def lookup(self, x: TorchTensor, keys: Array) -> TorchTensor:
        if isinstance(x, np.ndarray):
            return text.lookup(x, keys)
        return super().lookup(x, keys)
