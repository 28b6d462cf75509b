"""Runs of TensorFlow functions that end when their model is out of time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import tensorflow as tf
from tensorflow.python.eager import cancellation

from onnxport.graph.guard.bounds import current
from onnxport.graph.guard.deadline import out_of_time, seconds_left

# TensorFlow 2.21's optimisation of a graph, which can't be cancelled, is quadratic: 20,000 Neg one after the other take minutes.
_MOST_OPTIMISED = 2000


@contextmanager
def cancelled_in_time() -> Iterator[None]:
    """Functions that run in the block are cancelled when the bound of `graph.guard.deadline.timed` is reached.

    Raises:
        OutOfTime: they were.
    """
    left = seconds_left()
    if left is None:
        yield
        return
    guard = current()
    long = guard is not None and guard.nodes > _MOST_OPTIMISED
    with _not_optimised() if long else nullcontext(), _cancelled_after(left):
        yield


@contextmanager
def _not_optimised() -> Iterator[None]:
    options = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({**options, "disable_meta_optimizer": True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False, **options})


@contextmanager
def _cancelled_after(left: float) -> Iterator[None]:
    manager = cancellation.CancellationManager()
    timer = threading.Timer(max(left, 0.0), manager.start_cancel)
    timer.daemon = True
    timer.start()
    try:
        with cancellation.CancellationManagerContext(manager):
            yield
    except tf.errors.CancelledError as error:
        if not manager.is_cancelled:
            raise
        raise out_of_time() from error
    finally:
        timer.cancel()
