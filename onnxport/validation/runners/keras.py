"""Keras 3 models and layers, on any backend, in inference mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import keras
import numpy as np

from onnxport.errors import InvalidInputError
from onnxport.frameworks.keras import check_values, input_shapes, input_structure
from onnxport.validation.runners.base import RARE_FLOAT8, Binding, Example, Outputs, lacks, top_level
from onnxport.validation.runners.keras_ids import check_ids
from onnxport.validation.runners.keras_layers import each_layer
from onnxport.validation.runners.keras_twins import KerasTwins, widened
from onnxport.validation.runners.tensorflow_traced import TracedRunner


class KerasRunner(TracedRunner):
    """Calls a model; leaves are the tensors among its inputs in keras.tree's order."""

    framework: ClassVar[str] = "keras"
    rare_types: ClassVar[Mapping[str, str]] = RARE_FLOAT8
    _copies: KerasTwins | None = None

    def __init__(
        self, model: keras.Layer, call: Callable[[Any, Sequence[Any]], Any], example: Example | None, structured: bool
    ) -> None:
        named = f" {model.name!r}" if hasattr(model, "name") else ""
        super().__init__(f"{type(model).__name__}{named}", example)
        self._call = call
        self._model = model
        self._structured = structured
        self.names_are_steady = keras.backend.backend() == "tensorflow"
        if keras.backend.backend() == "tensorflow":
            from onnxport.validation.runners.tensorflow_wide import Twins

            self._twins = Twins(partial(call, model), to_tensor)
        elif isinstance(model, keras.layers.Layer):
            self.inner_operators = "aten::"
            self._copies = KerasTwins(model)

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """Outputs flattened as Keras does; a functional model's by their names."""
        return self._named(self._call(self._model, [to_tensor(leaf) for leaf in leaves]))

    def run_float64(self, leaves: Sequence[Any]) -> Outputs | None:
        """Outputs in float64: of TensorFlow's traced graph, on other backends of a copy of the model."""
        if self._copies is None:
            return super().run_float64(leaves)
        return self._copies.float64(
            lambda copy: self._named(self._call(copy, [to_tensor(leaf) for leaf in widened(leaves)]))
        )

    def run_moved(self, leaves: Sequence[Any], units: int, seed: int) -> Outputs | None:
        """Outputs with moved weights: of TensorFlow's traced graph, on other backends of a copy of the model."""
        if self._copies is None:
            return super().run_moved(leaves, units, seed)
        tensors = [to_tensor(leaf) for leaf in leaves]
        moved = self._copies.moved(self._call, tensors, units, seed)
        return self.run(leaves) if moved is None else self._named(moved)

    def each_intermediate(self, leaves: Sequence[Any], take: Callable[[str, Any], None]) -> None:
        """Of TensorFlow's traced graph or, on its backend, of PyTorch's."""
        if keras.backend.backend() == "torch" and isinstance(self._model, keras.layers.Layer):
            from onnxport.validation.runners.keras_pytorch import each_inner

            each_inner(self._model, self._call, leaves, take)
        else:
            super().each_intermediate(leaves, take)

    def each_layer(self, leaves: Sequence[Any], take: Callable[[tuple[str, ...], Any], None]) -> None:
        """On TensorFlow's backend, whose traces have a scope for each layer."""
        if keras.backend.backend() == "tensorflow":
            with each_layer(lambda names, result: take(names, to_numpy(result))):
                self._call(self._model, [to_tensor(leaf) for leaf in leaves])

    @property
    def inner_values_elsewhere(self) -> str:
        """TensorFlow's traced graph has them, and PyTorch's where it is what was converted."""
        own = keras.backend.backend()
        return (
            "" if own == "tensorflow" else f" on the {own} backend: convert and debug it with KERAS_BACKEND=tensorflow"
        )

    def _named(self, result: object) -> Outputs:
        if self._structured:
            return top_level(result, to_numpy)
        pairs = keras.tree.flatten_with_path(result)
        return [(".".join(str(part) for part in path), to_numpy(leaf)) for path, leaf in pairs if leaf is not None]

    def coarse(self, leaves: Sequence[Any]) -> float | None:
        """Of the types in the traced graph, or of a run; of the layers' policies where that can't be seen."""
        layers = self._model._flatten_layers() if isinstance(self._model, keras.layers.Layer) else ()
        kinds = {getattr(layer, "compute_dtype", None) for layer in layers}
        policies = 2.0**-7 if "bfloat16" in kinds else 2.0**-10 if "float16" in kinds else None
        seen = (
            self._copies.coarse(self._call, [to_tensor(leaf) for leaf in leaves]) if self._copies is not None else None
        )
        return super().coarse(leaves) or seen or policies


