"""A conversion is a function: it leaves no state behind, and conversions from several threads take turns.

Tracing is not safe from several threads: torch.export puts fake tensors into the module that it traces and patches torch's
classes meanwhile, warning filters and streams belong to the process, and a proof runs the very module that another thread may be
tracing. Little is lost by taking turns: what a conversion does is Python, of which one thread runs at a time.
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

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
    plain, array = random.getstate(), _ArrayState.now()
    try:
        yield
    finally:
        if random.getstate() != plain:
            random.setstate(plain)
        array.restore()


class _ArrayState:
    """The state of NumPy's global generator.

    A conversion that draws nothing leaves the words of the Mersenne twister as they are. They are read as they lie in memory:
    `numpy.random.get_state`, which makes an object of each, takes longer than all else that keeps a conversion apart.
    """

    _last: _ArrayState | None = None

    def __init__(self, words: bytes | None, whole: Any) -> None:
        self._words, self._whole = words, whole
        # A second normal number was drawn with the last one: to take it changes no word.
        self._told_by_words = words is not None and not whole["has_gauss"]

    @classmethod
    def now(cls) -> _ArrayState:
        """The state as it is."""
        words, last = _words(), cls._last
        if last is None or not last._told_by_words or words != last._words:
            cls._last = last = cls(words, np.random.get_state(legacy=False))
        return last

    def restore(self) -> None:
        """Sets the state again where it has changed."""
        if self._told_by_words and _words() == self._words:
            return
        if _comparable(np.random.get_state(legacy=False)) != _comparable(self._whole):
            np.random.set_state(self._whole)


def _words() -> bytes | None:
    """The words of NumPy's global generator and the place in them, where it is a Mersenne twister, as it is by default.

    The layout is that of ``mt19937_state`` in NumPy's ``mt19937.h``: 624 words and the place, 32 bits each.
    """
    generator = np.random.mtrand.get_bit_generator()
    if not isinstance(generator, np.random.MT19937):
        return None
    return ctypes.string_at(generator.ctypes.state_address, 4 * 625)


def _comparable(state: object) -> object:
    """A state of NumPy's generators, whose arrays are compared by their bytes."""
    if isinstance(state, dict):
        return {key: _comparable(item) for key, item in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state
