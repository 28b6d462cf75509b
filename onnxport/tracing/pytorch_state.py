"""What a conversion moves in PyTorch's process-wide state, and gives back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils import _pytree as pytree


@contextmanager
def unchanged() -> Iterator[None]:
    """Gives the random generators back as they were, and takes back the classes that tracing registered in the block."""
    host = torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    begin = len(_registered)
    try:
        yield
    finally:
        if not torch.equal(torch.get_rng_state(), host):
            torch.set_rng_state(host)
        for device, state in enumerate(devices):
            if not torch.equal(torch.cuda.get_rng_state(device), state):
                torch.cuda.set_rng_state(state, device)
        while len(_registered) > begin:
            pytree._deregister_pytree_node(_registered.pop())


# Users' classes that torch's pytree knows for the time of a conversion.
_registered: list[type] = []


def registered(kind: type) -> None:
    """Notes that tracing has registered `kind` with torch's pytree."""
    _registered.append(kind)