def bind(model: keras.Layer, binding: Binding) -> KerasRunner:
    """A runner of a model or layer."""
    check_values(model, binding.inputs, binding.kwargs)
    structure = input_structure(model)
    if structure is not None:
        return _bind_functional(model, structure, binding)
    if not binding.given:
        return KerasRunner(model, lambda model, leaves: _infer(model, *leaves), None, binding.structured)
    args, kwargs = binding.arguments()
    from onnxport.validation.runners.tensorflow import Arguments

    every = inspect.signature(model.call).parameters.values()
    parameters = [item.name for item in every if item.kind is not item.VAR_POSITIONAL]
    order = [*(name for name in parameters if name in kwargs), *(name for name in kwargs if name not in parameters)]
    arguments = Arguments(args, {name: kwargs[name] for name in order}, parameters)

    def call(model: Any, leaves: Sequence[Any]) -> Any:
        check_ids(model, (), leaves)
        positional, named = arguments.rebuilt(leaves)
        return _infer(model, *positional, **named)

    return KerasRunner(model, call, arguments.example, binding.structured)


def _bind_functional(model: keras.Layer, structure: object, binding: Binding) -> KerasRunner:
    names = [tensor.name for tensor in keras.tree.flatten(structure)]

    def call(model: Any, leaves: Sequence[Any]) -> Any:
        tensors = keras.tree.flatten(input_structure(model))
        check_ids(model, tensors, leaves)
        held = [_held(tensor, leaf) for tensor, leaf in zip(tensors, leaves, strict=True)]
        return model(keras.tree.pack_sequence_as(structure, held), training=False)

    if binding.given:
        leaves = _functional_leaves(structure, names, *binding.arguments())
        tensors = keras.tree.flatten(structure)
        arrays = tuple(_declared(tensor, to_numpy(leaf)) for tensor, leaf in zip(tensors, leaves, strict=True))
        example = Example(tuple(names), _in_shape(model, tensors, arrays))
        return KerasRunner(model, call, example, binding.structured)
    wanted = binding.names(names)
    if sorted(wanted) != sorted(names) or len(set(names)) < len(names):
        return KerasRunner(model, call, None, binding.structured)
    order = [wanted.index(name) for name in names]
    return KerasRunner(model, lambda model, leaves: call(model, [leaves[i] for i in order]), None, binding.structured)


