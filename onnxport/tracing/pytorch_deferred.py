"""Weights whose values are read only when they are written: tensors of the right shape and type that hold no memory.

Tracing looks at no weight's values. All tensors that one `Deferral` hands out lie in one block of zeros that nothing
writes to, as large as the largest of them, each at a place of its own, by which the weight that it stands for is known again.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor, from_torch_dtype

_STEP = 64  # bytes between the beginnings of two tensors


@dataclass(frozen=True)
class Weight:
    """A weight that is read when it is asked for."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    read: Callable[[], torch.Tensor]  # the whole of it, in `dtype`
    pieces: Callable[[], Iterator[torch.Tensor]]  # its elements in order, in `dtype`

    @property
    def nbytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * self.dtype.itemsize


class Deferral:
    """Tensors that stand for weights; they do for as long as this object lives."""

    def __init__(self, weights: Sequence[Weight]) -> None:
        self._weights = tuple(weights)
        size = max((item.nbytes for item in self._weights), default=0) + _STEP * (len(self._weights) + 1)
        self._memory = np.zeros(size, np.uint8)  # pages that nobody has written to take no memory
        self.tensors = tuple(self._tensor(i, item) for i, item in enumerate(self._weights))
        self._by_place = {item.data_ptr(): i for i, item in enumerate(self.tensors) if item.numel()}
        _living.add(self)

    def _tensor(self, index: int, weight: Weight) -> torch.Tensor:
        count = math.prod(weight.shape)
        if not count:
            return torch.empty(weight.shape, dtype=weight.dtype)
        flat = torch.frombuffer(self._memory, dtype=weight.dtype, count=count, offset=index * _STEP)
        return flat.reshape(weight.shape)

    def weight_at(self, place: int) -> Weight | None:
        """The weight whose tensor begins at an address."""
        index = self._by_place.get(place)
        return None if index is None else self._weights[index]


_living: weakref.WeakSet[Deferral] = weakref.WeakSet()


def weight_of(tensor: torch.Tensor) -> Weight | None:
    """The weight that a tensor stands for; None for any other tensor."""
    if not _living or tensor.device.type != "cpu" or tensor.layout != torch.strided or not tensor.numel():
        return None
    place = tensor.data_ptr()
    return next((weight for item in list(_living) if (weight := item.weight_at(place)) is not None), None)


class StreamedTensor(ir.LazyTensor):
    """A weight as an initializer: it is read when it is asked for, and written piece by piece."""

    __slots__ = ("_weight",)

    def __init__(self, weight: Weight, name: str) -> None:
        dtype, shape = from_torch_dtype(weight.dtype), ir.Shape(weight.shape)
        super().__init__(lambda: TorchTensor(weight.read(), name=name), dtype, shape, name=name)
        self._weight = weight

    def tofile(self, file: object) -> None:
        """Writes the weight's bytes; no more than a piece of it is in memory at once."""
        for piece in self._weight.pieces():
            file.write(piece.reshape(-1).view(torch.uint8).numpy().data)  # type: ignore[attr-defined]
