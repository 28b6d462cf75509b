"""Single steps of recurrent layers, as one operator."""

from __future__ import annotations

import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.maps import tensorflow


def _step(
    x: tf.Tensor, h: tf.Tensor, w_ru: tf.Tensor, w_c: tf.Tensor, b_ru: tf.Tensor, b_c: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    return tuple(tf.raw_ops.GRUBlockCell(x=x, h_prev=h, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c))


@tensorflow.lower(
    "GRUBlockCell", cases=[case(_step, f32(3, 4), f32(3, 2), f32(6, 4), f32(6, 2), f32(4), f32(2), dynamic=True)]
)
def gru_block_cell(
    op: OpBuilder, x: ir.Value, h_prev: ir.Value, w_ru: ir.Value, w_c: ir.Value, b_ru: ir.Value, b_c: ir.Value
) -> tuple[ir.Value, ...]:
    """Both gates from one product, the candidate from another: r, u, c and (1 - u) c + u h."""
    units = w_c.shape[-1] if w_c.shape is not None else None
    if not isinstance(units, int):
        raise UnsupportedOperator("w_c of an unknown number of columns")
    both = op.Sigmoid(op.Add(op.MatMul(op.Concat(x, h_prev, axis=-1), w_ru), b_ru))
    r, u = op.split(both, [units, units], -1)
    c = op.Tanh(op.Add(op.MatMul(op.Concat(x, op.Mul(h_prev, r), axis=-1), w_c), b_c))
    return r, u, c, op.Add(op.Mul(op.Sub(1.0, u), c), op.Mul(u, h_prev))
