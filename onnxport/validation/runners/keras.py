"""Keras 3 models and layers, on any backend, in inference mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import keras
import numpy as np

from onnxport.errors import InvalidInputError
from onnxport.validation.runners.base import Binding, Example, Outputs, Runner, split_arguments, top_level


class KerasRunner(Runner):
    """Calls a model; leaves are the tensors among its inputs in keras.tree's order."""

    framework: ClassVar[str] = "keras"
    # TensorFlow 2.21's convolutions of no rows raise an error, or keep the size of the image.
    windows_without_rows: ClassVar[bool] = False
    # A Relu that is fused with the convolution or product before it may make 0 of NaN.
    products_keep_nan: ClassVar[bool] = False

    def __init__(
        self, model: keras.Layer, call: Callable[[Sequence[Any]], Any], example: Example | None, structured: bool
    ) -> None:
        super().__init__(
            f"{type(model).__name__} {model.name!r}" if hasattr(model, "name") else type(model).__name__, example
        )
        self._call = call
        self._model = model
        self._structured = structured

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """Outputs flattened as Keras does; a functional model's by their names."""
        result = self._call([to_tensor(leaf) for leaf in leaves])
        return self._named(result)

    def _named(self, result: object) -> Outputs:
        if self._structured:
            return top_level(result, to_numpy)
        pairs = keras.tree.flatten_with_path(result)
        return [(".".join(str(part) for part in path), to_numpy(leaf)) for path, leaf in pairs if leaf is not None]

    @cached_property
    def _twins(self) -> Any:
        """Twins of the traced call; None on a backend other than TensorFlow."""
        if keras.backend.backend() != "tensorflow":
            return None
        from onnxport.validation.runners.tensorflow_wide import Twins

        return Twins(self._call)

    def coarse(self, leaves: Sequence[Any]) -> float | None:
        """Of the types in the traced graph; of the layers' policies where there is none."""
        found = self._twins.coarse([to_tensor(leaf) for leaf in leaves]) if self._twins is not None else None
        layers = self._model._flatten_layers() if isinstance(self._model, keras.layers.Layer) else ()
        kinds = {getattr(layer, "compute_dtype", None) for layer in layers}
        return found or (2.0**-7 if "bfloat16" in kinds else 2.0**-10 if "float16" in kinds else None)

    def computes_complex(self, leaves: Sequence[Any]) -> bool:
        """Whether a node of the traced graph has complex numbers."""
        return self._twins is not None and self._twins.computes_complex([to_tensor(leaf) for leaf in leaves])

    def run_float64(self, leaves: Sequence[Any]) -> Outputs | None:
        """Outputs of the traced graph in float64; None where an operator has no kernel for it."""
        result = self._twins.float64([to_tensor(leaf) for leaf in leaves]) if self._twins is not None else None
        return self._named(result) if result is not None else None

    def run_moved(self, leaves: Sequence[Any], units: int, seed: int) -> Outputs | None:
        """Outputs of the traced graph with moved weights; of the model itself where it can't be frozen."""
        tensors = [to_tensor(leaf) for leaf in leaves]
        result = self._twins.moved(tensors, units, seed) if self._twins is not None else None
        return self._named(result) if result is not None else self.run(leaves)


def bind(model: keras.Layer, binding: Binding) -> KerasRunner:
    """A runner of a model or layer."""
    structure = input_structure(model)
    given = binding.inputs is not None or bool(binding.kwargs)
    args, kwargs = split_arguments(() if binding.inputs is None else binding.inputs, binding.kwargs)
    if structure is not None:
        return _bind_functional(model, structure, args, kwargs, given, binding)
    if not given:
        return KerasRunner(model, lambda leaves: _infer(model, *leaves), None, binding.structured)
    from onnxport.validation.runners.tensorflow import Arguments

    parameters = [
        item.name for item in inspect.signature(model.call).parameters.values() if item.kind is not item.VAR_POSITIONAL
    ]
    order = [*(name for name in parameters if name in kwargs), *(name for name in kwargs if name not in parameters)]
    arguments = Arguments(args, {name: kwargs[name] for name in order}, parameters)

    def call(leaves: Sequence[Any]) -> Any:
        positional, named = arguments.rebuilt(leaves)
        return _infer(model, *positional, **named)

    return KerasRunner(model, call, arguments.example, binding.structured)


def _bind_functional(
    model: keras.Layer,
    structure: object,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    given: bool,
    binding: Binding,
) -> KerasRunner:
    names = [tensor.name for tensor in keras.tree.flatten(structure)]

    def call(leaves: Sequence[Any]) -> Any:
        return model(keras.tree.pack_sequence_as(structure, list(leaves)), training=False)

    if not given:
        wanted = [spec.name for spec in binding.specs] if binding.specs is not None else names
        if sorted(wanted) == sorted(names) and len(set(names)) == len(names):
            order = [wanted.index(name) for name in names]
            return KerasRunner(model, lambda leaves: call([leaves[i] for i in order]), None, binding.structured)
        return KerasRunner(model, call, None, binding.structured)
    leaves = _functional_leaves(structure, names, args, kwargs)
    return KerasRunner(model, call, Example(tuple(names), tuple(to_numpy(leaf) for leaf in leaves)), binding.structured)


def _functional_leaves(
    structure: object, names: Sequence[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Any]:
    if kwargs and not args:
        keys = list(structure) if isinstance(structure, Mapping) else names
        if set(kwargs) == set(keys):
            return (
                keras.tree.flatten({key: kwargs[key] for key in keys})
                if isinstance(structure, Mapping)
                else [kwargs[k] for k in keys]
            )
        if set(kwargs) == set(names):
            return [kwargs[name] for name in names]
        raise InvalidInputError(f"the model takes inputs {', '.join(names)}; given were {', '.join(kwargs)}")
    if len(args) == len(names) and len(names) > 1:
        return list(args)
    if len(args) == 1:
        value = args[0]
        if isinstance(value, Mapping) and set(value) == set(names):
            return [value[name] for name in names]
        leaves = keras.tree.flatten(value) if isinstance(value, (list, tuple, Mapping)) and len(names) > 1 else [value]
        if len(leaves) == len(names):
            return list(leaves)
    raise InvalidInputError(f"the model takes {len(names)} inputs ({', '.join(names)}), {len(args)} were given")


def input_structure(model: keras.Layer) -> Any:
    """How a functional or built sequential model takes its inputs; None for any other."""
    if isinstance(model, keras.Sequential):
        inner = getattr(model, "_functional", None)
        return input_structure(inner) if inner is not None else None
    return getattr(model, "_inputs_struct", None)


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
    """An array as a tensor of the backend; strings as TensorFlow's."""
    if isinstance(leaf, list):
        return [to_tensor(item) for item in leaf]
    if not isinstance(leaf, (np.ndarray, np.generic)):
        return leaf
    if leaf.dtype.kind in "OUS":
        import tensorflow as tf

        return tf.constant(leaf)
    return keras.ops.convert_to_tensor(leaf)
