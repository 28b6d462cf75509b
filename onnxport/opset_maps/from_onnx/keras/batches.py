"""Which tensors of a functional model have the batch on their axis 0, or as many rows for each of its elements.

Keras' own layers take for granted that it is the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras

from onnxport.opset_maps.elementwise import ROWS
from onnxport.opset_maps.from_onnx.keras.primitives import Primitive
from onnxport.opset_maps.from_onnx.keras.sizes import Rows

# Keras' operations and the namespace's primitives whose results broadcast their operands, as `_plain` writes them.
_ELEMENTWISE = frozenset(row.keras.replace("_", "") for row in ROWS if row.keras) | frozenset(
    "elementwise astype cast where clip divide pow softmax logsoftmax gelu elu selu leakyrelu".split()
)
_PRODUCTS = frozenset(("matmul", "Matmul"))  # of stacks of matrices
_REDUCTIONS = frozenset(("Mean", "Sum", "Max", "Min"))


def rows_along(tensor: Any, known: Callable[[Any], Rows | None]) -> Rows | None:
    """The rows along axis 0 of a tensor as those of another, given those of what it is computed from.

    None where that is not certain.
    """
    operation, place, _ = tensor._keras_history
    node = operation._inbound_nodes[place]
    operands: Sequence[Any] = node.input_tensors
    rank, name = len(tensor.shape), type(operation).__name__
    alike = _shared([item for item in operands if len(item.shape) == rank], known)
    first = known(operands[0]) if operands else None
    if isinstance(operation, Primitive):
        name = operation.function
    elif isinstance(operation, keras.layers.Layer):
        if type(operation).__module__.partition(".")[0] != "keras":
            return None
        return alike if len(operands) > 1 else first
    if name in _PRODUCTS:
        left = node.arguments.args[0]
        return alike if rank > 2 else known(left) if rank == len(getattr(left, "shape", ())) == 2 else None
    if name in _REDUCTIONS:
        axes = [operation.axis] if isinstance(operation.axis, int) else operation.axis
        inner = axes is not None and all(axis % len(operands[0].shape) for axis in axes)
        return first if inner else None
    if name in _KEEPING:  # of a scalar there are no rows, and no axes to ask for
        return first if first is not None and _KEEPING[name](operation) else None
    if name == "Reshape":
        return _regrouped(first, operands[0].shape, operation.newshape)
    if name == "GetItem":
        key = node.arguments.args[1] if len(node.arguments.args) > 1 else node.arguments.kwargs.get("key")
        return first if isinstance(key, tuple) and key[:1] == (slice(None),) else None
    if name in ("Take", "TakeAlongAxis"):  # either operand may be a constant
        return known(node.arguments.args[1 if name == "Take" and operation.axis == 0 else 0]) if rank else None
    if name in ("Concatenate", "Stack"):
        return first if operation.axis % rank != 0 and all(known(item) == first for item in operands) else None
    return alike if _plain(name) in _ELEMENTWISE else None


def _shared(operands: Sequence[Any], known: Callable[[Any], Rows | None]) -> Rows | None:
    """What operands that are broadcast have in common: of two sizes that are not known one may be 1."""
    together = {known(item) for item in operands if item.shape and item.shape[0] != 1}
    if not together:
        return next((known(item) for item in operands if known(item) is not None), None)
    return together.pop() if len(together) == 1 else None


def _regrouped(rows: Rows | None, before: Sequence[int | None], after: Sequence[int]) -> Rows | None:
    inner = [n for n in before[1:] if n is not None]
    if rows is None or not after or after[0] != -1 or len(inner) < len(before) - 1 or min(after[1:], default=1) < 1:
        return None
    count, rest = divmod(rows[1] * math.prod(inner), math.prod(after[1:]))
    return None if rest or not count else (rows[0], count)


def _without_first(axes: Any) -> bool:
    """Whether axes do not name the first; those counted from the end might."""
    return axes is not None and all(axis > 0 for axis in ([axes] if isinstance(axes, int) else axes))


# Whether an operation leaves axis 0 of its first operand alone.
_KEEPING: dict[str, Callable[[Any], bool]] = {
    "Transpose": lambda operation: operation.axes is not None and operation.axes[0] == 0,
    "ExpandDims": lambda operation: _without_first(operation.axis),
    "Squeeze": lambda operation: _without_first(operation.axis),
    "Flip": lambda operation: operation.axis is not None,
    "Cumsum": lambda operation: operation.axis is not None,
    "OnesLike": lambda operation: True,
    "Pad": lambda operation: tuple(operation.pad_width[0]) == (0, 0),
    "Tile": lambda operation: operation.repeats[0] == 1,
    "Conv": lambda operation: True,
    "DepthwiseConv": lambda operation: True,
    "Copy": lambda operation: True,
}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
