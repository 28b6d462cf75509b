"""Indexing, sorting, looking up."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.primitives.shapes import ShapeFamily
from onnxport.opset_maps.from_onnx.primitives.tensors import primitive
from onnxport.opset_maps.from_onnx.values import Array, Int, Reduction, Tensor


class IndexingFamily(ShapeFamily):
    """Elements by their places, and the places of elements."""

    @primitive
    def take(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """Slices of x along an axis; the indices' axes stand in the place of that axis (ONNX Gather)."""

    @primitive
    def take_along_axis(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """One element an index (ONNX GatherElements: the other axes of `indices` may be shorter)."""

    @primitive
    def gather_nd(self, x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
        """Slices of x at index tuples (ONNX GatherND)."""

    @primitive
    def scatter_elements(
        self, x: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: Reduction = "none"
    ) -> Tensor:
        """x with one element an index replaced or combined (ONNX ScatterElements)."""

    @primitive
    def scatter_nd(self, x: Tensor, indices: Tensor, updates: Tensor, reduction: Reduction = "none") -> Tensor:
        """x with slices at index tuples replaced or combined (ONNX ScatterND)."""

    @primitive
    def nonzero(self, x: Tensor) -> Tensor:
        """INT64 [rank, n]: indices of the elements that are not zero, in row-major order."""

    @primitive
    def compress(self, x: Tensor, condition: Tensor, axis: int) -> Tensor:
        """Slices along an axis where a boolean vector, perhaps shorter than the axis, is true."""

    @primitive
    def unique(self, x: Tensor, axis: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sorted distinct elements (axis=None: of the flattened tensor) or slices, INT64 first index, inverse, counts."""

    @primitive
    def top_k(self, x: Tensor, k: Int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
        """The k greatest or least elements in order and their INT64 indices; of equal ones the lower index first."""

    @primitive
    def argsort(self, x: Tensor, axis: int, descending: bool = False) -> Tensor:
        """Stable sorting order, INT64."""

    def sort(self, x: Tensor, axis: int, descending: bool = False) -> Tensor:
        """Sorted along an axis."""
        return self.take_along_axis(x, self.argsort(x, axis, descending), axis)

    def one_hot(self, indices: Tensor, depth: Int, axis: int) -> Tensor:
        """Bool: a new axis of size `depth` at `axis`, true at the index; all false where the index is outside."""
        rank = self.ndim(indices) + 1
        positions = self.arange(0, depth, 1, self.dtype(indices))
        positions = self.expand_dims(positions, [i for i in range(rank) if i != axis])
        return self.equal(self.expand_dims(indices, [axis]), positions)

    def lookup(self, x: Tensor, keys: Array) -> Tensor:
        """INT64: the place of each element of x among distinct `keys` of its type (objects for strings), -1 where it is none.

        NaN is found where it is among the keys.
        """
        text = self.dtype(x) == ir.DataType.STRING
        held = self.constant(keys, ir.DataType.STRING if text else None)
        spread = self.expand_dims(x, [self.ndim(x)])
        hits = self.equal(spread, held)
        if not text and keys.dtype.kind == "f" and np.isnan(keys).any():
            hits = self.logical_or(hits, self.logical_and(self.isnan(spread), self.isnan(held)))
        codes = self.astype(hits, ir.DataType.INT64)
        last = self.ndim(hits) - 1
        place = self.argmax(codes, last)
        return self.where(self.equal(self.max(codes, (last,)), 1), place, -1)
