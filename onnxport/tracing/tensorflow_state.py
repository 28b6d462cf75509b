"""What a conversion moves in TensorFlow's process-wide state, and gives back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from tensorflow.python.eager import context


def start() -> None:
    """Brings up the processor's devices, of which TensorFlow writes a line; its first operator would do it."""
    context.context().ensure_initialized()


@contextmanager
def unchanged() -> Iterator[None]:
    """Operators in the block draw their seeds from a generator of their own, and absl configures no log for the process."""
    current = context.context()
    seeds: Random | None = getattr(current, "_rng", None)
    configured = bool(logging.root.handlers)
    if seeds is not None:
        current._rng = Random(seeds.getstate()[1][0])
    try:
        yield
    finally:
        if seeds is not None:
            current._rng = seeds
        for handler in [] if configured else list(logging.root.handlers):
            if type(handler) is logging.StreamHandler:  # absl calls logging.basicConfig() where nobody has
                logging.root.removeHandler(handler)
