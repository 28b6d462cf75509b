"""What the inputs and results of a Keras model are called, on every backend alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from onnxport.frameworks.keras import input_structure
from onnxport.graph.names import unique_names


def input_names(model: Any) -> list[str] | None:
    """The names of a functional or sequential model's inputs; None where it has none of its own."""
    structure = input_structure(model)
    return None if structure is None else unique_names([item.name for item in keras.tree.flatten(structure)])


def output_names(model: Any) -> list[str] | None:
    """The names of a functional model's results; None where their paths name them, or it has none of its own."""
    names = getattr(model, "output_names", None)  # a sequential model has none
    return None if names is None or isinstance(model._outputs_struct, Mapping) else unique_names(names)


def in_order(value: Any) -> Any:
    """The same with dictionaries in the order of keras.tree, which is that of every backend; PyTorch's own is as written."""
    if isinstance(value, Mapping):
        first = dict.fromkeys(path[0] for path, _ in keras.tree.flatten_with_path(dict(value)))
        return {key: in_order(value[key]) for key in [*first, *(key for key in value if key not in first)]}
    if type(value) in (list, tuple):
        return type(value)(in_order(item) for item in value)
    return value
