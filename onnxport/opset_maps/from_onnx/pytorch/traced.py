"""A value of the traced program: a torch.fx proxy that knows its element type, rank and, where they are fixed, sizes.

It does so by living in two worlds at once: each value is a meta tensor in both, computed by running the recorded
function there; the worlds differ in the example size of every dynamic dimension, so that a size that agrees in both
does not depend on one (`worlds.py`). Values of which nothing is known (results of operators that are put off until the
model runs) are in no world, and asking about them raises `UnknownUntilRun`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.fx.proxy import TracerBase

from onnxport.opset_maps.from_onnx.values import UnknownUntilRun

# What a value is in one world: a meta tensor, a Python number, a device, or a tuple or list of such.
World: TypeAlias = "torch.Tensor | torch.device | float | tuple[World, ...] | list[World]"
Worlds: TypeAlias = tuple[World, World]
TensorWorlds: TypeAlias = tuple[torch.Tensor, torch.Tensor]


def mark_tensor(placeholder: fx.Node) -> None:
    """Records that an input of the program is a tensor."""
    placeholder.meta["tensor"] = True


def is_tensor_input(node: fx.Node) -> bool:
    """Whether a node is an input that `mark_tensor` marked."""
    return bool(node.meta.get("tensor"))


class CallRecorder(TracerBase):
    """What a traced value asks of its recorder (`tracing.Recorder`).

    Attributes:
        ranks: ranks of the tensors that the recorded nodes give.
        shapes: shapes of these tensors in both worlds.
    """

    ranks: dict[fx.Node, int]
    shapes: dict[fx.Node, tuple[torch.Size, torch.Size]]

    def record(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Records a call and gives its result."""
        raise NotImplementedError  # `tracing.Recorder` has it: a value knows no more of its recorder than this class


def _recorded(function: Callable[..., Any], *, swapped: bool = False) -> Callable[..., Any]:
    """An operator of Python as a recorded call."""

    def method(self: Traced, *other: object) -> Any:
        return self.recorder.record(function, (*other, self) if swapped else (self, *other), {})

    return method


class Traced(fx.Proxy):
    """A value of the traced program.

    Attributes:
        worlds: what the value is in the two example worlds; None where nothing is known.
        opaque: it may be no numeric tensor at all (strings, a sequence), so that only a deferred operator may take it.
    """

    worlds: Worlds | None
    opaque: bool

    def __init__(self, node: fx.Node, recorder: CallRecorder, worlds: Worlds | None, opaque: bool = False) -> None:
        super().__init__(node, recorder)
        self.recorder = recorder
        self.worlds = worlds
        self.opaque = opaque
        if worlds is not None and isinstance(worlds[0], torch.Tensor):
            recorder.ranks[node] = worlds[0].dim()
            if isinstance(worlds[1], torch.Tensor):
                recorder.shapes[node] = worlds[0].shape, worlds[1].shape

    def world(self) -> World:
        """The first world's value.

        Raises:
            UnknownUntilRun: nothing is known of the value.
        """
        if self.worlds is None:
            raise UnknownUntilRun(f"the type of {self.node.name!r} is known only when the model runs")
        return self.worlds[0]

    def tensors(self) -> TensorWorlds:
        """The meta tensors of both worlds.

        Raises:
            UnknownUntilRun: nothing is known of the value, or it is a sequence.
        """
        self.world()
        assert self.worlds is not None
        small, large = self.worlds
        if not (isinstance(small, torch.Tensor) and isinstance(large, torch.Tensor)):
            raise UnknownUntilRun(f"{self.node.name!r} is a sequence, which has no type or rank")
        return small, large

    def _unknown(self, *_: object) -> Any:
        raise UnknownUntilRun(f"the value of {self.node.name!r} is known only when the model runs")

    __bool__ = __iter__ = __len__ = __int__ = __float__ = __index__ = __contains__ = _unknown
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown

    def __hash__(self) -> int:
        return id(self)

    __add__, __radd__ = _recorded(operator.add), _recorded(operator.add, swapped=True)
    __sub__, __rsub__ = _recorded(operator.sub), _recorded(operator.sub, swapped=True)
    __mul__, __rmul__ = _recorded(operator.mul), _recorded(operator.mul, swapped=True)
    __floordiv__, __neg__ = _recorded(operator.floordiv), _recorded(operator.neg)

    @property
    def is_tensor(self) -> bool:
        """Whether it is known to be a tensor."""
        return self.worlds is not None and isinstance(self.worlds[0], torch.Tensor)


def twins(tensor: torch.Tensor) -> TensorWorlds:
    """A tensor in both worlds: without content, the same."""
    twin = tensor.detach().to("meta")
    return twin, twin


def holds_traced(item: object) -> bool:
    """Whether a (nested) argument has a traced value in it."""
    return any(isinstance(part, Traced) for part in leaves(item))


_NESTING = (list, tuple, dict, slice)


def leaves(item: object) -> list[Any]:
    """The parts of a nested argument that are no lists, tuples, dicts or slices."""
    parts: list[Any] = []
    _gather((item,), parts)
    return parts


def mapped(item: object, change: Callable[[Any], Any]) -> Any:
    """A nested argument with each of its `leaves` changed."""
    if not isinstance(item, _NESTING):
        return change(item)
    if isinstance(item, dict):
        return {key: mapped(part, change) for key, part in item.items()}
    if isinstance(item, slice):
        return slice(*(mapped(part, change) for part in (item.start, item.stop, item.step)))
    return type(item)(mapped(part, change) for part in item)


def _gather(items: Iterable[Any], parts: list[Any]) -> None:
    for item in items:
        if not isinstance(item, _NESTING):
            parts.append(item)
        elif isinstance(item, dict):
            _gather(item.values(), parts)
        elif isinstance(item, slice):
            _gather((item.start, item.stop, item.step), parts)
        else:
            _gather(item, parts)


# What torch's namespace computes with: recorded while importing, real when executed.
TorchTensor: TypeAlias = Traced | torch.Tensor
