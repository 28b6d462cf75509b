"""Weights that no other layer holds, as tables of Keras' Embedding."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from onnxport.opset_maps.from_onnx.keras.sizes import MOVED, Sizes
from onnxport.opset_maps.from_onnx.values import Array

# Whole numbers as Keras' tables hold them on both backends: PyTorch takes no variable of integers for trainable.
_TABLE_TYPES = {"int8": "float16", "uint8": "float16", "int16": "float32", "int32": "float64", "int64": "float64"}
# Reading a longer table takes longer than what a model without onnxport is worth.
_TABLE_BYTES = 1 << 22


class _OneRow(keras.layers.Embedding):
    """An Embedding of one row, which is read without a look-up.

    Keras writes a layer by the module and name of its class: in a file this one is the Embedding that gives the same.
    """

    __module__ = keras.layers.Embedding.__module__
    __qualname__ = keras.layers.Embedding.__qualname__

    def call(self, inputs: object) -> Any:
        """The row, for an index without axes."""
        return keras.ops.reshape(self.embeddings, (self.output_dim,))


_OneRow.__name__ = keras.layers.Embedding.__name__


def carried(sizes: Sizes, array: Array, name: str, trainable: bool) -> Any:
    """A weight that no other layer holds: the only row of an Embedding's table, from which it is read exactly.

    Args:
        sizes: of the model.
        array: the weight's content.
        name: of the layer.
        trainable: whether it is trained.
    """
    kind = array.dtype.name
    held = _TABLE_TYPES.get(kind, kind)
    table = array.astype(held).reshape(1, -1)
    nothing = sizes.nothing()
    if kind not in MOVED - {"bool"} or not 0 < table.nbytes <= _TABLE_BYTES or nothing is None:
        return None
    if held != kind and not np.array_equal(table.astype(kind).reshape(array.shape), array):
        return None
    layer = _OneRow(1, table.size, embeddings_initializer="zeros", trainable=trainable, dtype=held, name=name)
    layer.build()
    layer.set_weights([table])
    row = layer(nothing)
    row = row if held == kind else keras.ops.cast(row, kind)
    return row if len(array.shape) == 1 else keras.ops.reshape(row, array.shape)
