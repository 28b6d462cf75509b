"""How many calls a measurement takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

BLOCK_SECONDS = 0.1


def repeats(call: Callable[[], Any]) -> int:
    """How many calls fill a block of time; the first one is not timed."""
    call()
    started = time.perf_counter()
    call()
    return max(1, int(BLOCK_SECONDS / (time.perf_counter() - started + 1e-9)))
