"""The order of axes changed."""

from __future__ import annotations

import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.lowerings.axes import permuted
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import static_ints


def _chosen(op: OpBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value] | None:
    """The condition and the two constants of a choice between them."""
    node = x.producer()
    if node is None or node.op_type != "Where":
        return None
    condition, first, second = node.inputs
    if condition is None or first is None or second is None or condition.shape is None or condition.shape.rank():
        return None
    return None if op.constant(first) is None or op.constant(second) is None else (condition, first, second)


def _turned_if_long(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x, tf.where(tf.shape(x)[0] > 2, [0, 2, 1], [2, 0, 1]))


@tensorflow.lower(
    "Transpose ConjugateTranspose",
    cases=[
        case(lambda x: tf.raw_ops.ConjugateTranspose(x=x, perm=[1, 0]), f32(2, 3)),
        case(lambda x: tf.transpose(x, [2, 0, 1]), f32(2, 3, 4), dynamic=True),
        case(lambda x: tf.transpose(x), f32(2, 3, 4), dynamic=True),
        case(_turned_if_long, f32(2, 3, 4), dynamic=True),
    ],
)
def transpose(op: OpBuilder, x: ir.Value, perm: ir.Value) -> ir.Value:
    """ONNX Transpose; of two orders, one of which is chosen when the model runs, in an If."""
    either = _chosen(op, perm)
    if either is not None:
        condition, first, second = either
        return op.If(
            condition,
            then_branch=op.body(lambda b: [transpose(b, x, first)]),
            else_branch=op.body(lambda b: [transpose(b, x, second)]),
        )
    axes = static_ints(op, perm, "Transpose: perm")
    return permuted(op, x, [axis % len(axes) for axis in axes])
