"""Keras 3: models and layers, through the backend that they run on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from onnxport.errors import InvalidInputError
from onnxport.frameworks.descriptor import TENSOR_OPTIONS, Files, Framework, Lazy, SourceKind, rooms

_load = Lazy("onnxport.tracing.keras:load")


def load(path: str | os.PathLike[str], *, allow_pickle: bool, allow_code: bool) -> object:
    """The model in a file, which may hold the layers of a model that was ONNX before: they are registered first."""
    import_module("onnxport.opset_maps.from_onnx.keras.primitives")
    model: object = _load(path, allow_pickle=allow_pickle, allow_code=allow_code)
    return model


def input_structure(model: object) -> Any:
    """How a functional or built sequential model takes its inputs; None for any other."""
    from keras import Sequential

    if isinstance(model, Sequential):
        inner = getattr(model, "_functional", None)
        return None if inner is None else input_structure(inner)
    return getattr(model, "_inputs_struct", None)


def input_shapes(model: Any, tensors: Sequence[Any]) -> list[tuple[int | None, ...]]:
    """The shapes of a model's inputs, open dimensions None.

    A sequential model that was built by a call has the batch of that call, which binds it no more than any other, unless a layer
    keeps a state for each row.
    """
    from keras import Sequential

    opened = isinstance(model, Sequential) and not any(
        getattr(item, "stateful", False) for item in model._flatten_layers()
    )
    return [(None, *item.shape[1:]) if opened and len(item.shape) else tuple(item.shape) for item in tensors]


def check_values(model: object, inputs: object, kwargs: object = None) -> None:
    """Refuses specifications in the place of arrays, such as `tf.TensorSpec` and `keras.Input`: a model is run on examples.

    Raises:
        InvalidInputError: there is one.
    """
    import keras

    for leaf in keras.tree.flatten((inputs, kwargs)):
        symbolic = isinstance(leaf, keras.KerasTensor)
        described = hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not hasattr(leaf, "values")
        if not symbolic and (not described or hasattr(leaf, "__array__")):
            continue
        known = leaf.shape is not None and getattr(leaf.shape, "rank", 0) is not None
        sizes = tuple(1 if size is None else int(size) for size in leaf.shape) if known else ()
        dtype = getattr(leaf.dtype, "name", leaf.dtype) or "float32"
        knows = "" if input_structure(model) is None else "; the model knows its inputs, so inputs= may be left out"
        raise InvalidInputError(
            f"inputs= holds a {type(leaf).__name__}, which has no values: give an array, numpy.zeros({sizes}, {dtype!r}) for "
            f"one{knows}"
        )


FRAMEWORK = Framework(
    name="keras",
    title="Keras",
    kinds=(
        SourceKind(
            "a Keras model",
            TENSOR_OPTIONS | {"allow_pickle"},
            onnx_options=frozenset({"dtype", "keep_io_types", "inputs_as_nchw", "outputs_as_nchw"}),
            named_options=frozenset({"output_names"}),
        ),
    ),
    command="keras",
    package="keras",
    extra="keras",
    distributions=("keras", "tensorflow", "tensorflow-cpu", "torch", "jax"),
    owners=("keras",),
    files=Files(
        reads=(".keras", ".h5", ".hdf5"),
        writes=(".keras",),
        load=load,
        save=Lazy("onnxport.converters.from_onnx.keras:save"),
        load_weights=Lazy("onnxport.tracing.keras:load_weights"),
    ),
    node_bytes=30 << 10,
    start=Lazy("onnxport.tracing.keras_state:start"),
    unchanged=Lazy("onnxport.tracing.keras_state:unchanged"),
    **rooms("keras"),
    to_numpy=Lazy("onnxport.validation.runners.tensorflow:to_numpy"),
    # A Keras model is traced to TensorFlow's operators.
    to_onnx_map=Lazy("onnxport.opset_maps.maps:tensorflow").get,
)
