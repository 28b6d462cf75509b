"""What the layers of a Keras model give, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from onnxport.frameworks.keras import input_structure
from onnxport.frameworks.recursion import deep_recursion


def layer_results(model: Any, leaves: Sequence[Any]) -> list[tuple[str, np.ndarray]]:
    """Class and name, and the first tensor, of each layer of a functional or sequential model, in the model's order.

    `leaves` has the inputs' tensors in the order of keras.tree. Another model has no layers that can be run apart: none.
    """
    if input_structure(model) is None:
        return []
    layers = [item for item in model.layers if len(item._inbound_nodes) > 0 and item not in (model.inputs or ())]
    tensors = [keras.tree.flatten(layer._inbound_nodes[0].outputs)[0] for layer in layers]
    with deep_recursion():
        inside = keras.Model(model.inputs, tensors)
    results = inside([keras.ops.convert_to_tensor(leaf) for leaf in leaves], training=False)
    names = [f"{type(layer).__name__} {layer.name!r}" for layer in layers]
    arrays = [np.asarray(keras.ops.convert_to_numpy(item)) for item in keras.tree.flatten(results)]
    return list(zip(names, arrays, strict=True))
