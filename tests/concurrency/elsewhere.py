"""Blocks that another thread is in."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


@contextmanager
def entered_elsewhere(block: AbstractContextManager[object]) -> Iterator[None]:
    """While it is active, another thread has entered `block`."""
    inside, done = threading.Event(), threading.Event()

    def stay() -> None:
        with block:
            inside.set()
            done.wait(20)

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait(10)
    try:
        yield
    finally:
        done.set()
        thread.join()
