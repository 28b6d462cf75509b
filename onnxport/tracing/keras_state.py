"""What a conversion moves in Keras' state, and gives back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import keras
from keras.src.backend.common import global_state


def start() -> None:
    """Starts the backend, where that is TensorFlow."""
    if keras.backend.backend() == "tensorflow":
        from onnxport.tracing import tensorflow_state

        tensorflow_state.start()


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
