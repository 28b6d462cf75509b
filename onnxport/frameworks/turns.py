"""Locks that a child of fork can take."""

from __future__ import annotations

import os
import threading
from types import TracebackType


class Turns:
    """A reentrant lock; a child of fork, which has one thread, starts with a free one, whoever holds its parent's."""

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
