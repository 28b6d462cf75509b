"""Example inputs of a TensorFlow model, and which of their dimensions vary."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from onnxport.graph.names import positional
from onnxport.tracing import dimensions
from onnxport.tracing.tensorflow_names import paths


def example_arguments(inputs: object, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of the example inputs: a tuple is positional, a dict by name, all else one argument."""
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
    """Which dimensions vary, and their names, from the user's `dynamic_shapes`, which `onnxport.tracing.dimensions` understands.

    `roots` are the names of the inputs, for what is asked by position.
    """

    def __init__(self, asked: object, roots: Sequence[str] = ()) -> None:
        self.default = asked is None
        self._given = {} if asked is None else dimensions.by_path(asked, list(dict.fromkeys(roots)))

    def check(self, paths: Sequence[str]) -> None:
        """Refuses what is asked of inputs that are none of `paths`.

        Raises:
            InvalidInputError: there is such.
        """
        for path in self._given:
            if path not in paths:
                raise dimensions.unknown(path, paths)

    def axes(self, path: str, sizes: Sequence[int | None]) -> dict[int, str | None]:
        """The dimensions of an input that vary, None in `sizes`, with their names where they have one.

        Raises:
            InvalidInputError: it has no such dimension, or one that is given as fixed is another.
        """
        names: dict[int, str | None] = {}
        if path not in self._given:
            return names
        for axis, dim in dimensions.axes(path, self._given[path], len(sizes)).items():
            dimensions.check_size(path, axis, dim, sizes[axis])
            if not isinstance(dim, int):
                names[axis] = dimensions.name_of(path, axis, dim)
        return names

    def open_axes(self, path: str, sizes: Sequence[int | None]) -> dict[int, str | None]:
        """`axes`, or the first where the user asks for none by name."""
        return {0: None} if self.default and sizes else self.axes(path, sizes)

    def spec(self, leaf: object, path: str) -> Any:
        """The `tf.TensorSpec` of an example; Python booleans, strings and None stay constants of the trace."""
        if not is_input(leaf):
            return leaf
        tensor = _as_tensor(leaf)
        shape = tensor.shape.as_list()
        varying = self.open_axes(path, shape)
        sizes = [None if axis in varying else size for axis, size in enumerate(shape)]
        if isinstance(tensor, tf.SparseTensor):
            return tf.SparseTensorSpec(sizes, tensor.dtype)
        if isinstance(tensor, tf.RaggedTensor):
            return tf.RaggedTensorSpec(sizes, tensor.dtype, tensor.ragged_rank, tensor.row_splits.dtype)
        return tf.TensorSpec(sizes, tensor.dtype)

    def specs(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], parameters: Sequence[str]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The specs of positional and keyword arguments, which may be nested.

        Raises:
            InvalidInputError: `dynamic_shapes` names an input that is not there, or contradicts the example.
        """
        roots = [*positional(parameters, len(args)), *kwargs]
        given = [*args, *kwargs.values()]
        located = [list(paths(item, (root,))) for root, item in zip(roots, given, strict=True)]
        leaves = [(".".join(path), leaf) for item in located for path, leaf in item if is_input(leaf)]
        self.check([path for path, _ in leaves])
        sized = [(path, _as_tensor(leaf).shape.as_list()) for path, leaf in leaves if path in self._given]
        axes = ((path, sizes, axis, name) for path, sizes in sized for axis, name in self.axes(path, sizes).items())
        dimensions.check_names((path, axis, name, sizes[axis]) for path, sizes, axis, name in axes if name is not None)
        specs = [[self.spec(leaf, ".".join(path)) for path, leaf in places] for places in located]
        values = [tf.nest.pack_sequence_as(item, flat) for item, flat in zip(given, specs, strict=True)]
        return tuple(values[: len(args)]), dict(zip(kwargs, values[len(args) :], strict=True))


def _as_tensor(leaf: Any) -> Any:
    """A dense, ragged or sparse tensor."""
    return leaf if isinstance(leaf, (tf.Tensor, tf.RaggedTensor, tf.SparseTensor)) else tf.convert_to_tensor(leaf)


def is_input(leaf: object) -> bool:
    """Whether an argument is a tensor of the graph; Python booleans, strings and None are constants of the trace."""
    return not (leaf is None or isinstance(leaf, (bool, str, bytes, tf.TypeSpec)))
