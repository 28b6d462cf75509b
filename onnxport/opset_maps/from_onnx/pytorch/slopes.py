"""Quantized numbers that can be trained: rounding has no gradient of its own, so that of what was rounded goes on.

Source: Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons" (2013), the straight-through estimator.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport.opset_maps.from_onnx.pytorch import functions
from onnxport.opset_maps.from_onnx.pytorch.tensors import TorchTensor, TorchTensorFamily
from onnxport.opset_maps.from_onnx.pytorch.traced import Traced

# Functions of torch that operators of their own call to pick elements.
_PICKS = frozenset((operator.getitem, torch.gather, torch.flip))
# What was rounded, what was added to it, and the limits: recorded in the graph only where a real number is computed of it.
_Origin = Callable[[], tuple[Any, Any, float, float]]


class TorchSlopeFamily(TorchTensorFamily):
    """A namespace that knows of rounded numbers what they were rounded from; it stands before the families it is mixed with."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._origins: dict[int, tuple[Any, _Origin]] = {}  # by id; the numbers are held so that it stays theirs

    def note_slope(
        self,
        whole: TorchTensor,
        smooth: TorchTensor,
        offset: TorchTensor | None = None,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> TorchTensor:
        return self._noted(whole, lambda: (smooth, offset, low, high))

    def with_slope(self, x: TorchTensor, of: TorchTensor) -> TorchTensor:
        origin = self._origin(of)
        return x if origin is None else self.call(functions.with_slope, x, *origin())

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = super().call(function, *args, **kwargs)
        origin = self._origin(args[0]) if function in _PICKS and args else None
        if origin is None or result is args[0]:
            return result

        def picked() -> tuple[Any, Any, float, float]:
            smooth, offset, low, high = origin()
            return self.call(function, self._sum(smooth, offset), *args[1:], **kwargs), None, low, high

        return self._noted(result, picked)

    def concat(self, xs: Sequence[TorchTensor], axis: int) -> TorchTensor:
        result = super().concat(xs, axis)
        origins = [self._origin(x) for x in xs]
        if any(origin is None for origin in origins) or any(result is x for x in xs):
            return result

        def joined() -> tuple[Any, Any, float, float]:
            parts = [origin() for origin in origins if origin is not None]
            sums = [self._sum(smooth, offset) for smooth, offset, *_ in parts]
            return super(TorchSlopeFamily, self).concat(sums, axis), None, parts[0][2], parts[0][3]

        return self._noted(result, joined)

    def _origin(self, x: TorchTensor) -> _Origin | None:
        noted = self._origins.get(id(x)) if self._origins else None
        return None if noted is None else noted[1]

    def _noted(self, whole: TorchTensor, origin: _Origin) -> TorchTensor:
        if isinstance(whole, Traced):
            self._origins[id(whole)] = (whole, origin)
        return whole

    def _sum(self, smooth: TorchTensor, offset: TorchTensor | None) -> TorchTensor:
        return smooth if offset is None else self.add(smooth, offset)


def _moving(name: str) -> Callable[..., TorchTensor]:
    """A primitive that puts elements in other places or picks among them: their slopes go with them."""

    def primitive(self: TorchSlopeFamily, x: TorchTensor, *args: Any, **how: Any) -> TorchTensor:
        function = getattr(super(TorchSlopeFamily, self), name)
        result = function(x, *args, **how)
        origin = self._origin(x)
        if origin is None or result is x:
            return result

        def moved() -> tuple[Any, Any, float, float]:
            smooth, offset, low, high = origin()
            return function(self._sum(smooth, offset), *args, **how), None, low, high

        return self._noted(result, moved)

    return primitive


for _name in "permute_dims reshape squeeze expand_dims slice take tile expand broadcast_to pad max_pool".split():
    setattr(TorchSlopeFamily, _name, _moving(_name))
