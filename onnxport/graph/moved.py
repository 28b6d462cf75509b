"""Weights in another order of axes or shape than the source's, moved while they are written; the file holds the way back.

>>> import numpy as np
>>> kernel = ir.Tensor(np.arange(6).reshape(1, 2, 3), name="kernel")
>>> moved = MovedTensor.of(kernel, [Move("Transpose", (2, 0, 1))])
>>> list(moved.shape), list(restored(moved)[0].shape)
([3, 1, 2], [1, 2, 3])
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any, BinaryIO

import numpy as np
import onnx_ir as ir

from onnxport.graph.provenance import PREFIX

MOVES = f"{PREFIX}moves"  # the metadata key of a tensor
_CHUNK_BYTES = 1 << 20
# What is copied at once of an array whose last axis becomes the first: few enough elements for a processor's near caches, and
# enough along that axis to read whole cache lines.
_FIRST, _OTHERS = 128, 512
_MOST = 64  # axes, and moves, that are read of a file's metadata


@dataclass(frozen=True)
class Move:
    """A step that moves elements and changes none: ``Transpose`` with a permutation, ``Reshape`` with a shape."""

    kind: str
    numbers: tuple[int, ...]

    def shape(self, before: Sequence[int]) -> tuple[int, ...] | None:
        """The shape after the step; None where the step does not fit the shape `before` it."""
        if self.kind == "Transpose":
            fits = sorted(self.numbers) == list(range(len(before)))
            return tuple(before[i] for i in self.numbers) if fits else None
        fits = self.kind == "Reshape" and min(self.numbers, default=0) >= 0 and prod(self.numbers) == prod(before)
        return self.numbers if fits else None

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """The array after the step: a view where NumPy has one."""
        return array.transpose(self.numbers) if self.kind == "Transpose" else array.reshape(self.numbers)

    def inverse(self, before: Sequence[int]) -> Move:
        """The step back to the shape `before`."""
        if self.kind == "Reshape":
            return Move("Reshape", tuple(before))
        return Move("Transpose", tuple(sorted(range(len(self.numbers)), key=self.numbers.__getitem__)))


class MovedTensor(ir.LazyTensor):
    """The elements of another tensor, moved when they are asked for; nothing is held but the other tensor."""

    @classmethod
    def of(cls, tensor: ir.TensorProtocol, moves: Sequence[Move]) -> MovedTensor:
        """`tensor` moved; its metadata holds this move behind the earlier ones.

        Raises:
            ValueError: the moves do not fit the tensor's shape.
        """
        original, earlier = _moves(tensor)
        shape = _shapes(tensor.shape.numpy(), moves)[-1]
        props = {**tensor.metadata_props, MOVES: _text(original, [*earlier, *moves])}
        return cls._lazy(tensor, moves, shape, props)

    @classmethod
    def _lazy(
        cls, tensor: ir.TensorProtocol, moves: Sequence[Move], shape: Sequence[int], props: dict[str, str]
    ) -> MovedTensor:
        def moved() -> ir.TensorProtocol:
            array = tensor.numpy()
            for move in moves:
                array = move(array)
            return ir.Tensor(array, dtype=tensor.dtype, name=tensor.name)

        return cls(moved, tensor.dtype, ir.Shape(shape), name=tensor.name, metadata_props=props)

    def tofile(self, file: BinaryIO) -> None:
        """Writes the elements part by part, so that no whole copy of them stands in memory."""
        array = self.numpy()
        rows = max(1, _CHUNK_BYTES * len(array) // max(1, int(self.nbytes))) if array.ndim else 0
        if not rows or self.dtype.bitwidth < 8:
            file.write(self.tobytes())
            return
        whole, small = (np.empty((rows, *array.shape[1:]), array.dtype) for _ in range(2))
        for start in range(0, len(array), rows):
            part = array[start : start + rows]
            if not part.flags.c_contiguous:
                _copy(part, whole[: len(part)], small.reshape(-1))
                part = whole[: len(part)]
            ir.Tensor(part, dtype=self.dtype).tofile(file)


def _copy(source: np.ndarray, target: np.ndarray, small: np.ndarray) -> None:
    """Copies; where elements beside each other lie along the first axis, by way of `small`, block by block as they lie."""
    order = sorted(range(source.ndim), key=lambda axis: source.strides[axis] * (source.shape[axis] > 1) or inf)[::-1]
    if source.ndim < 2 or order[-1]:
        np.copyto(target, source)
        return
    back = sorted(range(source.ndim), key=order.__getitem__)
    others = max(1, _OTHERS // prod(source.shape[2:]))
    for top in range(0, source.shape[0], _FIRST):
        for left in range(0, source.shape[1], others):
            block = slice(top, top + _FIRST), slice(left, left + others)
            lying = source[block].transpose(order)
            near = small[: lying.size].reshape(lying.shape)
            np.copyto(near, lying)
            np.copyto(target[block], near.transpose(back))


def restored(tensor: ir.TensorProtocol) -> tuple[ir.TensorProtocol, list[Move]]:
    """The tensor as it stood in the source, and the moves that lead from there to `tensor`; none where its metadata has none."""
    original, moves = _moves(tensor)
    if not moves:
        return tensor, []
    shapes = _shapes(original, moves)
    back = [move.inverse(before) for move, before in zip(moves, shapes, strict=False)][::-1]
    props = {key: item for key, item in tensor.metadata_props.items() if key != MOVES}
    return MovedTensor._lazy(tensor, back, original, props), moves


def _shapes(original: Sequence[int], moves: Sequence[Move]) -> list[Sequence[int]]:
    """The shapes before, between and after the moves.

    Raises:
        ValueError: a move does not fit.
    """
    shapes = [original]
    for move in moves:
        after = move.shape(shapes[-1])
        if after is None:
            raise ValueError(f"{move} of a tensor of shape {list(shapes[-1])}")
        shapes.append(after)
    return shapes


def _text(original: Sequence[int], moves: Sequence[Move]) -> str:
    return json.dumps({"shape": list(original), "moves": [[move.kind, *move.numbers] for move in moves]})


def _moves(tensor: ir.TensorProtocol) -> tuple[Sequence[int], list[Move]]:
    """The original shape and the moves that a tensor's metadata holds; what does not fit the tensor is someone else's."""
    shape = tuple(int(size) for size in tensor.shape.numpy())
    text = tensor.metadata_props.get(MOVES)
    if text is None:
        return shape, []
    try:
        parsed: Any = json.loads(text)
        original = _whole_numbers(parsed["shape"])
        moves = [Move(str(kind), _whole_numbers(numbers)) for kind, *numbers in parsed["moves"]]
        fits = tuple(_shapes(original, moves)[-1]) == shape
    except (TypeError, ValueError, KeyError, RecursionError):
        return shape, []
    return (original, moves) if fits and len(moves) <= _MOST else (shape, [])


def _whole_numbers(items: Any) -> tuple[int, ...]:
    if len(items) > _MOST or not all(type(item) is int and item >= 0 for item in items):
        raise ValueError(f"{len(items)} numbers are no sizes or axes")
    return tuple(items)
