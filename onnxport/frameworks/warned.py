"""What frameworks warn of while a proof runs models on inputs that nobody else chose: it is no news to the user."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_turns = threading.Lock()
_inside: list[warnings.catch_warnings[None]] = []  # the one that holds the user's filters, once for each block inside


@contextmanager
def warnings_kept() -> Iterator[None]:
    """Keeps warnings back during the block. Filters are the process's own: blocks of several threads share one change of them."""
    with _turns:
        filters = _inside[0] if _inside else warnings.catch_warnings()
        if not _inside:
            filters.__enter__()
            warnings.simplefilter("ignore")
        _inside.append(filters)
    try:
        yield
    finally:
        with _turns:
            _inside.pop()
            if not _inside:
                filters.__exit__(None, None, None)
