"""What a conversion moves in Keras' state, and gives back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from keras.src.backend.common import global_state


@contextmanager
def unchanged() -> Iterator[None]:
    """Gives the counters of names back as they were: a user's next layer is called what it would have been."""
    before = dict(global_state.get_global_attribute("object_name_uids") or {})
    try:
        yield
    finally:
        counters = global_state.get_global_attribute("object_name_uids")
        if counters is not None:
            counters.clear()
            counters.update(before)
