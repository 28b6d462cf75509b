"""Rows of a tensor changed in place; an index wraps around the number of rows."""

from __future__ import annotations

import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i32, i64
from onnxport.opset_maps.lowerings.scatter import scatter_slices
from onnxport.opset_maps.maps import tensorflow

_I32 = i32(3, low=-7, high=8)


@tensorflow.lower(
    "InplaceAdd",
    min_opset=16,
    cases=[
        case(lambda x, i, v: tf.raw_ops.InplaceAdd(x=x, i=i, v=v), f32(4, 2), _I32, f32(3, 2), min_opset=16),
        case(lambda x, i, v: tf.raw_ops.InplaceAdd(x=x, i=i, v=v), i64(4), _I32, i64(3), min_opset=16),
    ],
)
def inplace_add(op: OpBuilder, x: ir.Value, i: ir.Value, v: ir.Value) -> ir.Value:
    """ONNX ScatterND that adds, at the indices modulo the number of rows."""
    places = op.Mod(op.cast(i, ir.DataType.INT64), op.dim(x, 0))
    return scatter_slices(op, x, op.Unsqueeze(places, op.axes(-1)), v, "add")
