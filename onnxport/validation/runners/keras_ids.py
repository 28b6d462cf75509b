"""Numbers beyond a table: JAX gives NaN for them and goes on, every other backend and runtime refuses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from onnxport.errors import InvalidInputError


def check_ids(model: Any, inputs: Sequence[Any], leaves: Sequence[Any]) -> None:
    """Refuses numbers beyond the table of an embedding that takes them from the model's `inputs` as they are.

    Raises:
        InvalidInputError: there are such.
    """
    if keras.backend.backend() != "jax":
        return
    places = {id(tensor): place for place, tensor in enumerate(inputs)}
    for layer in model._flatten_layers() if isinstance(model, keras.layers.Layer) else ():
        if not isinstance(layer, keras.layers.Embedding):
            continue
        taken = [tensor for node in layer._inbound_nodes for tensor in node.input_tensors]
        for leaf in [leaves[places[id(tensor)]] for tensor in taken if id(tensor) in places] or leaves[
            : layer is model
        ]:
            ids = np.asarray(leaf)
            if ids.size and (ids.min() < -layer.input_dim or ids.max() >= layer.input_dim):
                raise InvalidInputError(
                    f"{layer.name!r} has {layer.input_dim} rows; {ids.min()} to {ids.max()} were given"
                )
