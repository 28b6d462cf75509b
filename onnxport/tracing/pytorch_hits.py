"""Loops over the indices that ``nonzero`` gives, while torch.export traces: ``for expert in hit.nonzero(): ...``.

How often such a loop runs depends on values. Here it runs for every index: the turn of one that is not among them selects nothing
and adds nothing. Whether that is so is tried first: with each turn taken once more, on nothing, the model gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

from onnxport.tracing.pytorch_inputs import Call

_INDICES = 1 << 10  # of a vector whose loop is written out


class hits_of_all(TorchFunctionMode):
    """While it is active, a loop over the rows of ``vector.nonzero()`` runs for every index of the vector."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes = WeakIdKeyDictionary()
        self._within = 0
        self.loops = 0  # how many there were

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Passes every call on, but for the iteration over such rows."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "unbind" and len(args) + len(kwargs) <= 2 and (args[1:] or (kwargs.get("dim", 0),)) == (0,):
            size = self._sizes.get(args[0])
            if size is not None:
                return self._turns(args[0], size)
        if self._within and name == "__format__":  # an index as a part of a name: f"expert_{index[0]}"
            return format(args[0].item(), *args[1:])
        try:
            result = func(*args, **kwargs)
        except IndexError:
            # A mask may have a place more than there are experts, for what reaches none: no run takes that turn.
            if not self._within or name not in ("select", "__getitem__"):
                raise
            result = args[0].select(args[1] if name == "select" else 0, 0)
        if name == "nonzero" and isinstance(result, Tensor) and args[0].dim() == 1:
            size = args[0].shape[0]
            if isinstance(size, int) and 0 < size <= _INDICES:
                self._sizes[result] = size
        if self._within and (name == "nonzero" or (name == "where" and len(args) + len(kwargs) == 1)):
            return self._selected(result)
        return result

    def _turns(self, rows: Tensor, size: int) -> Iterator[Tensor]:
        self.loops += 1
        self._within += 1
        try:
            for index in range(size):
                yield torch.tensor([index])
        finally:
            self._within -= 1

    def _selected(self, result: Any) -> Any:
        """The places that a turn selects: the trace takes them for some, since a branch for none of them only saves time."""
        for item in pytree.tree_leaves(result)[:1]:
            if isinstance(item.shape[0], torch.SymInt):
                torch._check(item.shape[0] != 0)
        return result


class _repeated(hits_of_all):
    """In eager: every turn as it is, then once more on nothing."""

    def _turns(self, rows: Tensor, size: int) -> Iterator[Tensor]:
        yield from (rows[place] for place in range(rows.shape[0]))
        self._within += 1
        try:
            yield from (torch.tensor([index]) for index in range(size))
        finally:
            self._within -= 1

    def _selected(self, result: Any) -> Any:
        return pytree.tree_map(lambda item: item[:0], result)


class TurnsMatter(Exception):
    """A loop's turn that selects nothing changes the model's numbers."""


def check_idle(hits: hits_of_all, call: Call) -> None:
    """Refuses the loops that were written out where a turn more for every index, on nothing, changes the numbers.

    Raises:
        TurnsMatter: it does.
    """
    if not hits.loops:
        return
    given = (call.args, call.kwargs)

    def leaves() -> list[Tensor]:
        args, kwargs = pytree.tree_map(lambda item: item.clone() if isinstance(item, Tensor) else item, given)
        return [item for item in pytree.tree_leaves(call.module(*args, **kwargs)) if isinstance(item, Tensor)]

    plain = leaves()
    with _repeated():
        more = leaves()
    pairs = zip(plain, more, strict=True)
    if not all(torch.allclose(one, other, rtol=0, atol=0, equal_nan=True) for one, other in pairs):
        raise TurnsMatter("a loop over the indices that nonzero() gives does something where nothing is selected")
