"""Matrix products and what goes with them."""

from __future__ import annotations

import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i32
from onnxport.opset_maps.lowerings import products
from onnxport.opset_maps.lowerings.axes import transposed
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import rank


def _swapped(op: OpBuilder, x: ir.Value, swap: bool) -> ir.Value:
    """`x` with its last two axes exchanged if `swap`."""
    return transposed(op, x) if swap else x


@tensorflow.lower(
    "MatMul",
    cases=[
        case(lambda x, y: tf.matmul(x, y), f32(2, 3), f32(3, 4), dynamic=True),
        case(lambda x, y: tf.matmul(x, y, transpose_a=True, transpose_b=True), f32(3, 2), f32(4, 3)),
        case(lambda x, y: tf.matmul(x, y), i32(2, 3), i32(3, 4)),
    ],
)
def matmul(
    op: OpBuilder, a: ir.Value, b: ir.Value, *, transpose_a: bool = False, transpose_b: bool = False
) -> ir.Value:
    """ONNX MatMul."""
    return products.matmul(op, _swapped(op, a, transpose_a), _swapped(op, b, transpose_b))


@tensorflow.lower(
    "SparseMatMul",
    cases=[
        case(lambda x, y: tf.matmul(x, y, a_is_sparse=True), f32(2, 3), f32(3, 4)),
        case(lambda x, y: tf.matmul(x, y, transpose_a=True, b_is_sparse=True), f32(3, 2), f32(3, 4)),
    ],
)
def sparse_matmul(
    op: OpBuilder, a: ir.Value, b: ir.Value, *, transpose_a: bool = False, transpose_b: bool = False
) -> ir.Value:
    """ONNX MatMul of dense matrices with many zeros; the result is float32."""
    single = ir.DataType.FLOAT
    return op.MatMul(_swapped(op, op.cast(a, single), transpose_a), _swapped(op, op.cast(b, single), transpose_b))


@tensorflow.lower(
    "BatchMatMul BatchMatMulV2 BatchMatMulV3",
    cases=[
        case(lambda x, y: tf.matmul(x, y), f32(5, 2, 3), f32(5, 3, 4), dynamic=True),
        case(lambda x, y: tf.matmul(x, y, adjoint_b=True), f32(5, 1, 2, 3), f32(6, 4, 3)),
    ],
)
def batch_matmul(
    op: OpBuilder,
    x: ir.Value,
    y: ir.Value,
    *,
    Tout: ir.DataType | None = None,
    adj_x: bool = False,
    adj_y: bool = False,
    grad_x: bool = False,
    grad_y: bool = False,
) -> ir.Value:
    """ONNX MatMul, batch axes broadcast."""
    if Tout is not None and Tout != x.dtype:
        x, y = op.cast(x, Tout), op.cast(y, Tout)
    return products.matmul(op, _swapped(op, x, adj_x), _swapped(op, y, adj_y))


@tensorflow.lower(
    "Einsum",
    cases=[
        case(lambda x, y: tf.einsum("bqhd,bkhd->bhqk", x, y), f32(2, 3, 4, 5), f32(2, 6, 4, 5), dynamic=True),
        case(lambda x: tf.einsum("ij->ji", x), f32(2, 3)),
        case(lambda x, y: tf.einsum("...ij,jk->...ik", x, y), f32(2, 3, 4), f32(4, 5)),
    ],
)
def einsum(op: OpBuilder, inputs: list[ir.Value], *, equation: str) -> ir.Value:
    """ONNX Einsum, or MatMul where one operand's trailing axes meet the other's leading ones."""
    if len(inputs) == 2 and (result := as_matmul(op, inputs[0], inputs[1], equation.replace(" ", ""))) is not None:
        return result
    return op.Einsum(*inputs, equation=equation)


def as_matmul(op: OpBuilder, x: ir.Value, y: ir.Value, equation: str) -> ir.Value | None:
    """``ab..c,cd->ab..d`` as MatMul, which runtimes have faster kernels for than Einsum."""
    operands, arrow, result = equation.partition("->")
    left, _, right = operands.partition(",")
    if not arrow or "." in equation or len(right) != 2 or len(set(left + right)) != len(left) + 1:
        return None
    if left[-1] != right[0] or result != left[:-1] + right[1]:
        return None
    return products.matmul(op, x, y)


@tensorflow.lower(
    "BiasAdd",
    cases=[
        case(lambda x, b: tf.nn.bias_add(x, b), f32(2, 4, 5, 3), f32(3)),
        case(lambda x, b: tf.nn.bias_add(x, b, data_format="NCHW"), f32(2, 3, 4, 5), f32(3)),
        case(lambda x, b: tf.nn.bias_add(x, b), f32(2, 3), f32(3)),
    ],
)
def bias_add(op: OpBuilder, value: ir.Value, bias: ir.Value, *, data_format: str = "NHWC") -> ir.Value:
    """ONNX Add along the channel axis."""
    if data_format == "NCHW":
        bias = op.Reshape(bias, [-1, *([1] * (rank(value) - 2))])
    return op.Add(value, bias)


@tensorflow.lower("BiasAddV1", cases=[case(lambda x, b: tf.raw_ops.BiasAddV1(value=x, bias=b), f32(2, 3), f32(3))])
def bias_add_v1(op: OpBuilder, value: ir.Value, bias: ir.Value) -> ir.Value:
    """ONNX Add along the last axis."""
    return op.Add(value, bias)
