"""Branches in Python that only save work: ``if not mask.all(): x = x * mask``. The way that is right for every value is traced.

Which way that is shows on the examples: where they take the shortcut, the other way gives the same numbers. A branch whose other
way changes the numbers, on the examples or on others like them, is none, and stays refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from onnxport.tracing.pytorch_answers import Answers, Place, recorded, replayed, with_buffers_kept
from onnxport.tracing.pytorch_inputs import Call

# Of the largest number of an output: what another order of additions moves, and no other way through the model.
_SAME = 1e-4
_MOST = 16  # branches that are tried


def shortcuts(call: Call) -> Answers:
    """The answers that avoid shortcuts, by the place of each; empty where there are none or the model can't run."""
    try:
        asked = recorded(call)
    except Exception:  # the model's own: what it raised while it was traced is the reason
        return {}
    branches = [place for place, items in asked.items() if all(isinstance(item, bool) for item in items)]
    branches = [place for place in branches if len(set(asked[place])) == 1]
    if len(branches) > _MOST:
        return {}
    flipped: Answers = {place: [not asked[place][0]] for place in branches}
    needless: Answers = {place: answers for place, answers in flipped.items() if _same_with(call, {place: answers})}
    return needless if len(needless) < 2 or _same_with(call, needless) else {}


def shortcut_notes(used: set[Place]) -> list[str]:
    """A note for each branch of which the trace has the way that is right for every value."""
    return [
        f"{place} asks for a tensor's value to save work: the graph always goes the other way, which gave the same numbers"
        for place in sorted(used, key=str)
    ]


def _same_with(call: Call, answers: Mapping[Place, list[Any]]) -> bool:
    """Whether the model gives the same numbers with these answers, on the examples and on numbers of other signs and sizes."""
    for scale in (1.0, -2.5, 40.0):
        args, kwargs = pytree.tree_map(lambda leaf, by=scale: _scaled(leaf, by), (call.args, call.kwargs))
        try:
            plain = list(_leaves(call, args, kwargs, {}))
            other = list(_leaves(call, args, kwargs, answers))
        except Exception:  # the model's own, on a way that it does not take by itself
            return False
        if len(plain) != len(other) or not all(map(_same, plain, other)):
            return False
    return True


def _scaled(leaf: object, by: float) -> Any:
    """A copy: real numbers times a factor, whole ones in another order, masks and the rest as they are."""
    if not isinstance(leaf, Tensor):
        return leaf
    if leaf.is_floating_point():
        return leaf * by
    whole = leaf.dtype not in (torch.bool,) and leaf.dim() > 1 and len(leaf.unique()) > 2
    return leaf.flip(-1) if whole and by != 1.0 else leaf.clone()


def _leaves(call: Call, args: Any, kwargs: Any, answers: Mapping[Place, list[Any]]) -> Iterator[Tensor]:
    args, kwargs = pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, (args, kwargs))
    with torch.no_grad(), with_buffers_kept(call.module), replayed(dict(answers), Tensor):
        result = call.module(*args, **kwargs)
    yield from (leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor))


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
