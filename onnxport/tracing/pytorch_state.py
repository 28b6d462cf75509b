"""What a conversion moves in PyTorch's process-wide state, and gives back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from onnxport.errors import InvalidInputError
from onnxport.frameworks.pytorch_levels import levels_kept
from onnxport.tracing import pytorch_classes

_AUTOCAST_DEVICES = ("cpu", "cuda")


@contextmanager
def unchanged() -> Iterator[None]:
    """Gives the random generators back as they were, takes back the classes that are registered in the block, and ends the
    transforms that code which failed there has left open.

    Caches are registered at once, others by tracing. In `torch.inference_mode` the block runs outside of it: tensors that are
    created in it can't be traced, and weights not be trained.

    Raises:
        InvalidInputError: autocast is on, and changes the types in which any module computes.
    """
    for kind in _AUTOCAST_DEVICES:
        if torch.is_autocast_enabled(kind):
            raise InvalidInputError(
                f"torch.autocast({kind!r}) is on around the conversion: leave its block first; autocast inside of a module's "
                "forward is converted as it stands"
            )
    grad = torch.is_grad_enabled()
    host = torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    classes = pytorch_classes.count()
    pytorch_classes.register_caches()
    try:
        with levels_kept(), torch.inference_mode(False), torch.set_grad_enabled(grad):
            yield
    finally:
        if not torch.equal(torch.get_rng_state(), host):
            torch.set_rng_state(host)
        for device, state in enumerate(devices):
            if not torch.equal(torch.cuda.get_rng_state(device), state):
                torch.cuda.set_rng_state(state, device)
        pytorch_classes.take_back(classes)
