"""Shapes and reductions."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.opset_maps.from_onnx.primitives.elementwise import ElementwiseFamily
from onnxport.opset_maps.from_onnx.primitives.tensors import primitive
from onnxport.opset_maps.from_onnx.values import Axes, Int, Ints, PadMode, Pads, Tensor


class ShapeFamily(ElementwiseFamily):
    """Elements in another order or number, and what is computed along axes."""

    @primitive
    def reshape(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        """The same elements in another shape; one size may be -1."""

    @primitive
    def permute_dims(self, x: Tensor, axes: Ints) -> Tensor:
        """Axes reordered."""

    @primitive
    def expand_dims(self, x: Tensor, axis: Ints) -> Tensor:
        """Axes of size 1 inserted at the given places of the result."""

    @primitive
    def squeeze(self, x: Tensor, axis: Ints) -> Tensor:
        """Axes of size 1 removed."""

    @primitive
    def concat(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        """Joined along an axis."""

    @primitive
    def stack(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        """Joined along a new axis."""

    @primitive
    def broadcast_to(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        """Repeated to `shape`, which has at least the rank of x and no -1."""

    @primitive
    def expand(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        """ONNX's Expand: x and a tensor of `shape` broadcast against each other, of which dynamic sizes may be 1."""

    @primitive
    def flip(self, x: Tensor, axis: Ints) -> Tensor:
        """Reversed along axes."""

    @primitive
    def tile(self, x: Tensor, repeats: Sequence[Int]) -> Tensor:
        """Repeated along each axis."""

    @primitive
    def split(self, x: Tensor, sizes: Sequence[Int], axis: int) -> list[Tensor]:
        """Cut along an axis into pieces of `sizes`."""

    @primitive
    def slice(self, x: Tensor, axis: int, start: Int | None, stop: Int | None, step: int = 1) -> Tensor:
        """``x[..., start:stop:step]`` along one axis; negative and excessive bounds and negative steps as in Python."""

    @primitive
    def pad(self, x: Tensor, pads: Pads, mode: PadMode = "constant", value: object = 0) -> Tensor:
        """Padded by non-negative (before, after) pairs, one an axis; `value` is a number or scalar tensor."""

    @primitive
    def sum(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """Sum, in the element type of x; over no elements 0."""

    @primitive
    def prod(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """Product, in the element type of x; over no elements 1."""

    @primitive
    def mean(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """Mean; of integers rounded toward zero."""

    @primitive
    def max(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """Greatest element; over no elements the least value of the type (-inf, false)."""

    @primitive
    def min(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """Least element; over no elements the greatest value of the type."""

    @primitive
    def argmax(self, x: Tensor, axis: int, keepdims: bool = False) -> Tensor:
        """INT64 index of the first greatest element."""

    @primitive
    def argmin(self, x: Tensor, axis: int, keepdims: bool = False) -> Tensor:
        """INT64 index of the first least element."""

    @primitive
    def cumulative_sum(self, x: Tensor, axis: int) -> Tensor:
        """Inclusive running sum, in the element type of x."""

    @primitive
    def cumulative_prod(self, x: Tensor, axis: int) -> Tensor:
        """Inclusive running product, in the element type of x."""

    def logsumexp(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """log(sum(exp(x))) without overflow; -inf over no elements or where all are -inf."""
        peak = self.max(x, axis, True)
        peak = self.where(self.isinf(peak), self.zeros((), self.dtype(x)), peak)
        total = self.add(self.log(self.sum(self.exp(self.subtract(x, peak)), axis, True)), peak)
        if keepdims:
            return total
        return self.squeeze(total, tuple(range(self.ndim(x))) if axis is None else axis)

    def softmax(self, x: Tensor, axis: int) -> Tensor:
        """exp(x) / sum(exp(x)) along one axis."""
        shifted = self.exp(self.subtract(x, self.max(x, (axis,), True)))
        return self.divide(shifted, self.sum(shifted, (axis,), True))

    def log_softmax(self, x: Tensor, axis: int) -> Tensor:
        """log(softmax(x))."""
        return self.subtract(x, self.logsumexp(x, (axis,), True))
