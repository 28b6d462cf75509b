"""Whole numbers that Python computes of values while torch.export traces: ``size - count`` of a tensor without a dimension.

Such a number is a tensor of the trace, of which each operator gives a new one, and each new one has a value of its own that
nothing is known of. As a sum of the sizes it comes from it is the number that it is: ``(size - count) + count`` is ``size``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils.weak import WeakIdKeyDictionary

Whole: TypeAlias = int | torch.SymInt


def _turned(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: compute(y, x)


_COMPUTED: dict[Any, Callable[[Any, Any], Any]] = {
    getattr(Tensor, name): compute
    for names, compute in (
        ("add __add__ __radd__", operator.add),
        ("sub __sub__", operator.sub),
        ("__rsub__", _turned(operator.sub)),
        ("mul __mul__ __rmul__", operator.mul),
        ("eq __eq__", operator.eq),
        ("ne __ne__", operator.ne),
        ("lt __lt__", operator.lt),
        ("le __le__", operator.le),
        ("gt __gt__", operator.gt),
        ("ge __ge__", operator.ge),
    )
    for name in names.split()
}


class WholeNumbers:
    """The whole numbers, and comparisons of two, that operators of a trace have given, by what they were computed of."""

    def __init__(self) -> None:
        self._from = WeakIdKeyDictionary()

    def note(self, function: Any, args: Any, result: object) -> None:
        """Notes what a call has given, if that is a whole number or a comparison of two."""
        compute = _COMPUTED.get(function)
        if compute is not None and len(args) == 2 and isinstance(result, FakeTensor) and all(map(_is_whole, args)):
            self._from[result] = (compute, *args)

    def number(self, value: Whole | Tensor) -> Any:
        """The number that a tensor without a dimension holds, as the trace knows it."""
        if not isinstance(value, Tensor):
            return value
        if value not in self._from:
            return value.item()
        compute, one, other = self._from[value]
        return compute(self.number(one), self.number(other))

    def truth(self, value: Tensor) -> bool | None:
        """Whether a comparison holds, whatever the values; None where that is not known."""
        if value.dtype is not torch.bool or value not in self._from:
            return None
        holds = self.number(value)
        if statically_known_true(holds):
            return True
        return False if statically_known_true(torch.sym_not(holds)) else None


def _is_whole(value: object) -> bool:
    if isinstance(value, Tensor):
        return isinstance(value, FakeTensor) and value.dim() == 0 and value.dtype is torch.int64
    return isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool)
