"""Matrix products and what goes with them."""

from __future__ import annotations

import string

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
        case(lambda x, y: tf.einsum("...ij,...jk->...ik", x, y), f32(2, 3, 4), f32(4, 5)),
        case(lambda x, y: tf.einsum("i...,...j->...ij", x, y), f32(3, 2, 1, 4), f32(5, 4, 4)),
    ],
)
def einsum(op: OpBuilder, inputs: list[ir.Value], *, equation: str) -> ir.Value:
    """ONNX Einsum, or MatMul where one operand's trailing axes meet the other's leading ones."""
    inputs, equation = without_ellipses(op, inputs, equation.replace(" ", ""))
    if len(inputs) == 2 and (result := as_matmul(op, inputs[0], inputs[1], equation.replace(" ", ""))) is not None:
        return result
    return products.einsum(op, inputs, equation)


def without_ellipses(op: OpBuilder, inputs: list[ir.Value], equation: str) -> tuple[list[ir.Value], str]:
    """Letters for the axes of ellipses that stand for different numbers of axes, or of sizes, which ONNX does not take."""
    operands, arrow, result = equation.partition("->")
    terms = operands.split(",")
    counts = [rank(x) - len(term) + 3 if "..." in term else 0 for x, term in zip(inputs, terms, strict=True)]
    spread = [
        list(x.shape)[term.find(".") :][:n] for x, term, n in zip(inputs, terms, counts, strict=True) if n and x.shape
    ]
    if "..." not in operands or not arrow or len({tuple(map(str, sizes)) for sizes in spread}) <= 1 == len(set(counts)):
        return inputs, equation
    letters = [letter for letter in string.ascii_letters if letter not in equation][: max(counts)]
    whole: list[set[object]] = [
        {sizes[i - len(letters)] for sizes in spread if len(sizes) >= len(letters) - i} for i in range(len(letters))
    ]
    values, written = [], []
    for x, term, count in zip(inputs, terms, counts, strict=True):
        first = term.find(".")
        own = letters[len(letters) - count :]
        alone = [  # an axis of one element that others have more of is no axis
            i
            for i in range(count)
            if x.shape is not None and x.shape[first + i] == 1 and whole[len(letters) - count + i] != {1}
        ]
        values.append(op.Squeeze(x, op.axes(*(first + i for i in alone))) if alone else x)
        written.append(term.replace("...", "".join(letter for i, letter in enumerate(own) if i not in alone)))
    return values, ",".join(written) + "->" + result.replace("...", "".join(letters))


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
