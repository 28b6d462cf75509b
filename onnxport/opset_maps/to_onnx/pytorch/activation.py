"""Activations with parameters, softmax and dropout."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, case, f32, f64, i64
from onnxport.opset_maps.lowerings import random, trigonometry
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.dtypes import to_dtype
from onnxport.opset_maps.maps import aten

_FLOAT = ir.DataType.FLOAT
_HALF = ir.DataType.FLOAT16


@aten.lower(
    "aten::gelu",
    cases=[case(F.gelu, f32(2, 3), dynamic=True), case(lambda x: F.gelu(x, approximate="tanh"), f32(2, 3))],
)
def gelu(op: OpBuilder, x: ir.Value, *, approximate: str = "none") -> ir.Value:
    """Gelu from opset 20; before, its erf or tanh form, which runtimes fuse."""
    if op.opset >= 20 and x.dtype != ir.DataType.DOUBLE:
        return op.Gelu(x, approximate=approximate)
    if approximate == "none":
        return op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, math.sqrt(2.0))), 1.0)), 0.5)
    inner = op.Mul(op.Add(x, op.Mul(op.Mul(op.Mul(x, x), x), 0.044715)), math.sqrt(2.0 / math.pi))
    return op.Mul(op.Mul(x, op.Add(op.Tanh(inner), 1.0)), 0.5)


@aten.lower("aten::leaky_relu", cases=[case(lambda x: F.leaky_relu(x, 0.2), f32(2, 3))])
def leaky_relu(op: OpBuilder, x: ir.Value, negative_slope: float = 0.01) -> ir.Value:
    """LeakyRelu."""
    return op.LeakyRelu(x, alpha=negative_slope)


@aten.lower(
    "aten::elu",
    cases=[
        case(lambda x: F.elu(x, 0.5), f32(2, 3)),
        case(F.selu, f32(2, 3)),
        case(lambda x: F.celu(x, 0.7), f32(2, 3)),
    ],
)
def elu(op: OpBuilder, x: ir.Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> ir.Value:
    """Elu."""
    if scale == 1 and input_scale == 1:
        return op.Elu(x, alpha=alpha)
    negative = op.Mul(op.Sub(op.Exp(op.Mul(x, float(input_scale))), 1.0), float(alpha))
    return op.Mul(op.Where(op.Greater(x, 0.0), x, negative), float(scale))


@aten.lower("aten::selu", cases=[case(F.selu, f32(2, 3))])
def selu(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Selu with torch's constants, which are ONNX's defaults."""
    return op.Selu(x)


@aten.lower("aten::celu", cases=[case(lambda x: F.celu(x, 0.7), f32(2, 3))])
def celu(op: OpBuilder, x: ir.Value, alpha: float = 1.0) -> ir.Value:
    """Celu."""
    return op.Celu(x, alpha=alpha) if x.dtype == _FLOAT else elu(op, x, alpha, 1, 1.0 / alpha)


@aten.lower("aten::hardtanh", cases=[case(F.relu6, f32(2, 3, low=-9.0, high=9.0)), case(F.hardtanh, f32(2, 3))])
def hardtanh(op: OpBuilder, x: ir.Value, min_val: float = -1, max_val: float = 1) -> ir.Value:
    """Clip; the bounds of integers are cut to whole numbers, as in torch."""
    whole = x.dtype is not None and x.dtype.is_integer()
    low, high = (op.const(int(bound) if whole else bound, x.dtype) for bound in (min_val, max_val))
    return op.Clip(x, low, high)


@aten.lower("aten::hardsigmoid", cases=[case(F.hardsigmoid, f32(2, 3, low=-5.0, high=5.0))])
def hardsigmoid(op: OpBuilder, x: ir.Value) -> ir.Value:
    """HardSigmoid with the slope 1/6."""
    return op.HardSigmoid(x, alpha=1 / 6, beta=0.5)


