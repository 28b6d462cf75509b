"""The time of a rebuilt model, which runs in this process: its loops ask at each step whether any is left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from onnxport.errors import InvalidInputError
from onnxport.graph.guard.bounds import WAY_OUT, current


class OutOfTime(InvalidInputError):
    """A rebuilt model takes more time than its file may cost."""


# When the rebuilt model that runs in this context is out of time, and how many such runs there are in all threads: their
# loops ask at every step, also where nothing is bounded.
_deadline: ContextVar[float | None] = ContextVar("onnxport_deadline", default=None)
_timed: list[None] = []


@contextmanager
def timed() -> Iterator[None]:
    """What a rebuilt model takes on drawn inputs counts as the file's: `check_time` ends it when that is used up."""
    guard = current()
    if guard is None or not guard.drawn:
        yield
        return
    started, spent = time.monotonic(), guard.spent
    token = _deadline.set(started + guard.seconds(0))
    _timed.append(None)
    try:
        yield
    except OutOfTime as error:
        guard.stopped = str(error)
        raise
    finally:
        _timed.pop()
        _deadline.reset(token)
        guard.spent = spent + time.monotonic() - started


def seconds_left() -> float | None:
    """What the rebuilt model that runs here has left; None where it is not bounded."""
    deadline = _deadline.get() if _timed else None
    return None if deadline is None else deadline - time.monotonic()


def check_time() -> None:
    """Ends a rebuilt model that is out of time; its loops call this.

    Raises:
        OutOfTime: it is.
    """
    if _timed and (left := seconds_left()) is not None and left < 0:
        raise out_of_time()


def out_of_time() -> OutOfTime:
    """The error for a rebuilt model that is out of time."""
    return OutOfTime(f"running the rebuilt model takes more time than a file may cost; {WAY_OUT}")
