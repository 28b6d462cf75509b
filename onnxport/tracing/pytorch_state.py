"""What a conversion moves in PyTorch's process-wide state, and gives back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from onnxport.tracing import pytorch_classes


@contextmanager
def unchanged() -> Iterator[None]:
    """Gives the random generators back as they were, and takes back the classes that are registered in the block.

    Caches are registered at once, others by tracing.
    """
    host = torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    classes = pytorch_classes.count()
    pytorch_classes.register_caches()
    try:
        yield
    finally:
        if not torch.equal(torch.get_rng_state(), host):
            torch.set_rng_state(host)
        for device, state in enumerate(devices):
            if not torch.equal(torch.cuda.get_rng_state(device), state):
                torch.cuda.set_rng_state(state, device)
        pytorch_classes.take_back(classes)