@aten.lower("aten::hardswish", cases=[case(F.hardswish, f32(2, 3, low=-5.0, high=5.0), dynamic=True)])
def hardswish(op: OpBuilder, x: ir.Value) -> ir.Value:
    """HardSwish from opset 14; before, x HardSigmoid(x)."""
    return op.HardSwish(x) if op.opset >= 14 else op.Mul(x, hardsigmoid(op, x))


@aten.lower("aten::mish", cases=[case(F.mish, f32(2, 3))])
def mish(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Mish from opset 18; before, x tanh(softplus(x))."""
    return op.Mish(x) if op.opset >= 18 else op.Mul(x, op.Tanh(op.Softplus(x)))


@aten.lower(
    "aten::softplus",
    cases=[case(F.softplus, f32(2, 3)), case(lambda x: F.softplus(x, 2.0, 1.0), f32(2, 3))],
)
def softplus(op: OpBuilder, x: ir.Value, beta: float = 1, threshold: float = 20) -> ir.Value:
    """Softplus, the identity beyond the threshold."""
    scaled = x if beta == 1 else op.Mul(x, float(beta))
    result = op.Softplus(scaled)
    result = result if beta == 1 else op.Div(result, float(beta))
    return op.Where(op.Greater(scaled, float(threshold)), x, result)


@aten.lower("aten::softshrink", cases=[case(lambda x: F.softshrink(x, 0.7), f32(2, 3))])
def softshrink(op: OpBuilder, x: ir.Value, lambd: float = 0.5) -> ir.Value:
    """x less what lies between the bounds, which keeps NaN; ONNX's Shrink gives 0 for it."""
    return op.Sub(x, op.Clip(x, op.const(-lambd, x.dtype), op.const(lambd, x.dtype)))


@aten.lower("aten::hardshrink", cases=[case(lambda x: F.hardshrink(x, 0.7), f32(2, 3))])
def hardshrink(op: OpBuilder, x: ir.Value, lambd: float = 0.5) -> ir.Value:
    """0 between the bounds, which NaN is not; ONNX's Shrink gives 0 for it."""
    return op.Where(op.LessOrEqual(op.Abs(x), op.const(lambd, x.dtype)), op.const(0.0, x.dtype), x)


@aten.lower(
    "aten::threshold",
    cases=[case(lambda x: F.threshold(x, 0.5, -7.0), f32(2, 3)), case(lambda x: F.threshold(x, 1.5, -7.9), i64(2, 3))],
)
def threshold(op: OpBuilder, x: ir.Value, threshold: float, value: float) -> ir.Value:
    """A number up to the threshold, else x, be it NaN; of integers both are cut to whole numbers, as in torch."""
    if x.dtype is not None and x.dtype.is_integer():
        threshold, value = int(threshold), int(value)
    return op.Where(op.LessOrEqual(x, op.const(threshold, x.dtype)), op.const(value, x.dtype), x)


@aten.lower(
    "aten::prelu",
    "aten::_prelu_kernel",
    cases=[
        built(lambda: nn.PReLU(3), f32(2, 3, 4), dynamic=True),
        built(nn.PReLU, f32(2, 3)),
        case(lambda x, w: F.prelu(x, w), f32(), f32(1)),
    ],
)
def prelu(op: OpBuilder, x: ir.Value, weight: ir.Value) -> ir.Value:
    """PRelu, its slopes along the channels."""
    if rank(x) > 2 and rank(weight) == 1 and weight.shape is not None and weight.shape[0] != 1:
        weight = op.Reshape(weight, [-1, *[1] * (rank(x) - 2)])
    return op.PRelu(x, weight if rank(x) else op.Reshape(weight, np.zeros(0, np.int64)))


@aten.lower("aten::glu", cases=[case(lambda x: F.glu(x, 1), f32(2, 6))])
def glu(op: OpBuilder, x: ir.Value, dim: int = -1) -> ir.Value:
    """The first half times the sigmoid of the second."""
    size = x.shape[dim] if x.shape is not None else None
    if not isinstance(size, int):
        raise UnsupportedOperator("glu over a dynamic size")
    a, b = op.split(x, [size // 2, size // 2], dim)
    if x.dtype == ir.DataType.FLOAT:  # whose kernel is off by 1e-7, of which a large first half makes more
        return op.Div(a, op.Add(op.Exp(op.Neg(b)), 1.0))
    return op.Mul(a, op.Sigmoid(b))


def _softmax(of: Callable[[OpBuilder, ir.Value, int], ir.Value], summary: str) -> Callable[..., ir.Value]:
    def lower(op: OpBuilder, x: ir.Value, dim: int, dtype: ir.DataType | bool | None = None) -> ir.Value:
        value = op.cast(x, op.result.dtype)
        if rank(x) == 0:
            return op.Squeeze(of(op, op.Unsqueeze(value, op.axes(0)), 0), op.axes(0))
        return of(op, value, dim)

    lower.__doc__ = summary
    return lower


for _name, _lower, _cases in (
    (
        "softmax",
        _softmax(lambda op, x, axis: op.Softmax(x, axis=axis), "Softmax."),
        [
            case(lambda x: F.softmax(x, 1), f32(2, 3, 4), dynamic=True),
            case(lambda x: F.softmax(x, 0, dtype=torch.float32), i64(3)),
        ],
    ),
    (
        "log_softmax",
        _softmax(trigonometry.log_softmax, "LogSoftmax."),
        [
            case(lambda x: F.log_softmax(x, 1), f32(2, 3, 4), dynamic=True),
            case(lambda x: F.log_softmax(x, 1), f64(2, 3, 4), dynamic=True),
        ],
    ),
):
    aten.lower(f"aten::{_name}", f"aten::_{_name}", f"aten::special_{_name}", cases=_cases)(_lower)


@aten.lower(
    "aten::dropout aten::feature_dropout aten::alpha_dropout aten::feature_alpha_dropout",
    cases=[
        built(lambda: nn.Dropout(0.5).eval(), f32(2, 3)),
        built(lambda: nn.AlphaDropout().eval(), f32(2, 3)),
        case(lambda x: F.dropout(x, 1.0, True), f32(2, 3)),
    ],
)
def dropout(op: OpBuilder, x: ir.Value, p: float, train: bool) -> ir.Value:
    """The identity; in training mode Dropout with its mask drawn when the graph runs."""
    if not train or p == 0:
        return x
    if not op.name.startswith("aten::dropout"):
        raise UnsupportedOperator("in training mode it has no ONNX form; call model.eval()")
    if p == 1:  # which ONNX's Dropout does not take
        return op.Mul(x, op.const(0.0, x.dtype))
    return op.Dropout(x, op.const(p, _FLOAT), op.const(True))


@aten.lower("aten::relu", cases=[case(F.relu, f32(2, 3), dynamic=True), case(F.relu, i64(2, 3))])
def relu(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Relu; of integers, which ONNX's takes only from opset 14 on, the larger of them and 0."""
    return op.node("Max", x, op.const(0, x.dtype)) if x.dtype is not None and x.dtype.is_integer() else op.Relu(x)


@aten.lower("aten::rrelu", cases=[case(F.rrelu, f32(2, 3)), case(lambda x: F.rrelu(x, 0.1, 0.1, True), f32(2, 3))])
def rrelu(
    op: OpBuilder,
    x: ir.Value,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: object = None,
) -> ir.Value:
    """The mean slope below 0; in training mode a random one for each element."""
    dtype = op.result.dtype
    if training:
        slope = random.uniform(op, op.shape(x), dtype, low=float(lower), high=float(upper))
    else:
        slope = op.const((lower + upper) / 2, dtype)
    return op.Where(op.Less(x, to_dtype(op, 0, dtype)), op.Mul(x, slope), x)
