"""Traces of Keras models in which all weights are results of one operator, instead of a handle and a read for each.

Handles, reads and what TensorFlow records about both take a third of the trace of a network like ResNet-50.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import keras
import tensorflow as tf

from onnxport.errors import TracingError
from onnxport.tracing.tensorflow_functions import acts, reader, traced_call, traced_in_order, traced_unordered
from onnxport.tracing.tensorflow_program import WEIGHTS, Parameter, dtype_of


def traced_model(
    model: keras.Layer, call: Callable[..., Any], specs: tuple[Any, ...]
) -> tuple[Any, dict[str, Parameter]]:
    """The concrete function of `call`, which calls `model`, on specs, and the weights that tensors of it stand for, by name.

    A call that changes a variable, records a gradient or calls a `tf.function` has a handle and a read for each instead.

    Raises:
        TracingError: the user's code or TensorFlow fails while tracing.
    """
    variables = [item for item in model.variables if isinstance(item.value, tf.Variable)]
    if not variables:
        return traced_call(call, specs), {}
    changed, given = False, list[Any]()
    owned = [item.value for item in variables]

    def call_of_model(*flat: object) -> Any:
        nonlocal changed, given
        given = getattr(tf.raw_ops, WEIGHTS)(
            dtypes=[item.dtype for item in owned], shapes=[item.shape for item in owned]
        )
        scope = keras.StatelessScope(list(zip(variables, given, strict=True)), initialize_variables=False)
        before = {key: id(value) for key, value in scope.state_mapping.items()}
        with scope, _alone():
            result = call(*flat)
        changed = before != {key: id(value) for key, value in scope.state_mapping.items()}
        return result

    call_of_model.__signature__ = inspect.signature(call)  # type: ignore[attr-defined]
    try:
        function = traced_unordered(call_of_model, specs, autograph=False)  # which Keras keeps from layers anyway
    except TracingError:  # the usual trace tells why, where it fails too
        return traced_call(call, specs), {}
    if changed or acts(function.graph):
        return traced_in_order(call, specs), {}
    read = reader(owned)
    used = [(tensor, *pair) for tensor, *pair in zip(given, variables, owned, strict=True) if tensor.consumers()]
    return function, {
        tensor.name: Parameter(item.path, partial(read, held), dtype_of(held.dtype), tuple(held.shape))
        for tensor, item, held in used
    }


_FUNCTION = type(tf.function(lambda: None))
# What sees only variables, or keeps the tensors that stand for them here.
_NOT_HERE = ((tf.GradientTape, "__init__"), (_FUNCTION, "__call__"), (_FUNCTION, "get_concrete_function"))


@contextmanager
def _alone() -> Iterator[None]:
    """In the block it is an error of this thread to record a gradient or to trace a function of its own."""
    thread, usual = threading.get_ident(), [(kind, name, getattr(kind, name)) for kind, name in _NOT_HERE]
    for kind, name, method in usual:
        setattr(kind, name, _refusing(method, thread))
    try:
        yield
    finally:
        for kind, name, method in usual:
            setattr(kind, name, method)


def _refusing(method: Callable[..., Any], thread: int) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == thread:
            raise TracingError(f"{method.__qualname__} needs the variables themselves")
        return method(*args, **kwargs)

    return call
