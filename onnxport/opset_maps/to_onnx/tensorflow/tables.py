"""Lookup tables, with the contents that they have when the model is converted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, i64
from onnxport.opset_maps.lowerings.cutting import encoded
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import rank
from onnxport.opset_maps.to_onnx.tensorflow.program import decoded
from onnxport.opset_maps.to_onnx.tensorflow.values import ResourceHandle


def _with(table: Callable[[], Any], use: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    """Builds a function that uses a table."""

    def build() -> Any:
        module = tf.Module()
        module.table = table()
        return tf.function(lambda x: use(module.table, x))

    return build


def _static(keys: Any, values: Any, default: Any) -> Callable[[], Any]:
    def table() -> Any:
        initial = tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.constant(values))
        return tf.lookup.StaticHashTable(initial, tf.constant(default))

    return table


def _dense() -> Any:
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float64, 0.5, empty_key=-1, deleted_key=-2)
    table.insert(tf.constant([3, 4, 5], tf.int64), tf.constant([0.1, 0.2, 0.3], tf.float64))
    table.erase(tf.constant([4], tf.int64))
    return table


def _vectors() -> Any:
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, tf.constant([-1.0, -2.0]))
    table.insert(tf.constant(["a", "\u00e9"]), tf.constant([[1.0, 2.0], [3.0, 4.0]]))
    return table


def _empty() -> Any:
    return tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 7)


def _find(table: Any, x: Any) -> Any:
    return table.lookup(x)


_KEYS = np.array([3, 4])
_TEXTS = np.array([["b", "x"], ["a", "b"]], object)
# As LabelEncoder's attributes name them.
_TYPES = {ir.DataType.STRING: "string", ir.DataType.INT64: "int64", ir.DataType.FLOAT: "float"}
_NARROW = (ir.DataType.INT32, ir.DataType.INT16, ir.DataType.INT8)


@tensorflow.lower(
    "LookupTableFindV2",
    cases=[
        built(_with(_static(["a", "b"], _KEYS, np.int64(-1)), _find), _TEXTS),
        built(_with(_static(_KEYS, ["a", "b"], "?"), _find), i64(5, low=1, high=6)),
        built(_with(_static(_KEYS, np.array([0.5, 0.25], np.float32), np.float32(0)), _find), i64(5, low=1, high=6)),
        built(_with(_dense, _find), i64(5, low=1, high=6)),
        built(_with(_vectors, _find), np.array([["\u00e9", "x"], ["a", "a"]], object)),
        built(_with(_empty, _find), i64(5)),
    ],
)
def lookup_table_find(op: OpBuilder, table_handle: ResourceHandle, keys: ir.Value, default_value: ir.Value) -> ir.Value:
    """ONNX-ML LabelEncoder, and Gather of values that it can't give."""
    if keys.dtype is None or default_value.dtype is None:
        raise UnsupportedOperator("LookupTableFindV2: a table of unknown types")
    source = _encodable(keys.dtype)
    known, values = _contents(table_handle, keys.dtype, default_value.dtype, scalars=rank(default_value) == 0)
    default = op.constant(default_value)
    target = ir.DataType.INT64 if default_value.dtype in _NARROW else default_value.dtype
    numbered = op.cast(keys, source)
    if default is not None and target in _TYPES and values.ndim == 1 and len(known):
        options = {
            f"keys_{_TYPES[source]}s": known.tolist(),
            f"values_{_TYPES[target]}s": values.tolist(),
            f"default_{_TYPES[target]}": default.reshape(()).item(),
        }
        return op.cast(op.ml.LabelEncoder(numbered, **options), default_value.dtype)
    if not len(known):
        return op.Expand(default_value, op.Concat(op.shape(keys), op.shape(default_value), axis=0))
    if source == ir.DataType.FLOAT:
        raise UnsupportedOperator("LookupTableFindV2: a table of vectors by floating-point keys has no entry")
    place = encoded(op, numbered, {key: number for number, key in enumerate(known.tolist())}, len(known))
    every = op.Concat(op.const(values), op.Unsqueeze(default_value, op.axes(0)), axis=0)
    return op.Gather(every, place, axis=0)


def _encodable(dtype: ir.DataType) -> ir.DataType:
    """The type that LabelEncoder handles keys of `dtype` in."""
    if dtype in _TYPES:
        return dtype
    if dtype in _NARROW:
        return ir.DataType.INT64
    raise UnsupportedOperator(f"LookupTableFindV2: a table with keys of {dtype.name} has no ONNX form")


def _contents(
    table: ResourceHandle, key: ir.DataType, value: ir.DataType, *, scalars: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The keys [n] in order, and the value of each, a number or a vector."""
    names = {ir.DataType.STRING: tf.string}
    kinds = [names.get(dtype) or tf.as_dtype(dtype.numpy()) for dtype in (key, value)]
    try:
        exported = tf.raw_ops.LookupTableExportV2(table_handle=table.tensor, Tkeys=kinds[0], Tvalues=kinds[1])
    except (tf.errors.OpError, AttributeError, TypeError) as error:
        raise UnsupportedOperator("LookupTableFindV2: the table has no contents yet that could be read") from error
    keys, values = (decoded(item) if item.dtype == object else item for item in (part.numpy() for part in exported))
    if keys.ndim == 2:  # every bucket of a DenseHashTable: those that hold nothing have one key
        if keys.shape[1] != 1:
            raise UnsupportedOperator("LookupTableFindV2: a table with vectors as keys has no ONNX form")
        keys = keys[:, 0]
        _, first, counts = np.unique(keys, return_index=True, return_counts=True)
        keys, values = keys[first[counts == 1]], values[first[counts == 1]]
        values = values[:, 0] if scalars else values
    order = np.argsort(keys, kind="stable")  # a hash table has no order of its own
    return keys[order], values[order]


@tensorflow.lower(
    "LookupTableSizeV2",
    cases=[
        built(_with(_static(["a", "b"], _KEYS, np.int64(0)), lambda table, x: x + table.size()), i64(1)),
    ],
)
def lookup_table_size(op: OpBuilder, table_handle: ResourceHandle) -> ir.Value:
    """The table's present size."""
    return op.const(np.asarray(int(tf.raw_ops.LookupTableSizeV2(table_handle=table_handle.tensor)), np.int64))
