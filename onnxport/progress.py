"""The stages of a conversion, for whoever wants to watch: the command line's progress, or the logger ``onnxport``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LOGGER = logging.getLogger("onnxport")
_watcher: ContextVar[Callable[[str], None] | None] = ContextVar("onnxport_watcher", default=None)


def stage(name: str) -> None:
    """Says what begins now: ``"tracing"``, ``"lowering"``, ``"proving: other sizes"``."""
    _LOGGER.info(name)
    watcher = _watcher.get()
    if watcher is not None:
        watcher(name)


@contextmanager
def watched_by(watcher: Callable[[str], None]) -> Iterator[None]:
    """Calls `watcher` with each stage that begins in the block, in this thread."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)
