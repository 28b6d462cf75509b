"""Shapes and reductions in torch."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from onnxport.opset_maps.from_onnx.pytorch import functions
from onnxport.opset_maps.from_onnx.pytorch.dtypes import TORCH
from onnxport.opset_maps.from_onnx.pytorch.tensors import TorchTensorFamily, calling
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor
from onnxport.opset_maps.from_onnx.values import Axes, Int, Ints, PadMode, Pads, known


class TorchShapeFamily(TorchTensorFamily):
    """Elements in another order or number, and what is computed along axes."""

    reshape = calling(torch.reshape)
    stack = calling(torch.stack)
    broadcast_to = calling(torch.broadcast_to)
    flip = calling(torch.flip)
    tile = calling(torch.tile)

    def permute_dims(self, x: TorchTensor, axes: Ints) -> TorchTensor:
        if tuple(axes) == tuple(range(len(axes))):
            return x
        return self.call(torch.permute, x, tuple(axes))

    def expand_dims(self, x: TorchTensor, axis: Ints) -> TorchTensor:
        for item in sorted(axis):
            x = self.call(torch.unsqueeze, x, item)
        return x

    def squeeze(self, x: TorchTensor, axis: Ints) -> TorchTensor:
        if not axis:
            return x
        return self.call(torch.squeeze, x, axis[0] if len(axis) == 1 else tuple(axis))

    def concat(self, xs: Sequence[TorchTensor], axis: int) -> TorchTensor:
        return xs[0] if len(xs) == 1 else self.call(torch.cat, list(xs), axis)

    def expand(self, x: TorchTensor, shape: Sequence[Int]) -> TorchTensor:
        ours = self.shape(x)
        if len(shape) >= len(ours):
            aligned = (1,) * (len(shape) - len(ours)) + tuple(ours)
            if all(known(b) and (b != 1 or (known(a) and a == 1)) for a, b in zip(aligned, shape, strict=True)):
                return self.call(torch.broadcast_to, x, tuple(shape))
        return self.call(functions.expand, x, tuple(shape))

    def split(self, x: TorchTensor, sizes: Sequence[Int], axis: int) -> list[TorchTensor]:
        return list(self.call(torch.split, x, list(sizes), axis))

    def slice(self, x: TorchTensor, axis: int, start: Int | None, stop: Int | None, step: int = 1) -> TorchTensor:
        if step < 0:
            return self.call(functions.reverse_slice, x, axis, start, stop, step)
        bounds = slice(start, stop, None if step == 1 else step)
        return self.call(operator.getitem, x, (slice(None),) * axis + (bounds,))

    def pad(self, x: TorchTensor, pads: Pads, mode: PadMode = "constant", value: object = 0) -> TorchTensor:
        if mode != "constant":
            return self.call(functions.pad_by_index, x, [tuple(pair) for pair in pads], mode)
        if self.is_tensor(value):
            return self.call(functions.pad_with, x, [tuple(pair) for pair in pads], value)
        pairs = list(pads)
        while pairs and all(known(n) and n == 0 for n in pairs[0]):
            pairs.pop(0)
        flat = [n for pair in reversed(pairs) for n in pair]
        return self.call(F.pad, x, flat, "constant", value) if flat else x

    def _axes(self, x: TorchTensor, axis: Axes) -> tuple[int, ...]:
        return tuple(range(self.ndim(x))) if axis is None else tuple(axis)

    def sum(self, x: TorchTensor, axis: Axes = None, keepdims: bool = False) -> TorchTensor:
        axes = self._axes(x, axis)
        if not axes:
            return x
        if self.dtype(x).is_floating_point():
            return self.call(torch.sum, x, axes, keepdims)
        return self.call(torch.sum, x, axes, keepdims, dtype=TORCH[self.dtype(x)])

    def prod(self, x: TorchTensor, axis: Axes = None, keepdims: bool = False) -> TorchTensor:
        axes = self._axes(x, axis)
        return self.call(functions.reduce_prod, x, axes, keepdims) if axes else x

    def mean(self, x: TorchTensor, axis: Axes = None, keepdims: bool = False) -> TorchTensor:
        axes = self._axes(x, axis)
        own = torch.mean if self.dtype(x).is_floating_point() else functions.reduce_mean
        return self.call(own, x, axes, keepdims) if axes else x

    def max(self, x: TorchTensor, axis: Axes = None, keepdims: bool = False) -> TorchTensor:
        return self._extreme(functions.reduce_max, torch.amax, x, axis, keepdims)

    def min(self, x: TorchTensor, axis: Axes = None, keepdims: bool = False) -> TorchTensor:
        return self._extreme(functions.reduce_min, torch.amin, x, axis, keepdims)

    def _extreme(
        self, guarded: Callable[..., Any], native: Callable[..., Any], x: TorchTensor, axis: Axes, keepdims: bool
    ) -> TorchTensor:
        """torch's own function refuses an axis without elements, which `guarded` takes."""
        axes = self._axes(x, axis)
        if not axes:
            return x
        shape = self.shape(x)
        full = all(known(shape[i]) and shape[i] != 0 for i in axes)
        return self.call(native if full else guarded, x, axes, keepdims)

    argmax = calling(torch.argmax)
    argmin = calling(torch.argmin)

    def cumulative_sum(self, x: TorchTensor, axis: int) -> TorchTensor:
        return self.call(torch.cumsum, x, axis, dtype=TORCH[self.dtype(x)])

    def cumulative_prod(self, x: TorchTensor, axis: int) -> TorchTensor:
        return self.call(torch.cumprod, x, axis, dtype=TORCH[self.dtype(x)])

    def logsumexp(self, x: TorchTensor, axis: Axes = None, keepdims: bool = False) -> TorchTensor:
        return self.call(torch.logsumexp, x, self._axes(x, axis), keepdims)

    softmax = calling(F.softmax)
    log_softmax = calling(F.log_softmax)
