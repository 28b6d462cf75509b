"""A conversion is a function: it leaves no state behind, and conversions from several threads take turns.

Tracing is not safe from several threads: torch.export puts fake tensors into the module that it traces and patches torch's
classes meanwhile, warning filters and streams belong to the process, and a proof runs the very module that another thread may be
tracing. Little is lost by taking turns: what a conversion does is Python, of which one thread runs at a time.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from onnxport.frameworks import registered
from onnxport.frameworks.turns import Turns

_turns = Turns()


@contextmanager
def isolated() -> Iterator[None]:
    """No other conversion runs during the block, and random states, name counters and logs are after it as before."""
    with _turns, ExitStack() as states, _random_unchanged():
        for framework in registered():
            if framework.unchanged is not None and framework.package in sys.modules:
                states.enter_context(framework.unchanged())
        yield


@contextmanager
def _random_unchanged() -> Iterator[None]:
    plain, array = random.getstate(), np.random.get_state(legacy=False)
    before = _comparable(array)
    try:
        yield
    finally:
        if random.getstate() != plain:
            random.setstate(plain)
        if _comparable(np.random.get_state(legacy=False)) != before:
            np.random.set_state(array)


def _comparable(state: object) -> object:
    """A state of NumPy's generators, whose arrays are compared by their bytes."""
    if isinstance(state, dict):
        return {key: _comparable(item) for key, item in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state
