"""Models in float32 of those that compute in float64."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

_SINGLE = {torch.float64: torch.float32, torch.complex128: torch.complex64}


def single(call: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a module with float32 weights; a function as it is."""
    if not isinstance(call, torch.nn.Module):
        return call
    with torch.no_grad():
        return copy.deepcopy(call).float()


def narrowed(value: object) -> Any:
    """A float64 or complex128 tensor in half the bits, anything else as it is."""
    return value.to(_SINGLE[value.dtype]) if isinstance(value, torch.Tensor) and value.dtype in _SINGLE else value
