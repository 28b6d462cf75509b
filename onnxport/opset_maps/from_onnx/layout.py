"""Channels-last inside, channels-first outside: images without a transpose around every convolution.

ONNX is channels-first; TensorFlow and Keras compute convolutions channels-last. A namespace with `ChannelsLast` remembers for
each tensor that came out of such a computation the tensor before its transposition, its twin. The next operator that can work
on the twin does so and hands on a twin of its own; the transpositions in between have no user and vanish when the graph is
pruned. Two transpositions thus stand where an image enters and where it leaves the channels-first world, not around each layer,
and a model that was channels-last before its export gets its own graph back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Axes, Int, Ints, PadMode, Pads, Tensor


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


# Primitives from channels-last tensors to channels-last tensors, their weights as ONNX has them: a framework that computes so has
# them beside the others.
LAST = frozenset(("conv_last", "conv_transpose_last", "max_pool_last", "sum_pool_last"))


def _elementwise(name: str) -> Callable[..., Any]:
    """An elementwise primitive, channels-last where its operands come from there; what is no tensor among them stays."""

    def primitive(self: ChannelsLast, *xs: object) -> Tensor:
        function = getattr(super(ChannelsLast, self), name)
        lasts = self._lasts(xs) if self._twins else None
        return function(*xs) if lasts is None else self.as_first(function(*lasts))

    return primitive


def _reduction(name: str) -> Callable[..., Any]:
    """A reduction, channels-last where the result's layout does not matter or its axes stay."""

    def primitive(self: ChannelsLast, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        function, twin = getattr(super(ChannelsLast, self), name), self.twin(x)
        rank = self.ndim(x) if twin is not None else 0
        if twin is None or not (keepdims or (axis is not None and set(axis) >= set(range(2, rank)))):
            return function(x, axis, keepdims)
        result = function(twin, None if axis is None else tuple(sorted(last_axis(i, rank) for i in axis)), keepdims)
        return self.as_first(result) if keepdims else result

    return primitive


def _along(name: str) -> Callable[..., Any]:
    """A primitive along one axis."""

    def primitive(self: ChannelsLast, x: Tensor, axis: int) -> Tensor:
        function, twin = getattr(super(ChannelsLast, self), name), self.twin(x)
        return function(x, axis) if twin is None else self.as_first(function(twin, last_axis(axis, self.ndim(x))))

    return primitive


def _of_image(name: str) -> Callable[..., Any]:
    """A primitive of windows over an image, which the framework computes channels-last."""

    def primitive(self: ChannelsLast, x: Tensor, *args: Any, **how: Any) -> Tensor:
        return self.as_first(getattr(self, f"{name}_last")(self.as_last(x), *args, **how))

    return primitive


class ChannelsLast(Namespace):
    """A namespace in which twins stand before the primitives of the class it is mixed into.

    Attributes:
        static_shape: sizes of a tensor as far as they are known, None for one of unknown rank.
    """

    static_shape: Callable[[Tensor], tuple[int | None, ...] | None]

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        # The tensor itself is held so that its id stays its own.
        self._twins: dict[int, tuple[Tensor, Tensor]] = {}

    def twin(self, x: Tensor) -> Tensor | None:
        """The channels-last tensor that `x` was transposed from, if it was."""
        result = self._twins.get(id(x))
        return result[1] if result is not None else None

    def remember(self, x: Tensor, twin: Tensor) -> Tensor:
        """`x`, from now on known as the channels-first form of `twin`."""
        self._twins[id(x)] = (x, twin)
        return x

    @contextmanager
    def inner_graph(self) -> Iterator[None]:
        """What a body computes is forgotten at its end: the graph around it can't see it."""
        twins = dict(self._twins)
        try:
            yield
        finally:
            self._twins = twins

    def as_last(self, x: Tensor) -> Tensor:
        """`x` channels-last."""
        result = self.twin(x)
        if result is None:
            result = super().permute_dims(x, to_last(self.ndim(x)))
            self.remember(x, result)
        return result

    def as_first(self, last: Tensor) -> Tensor:
        """A channels-last tensor channels-first, its twin remembered."""
        return self.remember(super().permute_dims(last, to_first(self.ndim(last))), last)

    def _lasts(self, xs: Sequence[Any]) -> list[Any] | None:
        """The operands of an elementwise primitive channels-last, where one has a twin and the others follow cheaply."""
        ranks = {self.ndim(x) for x in xs if self.is_tensor(x) and self.twin(x) is not None}
        if len(ranks) != 1:
            return None
        rank = ranks.pop()
        results = []
        for x in xs:
            last = x if not self.is_tensor(x) else self._last_like(x, rank)
            if last is None:
                return None
            results.append(last)
        return results

    def _last_like(self, x: Tensor, rank: int) -> Tensor | None:
        """`x`, to be broadcast against channels-last tensors of `rank`: only where it varies along batch and channels."""
        twin = self.twin(x)
        if twin is not None:
            return twin if self.ndim(x) == rank else None
        shape = self.static_shape(x)
        if shape is None or len(shape) > rank:
            return None
        full = (1,) * (rank - len(shape)) + shape
        if any(size != 1 for size in full[2:]):
            return None
        if not shape:
            return x
        wide = x if len(shape) == rank else super().expand_dims(x, range(rank - len(shape)))
        return super().permute_dims(wide, to_last(rank))

    def permute_dims(self, x: Tensor, axes: Ints) -> Tensor:
        rank = len(axes)
        if rank < 3:
            return super().permute_dims(x, axes)
        output = self.twin(x)
        if output is not None:
            through = tuple(last_axis(axis, rank) for axis in axes)
            return output if through == tuple(range(rank)) else super().permute_dims(output, through)
        result = super().permute_dims(x, axes)
        return self.remember(result, x) if tuple(axes) == to_first(rank) else result

    def reshape(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        return super().reshape(self._without_extent(x), shape)

    def _without_extent(self, x: Tensor) -> Tensor:
        """The twin where there is no spatial extent, so that both layouts hold the same sequence of elements."""
        twin = self.twin(x)
        sizes = self.static_shape(x) if twin is not None else None
        return twin if twin is not None and sizes is not None and all(size == 1 for size in sizes[2:]) else x

    def squeeze(self, x: Tensor, axis: Ints) -> Tensor:
        twin = self.twin(x)
        if twin is None or not set(axis) >= set(range(2, self.ndim(x))):
            return super().squeeze(x, axis)
        return super().squeeze(twin, sorted(last_axis(place, self.ndim(x)) for place in axis))

    def concat(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        twins = [twin for twin in map(self.twin, xs) if twin is not None]
        if not twins or len(twins) < len(xs):
            return super().concat(xs, axis)
        return self.as_first(super().concat(twins, last_axis(axis, self.ndim(xs[0]))))

    def split(self, x: Tensor, sizes: Sequence[Int], axis: int) -> list[Tensor]:
        twin = self.twin(x)
        if twin is None:
            return super().split(x, sizes, axis)
        return [self.as_first(part) for part in super().split(twin, sizes, last_axis(axis, self.ndim(x)))]

    def slice(self, x: Tensor, axis: int, start: Int | None, stop: Int | None, step: int = 1) -> Tensor:
        twin = self.twin(x)
        if twin is None:
            return super().slice(x, axis, start, stop, step)
        return self.as_first(super().slice(twin, last_axis(axis, self.ndim(x)), start, stop, step))

    def pad(self, x: Tensor, pads: Pads, mode: PadMode = "constant", value: object = 0) -> Tensor:
        twin = self.twin(x)
        if twin is None:
            return super().pad(x, pads, mode, value)
        return self.as_first(super().pad(twin, [pads[0], *pads[2:], pads[1]], mode, value))

    def take(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        twin = self.twin(x)
        if twin is None or self.ndim(indices) != 1:
            return super().take(x, indices, axis)
        return self.as_first(super().take(twin, indices, last_axis(axis, self.ndim(x))))


_OF_KIND = {
    _elementwise: "elementwise divide floor_mod trunc_mod pow where logical_not isnan isinf equal astype clip",
    _reduction: "sum mean max min",
    _along: "softmax log_softmax",
    _of_image: "conv conv_transpose max_pool sum_pool",
}
for _kind, _names in _OF_KIND.items():
    for _name in _names.split():
        setattr(ChannelsLast, _name, _kind(_name))
