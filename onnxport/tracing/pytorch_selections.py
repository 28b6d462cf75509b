"""Branches in Python on whether anything is selected, while torch.export traces: ``if places.numel() == 0: continue``.

Such a branch mostly saves time: what it leaves out does nothing to no elements. Here a trace takes every selection for one of
some elements. Whether the branches matter is tried first: where a selection is emptied, each in its turn and then all of them,
the model gives the same numbers with its branches and without.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Container
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

from onnxport.tracing.pytorch_builtins import sizes_kept
from onnxport.tracing.pytorch_detection import without_counting
from onnxport.tracing.pytorch_inputs import Call

NOTE = "branches on whether anything is selected are left out: without them the model gives the same numbers"
_MOST = 64  # selections that are emptied in their turn
_COUNTS = frozenset("any sum count_nonzero".split())  # of a mask, all of it
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "__eq__": operator.eq, "ne": operator.ne, "__ne__": operator.ne, "gt": operator.gt,
    "__gt__": operator.gt, "lt": operator.lt, "__lt__": operator.lt, "ge": operator.ge, "__ge__": operator.ge,
}  # fmt: skip
_TURNED = frozenset("logical_not bitwise_not __invert__".split())
_LISTED = frozenset("nonzero argwhere nms batched_nms".split())  # their results are places


class BranchesMatter(Exception):
    """A branch on whether anything is selected changes the model's numbers where nothing is."""


class some_selected(TorchFunctionMode):
    """While it is active, what asks whether a selection has elements, or a mask a true one, gets yes for an answer."""

    def __init__(self) -> None:
        super().__init__()
        self._truths = WeakIdKeyDictionary()  # what is asked of a mask, and the answer for one with some true elements
        self._seen = WeakIdKeyDictionary()  # masks
        self.selections = 0  # how many there were: masks, and lists of places of other tensors

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Passes every call on, but for these questions."""
        kwargs, name = kwargs or {}, _name(func)
        first = args[0] if args else None
        if name in ("__bool__", "is_nonzero") and isinstance(first, Tensor) and first in self._truths:
            return bool(self._truths[first])
        whole = name in _COUNTS and len(args) == 1 and not kwargs
        masks = [item for item in args if isinstance(item, Tensor)] if whole else _masks(name, args, kwargs)
        masks = [item for item in masks if item.dtype is torch.bool and item.dim()]
        listed = name in _LISTED and not masks
        new = [item for item in masks if item not in self._seen]
        if new or listed:
            self.selections += 1
            self._empty(new)
            for item in new:
                self._seen[item] = True
        result = func(*args, **kwargs)
        if masks and whole:
            self._truths[result] = 1
        elif name in _COMPARISONS and len(args) == 2 and isinstance(first, Tensor) and first in self._truths:
            # for one true element and for many the answer must be the same
            answers = {_COMPARISONS[name](count, args[1]) for count in (1, 2)} if args[1] in (0, 1) else {True, False}
            if len(answers) == 1:
                self._truths[result] = answers.pop()
        elif name in _TURNED and isinstance(first, Tensor) and first in self._truths and first.dtype is torch.bool:
            self._truths[result] = not self._truths[first]
        return self._select(result, listed=listed) if listed or (masks and not whole) else result

    def _select(self, result: Any, *, listed: bool) -> Any:
        """What a selection gives: places alone where it is `listed`."""
        for item in pytree.tree_leaves(result)[:1]:
            if isinstance(item, Tensor) and item.dim() and isinstance(item.shape[0], torch.SymInt):
                torch._check(item.shape[0] >= 1)
        return result

    def _empty(self, masks: list[Tensor]) -> None:
        """What is to be done with masks before they select or are counted."""


def _name(func: Any) -> str:
    """The name of a function, or of an operator without its overload."""
    return getattr(func, "__name__", "").partition(".")[0]


def _masks(name: str, args: Any, kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors of which a call selects the true elements, should they be booleans."""
    if name in ("__getitem__", "__setitem__"):
        places = args[1] if isinstance(args[1], tuple) else (args[1],)
        return [item for item in places if isinstance(item, Tensor)]
    if name == "masked_select":
        return [item for item in args[1:2] if isinstance(item, Tensor)]
    if name in ("nonzero", "argwhere") or (name == "where" and len(args) + len(kwargs) == 1):
        return [item for item in args[:1] if isinstance(item, Tensor)]
    return []


