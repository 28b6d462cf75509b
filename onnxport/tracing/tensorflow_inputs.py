"""Example inputs of a TensorFlow model, and which of their dimensions vary."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from onnxport.errors import InvalidInputError


def example_arguments(inputs: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of the example inputs: a tuple or list is positional, a dict is by name."""
    named = dict(kwargs or {})
    if inputs is None:
        return (), named
    if isinstance(inputs, Mapping):
        return (), {**inputs, **named}
    if isinstance(inputs, tuple):
        return inputs, named
    return (inputs,), named


def parameters_of(function: Any) -> list[str]:
    """Names of a callable's parameters, but for self; none where it has no signature."""
    target = getattr(function, "python_function", function)
    try:
        names = list(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return []
    return names[1:] if names[:1] == ["self"] else names


class Dynamic:
    """Which dimensions vary, and their names, from the user's `dynamic_shapes`.

    Args:
        asked: None, a dict by parameter name, or a sequence by position; each item None, a dict from axis to name (or
            None), or a sequence with a name or None an axis.
        parameters: the callable's parameter names.
    """

    def __init__(self, asked: Any, parameters: Sequence[str] = ()) -> None:
        self.default = asked is None
        self._parameters = list(parameters)
        if isinstance(asked, Mapping):
            self._by_name: dict[Any, Any] = dict(asked)
        else:
            self._by_name = dict(enumerate(asked or ()))

    def axes(self, key: int | str) -> dict[int, str | None]:
        """Axis to dimension name for one input, named or by position."""
        item = self._by_name.get(key)
        if item is None and isinstance(key, int) and key < len(self._parameters):
            item = self._by_name.get(self._parameters[key])
        if item is None and isinstance(key, str) and key in self._parameters:
            item = self._by_name.get(self._parameters.index(key))
        if item is None:
            return {}
        pairs = item.items() if isinstance(item, Mapping) else enumerate(item)
        return {int(axis): _dim_name(name) for axis, name in pairs if name is not None or isinstance(item, Mapping)}

    def spec(self, leaf: Any, key: int | str) -> Any:
        """The `tf.TensorSpec` of an example; Python booleans, strings and None stay constants of the trace."""
        if leaf is None or isinstance(leaf, (bool, str, bytes, tf.TypeSpec)):
            return leaf
        tensor = leaf if isinstance(leaf, tf.Tensor) else tf.convert_to_tensor(leaf)
        shape = tensor.shape.as_list()
        axes = {0: None} if self.default and shape else self.axes(key)
        for axis in axes:
            if not -len(shape) <= axis < len(shape):
                raise InvalidInputError(f"dynamic_shapes: input {key!r} of rank {len(shape)} has no axis {axis}")
        varying = {axis % len(shape) for axis in axes} if shape else set()
        return tf.TensorSpec([None if axis in varying else size for axis, size in enumerate(shape)], tensor.dtype)

    def specs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The specs of positional and keyword arguments, which may be nested."""
        keyed = [*enumerate(args), *kwargs.items()]
        found = [tf.nest.map_structure(lambda leaf, k=key: self.spec(leaf, k), item) for key, item in keyed]
        return tuple(found[: len(args)]), dict(zip(kwargs, found[len(args) :], strict=True))


def _dim_name(item: Any) -> str | None:
    return item if isinstance(item, str) else getattr(item, "__name__", None)
