"""The transforms of torch that are open, of which every later call of the process would be a part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.autograd import forward_ad


@contextmanager
def levels_kept() -> Iterator[None]:
    """Ends the transforms that a failed trace leaves open: every later call of torch would count as one inside of them."""
    functorch = torch._C._functorch
    depth, dual = functorch.get_dynamic_layer_stack_depth(), forward_ad._current_level
    try:
        yield
    finally:
        if dual < 0:
            _end_forward_mode()
        if functorch.get_dynamic_layer_stack_depth() > depth:
            functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)


def _end_forward_mode() -> None:
    """Leaves the level of forward-mode differentiation, of which there is one at most, if it is still entered."""
    try:
        level = torch._C._enter_dual_level()
    except RuntimeError:  # a trace left it open
        level = 0
    torch._C._exit_dual_level(level=level)
    forward_ad._current_level = -1
