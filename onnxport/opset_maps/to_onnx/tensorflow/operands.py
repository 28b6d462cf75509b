"""Reading operands: constants as Python numbers, sizes as INT64, images with their channels first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import permuted, rank


def components(structure: Any) -> list[tf.Tensor]:
    """The tensors of a nested structure, those that ragged and sparse tensors consist of among them."""
    return tf.nest.flatten(structure, expand_composites=True)


def static_ints(op: OpBuilder, x: ir.Value, what: str) -> list[int]:
    """A constant integer operand as a list.

    Raises:
        UnsupportedOperator: it is computed at run time.
    """
    result = op.constant(x)
    if result is None:
        raise UnsupportedOperator(f"{what} is computed when the model runs; ONNX needs it constant")
    return [int(item) for item in np.asarray(result).ravel()]


def static_int(op: OpBuilder, x: ir.Value, what: str) -> int:
    """A constant integer scalar.

    Raises:
        UnsupportedOperator: it is computed at run time.
    """
    return static_ints(op, x, what)[0]


def int64(op: OpBuilder, x: ir.Value) -> ir.Value:
    """`x` as INT64; a narrowing of a shape to INT32 before it is undone."""
    known = op.constant(x)
    if known is not None:
        return op.const(known.astype(np.int64))
    producer = x.producer()
    if producer is not None and producer.op_type == "Cast" and producer.inputs[0] is not None:
        before = producer.inputs[0]
        if before.dtype == ir.DataType.INT64 and x.dtype == ir.DataType.INT32 and _is_size(before):
            return before
    return op.cast(x, ir.DataType.INT64)


_SIZES = frozenset({"Shape", "Gather", "Slice", "Squeeze", "Size", "Unsqueeze"})


def _is_size(x: ir.Value) -> bool:
    """Computed from nothing but shapes, whose sizes are below 2**31 wherever memory holds the tensor."""
    producer = x.producer()
    while producer is not None and producer.op_type in _SIZES and producer.inputs[0] is not None:
        if producer.op_type in ("Shape", "Size"):
            return True
        producer = producer.inputs[0].producer()
    return False


def elements(op: OpBuilder, x: ir.Value) -> list[int | None] | None:
    """The elements of an integer vector as far as they are known, as those of a partly static shape are."""
    known = op.constant(x)
    if known is not None:
        return [int(item) for item in known.ravel()] if known.ndim == 1 and known.dtype.kind in "iu" else None
    producer = x.producer()
    if producer is None or producer.inputs[0] is None:
        return None
    if producer.op_type == "Cast" and x.dtype in (ir.DataType.INT32, ir.DataType.INT64):
        return elements(op, producer.inputs[0])
    if producer.op_type == "Shape" and producer.inputs[0].shape is not None and not producer.attributes:
        return [dim if isinstance(dim, int) else None for dim in producer.inputs[0].shape]
    if producer.op_type != "Concat":
        return None
    parts: list[int | None] = []
    for item in producer.inputs:
        if item is None or item.shape is None or item.shape.rank() != 1 or not isinstance(item.shape[0], int):
            return None
        parts.extend(elements(op, item) or [None] * item.shape[0])
    return parts


def vector(op: OpBuilder, x: ir.Value) -> ir.Value:
    """An integer scalar or vector as an INT64 vector."""
    x = int64(op, x)
    return x if x.shape is not None and x.shape.rank() == 1 else op.Reshape(x, [-1])


def static_sizes(dims: Sequence[object]) -> list[int] | None:
    """The sizes as integers, or None where one is unknown."""
    sizes = [dim for dim in dims if isinstance(dim, int)]
    return sizes if len(sizes) == len(dims) else None


def channels_first(op: OpBuilder, x: ir.Value, data_format: str) -> ir.Value:
    """An image batch in ONNX's order, batch, channels, space, whatever `data_format` (``NHWC``, ``NCDHW``, ...) says."""
    n = rank(x)
    return x if data_format.startswith("NC") else permuted(op, x, [0, n - 1, *range(1, n - 1)])


def channels_as(op: OpBuilder, x: ir.Value, data_format: str) -> ir.Value:
    """The reverse of `channels_first`."""
    n = rank(x)
    return x if data_format.startswith("NC") else permuted(op, x, [0, *range(2, n), 1])


def spatial(items: Sequence[int], data_format: str) -> list[int]:
    """The spatial entries of an attribute that has one entry an axis.

    >>> spatial([1, 2, 3, 1], "NHWC"), spatial([1, 1, 2, 3], "NCHW")
    ([2, 3], [2, 3])
    """
    return list(items[2:] if data_format.startswith("NC") else items[1:-1])