class _Some(int):
    """0 as the size of something emptied, which does not compare as 0: a branch on it goes as if there were elements."""

    def __bool__(self) -> bool:
        return True

    def __add__(self, other: int) -> int:
        return (int(other) or _Some(0)) if isinstance(other, int) else NotImplemented

    def __mul__(self, other: int) -> int:
        return _Some(0) if isinstance(other, int) else NotImplemented

    __radd__ = __add__
    __rmul__ = __floordiv__ = __mul__

    def _compared(self, other: int, compare: Callable[[int, int], bool]) -> bool:
        return compare(1 if other in (0, 1) else 0, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and other != 0 and self._compared(other, operator.eq)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __gt__(self, other: int) -> bool:
        return self._compared(other, operator.gt)

    def __lt__(self, other: int) -> bool:
        return self._compared(other, operator.lt)

    def __ge__(self, other: int) -> bool:
        return self._compared(other, operator.ge)

    def __le__(self, other: int) -> bool:
        return self._compared(other, operator.le)

    __hash__ = int.__hash__


class _emptied(some_selected):
    """In eager: these selections have no elements; `knowing` whether the model's branches see it."""

    def __init__(self, chosen: Container[int], *, knowing: bool) -> None:
        super().__init__()
        self._chosen, self._knowing = chosen, knowing
        self._own: set[int] = set()  # where tensors of this run lie in memory, and others
        self._foreign: set[int] = set()

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Empties the selections; answers what is asked of them."""
        name = _name(func)
        self._foreign |= _places((args, kwargs)) - self._own
        if self._knowing and name in ("__bool__", "is_nonzero"):
            return func(*args, **(kwargs or {}))
        if not self._knowing and name in ("reshape", "view") and not kwargs:
            args = _known_sizes(*args)
        result = super().__torch_function__(func, types, args, kwargs)
        self._own |= _places(result) - self._foreign
        if self._knowing:
            return result
        if name in ("numel", "nelement", "size") and isinstance(result, int):
            return result if result else _Some(0)
        if name == "size" or (name == "__get__" and isinstance(result, torch.Size)):
            return tuple(item if item else _Some(0) for item in result) if 0 in result else result
        return result

    def _select(self, result: Any, *, listed: bool) -> Any:
        chosen = listed and self.selections - 1 in self._chosen
        return pytree.tree_map(lambda item: item[:0], result) if chosen else result

    def _empty(self, masks: list[Tensor]) -> None:
        if self.selections - 1 in self._chosen:
            for mask in masks:
                if _places(mask) & self._foreign:
                    raise BranchesMatter("a mask is not the model's own result")
                mask.zero_()


def _known_sizes(tensor: Tensor, *sizes: Any) -> tuple[Any, ...]:
    """Arguments of ``reshape`` where a size is -1 and another 0: that one as a trace gives it, by the sizes that are not 0."""
    wanted = [*sizes[0]] if sizes and isinstance(sizes[0], (tuple, list)) else [*sizes]
    if not all(isinstance(size, int) for size in wanted) or tensor.numel():
        return tensor, *sizes
    plain = [int(size) for size in wanted]
    if -1 not in plain or plain.count(0) != [*tensor.shape].count(0):
        return tensor, *sizes
    held = math.prod(size for size in tensor.shape if size)
    return tensor, [held // math.prod(item for item in plain if item > 0) if size == -1 else size for size in plain]


def _places(value: object) -> set[int]:
    """Where tensors lie in memory."""
    strided = (item for item in pytree.tree_leaves(value) if isinstance(item, Tensor) and item.layout is torch.strided)
    return {item.untyped_storage().data_ptr() for item in strided}


def check_needless(selections: some_selected, call: Call) -> None:
    """Refuses a trace that takes every selection for one of some elements where a branch on that changes the numbers.

    Raises:
        BranchesMatter: it does, or there are too many to tell.
    """
    if not selections.selections:
        raise BranchesMatter("the model selects nothing")
    count = _run(call, _emptied((), knowing=True))[0]
    if count > _MOST:
        raise BranchesMatter(f"the model selects {count} times")
    for chosen in (range(_MOST), *([place] for place in range(count))):
        _, knowing = _run(call, _emptied(chosen, knowing=True))
        _, blind = _run(call, _emptied(chosen, knowing=False))
        pairs = zip(knowing, blind, strict=True)
        if not all(one.shape == other.shape and _same(one, other) for one, other in pairs):
            raise BranchesMatter("a branch on whether anything is selected does something else where nothing is")


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)


def _run(call: Call, mode: some_selected) -> tuple[int, list[Tensor]]:
    """How many selections there are in a run on copies of the inputs and of the buffers, and the results."""
    args, kwargs = pytree.tree_map(
        lambda item: item.clone() if isinstance(item, Tensor) else item, (call.args, call.kwargs)
    )
    held = {name: buffer.clone() for name, buffer in call.module.named_buffers()}
    with torch.no_grad(), sizes_kept(call.module), without_counting(), mode:
        result = torch.func.functional_call(call.module, held, args, kwargs)
    leaves = pytree.tree_leaves(result)
    return mode.selections, [item for item in leaves if isinstance(item, Tensor)]
