"""Shapes and reductions in torch."""

# The primitives are described once, in from_onnx/primitives/.
# ruff: noqa: D102

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from onnxport.opset_maps.from_onnx.pytorch import functions
from onnxport.opset_maps.from_onnx.pytorch.dtypes import TORCH
from onnxport.opset_maps.from_onnx.pytorch.elementwise import Elementwise
from onnxport.opset_maps.from_onnx.values import Axes, Int, PadMode, Pads, Tensor, known


class Shapes(Elementwise):
    """Elements in another order or number, and what is computed along axes."""

    # -- shape ---------------------------------------------------------------------------------------------------------

    def reshape(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        return self.call(torch.reshape, x, tuple(shape))

    def permute_dims(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        if tuple(axes) == tuple(range(len(axes))):
            return x
        return self.call(torch.permute, x, tuple(axes))

    def expand_dims(self, x: Tensor, axis: Sequence[int]) -> Tensor:
        for item in sorted(axis):
            x = self.call(torch.unsqueeze, x, item)
        return x

    def squeeze(self, x: Tensor, axis: Sequence[int]) -> Tensor:
        if not axis:
            return x
        return self.call(torch.squeeze, x, axis[0] if len(axis) == 1 else tuple(axis))

    def concat(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        return xs[0] if len(xs) == 1 else self.call(torch.cat, list(xs), axis)

    def stack(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        return self.call(torch.stack, list(xs), axis)

    def broadcast_to(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        return self.call(torch.broadcast_to, x, tuple(shape))

    def expand(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        ours = self.shape(x)
        if len(shape) >= len(ours):
            aligned = (1,) * (len(shape) - len(ours)) + tuple(ours)
            if all(known(b) and (b != 1 or (known(a) and a == 1)) for a, b in zip(aligned, shape, strict=True)):
                return self.call(torch.broadcast_to, x, tuple(shape))
        return self.call(functions.expand, x, tuple(shape))

    def flip(self, x: Tensor, axis: Sequence[int]) -> Tensor:
        return self.call(torch.flip, x, tuple(axis))

    def tile(self, x: Tensor, repeats: Sequence[Int]) -> Tensor:
        return self.call(torch.tile, x, tuple(repeats))

    def split(self, x: Tensor, sizes: Sequence[Int], axis: int) -> list[Tensor]:
        return list(self.call(torch.split, x, list(sizes), axis))

    def slice(self, x: Tensor, axis: int, start: Int | None, stop: Int | None, step: int = 1) -> Tensor:
        if step < 0:
            return self.call(functions.reverse_slice, x, axis, start, stop, step)
        bounds = slice(start, stop, None if step == 1 else step)
        return self.call(operator.getitem, x, (slice(None),) * axis + (bounds,))

    def pad(self, x: Tensor, pads: Pads, mode: PadMode = "constant", value: Any = 0) -> Tensor:
        if mode != "constant":
            return self.call(functions.pad_by_index, x, [tuple(pair) for pair in pads], mode)
        if self.is_tensor(value):
            return self.call(functions.pad_with, x, [tuple(pair) for pair in pads], value)
        pairs = list(pads)
        while pairs and all(known(n) and n == 0 for n in pairs[0]):
            pairs.pop(0)
        flat = [n for pair in reversed(pairs) for n in pair]
        return self.call(F.pad, x, flat, "constant", value) if flat else x

    # -- reductions ----------------------------------------------------------------------------------------------------

    def _axes(self, x: Tensor, axis: Axes) -> tuple[int, ...]:
        return tuple(range(self.ndim(x))) if axis is None else tuple(axis)

    def _reduces_none(self, x: Tensor, axes: Sequence[int]) -> bool:
        shape = self.shape(x)
        return any(not known(shape[i]) or shape[i] == 0 for i in axes)

    def sum(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        axes = self._axes(x, axis)
        if not axes:
            return x
        if self.dtype(x).is_floating_point():
            return self.call(torch.sum, x, axes, keepdims)
        return self.call(torch.sum, x, axes, keepdims, dtype=TORCH[self.dtype(x)])

    def prod(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        axes = self._axes(x, axis)
        return self.call(functions.reduce_prod, x, axes, keepdims) if axes else x

    def mean(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        axes = self._axes(x, axis)
        if not axes:
            return x
        if self.dtype(x).is_floating_point():
            return self.call(torch.mean, x, axes, keepdims)
        return self.call(functions.reduce_mean, x, axes, keepdims)

    def max(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self._extreme(functions.reduce_max, torch.amax, x, axis, keepdims)

    def min(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self._extreme(functions.reduce_min, torch.amin, x, axis, keepdims)

    def _extreme(
        self, guarded: Callable[..., Any], native: Callable[..., Any], x: Tensor, axis: Axes, keepdims: bool
    ) -> Tensor:
        """torch's own function refuses an axis without elements, which `guarded` takes."""
        axes = self._axes(x, axis)
        if not axes:
            return x
        return self.call(guarded if self._reduces_none(x, axes) else native, x, axes, keepdims)

    def argmax(self, x: Tensor, axis: int, keepdims: bool = False) -> Tensor:
        return self.call(torch.argmax, x, axis, keepdims)

    def argmin(self, x: Tensor, axis: int, keepdims: bool = False) -> Tensor:
        return self.call(torch.argmin, x, axis, keepdims)

    def cumulative_sum(self, x: Tensor, axis: int) -> Tensor:
        return self.call(torch.cumsum, x, axis, dtype=TORCH[self.dtype(x)])

    def cumulative_prod(self, x: Tensor, axis: int) -> Tensor:
        return self.call(torch.cumprod, x, axis, dtype=TORCH[self.dtype(x)])

    def logsumexp(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self.call(torch.logsumexp, x, self._axes(x, axis), keepdims)

    def softmax(self, x: Tensor, axis: int) -> Tensor:
        return self.call(F.softmax, x, axis)

    def log_softmax(self, x: Tensor, axis: int) -> Tensor:
        return self.call(F.log_softmax, x, axis)
