"""Elementwise operators: the rows of the shared table, and those with attributes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph import schema
from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import expm1, log1p
from onnxport.opset_maps.cases import Case, boolean, case, f32, f64, i32, i64
from onnxport.opset_maps.elementwise import BY_TF, Row
from onnxport.opset_maps.lowerings import arithmetic, trigonometry
from onnxport.opset_maps.lowerings.arithmetic import trunc
from onnxport.opset_maps.lowerings.elementwise import lower_row
from onnxport.opset_maps.lowerings.reductions import is_floating
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.values import TensorList

# The argument of tf.raw_ops that is not called x.
_FEATURES = ("Relu", "Relu6", "Softplus", "Softsign")


def _cases(row: Row) -> list[Case]:
    """One case a kind of element type."""

    def run(*operands: tf.Tensor) -> tf.Tensor:
        names = ("features",) if row.tf in _FEATURES else ("x", "y")
        return getattr(tf.raw_ops, row.tf)(**dict(zip(names, operands, strict=False)))

    return [case(run, *operands, min_opset=max(row.since, 13)) for _, operands in row.examples("int32")]


for _row in BY_TF.values():
    if _row.tf not in ("Erf", "Erfinv", "Pow", "Relu"):
        tensorflow.lower(_row.tf, cases=_cases(_row), min_opset=max(_row.since, 13))(lower_row(_row))


@tensorflow.lower("Relu", cases=[case(lambda x: tf.nn.relu(x), f32(2, 3)), case(lambda x: tf.nn.relu(x), i32(2, 3))])
def relu(op: OpBuilder, features: ir.Value) -> ir.Value:
    """ONNX Relu; max(x, 0) of the integers that it takes from opset 14 on."""
    if features.dtype in schema.allowed_dtypes("", "Relu", op.opset):
        return op.Relu(features)
    return op.node("Max", features, op.const(0, features.dtype))


@tensorflow.lower(
    "Pow",
    cases=[
        case(lambda x, y: tf.pow(x, y), f32(2, 3, low=0.2), f32(3)),
        case(lambda x: (x**0.5, x**-0.5), f32(2, 3, low=0.2)),
        case(lambda x: x**5, i64(2, 3)),
        case(
            lambda x, y: tf.pow(x, y), np.array([[3], [-7], [2]]), np.array([39, 21, 62, 0, 90]), name="beyond double"
        ),
        case(lambda x: tf.pow(x, [5, 31, 1]), np.array([100, 3, -(2**31)], np.int32), name="wrapped"),
        case(lambda x, y: tf.pow(tf.cast(x, tf.int8), tf.cast(y, tf.int8)), i32(2, 9), i32(9, low=0, high=12)),
        case(lambda x, y: tf.pow(tf.cast(x, tf.int16), tf.cast(y, tf.int16)), i32(2, 9), i32(9, low=0, high=12)),
    ],
)
def pow_(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """ONNX Pow; the powers 1/2 and -1/2 by Sqrt, as TensorFlow's own optimiser of graphs does; integers by squaring."""
    power = op.constant(y)
    if power is None or power.size != 1 or abs(float(power.ravel()[0])) != 0.5:
        return arithmetic.power(op, x, y)
    root = op.Sqrt(x)
    root = root if power.ndim == 0 else op.Expand(root, op.const(power.shape))
    return root if float(power.ravel()[0]) > 0 else op.Reciprocal(root)


