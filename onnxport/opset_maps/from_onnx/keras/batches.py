"""Which tensors of a functional model have the batch on their axis 0: Keras' own layers take that for granted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

from onnxport.opset_maps.elementwise import ROWS
from onnxport.opset_maps.from_onnx.keras.primitives import Primitive

# Keras' operations and the namespace's primitives whose results broadcast their operands, as `_plain` writes them.
_ELEMENTWISE = frozenset(row.keras.replace("_", "") for row in ROWS if row.keras) | frozenset(
    "elementwise astype cast where clip divide pow softmax logsoftmax gelu elu selu leakyrelu".split()
)
_PRODUCTS = frozenset(("matmul", "Matmul"))  # of stacks of matrices
_REDUCTIONS = frozenset(("Mean", "Sum", "Max", "Min"))


def has_batch(tensor: Any, known: Callable[[Any], bool]) -> bool:
    """Whether axis 0 of a tensor is the batch's for certain, `known` telling it of what the tensor is computed from."""
    operation, place, _ = tensor._keras_history
    operands: Sequence[Any] = operation._inbound_nodes[place].input_tensors
    rank, name = len(tensor.shape), type(operation).__name__
    alike = any(known(item) for item in operands if len(item.shape) == rank)
    if isinstance(operation, Primitive):
        name = operation.function
    elif isinstance(operation, keras.layers.Layer):
        if type(operation).__module__.partition(".")[0] != "keras":
            return False
        return alike if len(operands) > 1 else any(map(known, operands))
    if name in _PRODUCTS:
        return rank > 2 and alike
    if name in _REDUCTIONS:
        axes = [operation.axis] if isinstance(operation.axis, int) else operation.axis
        inner = axes is not None and all(axis % len(operands[0].shape) for axis in axes)
        return inner and known(operands[0])
    if name == "Transpose":
        return operation.axes is not None and operation.axes[0] == 0 and known(operands[0])
    return _plain(name) in _ELEMENTWISE and alike


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
