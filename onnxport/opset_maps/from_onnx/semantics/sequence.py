"""Sequences, which are Python lists, and optional values, which are None where absent."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.axes import number, resolved, scalar, sizes
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Host, HostValue, InvalidOperand, Tensor, UnknownUntilRun, known
from onnxport.opset_maps.maps import onnx

# Each piece of a tensor is a value of the graph that is written.
_MOST_PIECES = 1 << 14


def _listed(sequence: object) -> list[Any]:
    if not isinstance(sequence, list):
        raise UnknownUntilRun("what a sequence holds is known only when the model runs")
    return sequence


def _index(position: Host | None, length: int, default: int) -> int:
    return default if position is None else resolved(number(scalar(position)), length)


@onnx.op("SequenceEmpty", versions=(11,))
def sequence_empty(xp: Namespace, *, dtype: int = 1) -> list[Any]:
    """A sequence of nothing."""
    return []


@onnx.op("SequenceConstruct", versions=(11,))
def sequence_construct(xp: Namespace, *items: Tensor) -> list[Any]:
    """A sequence of tensors."""
    return list(items)


@onnx.op("SequenceAt", versions=(11,))
def sequence_at(xp: Namespace, sequence: list[Any], position: Host) -> Tensor:
    """The tensor at a place."""
    items, place = _listed(sequence), number(scalar(position))
    if not -len(items) <= place < len(items):
        raise InvalidOperand(f"position {place} of a sequence of {len(items)}")
    return items[place]


@onnx.op("SequenceInsert", versions=(11,))
def sequence_insert(xp: Namespace, sequence: list[Any], item: Tensor, position: Host | None = None) -> list[Any]:
    """A sequence with a tensor put in before a place, by default at the end."""
    items = _listed(sequence)
    place = _index(position, len(items), len(items))
    return items[:place] + [item] + items[place:]


@onnx.op("SequenceErase", versions=(11,))
def sequence_erase(xp: Namespace, sequence: list[Any], position: Host | None = None) -> list[Any]:
    """A sequence without the tensor at a place, by default the last."""
    items = _listed(sequence)
    place = _index(position, len(items), len(items) - 1)
    return items[:place] + items[place + 1 :]


@onnx.op("SequenceLength", versions=(11,))
def sequence_length(xp: Namespace, sequence: list[Any]) -> HostValue:
    """How many tensors it holds."""
    return HostValue.of(len(_listed(sequence)))


@onnx.op("ConcatFromSequence", versions=(11,))
def concat_from_sequence(xp: Namespace, sequence: list[Any], *, axis: int, new_axis: int = 0) -> Tensor:
    """The tensors of a sequence joined along an axis, on request a new one."""
    items = _listed(sequence)
    rank = xp.ndim(items[0])
    return xp.stack(items, resolved(axis, rank + 1)) if new_axis else xp.concat(items, resolved(axis, rank))


@onnx.op("SplitToSequence", versions=(11, 24))
def split_to_sequence(
    xp: Namespace, x: Tensor, split: Host | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[Any]:
    """A sequence of the pieces of a tensor: of given sizes, of one size, or single slices."""
    ours = xp.shape(x)
    axis = resolved(axis, len(ours))
    total = ours[axis]
    if split is not None and split.ndim == 1:
        return xp.split(x, sizes(split), axis)
    if not known(total):
        raise UnknownUntilRun("how many pieces there are is known only when the model runs")
    size = 1 if split is None else number(scalar(split))
    if size < 1:
        raise InvalidOperand(f"pieces of size {size}")
    if total > size * _MOST_PIECES:
        raise UnsupportedOperator(
            f"{-(-total // size):,} pieces; at most {_MOST_PIECES:,} are made while a model is read"
        )
    pieces = xp.split(x, [min(size, total - start) for start in range(0, total, size)], axis)
    return pieces if split is not None or keepdims else [xp.squeeze(item, (axis,)) for item in pieces]


@onnx.op("Optional", versions=(15, 28))
def optional(xp: Namespace, item: object = None, *, type: object = None) -> Any:
    """The value, or nothing."""
    return item


@onnx.op("OptionalHasElement", versions=(15, 18, 28))
def optional_has_element(xp: Namespace, item: object = None) -> HostValue:
    """Whether there is a value."""
    if xp.is_tensor(item):
        xp.dtype(item)  # which the namespace refuses where it may be nothing
    return HostValue.of(item is not None, ir.DataType.BOOL)


@onnx.op("OptionalGetElement", versions=(15, 18, 28))
def optional_get_element(xp: Namespace, item: object) -> Any:
    """The value."""
    return item
