"""torch.nn's Transformer layers while tracing: no branch on a mask's values."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_DETECTION = "_detect_is_causal_mask"


class masks_as_given(TorchFunctionMode):
    """While it is active, a mask is used as it is given.

    torch.nn.TransformerEncoder and TransformerDecoder compare their mask with the causal one to choose a faster kernel,
    which a trace, having no values, can't; the answer "no" is right for every mask.
    """

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Passes every call on, but for the truth of that comparison."""
        if func is torch.Tensor.__bool__ and _within(_DETECTION):
            return False
        return func(*args, **(kwargs or {}))


def has_masks(module: torch.nn.Module) -> bool:
    """Whether the module is one of those that compare their mask."""
    return isinstance(module, (torch.nn.TransformerEncoder, torch.nn.TransformerDecoder))


def _within(name: str) -> bool:
    """Whether a function called `name` is a near caller; torch's own modes stand in between."""
    frame = sys._getframe(2)
    for _ in range(12):
        if frame.f_code.co_name == name:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
