"""Keras 3 models and layers: loading them, and tracing them through the backend that they run on."""

from __future__ import annotations

import inspect
import os
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import keras
import numpy as np

from onnxport.errors import InvalidInputError, InvalidModelError, OnnxportError, TracingError, first_line
from onnxport.frameworks.descriptor import Lazy
from onnxport.frameworks.keras import input_shapes, input_structure
from onnxport.graph.names import positional, unique_names
from onnxport.graph.provenance import user_line
from onnxport.tracing.keras_names import output_names
from onnxport.tracing.keras_time import every_step
from onnxport.tracing.trust.faults import ALLOW_PICKLE, existing_file, untrusted

if TYPE_CHECKING:
    from onnxport.tracing.tensorflow_program import Parameter, Program

# Of files alone.
check_file = Lazy("onnxport.tracing.trust.keras:check_file")
check_weights = Lazy("onnxport.tracing.trust.keras:check_weights")
not_loaded = Lazy("onnxport.tracing.trust.keras:not_loaded")

Sizes = Literal["open", "batch", "fixed"]  # of a model that knows its inputs: which of its open sizes stay open

_SUFFIXES = (".keras", ".h5", ".hdf5")


def load(path: str | os.PathLike[str], *, allow_pickle: bool = False, allow_code: bool = False) -> Any:
    """The model in a ``.keras`` or HDF5 file.

    With `allow_pickle` it may hold the code of Lambda layers, which is stored as marshalled bytecode; with `allow_code` all that
    Keras takes: classes by name, vocabularies and models in other files.

    Raises:
        UntrustedFileError: loading or running it would do more than compute, and the consent is not given.
        InvalidModelError: the file is missing, corrupt, or holds no Keras model.
    """
    place = existing_file(path)
    if place.suffix.lower() not in _SUFFIXES:
        raise InvalidModelError(f"{str(path)!r} is no Keras file: the suffix is none of {', '.join(_SUFFIXES)}")
    try:
        if not allow_code:
            check_file(place, allow_pickle=allow_pickle)
        return keras.saving.load_model(place, compile=False, safe_mode=not (allow_pickle or allow_code))
    except OnnxportError:
        raise
    except Exception as error:  # Keras lets through what zipfile, h5py and json raise
        if not allow_pickle and ("lambda" in str(error).lower() or "safe_mode" in str(error)):
            fault = "it holds the code of a Lambda layer, which loading would run"
            raise untrusted(repr(str(path)), fault, ALLOW_PICKLE) from error
        raise not_loaded(repr(str(path)), error) from error


def load_weights(model: keras.Layer, path: Path) -> None:
    """Loads the weights in a ``.weights.h5`` file into `model`.

    Raises:
        UntrustedFileError: the file takes data from other files.
        InvalidModelError: the file is corrupt, or its arrays are not the model's.
    """
    try:
        if path.suffix.lower() in (".h5", ".hdf5"):
            check_weights(path)
        model.load_weights(path)
    except OnnxportError:
        raise
    except Exception as error:  # Keras lets through what h5py raises
        raise InvalidModelError(f"the weights in {str(path)!r} do not fit: {error}") from error


def backend() -> str:
    """The backend that Keras runs on."""
    return str(keras.backend.backend())


def has_doubles() -> bool:
    """Whether the backend keeps numbers of 64 bits; JAX does where it is asked to."""
    kept: bool = np.asarray(keras.ops.convert_to_numpy(keras.ops.convert_to_tensor(np.zeros(1)))).dtype == np.float64
    return kept


def trace(
    model: keras.Layer,
    *,
    inputs: object = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: object = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    sizes: Sizes = "open",
) -> Program:
    """The program of a Keras model or layer in inference mode, on the TensorFlow backend.

    A functional or sequential model is traced by its own inputs, whose sizes stay open, or in the sizes of examples: all of
    them, or all but the batch and what `dynamic_shapes` names. Anything else needs example inputs.

    Raises:
        InvalidInputError: example inputs are missing or do not fit.
        TracingError: the model can't be traced.
    """
    from onnxport.tracing.tensorflow_functions import of_concrete
    from onnxport.tracing.tensorflow_program import renamed

    structure = input_structure(model)
    with every_step(model):
        if structure is None:
            (function, weights), names, results = _by_example(model, inputs, kwargs, dynamic_shapes), None, None
        else:
            (function, weights), names, results = _functional(model, structure, sizes, inputs, dynamic_shapes)
    program = of_concrete(
        function,
        dynamic_shapes=dynamic_shapes,
        names=names,
        output_names=results,
        variable_names=variable_names(model),
        weights=weights,
        shared_batch=True,
    )
    return renamed(program, input_names, output_names)


