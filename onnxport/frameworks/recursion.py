"""Keras walks a functional model by one call of Python a layer; a chain of layers may be longer than Python allows."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# A call of a function of Python takes a few hundred bytes of the heap and none of the C stack (from Python 3.11 on).
_CALLS = 200_000
_turns = threading.Lock()
_limits: list[int] = []  # the user's own limit, once for each block inside


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Allows many nested calls during the block. The limit is the process's own: blocks of several threads share a change."""
    with _turns:
        _limits.append(_limits[0] if _limits else sys.getrecursionlimit())
        sys.setrecursionlimit(_limits[0] + _CALLS)
    try:
        yield
    finally:
        with _turns:
            limit = _limits.pop()
            if not _limits:
                sys.setrecursionlimit(limit)
