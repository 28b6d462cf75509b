"""What the layers of a Keras model give, one after the other, while the model itself runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import keras


@contextmanager
def each_layer(take: Callable[[tuple[str, ...], Any], None]) -> Iterator[None]:
    """In the block each layer that this thread calls is handed over: the names of those around it and its own, and its result.

    A layer comes after those that it calls.
    """
    usual, thread, around = keras.layers.Layer.__call__, threading.get_ident(), list[str]()

    @wraps(usual)
    def call(self: keras.Layer, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return usual(self, *args, **kwargs)
        around.append(self.name)
        try:
            result = usual(self, *args, **kwargs)
            take(tuple(around), result)
        finally:
            around.pop()
        return result

    keras.layers.Layer.__call__ = call
    try:
        yield
    finally:
        keras.layers.Layer.__call__ = usual
