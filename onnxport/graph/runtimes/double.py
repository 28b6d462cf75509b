"""Operators that onnxruntime has in float32 only, composed in double precision: a detour through float32 loses digits."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import expm1, log1p, standardized
from onnxport.graph.runtimes.defect import Defect, Write, Written, dims, operand, real

_DOUBLE = frozenset({ir.DataType.DOUBLE})
_LARGEST_MATRIX = 32  # a determinant of a larger matrix would be written as too many nodes


def softplus(op: OpBuilder, node: ir.Node) -> Written:
    """max(x, 0) + log1p(exp(-|x|))."""
    x = operand(node, 0)
    return op.Add(op.Max(x, _number(op, x, 0.0)), log1p(op, op.Exp(op.Neg(op.Abs(x)))))


def softsign(op: OpBuilder, node: ir.Node) -> Written:
    """x / (1 + |x|)."""
    x = operand(node, 0)
    return op.Div(x, op.Add(op.Abs(x), 1.0))


def elu(op: OpBuilder, node: ir.Node) -> Written:
    """Below 0, alpha (exp(x) - 1)."""
    x = operand(node, 0)
    low = op.Mul(expm1(op, op.Min(x, _number(op, x, 0.0))), real(node, "alpha", 1.0))
    return op.Where(op.Less(x, 0.0), low, x)


def leaky_relu(op: OpBuilder, node: ir.Node) -> Written:
    """Below 0, alpha x; alpha is the float32 that the attribute holds."""
    x = operand(node, 0)
    return op.Where(op.Less(x, 0.0), op.Mul(x, real(node, "alpha", 0.01)), x)


def prelu(op: OpBuilder, node: ir.Node) -> Written:
    """Below 0, slope x."""
    x, slope = operand(node, 0), operand(node, 1)
    return op.Where(op.Less(x, _number(op, x, 0)), op.Mul(x, slope), x)


def thresholded_relu(op: OpBuilder, node: ir.Node) -> Written:
    """x above alpha, else 0."""
    x = operand(node, 0)
    return op.Where(op.Greater(x, real(node, "alpha", 1.0)), x, _number(op, x, 0.0))


def hard_sigmoid(op: OpBuilder, node: ir.Node) -> Written:
    """max(0, min(1, alpha x + beta))."""
    x = operand(node, 0)
    line = op.Add(op.Mul(x, real(node, "alpha", 0.2)), real(node, "beta", 0.5))
    return op.Max(op.Min(line, _number(op, x, 1.0)), _number(op, x, 0.0))


def hardmax(op: OpBuilder, node: ir.Node) -> Written:
    """1 at the first greatest element along the axis, else 0."""
    x, axis = operand(node, 0), node.attributes.get_int("axis", -1)
    size = op.Gather(op.Shape(x), op.const(axis))
    return op.OneHot(op.ArgMax(x, axis=axis, keepdims=0), size, op.const(np.asarray([0.0, 1.0])), axis=axis)


def mish(op: OpBuilder, node: ir.Node) -> Written:
    """x tanh(softplus(x))."""
    x = operand(node, 0)
    return op.Mul(x, op.Tanh(op.Softplus(x)))


def tan(op: OpBuilder, node: ir.Node) -> Written:
    """sin(x) / cos(x)."""
    x = operand(node, 0)
    return op.Div(op.Sin(x), op.Cos(x))


def cos(op: OpBuilder, node: ir.Node) -> Written:
    """1 - 2 sin(x / 2)^2: off by no more than a rounding of 1."""
    sine = op.Sin(op.Mul(operand(node, 0), 0.5))
    return op.Sub(1.0, op.Mul(op.Mul(sine, sine), 2.0))


def mean(op: OpBuilder, node: ir.Node) -> Written:
    """The sum over the number of operands."""
    values = [operand(node, index) for index in range(len(node.inputs))]
    return op.Div(op.Sum(*values), float(len(values)))


def instance_normalization(op: OpBuilder, node: ir.Node) -> Written:
    """(x - mean) / sqrt(variance + epsilon) scale + bias, a channel of an instance at a time."""
    x, scale, bias = operand(node, 0), operand(node, 1), operand(node, 2)
    rank = len(dims(x) or ())
    normal = standardized(op, x, list(range(2, rank)), real(node, "epsilon", 1e-5))
    scale, bias = (op.Unsqueeze(item, op.axes(*range(1, rank - 1))) if rank > 2 else item for item in (scale, bias))
    return op.Add(op.Mul(normal, scale), bias)


def rms_normalization(op: OpBuilder, node: ir.Node) -> Written:
    """x / sqrt(mean(x^2) + epsilon) scale, over the last axes."""
    x, axis = operand(node, 0), node.attributes.get_int("axis", -1)
    rank = len(dims(x) or ())
    mean = op.reduce("ReduceMean", op.Mul(x, x), list(range(axis % rank, rank)), keepdims=True)
    return op.Mul(op.Div(x, op.Sqrt(op.Add(mean, real(node, "epsilon", 1e-5)))), operand(node, 1))


def response_normalization(op: OpBuilder, node: ir.Node) -> Written:
    """x / (bias + alpha / size times the sum of the squares of the channels around)^beta."""
    x, size = operand(node, 0), node.attributes.get_int("size", 1)
    rank = len(dims(x) or ())
    before = [0, (size - 1) // 2, *[0] * (rank - 2)]
    after = [0, size // 2, *[0] * (rank - 2)]
    squares = op.Pad(op.Mul(x, x), [*before, *after])
    end = op.dim(x, 1)
    parts = [op.Slice(squares, [i], op.shape_vector([op.Add(end, i)]), [1]) for i in range(size)]
    total = op.Mul(op.Sum(*parts), real(node, "alpha", 1e-4) / size)
    return op.Div(x, op.Pow(op.Add(total, real(node, "bias", 1.0)), real(node, "beta", 0.75)))


def square(op: OpBuilder, node: ir.Node) -> Written:
    """x x."""
    x = operand(node, 0)
    return op.Mul(x, x)


def _is_mean_square(node: ir.Node) -> bool:
    exponent = operand(node, 1).const_value
    return (
        exponent is not None
        and exponent.size == 1
        and exponent.numpy().item() == 2
        and any(user.op_type == "ReduceMean" for user in node.outputs[0].consumers())
    )


def over_space(operator: str) -> Write:
    """A reduction over all axes behind the second."""

    def write(op: OpBuilder, node: ir.Node) -> Written:
        x = operand(node, 0)
        return op.reduce(operator, x, list(range(2, len(dims(x) or ()))), keepdims=True)

    return write


def determinant(op: OpBuilder, node: ir.Node) -> Written:
    """Gaussian elimination with partial pivoting, a row and a column less at each step.

    Source: Golub and Van Loan, "Matrix Computations", 4th edition, section 3.4.
    """
    a = operand(node, 0)
    size = (dims(a) or [None])[-1]
    assert size is not None
    one, zero = _number(op, a, 1.0), _number(op, a, 0.0)
    result: ir.Value | None = None
    for left in range(size, 0, -1):
        column = op.Slice(a, [0], [1], [-1])
        place = op.ArgMax(op.Abs(column), axis=-2, keepdims=1)
        is_pivot = op.Equal(op.const([[i] for i in range(left)]), place)
        row = op.reduce("ReduceSum", op.Where(is_pivot, a, zero), [-2], keepdims=True)
        pivot = op.Slice(row, [0], [1], [-1])
        signed = op.Where(op.Equal(place, 0), pivot, op.Neg(pivot))
        result = signed if result is None else op.Mul(result, signed)
        if left == 1:
            break
        first, end = op.Slice(a, [0], [1], [-2]), [left]
        rest = op.Where(op.Slice(is_pivot, [1], end, [-2]), first, op.Slice(a, [1], end, [-2]))
        factor = op.Div(op.Slice(rest, [0], [1], [-1]), op.Where(op.Equal(pivot, 0.0), one, pivot))
        a = op.Slice(op.Sub(rest, op.Mul(factor, row)), [1], end, [-1])
    assert result is not None
    return op.Squeeze(result, op.axes(-2, -1))


def _number(op: OpBuilder, x: ir.Value, number: float) -> ir.Value:
    return op.const(number, x.dtype)


def _has_rank(node: ir.Node) -> bool:
    return dims(node.inputs[0]) is not None


def _is_small_matrix(node: ir.Node) -> bool:
    size = (dims(node.inputs[0]) or [None])[-1]
    return size is not None and 0 < size <= _LARGEST_MATRIX


_ANOTHER_EPSILON = "onnxruntime 1.31 merges a root mean square into a norm with another epsilon"
_row = partial(Defect, dtypes=_DOUBLE)

DOUBLE = (
    _row(("Softplus",), softplus, "max(x, 0) + log1p(exp(-|x|))"),
    _row(("Softsign",), softsign, "x / (1 + |x|)"),
    _row(("Elu",), elu, "alpha expm1(x) below 0"),
    _row(("LeakyRelu",), leaky_relu, "alpha x below 0"),
    _row(("PRelu",), prelu, "slope x below 0", dtypes=_DOUBLE | {ir.DataType.INT32, ir.DataType.INT64}),
    _row(("ThresholdedRelu",), thresholded_relu, "Where"),
    _row(("HardSigmoid",), hard_sigmoid, "max(0, min(1, alpha x + beta))"),
    _row(("Hardmax",), hardmax, "OneHot of ArgMax"),
    _row(("Mish",), mish, "x tanh(softplus(x))"),
    _row(("Tan",), tan, "sin(x) / cos(x)"),
    _row(("Cos",), cos, "1 - 2 sin(x / 2)^2", reason="onnxruntime 1.24 has no kernel", opsets=range(13, 22)),
    _row(("Mean",), mean, "Sum and Div"),
    _row(("InstanceNormalization",), instance_normalization, "its definition", applies=_has_rank),
    _row(("RMSNormalization",), rms_normalization, "its definition", reason=_ANOTHER_EPSILON, applies=_has_rank),
    _row(("Pow",), square, "Mul", reason=_ANOTHER_EPSILON, applies=_is_mean_square, operands=(0,), optimised=True),
    _row(("LRN",), response_normalization, "its definition", applies=_has_rank),
    _row(("GlobalAveragePool",), over_space("ReduceMean"), "ReduceMean", applies=_has_rank),
    _row(("GlobalMaxPool",), over_space("ReduceMax"), "ReduceMax", applies=_has_rank),
    _row(("Det",), determinant, "Gaussian elimination", applies=_is_small_matrix),
)
