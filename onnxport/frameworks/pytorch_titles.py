"""What reports and errors call a model of PyTorch."""

from __future__ import annotations

import torch


def name_of(model: object) -> str:
    """A module by its class, TorchScript's by the class that it was written from, anything else by its own name."""
    own = None if isinstance(model, torch.nn.Module) else getattr(model, "__name__", None)
    return str(own or getattr(model, "original_name", None) or type(model).__name__)