@tensorflow.lower("Add", cases=[case(lambda x, y: tf.raw_ops.Add(x=x, y=y), f32(2, 3), f32(3))])
def add(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """ONNX Add; the older operator also joins strings."""
    if x.dtype == ir.DataType.STRING:
        return op.StringConcat(x, y)
    return op.Add(x, y)


@tensorflow.lower("AddN", cases=[case(lambda x, y: tf.add_n([x, y, x]), f32(2, 3), f32(2, 3))])
def add_n(op: OpBuilder, inputs: list[ir.Value] | list[TensorList]) -> ir.Value | TensorList:
    """The sum of all operands, one after the other; of lists, of their elements."""
    lists = [item for item in inputs if isinstance(item, TensorList)]
    if lists:
        written = [item.stack for item in lists if item.stack is not None]
        return replace(lists[0], tensor=_sum(op, written)) if written else lists[0]
    return _sum(op, [item for item in inputs if isinstance(item, ir.Value)])


def _sum(op: OpBuilder, inputs: list[ir.Value]) -> ir.Value:
    """One operand after the other."""
    total = inputs[0]
    for item in inputs[1:]:
        total = op.Add(total, item)
    return total


@tensorflow.lower(
    "Cast",
    cases=[
        case(lambda x: tf.cast(x, tf.int32), f32(2, 3)),
        case(lambda x: tf.cast(x, tf.float32), boolean(2, 3)),
        case(lambda x: tf.cast(x, tf.bool), f32(2, 3)),
        case(lambda x: tf.cast(x, tf.float64), i64(2, 3)),
    ],
)
def cast(op: OpBuilder, x: ir.Value, *, DstT: ir.DataType, Truncate: bool = False) -> ir.Value:
    """ONNX Cast: to integers both round toward zero, to bool both ask for non-zero."""
    if Truncate:
        raise UnsupportedOperator("Cast: Truncate=True has no ONNX form")
    return op.cast(x, DstT)


@tensorflow.lower("LeakyRelu", cases=[case(lambda x: tf.nn.leaky_relu(x, 0.3), f32(2, 3))])
def leaky_relu(op: OpBuilder, features: ir.Value, *, alpha: float = 0.2) -> ir.Value:
    """ONNX LeakyRelu."""
    return op.LeakyRelu(features, alpha=alpha)


@tensorflow.lower("Elu", cases=[case(lambda x: tf.nn.elu(x), f32(2, 3))])
def elu(op: OpBuilder, features: ir.Value) -> ir.Value:
    """ONNX Elu with alpha 1."""
    return op.Elu(features)


@tensorflow.lower("Selu", cases=[case(tf.nn.selu, f32(2, 3)), case(tf.nn.selu, f64(2, 3))])
def selu(op: OpBuilder, features: ir.Value) -> ir.Value:
    """ONNX Selu; its default alpha and gamma are TensorFlow's, but have float32's digits."""
    if features.dtype == ir.DataType.DOUBLE:
        below = op.Mul(expm1(op, features), 1.7580993408473768599402175208123)
        return op.Where(op.Less(features, 0.0), below, op.Mul(features, 1.0507009873554804934193349852946))
    return op.Selu(features)


@tensorflow.lower(
    "ClipByValue",
    cases=[
        case(lambda x: tf.clip_by_value(x, -1.0, 1.0), f32(2, 3)),
        case(lambda x, y: tf.raw_ops.ClipByValue(t=x, clip_value_min=y, clip_value_max=y + 1.0), f32(2, 3), f32(2, 3)),
        case(lambda x: tf.raw_ops.ClipByValue(t=x, clip_value_min=1.0, clip_value_max=-1.0), f32(2, 3)),
    ],
)
def clip_by_value(op: OpBuilder, t: ir.Value, clip_value_min: ir.Value, clip_value_max: ir.Value) -> ir.Value:
    """max(min(t, high), low), the bounds broadcast."""
    return op.node("Max", op.node("Min", t, clip_value_max), clip_value_min)


@tensorflow.lower(
    "Select",
    cases=[
        case(lambda c, x, y: tf.raw_ops.Select(condition=c, x=x, y=y), boolean(2, 3), f32(2, 3), f32(2, 3)),
        case(lambda c, x, y: tf.raw_ops.Select(condition=c, x=x, y=y), boolean(2), f32(2, 3), f32(2, 3)),
    ],
)
def select(op: OpBuilder, condition: ir.Value, t: ir.Value, e: ir.Value) -> ir.Value:
    """ONNX Where; a condition of one axis selects along axis 0."""
    if condition.shape is not None and t.shape is not None and condition.shape.rank() == 1 and t.shape.rank() > 1:
        condition = op.Unsqueeze(condition, op.axes(*range(1, t.shape.rank())))
    return op.Where(condition, t, e)


@tensorflow.lower(
    "SelectV2",
    cases=[
        case(lambda c, x: tf.where(c, x, 0.0), boolean(2, 3), f32(2, 3)),
        case(lambda c, x, y: tf.where(c, x, y), boolean(3), f32(2, 3), f32(2, 1)),
    ],
)
def select_v2(op: OpBuilder, condition: ir.Value, t: ir.Value, e: ir.Value) -> ir.Value:
    """ONNX Where."""
    return op.Where(condition, t, e)


@tensorflow.lower(
    "Softmax", cases=[case(lambda x: tf.nn.softmax(x), f32(2, 3, 4)), case(lambda x: tf.nn.softmax(x), f64(2, 3))]
)
def softmax(op: OpBuilder, logits: ir.Value) -> ir.Value:
    """ONNX Softmax over the last axis."""
    return op.Softmax(logits, axis=-1)


@tensorflow.lower(
    "LogSoftmax",
    cases=[case(lambda x: tf.nn.log_softmax(x), f32(2, 3)), case(lambda x: tf.nn.log_softmax(x), f64(2, 3))],
)
def log_softmax(op: OpBuilder, logits: ir.Value) -> ir.Value:
    """ONNX LogSoftmax over the last axis."""
    return trigonometry.log_softmax(op, logits, -1)


@tensorflow.lower("Inv", cases=[case(lambda x: tf.raw_ops.Inv(x=x), f32(2, 3, low=0.2))])
def inv(op: OpBuilder, x: ir.Value) -> ir.Value:
    """1 / x."""
    return op.Reciprocal(x)


@tensorflow.lower(
    "Div",
    "TruncateDiv",
    cases=[
        case(lambda x, y: tf.raw_ops.TruncateDiv(x=x, y=y), i32(2, 3), i32(3, low=1, high=4)),
        case(lambda x, y: tf.raw_ops.TruncateDiv(x=x, y=y), f32(2, 3), f32(3, low=0.2)),
        case(
            lambda x, y: (tf.raw_ops.TruncateDiv(x=x, y=y), x // y),
            np.array([1.5, 0.5, -0.5], np.float16),
            np.array([-0.3, 0.1, 0.1], np.float16),
            name="half",
        ),
        case(lambda x, y: tf.raw_ops.Div(x=x, y=y), f32(2, 3), f32(3, low=0.2)),
    ],
)
def truncate_div(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """ONNX Div, which rounds integers toward zero too; of floats only TruncateDiv is rounded."""
    if op.name == "TruncateDiv" and is_floating(x):
        return arithmetic.of_quotient(op, x, y, lambda quotient: trunc(op, quotient))
    return op.Div(x, y)


def or_zero(op: OpBuilder, x: ir.Value, result: ir.Value) -> ir.Value:
    """`result`, 0 where x is 0, be the other operand NaN or infinite."""
    return op.Where(op.Equal(x, 0.0), op.const(0.0, x.dtype), result)


@tensorflow.lower("MulNoNan", cases=[case(lambda x, y: tf.math.multiply_no_nan(x, y), f32(2, 3), f32(2, 3))])
def mul_no_nan(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x y, 0 where y is 0."""
    return or_zero(op, y, op.Mul(x, y))


@tensorflow.lower("Xlog1py", cases=[case(lambda x, y: tf.math.xlog1py(x, y), f32(2, 3, low=0.1), f32(2, 3, low=0.1))])
def xlog1py(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x log(1 + y), 0 where x is 0."""
    return or_zero(op, x, op.Mul(x, log1p(op, y)))


@tensorflow.lower("Xdivy", cases=[case(lambda x, y: tf.math.xdivy(x, y), f32(2, 3), f32(2, 3, low=0.1))])
def xdivy(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x / y, 0 where x is 0."""
    return or_zero(op, x, op.Div(x, y))


@tensorflow.lower("Xlogy", cases=[case(lambda x, y: tf.math.xlogy(x, y), f32(2, 3, low=0.1), f32(3, low=0.1))])
def xlogy(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x log(y), 0 where x is 0."""
    return or_zero(op, x, op.Mul(x, op.Log(y)))
