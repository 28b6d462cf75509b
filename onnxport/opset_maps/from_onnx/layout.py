"""Channels-last inside, channels-first outside: images without a transpose around every convolution.

ONNX is channels-first; TensorFlow and Keras compute convolutions channels-last. A namespace with `ChannelsLast` remembers for
each tensor that came out of such a computation the tensor before its transposition, its twin. The next operator that can work
on the twin does so and hands on a twin of its own; the transpositions in between have no user and vanish when the graph is
pruned. Two transpositions thus stand where an image enters and where it leaves the channels-first world, not around each layer,
and a model that was channels-last before its export gets its own graph back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Tensor = Any


def to_last(rank: int) -> tuple[int, ...]:
    """The permutation from channels-first to channels-last.

    >>> to_last(4)
    (0, 2, 3, 1)
    """
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    """The permutation from channels-last to channels-first.

    >>> to_first(4)
    (0, 3, 1, 2)
    """
    return (0, rank - 1, *range(1, rank - 1))


def last_axis(axis: int, rank: int) -> int:
    """Where an axis of a channels-first tensor stands in its twin.

    >>> [last_axis(axis, 4) for axis in range(4)]
    [0, 3, 1, 2]
    """
    return to_first(rank)[axis]


class ChannelsLast:
    """Twins: a mixin for namespaces, which give it `rank_of`, `static_shape`, `transposed` and `padded_rank`."""

    def __init__(self) -> None:
        super().__init__()
        # The tensor itself is held so that its id stays its own.
        self._twins: dict[int, tuple[Tensor, Tensor]] = {}

    # -- what a framework says -----------------------------------------------------------------------------------------

    def is_array(self, x: Any) -> bool:
        """Whether `x` is a tensor, not a Python number."""
        raise NotImplementedError

    def static_shape(self, x: Tensor) -> tuple[int | None, ...] | None:
        """Sizes as far as they are known, None for a tensor of unknown rank."""
        raise NotImplementedError

    def transposed(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Axes reordered, twins or not."""
        raise NotImplementedError

    def padded_rank(self, x: Tensor, rank: int) -> Tensor:
        """Axes of size 1 put in front up to `rank`."""
        raise NotImplementedError

    # -- twins ---------------------------------------------------------------------------------------------------------

    def twin(self, x: Tensor) -> Tensor | None:
        """The channels-last tensor that `x` was transposed from, if it was."""
        found = self._twins.get(id(x))
        return found[1] if found is not None else None

    def remember(self, x: Tensor, twin: Tensor) -> Tensor:
        """`x`, from now on known as the channels-first form of `twin`."""
        self._twins[id(x)] = (x, twin)
        return x

    def as_last(self, x: Tensor) -> Tensor:
        """`x` channels-last."""
        found = self.twin(x)
        if found is not None:
            return found
        shape = self.static_shape(x)
        assert shape is not None
        last = self.transposed(x, to_last(len(shape)))
        self.remember(x, last)
        return last

    def as_first(self, last: Tensor) -> Tensor:
        """A channels-last tensor channels-first, its twin remembered."""
        shape = self.static_shape(last)
        assert shape is not None
        return self.remember(self.transposed(last, to_first(len(shape))), last)

    def permuted(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """`transposed`, through the twin where that undoes it, and remembered where it makes channels-first."""
        rank = len(axes)
        if rank < 3:
            return self.transposed(x, axes)
        found = self.twin(x)
        if found is not None:
            through = tuple(last_axis(axis, rank) for axis in axes)
            return found if through == tuple(range(rank)) else self.transposed(found, through)
        result = self.transposed(x, axes)
        return self.remember(result, x) if tuple(axes) == to_first(rank) else result

    def lasts(self, xs: Sequence[Any]) -> list[Any] | None:
        """The operands of an elementwise primitive channels-last, where one has a twin and the others follow cheaply."""
        ranks = {len(self.static_shape(x) or ()) for x in xs if self.is_array(x) and self.twin(x) is not None}
        if len(ranks) != 1:
            return None
        rank = ranks.pop()
        found = []
        for x in xs:
            last = x if not self.is_array(x) else self._last_like(x, rank)
            if last is None:
                return None
            found.append(last)
        return found

    def _last_like(self, x: Tensor, rank: int) -> Tensor | None:
        """`x`, to be broadcast against channels-last tensors of `rank`: only where it varies along batch and channels."""
        twin = self.twin(x)
        if twin is not None:
            return twin
        shape = self.static_shape(x)
        if shape is None or len(shape) > rank:
            return None
        full = (1,) * (rank - len(shape)) + shape
        if any(size != 1 for size in full[2:]):
            return None
        return x if not shape else self.transposed(self.padded_rank(x, rank), to_last(rank))

    def elementwise_last(self, function: Callable[..., Tensor], *xs: Any) -> Tensor:
        """``function(*xs)``, computed channels-last where the operands come from there."""
        lasts = self.lasts(xs) if self._twins else None
        return function(*xs) if lasts is None else self.as_first(function(*lasts))