def _functional(
    model: keras.Layer, structure: object, sizes: Sizes, inputs: object, dynamic_shapes: object
) -> tuple[tuple[Any, dict[str, Parameter]], list[str], list[str] | None]:
    import tensorflow as tf

    from onnxport.tracing.keras_weights import traced_model
    from onnxport.tracing.tensorflow_inputs import Dynamic

    tensors = keras.tree.flatten(structure)
    names = unique_names([item.name for item in tensors])
    shapes = input_shapes(model, tensors)
    if sizes != "open":
        examples = _sizes(inputs, names)
        if sizes == "batch":
            varying = Dynamic(dynamic_shapes, names)
            open_axes = [varying.open_axes(*item) for item in zip(names, examples, strict=True)]
            shapes = [_with_examples(*item) for item in zip(shapes, examples, open_axes, strict=True)]
        else:
            shapes = list(examples)
    parts = zip(shapes, tensors, names, strict=True)
    specs = [tf.TensorSpec(shape, item.dtype, name=name) for shape, item, name in parts]

    def call_of_model(*flat: object) -> Any:
        return model(keras.tree.pack_sequence_as(structure, flat), training=False)

    return traced_model(model, call_of_model, tuple(specs)), names, output_names(model)


def _sizes(inputs: object, names: Sequence[str]) -> list[tuple[int, ...]]:
    """The shapes of example inputs, in the order of a model's own."""
    if isinstance(inputs, Mapping) and set(inputs) == set(names):
        inputs = [inputs[name] for name in names]
    return [tuple(np.shape(item)) for item in keras.tree.flatten(inputs)]


def _with_examples(
    shape: tuple[int | None, ...], example: tuple[int, ...], open_axes: Container[int]
) -> tuple[int | None, ...]:
    """A model's own `shape`, whose open sizes are the example's where they do not vary."""
    pairs = enumerate(zip(shape, example, strict=True))
    return tuple(given if own is None and axis not in open_axes else own for axis, (own, given) in pairs)


def _by_example(
    model: keras.Layer, inputs: object, kwargs: Mapping[str, Any] | None, dynamic_shapes: object
) -> tuple[Any, dict[str, Parameter]]:
    from onnxport.tracing.keras_weights import traced_model
    from onnxport.tracing.tensorflow_inputs import Dynamic, example_arguments

    if inputs is None and not kwargs:
        raise InvalidInputError(
            f"{type(model).__qualname__} {model.name!r} does not know its inputs: pass inputs=(...)"
        )
    args, named = example_arguments(inputs, kwargs)
    parameters = list(inspect.signature(model.call).parameters)
    dynamic = Dynamic(dynamic_shapes, [*positional(parameters, len(args)), *named])
    build(model, args, named)
    specs, named = dynamic.specs(args, named, parameters)
    names = [*positional(parameters, len(specs)), *named]

    def call_of_model(*flat: object) -> Any:
        return model(*flat[: len(specs)], **dict(zip(named, flat[len(specs) :], strict=True)), training=False)

    # The traced function has the layer's own parameter names, and so do the graph's inputs.
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters_of_call = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    call_of_model.__signature__ = parameters_of_call  # type: ignore[attr-defined]
    return traced_model(model, call_of_model, (*specs, *named.values()))


def build(model: keras.Layer, args: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Creates the variables by one call, outside of the trace that would own them.

    Raises:
        TracingError: the model can't be called on the arguments.
    """
    if getattr(model, "built", True):
        return
    try:
        model(*args, **named, training=False)
    except Exception as error:  # user code runs
        place = user_line(error)
        raise TracingError(
            f"{place}{chr(10) if place else ''}Keras can't call {model.name!r} on the inputs: {type(error).__name__}: "
            f"{first_line(error)}\nGiven are {_listed(args, named)}: see that model(*inputs) runs first."
        ) from error


def _listed(args: Sequence[Any], named: Mapping[str, Any]) -> str:
    return ", ".join([f"{len(args)} by position"] * bool(args) + [repr(name) for name in named]) or "none"


def variable_names(model: keras.Layer) -> dict[int, str]:
    """The path of every variable by the id of its TensorFlow handle."""
    return {id(item.value.handle): item.path for item in model.variables if hasattr(item.value, "handle")}