def _functional_leaves(
    structure: object, names: Sequence[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Any]:
    if kwargs and not args:
        keys = list(structure) if isinstance(structure, Mapping) else names
        if set(kwargs) == set(keys):
            by_key = {key: kwargs[key] for key in keys}
            return keras.tree.flatten(by_key) if isinstance(structure, Mapping) else list(by_key.values())
        if set(kwargs) == set(names):
            return [kwargs[name] for name in names]
        raise InvalidInputError(f"the model takes inputs {', '.join(names)}; given were {', '.join(kwargs)}")
    if len(args) == len(names) and len(names) > 1:
        return list(args)
    if len(args) == 1:
        value = args[0]
        if isinstance(value, Mapping) and set(value) == set(names):
            return [value[name] for name in names]
        several = len(names) > 1 and isinstance(value, (list, tuple, Mapping))
        leaves = keras.tree.flatten(value) if several or _lists_the_input(value, structure) else [value]
        if len(leaves) == len(names):
            return list(leaves)
    raise InvalidInputError(f"the model takes {len(names)} inputs ({', '.join(names)}), {len(args)} were given")


def _lists_the_input(value: object, structure: object) -> bool:
    """Whether a list holds a model's one input, as Keras takes it, and is not itself the rows of an array."""
    if not isinstance(value, list) or len(value) != 1:
        return False
    (tensor,) = keras.tree.flatten(structure)
    return hasattr(value[0], "shape") and len(value[0].shape) == len(tensor.shape)


def _in_shape(model: keras.Layer, tensors: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Arrays in the shapes of the model's inputs: Keras' Functional adds or drops a last axis of 1, and refuses all others.

    Raises:
        InvalidInputError: an array has another number of axes than the model's input, or other sizes beside the batch.
    """
    return tuple(
        _fitted(tensor, declared, array) if isinstance(array, np.ndarray) and declared else array
        for tensor, declared, array in zip(tensors, input_shapes(model, tensors), arrays, strict=True)
    )


def _fitted(tensor: Any, declared: Sequence[int | None], array: np.ndarray) -> np.ndarray:
    forms = [array.shape, (*array.shape, 1), *([array.shape[:-1]] if array.shape[-1:] == (1,) else [])]
    for form in forms:
        if len(form) == len(declared) and all(
            size in (None, given) for size, given in zip(declared[1:], form[1:], strict=True)
        ):
            return array.reshape(form)
    takes = ", ".join("any" if size is None else str(size) for size in declared)
    batch = "; of one image or row x[None] is a batch" if array.ndim == len(declared) - 1 else ""
    raise InvalidInputError(
        f"{tensor.name!r} is {array.dtype}{list(array.shape)}, the model takes {tensor.dtype}[{takes}]{batch}"
    )


def _declared(tensor: Any, leaf: Any) -> Any:
    """An example in the type of the model's input: a functional model brings all its inputs to theirs."""
    numbers = isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biuf" and tensor.dtype != "string"
    if not numbers or keras.backend.standardize_dtype(leaf.dtype) == tensor.dtype:
        return leaf
    return to_numpy(keras.ops.convert_to_tensor(leaf, dtype=tensor.dtype))


def _held(tensor: Any, leaf: Any) -> Any:
    """An array of an element type that Keras lacks as a tensor of the model's input type."""
    extension = isinstance(leaf, np.ndarray) and leaf.dtype.kind == "V"  # those of ml_dtypes
    return keras.ops.convert_to_tensor(leaf.astype(tensor.dtype)) if extension else leaf


def _infer(model: keras.Layer, *args: object, **kwargs: object) -> Any:
    """Calls in inference mode; layers without the parameter are called without it."""
    if isinstance(model, keras.layers.Layer):
        return model(*args, **{"training": False, **kwargs})
    return model(*args, **kwargs)


def to_numpy(value: object) -> Any:
    """A backend tensor as an array."""
    if isinstance(value, np.ndarray):
        return value.astype(object) if value.dtype.kind in "US" else value
    if isinstance(value, (list, np.generic)):
        return np.asarray(value)
    if type(value).__module__.partition(".")[0] == "tensorflow":
        from onnxport.validation.runners.tensorflow import to_numpy as tensor_to_numpy

        return tensor_to_numpy(value)
    return np.asarray(keras.ops.convert_to_numpy(value)) if keras.ops.is_tensor(value) else value


def to_tensor(leaf: object) -> Any:
    """An array as a tensor of the backend; strings as TensorFlow's, on JAX as they are.

    A lookup gives a result of the kind of tensor that it takes: of an array one of JAX's, which has int32 for int64.
    """
    if isinstance(leaf, list):
        return [to_tensor(item) for item in leaf]
    if not isinstance(leaf, (np.ndarray, np.generic)):
        return leaf
    if leaf.dtype.kind in "OUS":
        if keras.backend.backend() == "jax":
            return leaf
        import tensorflow as tf

        return tf.constant(leaf)
    if lacks(leaf.dtype, RARE_FLOAT8):
        return leaf  # what is called knows how it holds an element type that Keras lacks
    return keras.ops.convert_to_tensor(leaf)
