"""Packed sequences while tracing: padded tensors and lengths, which ONNX's recurrent operators take.

Packing and padding are written with torch's own operators and give what torch gives, so that a model may compute with the packed
data. A recurrent layer called with a packed sequence runs on the padded tensor and the lengths. Where the model only packs, runs
layers and pads, nothing of the packed form is left in the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from onnxport.errors import UnsupportedOperator

_FOREIGN = "a packed sequence that torch.nn.utils.rnn.pack_padded_sequence did not give; pass the padded tensor and its lengths"


@dataclass(frozen=True)
class _Padded:
    """A sequence in both forms; keeps `data` alive, by whose identity it is known."""

    data: Tensor  # packed, [tokens, ...]
    steps: Tensor  # padded, [time, batch, ...]


@dataclass(frozen=True)
class _Batch:
    """What belongs to a `batch_sizes`, which it keeps alive."""

    sizes: Tensor  # [longest]
    lengths: Tensor  # [batch], int64, falling
    count: int  # of the sequences; a torch.SymInt where it is dynamic


class Packing:
    """The packed sequences of one trace, and the recurrent layers that are called with them.

    Attributes:
        lengths: of the padded sequences that the running layer computes with; None where all are whole.
    """

    def __init__(self) -> None:
        self.lengths: Tensor | None = None
        self._padded: dict[int, _Padded] = {}
        self._batches: dict[int, _Batch] = {}

    def pack(self, x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
        """torch._pack_padded_sequence: the tokens that are no padding, and how many sequences each step has."""
        steps = x.transpose(0, 1) if batch_first else x
        inside = torch.arange(steps.shape[0])[:, None] < lengths
        counts = inside.sum(1)
        sizes = counts[counts > 0]
        torch._check(sizes.shape[0] <= steps.shape[0])
        self._batches[id(sizes)] = _Batch(sizes, lengths, steps.shape[1])
        return self._packed(steps, inside), sizes

    def pad(self, data: Tensor, sizes: Tensor, batch_first: bool, padding: float, total: int) -> tuple[Tensor, Tensor]:
        """torch._pad_packed_sequence: padded up to `total` steps, and the lengths."""
        batch = self._batch(sizes)
        known = self._padded.get(id(data))
        if known is None:
            steps, inside = _spread(data, batch), _inside(batch, batch.sizes.shape[0])
        else:
            steps, inside = known.steps[: sizes.shape[0]], _inside(batch, sizes.shape[0])
        steps = steps.masked_fill(inside.reshape(*inside.shape, *[1] * (steps.dim() - 2)).logical_not(), padding)
        if total is not sizes.shape[0]:
            rest = steps.new_full((total - sizes.shape[0], *steps.shape[1:]), padding)
            steps = torch.cat([steps, rest])
        return steps.transpose(0, 1) if batch_first else steps, batch.lengths

    @contextmanager
    def around(self, root: nn.Module) -> Iterator[None]:
        """While it is active, the recurrent layers within `root` take packed sequences."""
        with ExitStack() as stack:
            for layer in root.modules():
                if isinstance(layer, nn.RNNBase):
                    for handle in _Layer(self, layer).hooks():
                        stack.callback(handle.remove)
            yield

    def padded(self, sequence: PackedSequence) -> tuple[Tensor, Tensor]:
        """A sequence's steps [time, batch, features] and lengths."""
        batch = self._batch(sequence.batch_sizes)
        known = self._padded.get(id(sequence.data))
        return _spread(sequence.data, batch) if known is None else known.steps, batch.lengths

    def repacked(self, steps: Tensor, like: PackedSequence) -> PackedSequence:
        """Other steps packed as `like` is."""
        inside = _inside(self._batch(like.batch_sizes), steps.shape[0])
        data = self._packed(steps, inside)
        return PackedSequence(data, like.batch_sizes, like.sorted_indices, like.unsorted_indices)

    def _packed(self, steps: Tensor, inside: Tensor) -> Tensor:
        data = steps[inside]
        self._padded[id(data)] = _Padded(data, steps)
        return data

    def _batch(self, sizes: Tensor) -> _Batch:
        if id(sizes) not in self._batches:
            raise UnsupportedOperator(_FOREIGN)
        return self._batches[id(sizes)]


class _Layer:
    """The hooks of one recurrent layer, and the call of it that is under way."""

    def __init__(self, packing: Packing, layer: nn.RNNBase) -> None:
        self._packing = packing
        self._layer = layer
        self._given: PackedSequence | None = None

    def hooks(self) -> list[Any]:
        """The handles of the hooks that it sets."""
        return [
            self._layer.register_forward_pre_hook(self._enter),
            self._layer.register_forward_hook(self._leave),
        ]

    def _enter(self, layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        self._given = args[0] if args and isinstance(args[0], PackedSequence) else None
        if self._given is None:
            return None
        steps, self._packing.lengths = self._packing.padded(self._given)
        steps = steps.transpose(0, 1) if self._layer.batch_first else steps
        return steps, *(_ordered(item, self._given.sorted_indices) for item in args[1:])

    def _leave(self, layer: nn.Module, args: object, output: tuple[Tensor, Any]) -> Any:
        given, self._given, self._packing.lengths = self._given, None, None
        if given is None:
            return output
        steps = output[0].transpose(0, 1) if self._layer.batch_first else output[0]
        return self._packing.repacked(steps, given), _ordered(output[1], given.unsorted_indices)


def _ordered(states: Any, order: Tensor | None) -> Any:
    """A layer's state, or states, with the sequences in another order."""
    if order is None or states is None:
        return states
    if isinstance(states, tuple):
        return tuple(item.index_select(1, order) for item in states)
    return states.index_select(1, order)


def _inside(batch: _Batch, steps: int) -> Tensor:
    """Whether a place [steps, batch] is no padding."""
    return torch.arange(steps)[:, None] < batch.lengths


def _spread(data: Tensor, batch: _Batch) -> Tensor:
    """Packed tokens as padded steps [longest, batch, ...]; what stands in the padding has no meaning."""
    column = torch.arange(batch.count)
    starts = batch.sizes.cumsum(0) - batch.sizes
    return data[torch.where(column < batch.sizes[:, None], starts[:, None] + column, 0)]
