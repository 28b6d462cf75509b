"""Output of one thread, kept back: what others print meanwhile passes through."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TextIO


@contextmanager
def kept_back(name: Literal["stdout", "stderr"]) -> Iterator[None]:
    """Keeps what this thread writes to a standard stream until the block ends; it is dropped where the block fails."""
    original: TextIO = getattr(sys, name)
    stream = _OneThreads(original)
    setattr(sys, name, stream)
    try:
        yield
    except BaseException:
        stream.text.truncate(0)
        raise
    finally:
        if getattr(sys, name) is stream:  # else another thread has put a stream of its own there
            setattr(sys, name, original)
        stream.close_over()


class _OneThreads:
    """A stream for one thread; for all others, and after the end, it is the original."""

    def __init__(self, original: TextIO) -> None:
        self.text = io.StringIO()
        self._original = original
        self._thread: int | None = threading.get_ident()

    def write(self, text: str) -> int:
        """Writes where the calling thread's output goes."""
        return (self.text if self._thread == threading.get_ident() else self._original).write(text)

    def flush(self) -> None:
        """Flushes the original."""
        self._original.flush()

    def close_over(self) -> None:
        """Ends the keeping back: what was kept is written."""
        self._thread = None
        if self.text.getvalue():
            self._original.write(self.text.getvalue())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)
