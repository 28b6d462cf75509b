"""Products in 8 bits of activations whose scale and zero point follow from their least and greatest element.

ONNX's DynamicQuantizeLinear divides by the scale, in float32, and takes all 255 steps. FBGEMM, whose numbers these are, computes
the scale in float64, multiplies by its reciprocal and, to keep sums of products within 16 bits, takes 127 steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.loops import running

_FLOAT, _DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
_REDUCED = 127  # steps, above which an integer kernel without VNNI may saturate a sum of two products of int8
_SMALL = float(np.float32(6.1e-5))  # SMALL_SCALE_THRESHOLD of ATen/native/quantized/cpu/QuantUtils.h
_NO_RECIPROCAL = 2.0**-128  # a float32 scale up to this has an infinite one


@dataclass(frozen=True)
class Weight:
    """A weight in 8 bits.

    Attributes:
        kernel: [inputs, outputs].
        scale: [] or [outputs].
        zero: like the scale, of the kernel's type; None for zeros.
        bias: [outputs]; None for zeros.
    """

    kernel: ir.Value
    scale: ir.Value
    zero: ir.Value | None
    bias: ir.Value | None


def prepared(
    op: OpBuilder, weight: ir.Value, scale: ir.Value, zero: ir.Value | None, bias: ir.Value | None, steps: int
) -> Weight:
    """An int8 weight [outputs, inputs] for products with activations of so many steps."""
    kernel = op.Transpose(weight, perm=[1, 0])
    if steps > _REDUCED:  # the unsigned kernels of runtimes do not saturate
        kernel = _shifted(op, kernel)
        zero = op.const(128, ir.DataType.UINT8) if zero is None else _shifted(op, zero)
    return Weight(kernel, scale, zero, bias)


def _shifted(op: OpBuilder, x: ir.Value) -> ir.Value:
    wide = ir.DataType.INT32
    return op.cast(op.Add(op.cast(x, wide), op.const(128, wide)), ir.DataType.UINT8)


def _parameters(op: OpBuilder, x: ir.Value, steps: int) -> tuple[ir.Value, ir.Value]:
    """Scale (float32) and zero point (float32) of an activation: ChooseQuantizationParams of ATen's QuantUtils.h."""
    low = op.Min(op.ReduceMin(x, keepdims=0), op.const(0.0, _FLOAT))
    high = op.Max(op.ReduceMax(x, keepdims=0), op.const(0.0, _FLOAT))
    exact = op.Div(op.Sub(op.cast(high, _DOUBLE), op.cast(low, _DOUBLE)), op.const(float(steps), _DOUBLE))
    rounded = op.cast(exact, _FLOAT)
    none = op.LessOrEqual(rounded, op.const(_NO_RECIPROCAL, _FLOAT))
    exact = op.Where(none, op.const(0.1, _DOUBLE), exact)
    small = op.Less(exact, op.const(_SMALL, _DOUBLE))
    widened = op.Mul(low, op.Div(op.const(_SMALL, _FLOAT), rounded))
    low, exact = op.Where(small, widened, low), op.Where(small, op.const(_SMALL, _DOUBLE), exact)
    zero = op.Round(op.Neg(op.Div(op.cast(low, _DOUBLE), exact)))
    zero = op.Clip(zero, op.const(0.0, _DOUBLE), op.const(float(steps), _DOUBLE))
    return op.cast(exact, _FLOAT), op.cast(zero, _FLOAT)


def linear(op: OpBuilder, x: ir.Value, weight: Weight, steps: int) -> ir.Value:
    """``x W + b`` of float32 `x`, which is rounded to `steps` steps: MatMulInteger between the roundings."""
    scale, zero = _parameters(op, x, steps)
    whole = op.Add(op.Round(op.Mul(x, op.Div(op.const(1.0, _FLOAT), scale))), zero)
    byte = ir.DataType.UINT8
    rounded = op.cast(op.Clip(whole, op.const(0.0, _FLOAT), op.const(255.0, _FLOAT)), byte)
    product = op.cast(op.MatMulInteger(rounded, weight.kernel, op.cast(zero, byte), weight.zero), _FLOAT)
    product = op.Mul(product, op.Mul(scale, weight.scale))
    return product if weight.bias is None else op.Add(product, weight.bias)


def _lstm(op: OpBuilder, gates: ir.Value, c: ir.Value) -> list[ir.Value]:
    i, f, g, o = op.split(gates, _parts(gates, 4), -1)
    c = op.Add(op.Mul(op.Sigmoid(f), c), op.Mul(op.Sigmoid(i), op.Tanh(g)))
    return [op.Mul(op.Sigmoid(o), op.Tanh(c)), c]


def _gru(op: OpBuilder, of_input: ir.Value, of_state: ir.Value, h: ir.Value) -> list[ir.Value]:
    r, z, n = op.split(of_input, _parts(of_input, 3), -1)
    hr, hz, hn = op.split(of_state, _parts(of_state, 3), -1)
    new = op.Tanh(op.Add(n, op.Mul(op.Sigmoid(op.Add(r, hr)), hn)))
    return [op.Add(op.Mul(op.Sub(h, new), op.Sigmoid(op.Add(z, hz))), new)]


def _parts(gates: ir.Value, count: int) -> list[int]:
    width = gates.shape[-1] if gates.shape is not None else None
    assert isinstance(width, int)  # a weight's size
    return [width // count] * count


def recurrent(
    op: OpBuilder,
    x: ir.Value,
    weights: Sequence[Weight],
    initial: Sequence[ir.Value],
    steps: int,
    *,
    reverse: bool,
) -> tuple[ir.Value, list[ir.Value]]:
    """An LSTM (two states) or GRU over `x` [time, batch, inputs], gates in PyTorch's order: the steps, and the last states.

    The input is rounded as a whole, the state at each step; `weights` are for the input and for the state.
    """
    of_input, of_state = weights

    def step(body: OpBuilder, states: Sequence[ir.Value], part: ir.Value) -> Sequence[ir.Value]:
        hidden = linear(body, states[0], of_state, steps)
        if len(states) == 2:
            return _lstm(body, body.Add(part, hidden), states[1])
        return _gru(body, part, hidden, states[0])

    gates = linear(op, x, of_input, steps)
    gates = _backwards(op, gates) if reverse else gates
    walked = running(op, gates, 0, initial, step, outputs=len(initial))
    last = [op.Gather(item, op.const(-1), axis=0) for item in walked]
    return _backwards(op, walked[0]) if reverse else walked[0], last


def _backwards(op: OpBuilder, x: ir.Value) -> ir.Value:
    return op.Slice(x, [-1], [np.iinfo(np.int64).min], [0], [-1])
