"""Branches in Python that only save work: ``if not mask.all(): x = x * mask``. The way that is right for every value is traced.

Which way that is shows on the examples and on others like them, of other sizes, signs and masks: it computes more, gives the same
numbers on all of them, and the model takes it by itself on some. Any other branch stays refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from onnxport.tracing.pytorch_answers import Answers, Place, recorded, recorded_with_result, replayed, run_under
from onnxport.tracing.pytorch_inputs import Call

# Of the largest number of an output: what another order of additions moves, and no other way through the model.
_SAME = 1e-4
_MOST = 16  # branches that are tried
_SCALES = (1.0, -2.5, 40.0, 1e5)
_KEPT = (1.0, 0.5, 0.0)


@dataclass(frozen=True)
class _Run:
    """What the model asks for and gives on some inputs, without being told anything."""

    call: Call
    asked: Answers
    results: list[Tensor]


def shortcuts(call: Call) -> Answers:
    """The answers that avoid shortcuts, by the place of each; empty where there are none or the model can't run."""
    try:
        asked = recorded(call)
    except Exception:  # the model's own: what it raised while it was traced is the reason
        return {}
    branches = [place for place, items in asked.items() if all(isinstance(item, bool) for item in items)]
    flipped: Answers = {place: [not asked[place][0]] for place in branches if len(set(asked[place])) == 1}
    if not flipped or len(flipped) > _MOST:
        return {}
    runs = list(_runs(call))
    # A way that the model takes by itself on no inputs: nothing shows that its condition asks for that.
    taken = {place: item for place, item in flipped.items() if any(item[0] in run.asked.get(place, ()) for run in runs)}
    # A way that leaves something out may give the same numbers on all that is tried: what divides by ones, say.
    longer = {
        place: item for place, item in taken.items() if _count(call, place, item[0]) > _count(call, place, not item[0])
    }
    needless: Answers = {place: item for place, item in longer.items() if _same_with(runs, {place: item})}
    return needless if len(needless) < 2 or _same_with(runs, needless) else {}


def shortcut_notes(used: set[Place]) -> list[str]:
    """A note for each branch of which the trace has the way that is right for every value."""
    return [
        f"{place} asks for a tensor's value to save work: the graph always goes the other way, which gave the same numbers"
        for place in sorted(used, key=str)
    ]


def _runs(call: Call) -> Iterator[_Run]:
    """The model on the examples and on others like them, as far as it takes them."""
    for args, kwargs in _others(call):
        other = Call(call.module, args, kwargs)
        try:
            asked, result = recorded_with_result(other)
        except Exception:  # the model's own: it does not take these inputs
            continue
        yield _Run(other, asked, _tensors(result))


class _Counting(TorchDispatchMode):
    """Counts the operators that are called while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def _count(call: Call, place: Place, answer: bool) -> int:
    """How many operators the model computes on the examples with this answer; 0 where it can't."""
    try:
        with _Counting() as counting:
            run_under(replayed({place: [answer]}, Tensor), call)
    except Exception:  # the model's own, on a way that it does not take by itself
        return 0
    return counting.calls


def _same_with(runs: Sequence[_Run], answers: Answers) -> bool:
    """Whether the model gives the same numbers with these answers."""
    for run in runs:
        try:
            others = _tensors(run_under(replayed(answers, Tensor), run.call))
        except Exception:  # the model's own, on a way that it does not take by itself
            return False
        if len(run.results) != len(others) or not all(map(_same, run.results, others)):
            return False
    return True


def _others(call: Call) -> Iterator[tuple[Any, Any]]:
    """The examples, numbers of other signs and sizes, and other masks of zeros and ones."""
    for scale in _SCALES:
        yield pytree.tree_map(lambda leaf, by=scale: _scaled(leaf, by), (call.args, call.kwargs))
    for kept in _KEPT:
        yield pytree.tree_map(lambda leaf, by=kept: _masked(leaf, by), (call.args, call.kwargs))


def _is_mask(leaf: object) -> bool:
    """Whether a tensor holds zeros and ones alone."""
    return isinstance(leaf, Tensor) and bool(((leaf == 0) | (leaf == 1)).all()) and leaf.numel() > 1


def _masked(leaf: object, kept: float) -> Any:
    """A copy; of a mask with this part of each row, from its start, kept."""
    if not isinstance(leaf, Tensor) or not _is_mask(leaf) or not leaf.dim():
        return leaf.clone() if isinstance(leaf, Tensor) else leaf
    places = torch.arange(leaf.shape[-1], device=leaf.device)
    return (places < kept * leaf.shape[-1]).to(leaf.dtype).expand(leaf.shape).clone()


def _scaled(leaf: object, by: float) -> Any:
    """A copy: real numbers times a factor, whole ones in another order, masks and the rest as they are."""
    if not isinstance(leaf, Tensor):
        return leaf
    if leaf.is_floating_point():
        return leaf.clone() if _is_mask(leaf) else leaf * by
    whole = leaf.dtype not in (torch.bool,) and leaf.dim() > 1 and len(leaf.unique()) > 2
    return leaf.flip(-1) if whole and by != 1.0 else leaf.clone()


def _tensors(result: object) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]


def _same(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    finite = one.isfinite()
    if not torch.equal(finite, other.isfinite()):
        return False
    one, other = one[finite].double(), other[finite].double()
    return one.numel() == 0 or bool((one - other).abs().max() <= _SAME * one.abs().max())
